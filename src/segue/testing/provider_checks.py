"""What every provider must do, as checks that anyone can run against their own.

    >>> async def test_my_provider():
    ...     report = await check_provider(MyProvider, model="my-model")
    ...     assert report.passed, report

Checks that need a service to misbehave on demand are run when a `FakeService` is given; the others always are.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final, TypeAlias, final

import msgspec
from msgspec import Struct, structs

from segue.conversation.blocks import ToolCall, ToolResult
from segue.conversation.events import Failed, Finished, Reply, TextDelta
from segue.conversation.message import Conversation, model, tool, user
from segue.conversation.options import Options
from segue.conversation.tools import ToolSpec
from segue.errors import ProviderError, SegueError
from segue.providers.adapter import ChatRequest, ProviderAdapter, RequestSent, StreamEvent, fold_stream

if TYPE_CHECKING:
    from segue.testing.fake_service import FakeService, ServiceFault

WAIT_SECONDS: Final = 20.0
"""No check may take longer: whatever hangs has failed."""
MANY: Final = 200
LOOK_UP: Final = ToolSpec(
    "look_up",
    "Look a word up.",
    {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]},
)


@final
class CheckOutcome(Struct, frozen=True):
    """One check: what should hold, and why it does not."""

    check: str
    problem: str = ""
    skipped: str = ""


@final
class Report(Struct, frozen=True):
    """All checks of a provider."""

    provider: str
    outcomes: tuple[CheckOutcome, ...]

    @property
    def passed(self) -> bool:
        return not any(outcome.problem for outcome in self.outcomes)

    def __str__(self) -> str:
        lines = [f"provider {self.provider}:"]
        for outcome in self.outcomes:
            mark = "✗" if outcome.problem else "-" if outcome.skipped else "✓"
            reason = outcome.problem or outcome.skipped
            lines.append(f"  {mark} {outcome.check}{': ' + reason if reason else ''}")
        return "\n".join(lines)


class Case:
    """One provider under test, with a service if there is one."""

    def __init__(
        self, make: Callable[[], ProviderAdapter], model_name: str, service: FakeService | None
    ) -> None:
        self.make = make
        self.model = model_name
        self._service = service

    @property
    def service(self) -> FakeService:
        if self._service is None:
            raise NeedsService
        return self._service

    def request(self, conversation: Conversation | None = None, **fields: Any) -> ChatRequest:
        asked = conversation or Conversation().append(user("Say something short."))
        return ChatRequest(model=self.model, conversation=asked, **fields)

    async def ask(self, request: ChatRequest | None = None) -> Reply:
        """The whole reply, after making sure that the stream kept its promises."""
        events = [event async for event in self.make().chat_stream(request or self.request())]
        _check_ending(events)
        assert type(events[0]) is RequestSent, (
            "RequestSent is not the first event, so it is unknown who writes the reply"
        )
        return fold_stream(events)

    async def plays(self, text: str = "Gladly.") -> Reply:
        """An ordinary reply; with a service the text is known."""
        if self._service is not None:
            self._service.says(text)
        return await self.ask()

    async def plays_on(self, conversation: Conversation) -> Reply:
        """The reply to a history with calls in it."""
        if self._service is not None:
            self._service.says("I see.")
        return await self.ask(self.request(conversation, tools=(LOOK_UP,)))

    @property
    def has_service(self) -> bool:
        return self._service is not None


class NeedsService(Exception):  # noqa: N818 - no error: it ends a check that needs more than there is
    """The check needs a service."""


Check: TypeAlias = Callable[[Case], Awaitable[None]]


async def check_provider(
    make: Callable[[], ProviderAdapter], *, model: str, service: FakeService | None = None
) -> Report:
    """Run all checks. `make` gives a provider; it may be the same one every time."""
    case = Case(make, model, service)
    outcomes = [await _outcome(check, case) for check in CHECKS]
    return Report(make().name, tuple(outcomes))


async def _outcome(check: Check, case: Case) -> CheckOutcome:
    name = check.__name__.removeprefix("_").replace("_", " ")
    if case.has_service:
        case.service.forget()
    try:
        async with asyncio.timeout(WAIT_SECONDS):
            await check(case)
    except NeedsService:
        return CheckOutcome(name, skipped="needs a service")
    except TimeoutError:
        return CheckOutcome(name, f"took longer than {WAIT_SECONDS:.0f} s")
    except Exception as error:  # whatever a foreign provider raises is what the report is about
        return CheckOutcome(name, f"{type(error).__name__}: {error}" if str(error) else type(error).__name__)
    return CheckOutcome(name)


def _check_ending(events: list[StreamEvent]) -> None:
    ends = [event for event in events if isinstance(event, Finished | Failed)]
    assert len(ends) == 1, f"{len(ends)} events end the stream instead of one"
    assert events[-1] is ends[0], f"{type(events[-1]).__name__} comes after the end"


async def _it_has_a_name_and_a_stream(case: Case) -> None:
    provider = case.make()
    assert provider.name, "the name is empty"
    stream = provider.chat_stream(case.request())
    assert isinstance(stream, AsyncIterator), "chat_stream gives no async iterator"
    await _close(stream)


async def _a_reply_arrives_and_ends_once(case: Case) -> None:
    reply = await case.plays("A short answer.")
    assert reply.error is None, f"failed with {reply.error}"
    if case.has_service:
        assert reply.message.text == "A short answer.", f"got {reply.message.text!r}"


async def _a_whole_reply_is_the_fold_of_its_stream(case: Case) -> None:
    case.service.says("Twice the same.")
    case.service.says("Twice the same.")
    streamed = await case.ask()
    whole = await case.make().generate_chat(case.request())
    assert whole["content"] == streamed.message.text, f"{whole['content']!r} ≠ {streamed.message.text!r}"
    assert whole["finish_reason"] == "stop", f"finish_reason is {whole['finish_reason']!r}"
    assert "tool_calls" not in whole, "tool_calls without a call"


async def _calls_arrive_with_their_arguments(case: Case) -> None:
    case.service.calls(("look_up", {"word": "segue"}), ("look_up", {"word": "ségué ✓"}))
    reply = await case.ask(case.request(tools=(LOOK_UP,)))
    found = [(call.name, call.arguments) for call in reply.message.calls]
    assert found == [("look_up", {"word": "segue"}), ("look_up", {"word": "ségué ✓"})], f"got {found}"
    assert reply.finish == "tool_calls", f"finish is {reply.finish!r}"


async def _a_whole_reply_leaves_arguments_as_text(case: Case) -> None:
    case.service.calls(("look_up", {"word": "segue"}))
    whole = await case.make().generate_chat(case.request(tools=(LOOK_UP,)))
    (call,) = whole["tool_calls"]
    assert call["type"] == "function" and call["id"], f"got {call}"
    assert msgspec.json.decode(call["function"]["arguments"]) == {"word": "segue"}
    assert whole["finish_reason"] == "tool_calls"


async def _results_can_be_sent(case: Case) -> None:
    reply = await case.plays_on(_answered())
    assert reply.error is None, f"refused: {reply.error}"


async def _broken_histories_are_accepted(case: Case) -> None:
    for broken in _broken():
        reply = await case.plays_on(broken)
        assert reply.error is None, f"refused: {reply.error}"


async def _zero_is_not_unset(case: Case) -> None:
    case.service.says("Cold.")
    options = Options(temperature=0.0, max_tokens=4096, seed=0)
    events = [event async for event in case.make().chat_stream(case.request(options=options))]
    assert not isinstance(events[-1], Failed), f"refused: {events[-1]}"
    sent = events[0]
    assert type(sent) is RequestSent, f"the first event is {type(sent).__name__}"
    for name in ("temperature", "seed"):
        reported = name.encode() in sent.body or any(name in str(repair) for repair in sent.repairs)
        assert reported, f"{name} 0 was neither sent nor reported as unknown to the provider"


async def _an_abort_ends_the_stream_with_one_cancellation(case: Case) -> None:
    case.service.says("word " * 200, seconds_between=0.05)
    abort = asyncio.Event()
    events: list[StreamEvent] = []
    began = time.monotonic()
    async for event in case.make().chat_stream(case.request(abort=abort)):
        events.append(event)
        if isinstance(event, TextDelta):
            abort.set()
    _check_ending(events)
    assert events[-1] == Finished("cancelled"), f"ended with {events[-1]}"
    assert time.monotonic() - began < 5, "it continued for seconds"


async def _an_abort_ends_the_wait_for_the_first_word(case: Case) -> None:
    case.service.fails("silence")
    abort = asyncio.Event()
    asyncio.get_running_loop().call_later(0.2, abort.set)
    began = time.monotonic()
    events = [event async for event in case.make().chat_stream(case.request(abort=abort))]
    case.service.forget()
    _check_ending(events)
    assert events[-1] == Finished("cancelled"), f"ended with {events[-1]}"
    assert time.monotonic() - began < 5, "it continued for seconds"


async def _an_abort_beforehand_asks_nobody(case: Case) -> None:
    abort = asyncio.Event()
    abort.set()
    events = [event async for event in case.make().chat_stream(case.request(abort=abort))]
    _check_ending(events)
    assert events[-1] == Finished("cancelled"), f"ended with {events[-1]}"


async def _closing_the_stream_hangs_up(case: Case) -> None:
    before = case.service.hung_up()
    case.service.says("word " * 400, seconds_between=0.05)
    stream = case.make().chat_stream(case.request())
    async for event in stream:
        if isinstance(event, TextDelta):
            break
    await _close(stream)
    for _ in range(100):
        if case.service.hung_up() > before:
            return
        await asyncio.sleep(0.05)
    raise AssertionError("the service still sends")


async def _refusals_have_a_remedy(case: Case) -> None:
    expected = {401: "log_in", 429: "wait", 500: "go_elsewhere", 503: "go_elsewhere"}
    for status, remedy in expected.items():
        case.service.refuses(status, retry_after=3.0 if status == 429 else None)
        error = await _error_of(case)
        assert isinstance(error, ProviderError), f"{status} gave {type(error).__name__}"
        assert error.status == status, f"{status} was reported as {error.status}"
        assert error.remedy == remedy, f"{status} has remedy {error.remedy}"
        if status == 429:
            assert error.retry_after, "the pause that was asked for is lost"


async def _faults_are_reported_and_leave_it_usable(case: Case) -> None:
    faults: tuple[ServiceFault, ...] = ("cut", "malformed", "html", "empty")
    for fault in faults:
        case.service.fails(fault)
        case.service.says("An answer that will not arrive as it was meant.")
        reply = await case.ask()
        assert reply.error is not None, f"{fault} went unnoticed"
        drained = await case.plays()
        assert drained.error is None, f"unusable after {fault}: {drained.error}"


async def _it_does_not_matter_where_an_answer_is_cut(case: Case) -> None:
    case.service.fails("drip")
    reply = await case.plays("Byte by byte: ségué ✓.")
    assert reply.error is None, f"failed with {reply.error}"
    assert reply.message.text == "Byte by byte: ségué ✓.", f"got {reply.message.text!r}"


async def _many_streams_run_side_by_side(case: Case) -> None:
    for _ in range(MANY):
        case.service.says("All of it, for everyone.")
    replies = await asyncio.gather(*(case.ask() for _ in range(MANY)))
    wrong = [reply for reply in replies if reply.message.text != "All of it, for everyone."]
    assert not wrong, f"{len(wrong)} of {MANY} went wrong: {wrong[0].error or wrong[0].message.text!r}"


async def _it_shows_no_secret(case: Case) -> None:
    provider = case.make()
    shown = f"{provider!r} {vars(provider) if hasattr(provider, '__dict__') else ''}"
    key = getattr(case.service, "key", "")
    assert not key or key not in shown, "the key can be read in its repr"


async def _its_other_abilities_keep_their_promises(case: Case) -> None:
    provider = case.make()
    able = provider.capabilities
    if able.count_tokens is not None:
        assert await able.count_tokens(case.request()) > 0, "count_tokens is not positive"
    if able.list_models is not None:
        listed = await able.list_models()
        assert len({info.id for info in listed}) == len(listed), "a model is listed twice"
        assert all(info.id and info.type for info in listed), "a model without id or type"
    if able.embed is not None:
        assert await able.embed([]) == [], "no texts are no vectors"
    if able.health is not None:
        health = await able.health()
        assert health.provider == provider.name and health.timestamp
    if able.validate_config is not None:
        problems = able.validate_config()
        assert not problems, f"its own configuration is wrong: {problems}"


CHECKS: Final[tuple[Check, ...]] = (
    _it_has_a_name_and_a_stream,
    _a_reply_arrives_and_ends_once,
    _a_whole_reply_is_the_fold_of_its_stream,
    _calls_arrive_with_their_arguments,
    _a_whole_reply_leaves_arguments_as_text,
    _results_can_be_sent,
    _broken_histories_are_accepted,
    _zero_is_not_unset,
    _an_abort_ends_the_stream_with_one_cancellation,
    _an_abort_ends_the_wait_for_the_first_word,
    _an_abort_beforehand_asks_nobody,
    _closing_the_stream_hangs_up,
    _refusals_have_a_remedy,
    _faults_are_reported_and_leave_it_usable,
    _it_does_not_matter_where_an_answer_is_cut,
    _many_streams_run_side_by_side,
    _it_shows_no_secret,
    _its_other_abilities_keep_their_promises,
)


async def _error_of(case: Case) -> SegueError:
    reply = await case.ask()
    assert reply.error is not None, "a refusal was taken for a reply"
    return reply.error


async def _close(stream: AsyncIterator[StreamEvent]) -> None:
    if hasattr(stream, "aclose"):
        async with aclosing(stream):  # type: ignore[type-var]
            pass


def _answered() -> Conversation:
    """A turn with two calls, one of which failed, and a new question."""
    calls = (ToolCall("", "look_up", {"word": "a"}), ToolCall("", "look_up", {"word": "b"}))
    asked = Conversation(system="Be brief.").append(user("Look a and b up."), model("At once.", *calls))
    first, second = asked.messages[-1].calls
    results = tool(
        ToolResult(first.id, "look_up", output="found"), ToolResult(second.id, "look_up", error="not there")
    )
    return asked.append(results, model("Done."), user("Thank you. What was a?"))


def _broken() -> list[Conversation]:
    """What crashes, cancels and other programs leave behind."""
    whole = _answered()
    question, calls, results, answer, thanks = whole.messages
    histories = [
        (question, calls, thanks),
        (question, results, thanks),
        (question, results, calls, thanks),
        (calls, thanks),
        (question, calls, results, results, thanks),
        (thanks, question, answer, answer, calls, thanks),
        (question, calls, structs.replace(results, blocks=results.blocks[:1]), thanks),
    ]
    return [Conversation(messages, "Be brief.", whole.minted) for messages in histories]

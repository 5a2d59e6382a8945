"""The engine below chat and gateway: what is tried after a failure, what is counted, and who is waited for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable

import pytest

from segue.conversation.events import Event, Failed, Finished, TextDelta, UsageReported
from segue.conversation.message import Conversation, user
from segue.conversation.tools import ToolSpec
from segue.conversation.usage import NO_USAGE, Usage
from segue.dialects.errors import TOOLS_UNSUPPORTED
from segue.errors import (
    ContextLengthError,
    InvalidRequestError,
    OverloadError,
    ProviderError,
    SegueError,
    TransportError,
)
from segue.exchange.attempt import Attempt
from segue.exchange.exchange import Asker, Exchange
from segue.providers.adapter import ChatRequest, ProviderAdapter, StreamEvent
from segue.providers.requests.text_requests import fitted_to_model
from segue.providers.scripted import ScriptedProvider, ScriptLine, says
from segue.routing.retry import RetrySettings
from segue.routing.route import MemberFacts, Route, parse_route
from segue.routing.router import GoTo, Need, Retry, SingleRouter

ROUTE = parse_route("scripted/m")
TOOL = ToolSpec("look", "Looks.", {"type": "object", "properties": {}})
REQUEST = ChatRequest(model="m", conversation=Conversation((user("Look."),)), tools=(TOOL,))


class Listener(Asker):
    """Asks one question, and notes all that it is told."""

    def __init__(self, provider: ProviderAdapter, *, waits: bool = False) -> None:
        self.provider = provider
        self.told: list[str] = []
        self.attempts: list[Attempt] = []
        self.slow = waits

    @property
    def shown(self) -> bool:
        return any(attempt.first_content is not None for attempt in self.attempts)

    async def attempt(self, route: Route) -> Attempt:
        attempt = Attempt(self.provider, fitted_to_model(REQUEST, self.provider), route=route.name)
        self.attempts.append(attempt)
        return attempt

    def take(self, attempt: Attempt, events: list[Event], data: bytes) -> Awaitable[None] | None:
        del data
        if any(type(event) is TextDelta for event in events):
            attempt.first_content = attempt.passed
        self.told += [type(event).__name__ for event in events]
        return self._slowly() if self.slow else None

    async def _slowly(self) -> None:
        await asyncio.sleep(0.01)
        self.told.append("written")

    def ended(self, route: Route, attempt: Attempt | None, error: SegueError | None) -> None:
        del route, attempt
        self.told.append("ended" if error is None else error.code)

    async def again(
        self, route: Route, attempt: Attempt | None, error: SegueError, step: Retry | GoTo | None
    ) -> None:
        del route, attempt, error
        self.told.append("again" if step is None else type(step).__name__)

    async def shrink(self, route: Route, error: SegueError) -> bool:
        del route, error
        self.told.append("shrunk")
        return True

    async def simplify(self, route: Route, attempt: Attempt, error: SegueError) -> bool:
        del route, attempt, error
        self.told.append("simplified")
        return True


def ask(asker: Listener) -> tuple[Attempt | None, SegueError | None]:
    retry = RetrySettings(attempts=2, first_pause=0.001)
    router = SingleRouter(ROUTE, lambda _: MemberFacts(), retry=retry)
    return asyncio.run(Exchange(asker, router.open(Need())).ask())


def refusal(message: str, code: str = "") -> InvalidRequestError:
    error = InvalidRequestError(message, status=400, code=code)
    error.unbilled = True
    return error


def test_every_remedy_is_tried_once_at_a_route_in_the_order_of_the_list() -> None:
    no_tools = refusal("No tools.", TOOLS_UNSUPPORTED)
    too_long = ContextLengthError("Too long.", status=400)
    scripts: list[list[ScriptLine]] = [
        [no_tools],
        [too_long],
        [refusal("Not so.")],
        [TextDelta(0, "Final Answer: Done."), Finished("stop")],
    ]
    asker = Listener(ScriptedProvider(scripts))
    attempt, error = ask(asker)
    assert error is None
    assert attempt is not None
    assert attempt.reply.message.text == "Done."
    helped = [word for word in asker.told if word in ("shrunk", "simplified")]
    assert helped == ["shrunk", "simplified"]
    assert [bool(tried.request.tools) for tried in asker.attempts] == [True, False, False, False]
    assert not asker.provider.takes_tools("m")


def test_a_remedy_that_did_not_help_is_not_tried_again_and_the_first_refusal_is_reported() -> None:
    asker = Listener(ScriptedProvider([[refusal("Not so.")], [refusal("Not even so.")]]))
    _, error = ask(asker)
    assert error is not None
    assert error.message == "Not so."
    assert asker.told.count("simplified") == 1


def test_after_something_was_shown_nothing_is_tried_again() -> None:
    half: list[ScriptLine] = [TextDelta(0, "Well"), ContextLengthError("Too long after all.", status=400)]
    asker = Listener(ScriptedProvider([half, says("never")]))
    attempt, error = ask(asker)
    assert isinstance(error, ContextLengthError)
    assert attempt is not None
    assert attempt.reply.message.text == "Well"
    assert "shrunk" not in asker.told
    assert len(asker.attempts) == 1


def test_whoever_asks_is_told_before_the_next_attempt() -> None:
    asker = Listener(ScriptedProvider([[OverloadError("Full.", status=529)], says("Here.")]))
    _, error = ask(asker)
    assert error is None
    assert asker.told == ["overload", "Retry", "TextDelta", "Finished", "ended"]


def test_more_is_read_only_when_what_was_taken_is_written() -> None:
    asker = Listener(ScriptedProvider([[TextDelta(0, "a"), TextDelta(0, "b"), Finished("stop")]]), waits=True)
    ask(asker)
    assert asker.told == ["TextDelta", "written", "TextDelta", "written", "Finished", "written", "ended"]


def _unreached() -> TransportError:
    error = TransportError("Nobody there.")
    error.unbilled = True
    return error


@pytest.mark.parametrize(
    ("script", "counted"),
    [
        ([UsageReported(Usage(7, 3)), TextDelta(0, "All."), Finished("stop")], Usage(7, 3)),
        ([TextDelta(0, "All."), Finished("stop")], "both"),
        ([refusal("No.")], NO_USAGE),
        ([_unreached()], NO_USAGE),
        ([ProviderError("Broken.", status=500)], "input"),
        ([TextDelta(0, "Half of"), OverloadError("Broken.")], "both"),
        (
            [UsageReported(Usage(7, 1)), TextDelta(0, "Half of a long reply"), OverloadError("Broken.")],
            "both",
        ),
    ],
)
def test_what_is_handed_over_is_counted_however_it_ends(
    script: list[ScriptLine], counted: Usage | str
) -> None:
    async def main() -> Usage:
        attempt = Attempt(ScriptedProvider([script]), REQUEST)
        await attempt.run(lambda *_: None)
        return attempt.usage

    usage = asyncio.run(main())
    if isinstance(counted, Usage):
        assert usage == counted
        return
    assert usage.estimated
    assert usage.input_tokens
    assert bool(usage.output_tokens) is (counted == "both")


class Endless(ProviderAdapter):
    """Writes for ever, and does not hear an abort."""

    name = "endless"

    async def chat_stream(self, request: ChatRequest) -> AsyncIterator[StreamEvent]:
        while True:
            yield TextDelta(0, "and on ")
            await asyncio.sleep(0)


def test_a_provider_that_does_not_hear_an_abort_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("segue.exchange.attempt.GRACE", 0.02)

    async def main() -> None:
        abort = asyncio.Event()
        attempt = Attempt(Endless(), REQUEST)
        asyncio.get_running_loop().call_later(0.01, abort.set)
        assert await attempt.run(lambda *_: None, abort) is None
        assert attempt.reply.finish == "cancelled"

    asyncio.run(main())


def test_what_a_provider_raises_is_the_error_of_the_attempt_and_what_a_listener_raises_is_not() -> None:
    class Raising(ProviderAdapter):
        name = "raising"

        async def chat_stream(self, request: ChatRequest) -> AsyncIterator[StreamEvent]:
            yield TextDelta(0, "a")
            raise ValueError("mine")

    async def main() -> None:
        error = await Attempt(Raising(), REQUEST).run(lambda *_: None)
        assert error is not None
        assert error.code == "unexpected"

        def broken(_: Attempt, events: list[Event], __: bytes) -> None:
            raise KeyError(events[0])

        with pytest.raises(KeyError):
            await Attempt(ScriptedProvider([says("Hello.")]), REQUEST).run(broken)

    asyncio.run(main())


def test_a_failure_is_no_event_of_the_reply() -> None:
    async def main() -> None:
        attempt = Attempt(ScriptedProvider([[TextDelta(0, "a"), OverloadError("Full.")]]), REQUEST)
        seen: list[Event] = []
        error = await attempt.run(lambda _, events, __: seen.extend(events))
        assert isinstance(error, OverloadError)
        assert not any(isinstance(event, Failed) for event in seen)
        assert attempt.reply.error is error

    asyncio.run(main())

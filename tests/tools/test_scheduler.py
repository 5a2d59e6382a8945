"""Batches of calls: every call ends exactly once, whatever its tool does."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import segue.tools
from segue.conversation.blocks import Reason, ToolCall, ToolResult, status_of
from segue.conversation.message import Message, user
from segue.conversation.tools import ToolSpec
from segue.events import ChatEvent, ToolCallResult, ToolCallStart, ToolProgress
from segue.sessions.entries import (
    CallBegun,
    CallEnded,
    CallsScheduled,
    Entry,
    ModelReplied,
    SessionStarted,
    ToolsAnswered,
    UserSaid,
)
from segue.sessions.journal import Journal
from segue.sessions.stores.memory import MemoryStore
from segue.tools import execution
from segue.tools.approval import Approval
from segue.tools.definition import Approves, Context, Host, Output, Tool, ToolSet
from segue.tools.execution import run_tool
from segue.tools.function_tools import as_tool, tool
from segue.tools.scheduler import Scheduler

Runner = Callable[[dict[str, Any], Context], Awaitable[Any]]


def made(name: str, run: Runner, **settings: Any) -> Tool:
    return Tool(spec=ToolSpec(name, parameters={"type": "object"}), run=run, **settings)


def sleeper(name: str = "sleep", seconds: float = 0.05, **settings: Any) -> Tool:
    async def run(arguments: dict[str, Any], context: Context) -> str:
        await asyncio.sleep(seconds)
        return f"{name} {context.call.id}"

    return made(name, run, **settings)


def ask(*names: str, **arguments: Any) -> tuple[ToolCall, ...]:
    return tuple(ToolCall(f"c{n}", name, arguments) for n, name in enumerate(names))


class Bench:
    """A scheduler on a real journal, and what is seen of it."""

    def __init__(self, *tools: Tool, approval: Approves | None = None) -> None:
        self.tools = tools
        self.approval = approval
        self.events: list[ChatEvent] = []
        self.abort = asyncio.Event()
        self.store = MemoryStore()

    async def run(
        self, calls: tuple[ToolCall, ...], *, closed: Reason | None = None
    ) -> tuple[ToolResult, ...]:
        self.journal = await Journal.start(self.store, SessionStarted(model="m"))
        await self.journal.append(UserSaid(user("go")), ModelReplied(Message("model", calls), "tool_calls"))
        host = Host(providers={}, store=self.store)
        self.scheduler = Scheduler(self.journal, host)
        tools = ToolSet(self.tools, self.approval)
        message = await self.scheduler.run(calls, tools, self.events.append, self.abort, closed=closed)
        assert message == self.journal.state.conversation.messages[-1]
        assert message.speaker == "tool"
        found = tuple(block for block in message.blocks if isinstance(block, ToolResult))
        assert [result.call_id for result in found] == [call.id for call in calls]
        return found

    async def entries(self) -> list[Entry]:
        return [record.entry for record in await self.store.read(self.journal.session)][3:]


@pytest.mark.requirement("Property 8", "REQ-915-031")
def test_all_calls_of_a_batch_run_side_by_side_and_answer_in_call_order() -> None:
    async def main() -> None:
        tools = [sleeper(f"t{n}", 0.05 + 0.01 * (9 - n)) for n in range(10)]
        bench = Bench(*tools)
        started = time.perf_counter()
        results = await bench.run(ask(*(tool.name for tool in tools)))
        assert time.perf_counter() - started < 0.4
        assert [result.output for result in results] == [f"t{n} c{n}" for n in range(10)]
        ended = [event.call.id for event in bench.events if type(event) is ToolCallResult]
        assert ended == [f"c{n}" for n in reversed(range(10))]

    asyncio.run(main())


@pytest.mark.requirement("REQ-915-033")
def test_a_batch_is_scheduled_begun_ended_and_answered_in_the_journal_in_this_order() -> None:
    async def main() -> None:
        bench = Bench(sleeper("a", 0.01), sleeper("b", 0.02))
        calls = ask("a", "b")
        await bench.run(calls)
        kinds = [type(entry) for entry in await bench.entries()]
        assert kinds == [
            CallsScheduled,
            CallBegun,
            CallBegun,
            CallEnded,
            CallEnded,
            ToolsAnswered,
        ]
        assert [type(event) for event in bench.events[:2]] == [ToolCallStart, ToolCallStart]

    asyncio.run(main())


def test_a_call_is_durable_as_begun_before_its_tool_runs() -> None:
    async def main() -> None:
        seen: list[list[type]] = []

        async def look(arguments: dict[str, Any], context: Context) -> str:
            seen.append([type(entry) for entry in await bench.entries()])
            return "looked"

        bench = Bench(made("look", look))
        await bench.run(ask("look"))
        assert seen == [[CallsScheduled, CallBegun]]

    asyncio.run(main())


@pytest.mark.requirement("Property 32")
def test_a_tool_that_does_not_exist_raises_or_is_called_wrongly_gives_a_result_that_says_so() -> None:
    @tool
    def add(a: int, b: int) -> int:
        return a + b

    async def explode(arguments: dict[str, Any], context: Context) -> str:
        raise ValueError("no fuel")

    async def silent(arguments: dict[str, Any], context: Context) -> str:
        raise KeyError

    async def main() -> None:
        bench = Bench(as_tool(add), made("explode", explode), made("silent", silent))
        calls = (
            ToolCall("c0", "nowhere", {}),
            ToolCall("c1", "explode", {}),
            ToolCall("c2", "silent", {}),
            ToolCall("c3", "add", {"a": 1}),
            ToolCall("c4", "add", None, '{"a": 1,'),
            ToolCall("c5", "add", {"a": 1, "b": 2}),
        )
        results = await bench.run(calls)
        errors = [result.error or "" for result in results]
        assert errors[0] == 'Tool "nowhere" not found'
        assert errors[1] == "Tool execution failed: no fuel"
        assert errors[2] == "Tool execution failed: KeyError"
        assert '"b" is a required property' in errors[3]
        assert "not JSON" in errors[4]
        assert (results[5].output, results[5].error) == (3, None)
        assert [status_of(result) for result in results] == [*["error"] * 5, "complete"]
        begun = [entry.call_id for entry in await bench.entries() if type(entry) is CallBegun]
        assert begun == ["c1", "c2", "c5"]

    asyncio.run(main())


@given(
    value=st.recursive(
        st.none() | st.booleans() | st.floats() | st.text() | st.binary() | st.just(object()),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_whatever_a_tool_returns_is_a_finished_result_that_the_journal_keeps(value: Any) -> None:
    async def give(arguments: dict[str, Any], context: Context) -> Any:
        return value

    async def main() -> None:
        bench = Bench(made("give", give))
        (result,) = await bench.run(ask("give"))
        assert status_of(result) == "complete"
        ended = [entry.result for entry in await bench.entries() if type(entry) is CallEnded]
        assert ended == [result] or result.output != result.output  # NaN within

    asyncio.run(main())


class Hostile:
    """Does harm when it is looked at."""

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError("keep out")

    def __str__(self) -> str:
        raise RuntimeError("keep out")


class UnspeakableError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("keep out")


class HostileDict(dict[str, Any]):
    def items(self) -> Any:
        raise RuntimeError("keep out")

    def __iter__(self) -> Any:
        raise RuntimeError("keep out")


class HostileText(str):
    __slots__ = ()

    def encode(self, *_: Any, **__: Any) -> bytes:
        raise RuntimeError("keep out")

    def __str__(self) -> str:
        raise RuntimeError("keep out")


@pytest.mark.requirement("Property 35")
@pytest.mark.parametrize("value", [{"deep": [Hostile()]}, HostileDict(a=1), [HostileText("a")]], ids=type)
def test_values_and_errors_that_cannot_be_told_do_no_harm(value: Any) -> None:
    async def give(arguments: dict[str, Any], context: Context) -> Any:
        return value

    async def fail(arguments: dict[str, Any], context: Context) -> Any:
        raise UnspeakableError

    async def main() -> None:
        results = await asyncio.wait_for(
            Bench(made("give", give), made("fail", fail)).run(ask("give", "fail")), 5
        )
        assert status_of(results[0]) in ("complete", "error")
        assert results[1].error == "Tool execution failed: UnspeakableError"

    asyncio.run(main())


def test_an_output_carries_media_and_errors() -> None:
    async def both(arguments: dict[str, Any], context: Context) -> Output:
        return Output({"done": 1}, error="the rest failed")

    async def main() -> None:
        (result,) = await Bench(made("both", both)).run(ask("both"))
        assert (result.output, result.error) == ({"done": 1}, "the rest failed")
        assert status_of(result) == "error"

    asyncio.run(main())


def test_a_tool_that_takes_too_long_ends_as_timed_out_and_the_others_are_kept() -> None:
    async def main() -> None:
        bench = Bench(sleeper("slow", 30, timeout=0.05), sleeper("quick", 0.01))
        started = time.perf_counter()
        slow, quick = await bench.run(ask("slow", "quick"))
        assert time.perf_counter() - started < 1
        assert slow.reason == "timed_out"
        assert quick.output == "quick c1"

    asyncio.run(main())


def stubborn(until: asyncio.Event) -> Tool:
    """A tool that takes no notice of being cancelled."""

    async def run(arguments: dict[str, Any], context: Context) -> str:
        while not until.is_set():
            try:
                await until.wait()
            except asyncio.CancelledError:
                continue
        return "too late"

    return made("stubborn", run)


@pytest.mark.requirement("REQ-915-034", "Property 34")
def test_cancelling_keeps_what_is_finished_and_ends_the_rest_even_if_a_tool_does_not_listen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(execution, "GRACE", 0.05)

    async def main() -> None:
        freed = asyncio.Event()
        bench = Bench(sleeper("quick", 0.01), sleeper("slow", 30), stubborn(freed))
        asyncio.get_running_loop().call_later(0.1, bench.abort.set)
        started = time.perf_counter()
        results = await bench.run(ask("quick", "slow", "stubborn"))
        assert time.perf_counter() - started < 1
        assert results[0].output == "quick c0"
        assert [result.reason for result in results] == [None, "cancelled_by_user", "cancelled_by_user"]
        before = await bench.entries()
        freed.set()
        await asyncio.sleep(0.05)
        # Terminal is terminal: what the stubborn one says now is heard by nobody.
        assert await bench.entries() == before
        assert bench.journal.state.ledger["c2"].status == "cancelled"
        assert isinstance(before[-1], ToolsAnswered)

    asyncio.run(main())


def test_a_tool_that_saves_its_result_when_it_is_cancelled_is_heard() -> None:
    async def careful(arguments: dict[str, Any], context: Context) -> str:
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            return "half of it"
        return "all"

    async def main() -> None:
        bench = Bench(made("careful", careful))
        asyncio.get_running_loop().call_later(0.05, bench.abort.set)
        (result,) = await bench.run(ask("careful"))
        assert (result.output, result.reason) == ("half of it", None)

    asyncio.run(main())


def test_a_batch_that_is_cancelled_before_it_begins_runs_nothing() -> None:
    async def main() -> None:
        ran: list[str] = []

        async def run(arguments: dict[str, Any], context: Context) -> None:
            ran.append(context.call.id)

        bench = Bench(made("run", run))
        bench.abort.set()
        results = await bench.run(ask("run", "run"))
        assert ran == []
        assert {result.reason for result in results} <= {"cancelled_by_user"}

    asyncio.run(main())


def test_calls_that_may_not_run_end_with_the_reason_and_still_stand_in_the_conversation() -> None:
    async def main() -> None:
        bench = Bench(sleeper("a"))
        (result,) = await bench.run(ask("a"), closed="provider_error")
        assert result.reason == "provider_error"
        assert [type(entry) for entry in await bench.entries()] == [CallsScheduled, CallEnded, ToolsAnswered]

    asyncio.run(main())


def test_calls_that_write_the_same_path_run_one_after_another_in_call_order() -> None:
    async def main() -> None:
        running: set[str] = set()
        order: list[str] = []
        most = 0

        async def write(arguments: dict[str, Any], context: Context) -> str:
            nonlocal most
            mine = set(arguments["paths"])
            assert not mine & running
            running.update(mine)
            most = max(most, len(running))
            await asyncio.sleep(0.02)
            running.difference_update(mine)
            order.append(context.call.id)
            return "written"

        writer = made("write", write, writes=lambda arguments: tuple(arguments["paths"]))
        bench = Bench(writer)
        paths = (["a"], ["a", "b"], ["b"], ["./a"], ["c"])
        calls = tuple(ToolCall(f"c{n}", "write", {"paths": held}) for n, held in enumerate(paths))
        results = await bench.run(calls)
        assert all(result.output == "written" for result in results)
        assert order.index("c0") < order.index("c1") < order.index("c2")
        assert order.index("c1") < order.index("c3")
        assert most > 1

    asyncio.run(main())


@settings(max_examples=40)
@given(batch=st.lists(st.lists(st.sampled_from("abc"), max_size=2, unique=True), min_size=1, max_size=8))
def test_no_two_writers_of_one_path_ever_meet_and_nothing_waits_for_ever(batch: list[list[str]]) -> None:
    async def main() -> None:
        running: list[str] = []
        order: list[int] = []

        async def write(arguments: dict[str, Any], context: Context) -> None:
            mine = arguments["paths"]
            assert not set(mine) & set(running)
            running.extend(mine)
            await asyncio.sleep(0)
            for path in mine:
                running.remove(path)
            order.append(int(context.call.id[1:]))

        bench = Bench(made("write", write, writes=lambda arguments: tuple(arguments["paths"])))
        results = await bench.run(
            tuple(ToolCall(f"c{n}", "write", {"paths": held}) for n, held in enumerate(batch))
        )
        assert all(result.error is None for result in results)
        for path in "abc":
            writers = [n for n in order if path in batch[n]]
            assert writers == sorted(writers)

    asyncio.run(main())


def test_synchronous_tools_run_in_threads_beside_each_other_and_never_block_the_loop() -> None:
    gate = threading.Barrier(12, timeout=5)

    @tool
    def meet() -> str:
        gate.wait()
        return threading.current_thread().name

    async def main() -> None:
        results = await Bench(as_tool(meet)).run(ask(*["meet"] * 12))
        assert len({result.output for result in results} - {"MainThread"}) >= 1
        assert all(result.error is None for result in results)

    asyncio.run(main())


def test_progress_is_told_until_the_call_is_over() -> None:
    async def main() -> None:
        kept: list[Callable[[str], None]] = []

        async def work(arguments: dict[str, Any], context: Context) -> str:
            kept.append(context.progress)
            context.progress("half")
            await asyncio.sleep(0.01)
            return "done"

        bench = Bench(made("work", work))
        await bench.run(ask("work"))
        kept[0]("after the end")
        await asyncio.sleep(0)
        told = [event.message for event in bench.events if type(event) is ToolProgress]
        assert told == ["half"]

    asyncio.run(main())


class _Approving:
    def __init__(self, answer: Callable[[ToolCall], str]) -> None:
        self._answer = answer

    async def refusal(self, call: ToolCall, tool: Tool) -> str:
        return self._answer(call)


def _broken(call: ToolCall) -> str:
    raise OSError("no terminal")


def test_what_is_not_approved_does_not_run_and_the_model_reads_why() -> None:
    async def main() -> None:
        bench = Bench(sleeper("a", 0), approval=_Approving(lambda call: "not today" * (call.id == "c0")))
        denied, allowed = await bench.run(ask("a", "a"))
        assert (denied.reason, denied.error) == ("denied", "not today")
        assert allowed.output == "a c1"

    asyncio.run(main())


def test_approval_that_fails_is_a_refusal() -> None:
    async def main() -> None:
        (denied,) = await Bench(sleeper("a", 0), approval=_Approving(_broken)).run(ask("a"))
        assert denied.reason == "denied"
        assert "no terminal" in (denied.error or "")

    asyncio.run(main())


def test_cancelling_while_somebody_is_asked_for_approval_ends_the_batch() -> None:
    async def main() -> None:
        async def ponder(call: ToolCall, tool: Tool) -> Any:
            await asyncio.sleep(30)

        bench = Bench(sleeper("a", 0), approval=Approval("ask", ask=ponder))
        asyncio.get_running_loop().call_later(0.05, bench.abort.set)
        results = await asyncio.wait_for(bench.run(ask("a", "a")), 2)
        assert [result.reason for result in results] == ["cancelled_by_user"] * 2

    asyncio.run(main())


def test_whoever_cancels_the_batch_itself_while_somebody_is_asked_is_obeyed() -> None:
    async def main() -> None:
        asked = asyncio.Event()

        async def ponder(call: ToolCall, tool: Tool) -> Any:
            asked.set()
            await asyncio.sleep(30)

        bench = Bench(sleeper("a", 0), approval=Approval("ask", ask=ponder))
        running = asyncio.ensure_future(bench.run(ask("a")))
        await asked.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(main())


@pytest.mark.requirement("REQ-915-035")
def test_a_single_tool_can_run_outside_of_any_turn() -> None:
    @tool
    async def double(n: int) -> int:
        return 2 * n

    async def main() -> None:
        assert (await run_tool(as_tool(double), {"n": 21})).output == 42
        assert (await segue.tools.run_tool(double, {"n": 21})).output == 42
        assert "required property" in ((await run_tool(as_tool(double), {})).error or "")
        late = await run_tool(sleeper("slow", 30, timeout=0.02))
        assert late.reason == "timed_out"

    asyncio.run(main())


def test_a_tool_that_ends_the_process_ends_only_its_own_call() -> None:
    """A task that raises SystemExit would end the loop, and all that runs in it."""

    @tool
    async def leave() -> None:
        raise SystemExit(3)

    async def main() -> None:
        bench = Bench(as_tool(leave), sleeper("other", 0.01))
        left, other = await bench.run(ask("leave", "other"))
        assert left.error == "Tool execution failed: SystemExit: 3"
        assert other.output == "other c1"

    asyncio.run(main())


def test_what_a_tool_that_was_given_up_raises_later_is_not_reported_as_lost() -> None:
    lost: list[Any] = []

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: lost.append(context))

        async def stubborn() -> None:
            try:
                await asyncio.sleep(10)
            except asyncio.CancelledError:
                raise ValueError("too late") from None

        running = asyncio.ensure_future(stubborn())
        await asyncio.sleep(0)
        execution.abandon(running)
        await asyncio.wait({running})
        del running
        gc.collect()

    asyncio.run(main())
    assert lost == []

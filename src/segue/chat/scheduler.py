"""The scheduler: runs the calls of a reply as one batch. There is one per session.

It alone writes to the ledger, by entries of the journal: a call is scheduled, begins and ends there before anybody
hears of it. Whatever happens, each call ends exactly once and the batch comes back: a tool that fails, hangs, takes
no notice of being cancelled or does not exist has a result that says so.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias, final

from msgspec import Struct

from segue.chat.events import ChatEvent, ToolCallResult, ToolCallStart, ToolProgress
from segue.chat.outputs import output_of
from segue.chat.tool import Approves, Context, Host, Tool
from segue.conversation.blocks import ToolCall, ToolResult
from segue.conversation.message import Message
from segue.conversation.plain import sayable
from segue.sessions.entries import CallBegun, CallEnded, CallsScheduled, ToolsAnswered

if TYPE_CHECKING:
    from collections.abc import Iterable

    from segue.conversation.blocks import Reason
    from segue.sessions.journal import Journal

GRACE = 1.0
"""Seconds that a tool has to stop when it is told to. Then it is left to itself, and what it says is not heard."""

Emit: TypeAlias = Callable[[ChatEvent], None]


@final
class _Ready(Struct, frozen=True):
    """A call that may run, and those that must have ended before because they write the same path."""

    call: ToolCall
    tool: Tool
    after: tuple[str, ...] = ()


class Scheduler:
    """Runs batches of calls for one session, one batch at a time."""

    def __init__(
        self, journal: Journal, tools: Mapping[str, Tool], host: Host, approval: Approves | None = None
    ) -> None:
        self.tools = dict(tools)
        self.journal = journal
        self.host = host
        self.approval = approval
        self._one_batch = asyncio.Lock()

    async def run(
        self, calls: tuple[ToolCall, ...], emit: Emit, abort: asyncio.Event, *, closed: Reason | None = None
    ) -> Message:
        """Bring all calls to an end; their results, in call order, are then part of the conversation.

        `closed`: none of them runs, all end with this reason.
        """
        async with self._one_batch:
            return await _Batch(self, calls, emit, abort).run(closed)


class _Batch:
    def __init__(
        self,
        scheduler: Scheduler,
        calls: tuple[ToolCall, ...],
        emit: Emit,
        abort: asyncio.Event,
    ) -> None:
        self._tools = scheduler.tools
        self._journal = scheduler.journal
        self._host = scheduler.host
        self._approval = scheduler.approval
        self._calls = calls
        self._emit = emit
        self._abort = abort
        self._ended: dict[str, ToolResult] = {}

    async def run(self, closed: Reason | None) -> Message:
        await self._journal.append(CallsScheduled(self._calls))
        for call in self._calls:
            self._emit(ToolCallStart(call))
        stopped = asyncio.ensure_future(self._abort.wait())
        try:
            if closed is None:
                await self._run_all(await self._admit(stopped), stopped)
            else:
                await self._end(ToolResult(call.id, call.name, reason=closed) for call in self._calls)
        finally:
            stopped.cancel()
        await self._journal.append(ToolsAnswered(tuple(call.id for call in self._calls)))
        return Message("tool", tuple(self._ended[call.id] for call in self._calls))

    async def _admit(self, stopped: asyncio.Future[Any]) -> list[_Ready]:
        """Those that may run. The others end here; people are asked one question at a time, in call order."""
        ready: list[_Ready] = []
        refused: list[ToolResult] = []
        for call in self._calls:
            verdict = await self._judge(call, stopped)
            if isinstance(verdict, Tool):
                ready.append(_Ready(call, verdict))
            else:
                refused.append(verdict)
        await self._end(refused)
        return ready

    async def _judge(self, call: ToolCall, stopped: asyncio.Future[Any]) -> Tool | ToolResult:
        tool = self._tools.get(call.name)
        if tool is None:
            return ToolResult(call.id, call.name, error=f'Tool "{call.name}" not found')
        if problem := _problem_with(call, tool):
            return ToolResult(call.id, call.name, error=problem)
        if stopped.done():
            return _cancelled(call)
        if self._approval is None:
            return tool
        asked = asyncio.ensure_future(self._approval.refusal(call, tool))
        try:
            await asyncio.wait({asked, stopped}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            _let_go(asked)
            raise
        if not asked.done():
            await _stop(asked)
            return _cancelled(call)
        if asked.cancelled() or (error := asked.exception()) is not None:
            why = "nobody could be asked" if asked.cancelled() else f"asking for approval failed: {error}"
            return ToolResult(call.id, call.name, error=f"This call did not run: {why}", reason="denied")
        if refusal := asked.result():
            return ToolResult(call.id, call.name, error=refusal, reason="denied")
        return tool

    async def _run_all(self, ready: list[_Ready], stopped: asyncio.Future[Any]) -> None:
        if not ready:
            return
        if stopped.done():
            await self._end(_cancelled(one.call) for one in ready)
            return
        # One entry each, in one write: what may have had effects is known before the first has.
        await self._journal.append(*(CallBegun(one.call.id) for one in ready))
        running: dict[str, asyncio.Task[None]] = {}
        results: asyncio.Queue[ToolResult] = asyncio.Queue()
        for one in in_order_of_writing(ready):
            before = {running[call_id] for call_id in one.after}
            running[one.call.id] = asyncio.create_task(self._supervise(one, before, stopped, results))
        try:
            left = len(ready)
            while left:
                # Those that end together are written together.
                together = [await results.get()]
                while not results.empty():
                    together.append(results.get_nowait())
                await self._end(together)
                left -= len(together)
        finally:
            for task in running.values():
                task.cancel()

    async def _supervise(
        self,
        one: _Ready,
        before: set[asyncio.Task[None]],
        stopped: asyncio.Future[Any],
        results: asyncio.Queue[ToolResult],
    ) -> None:
        for task in before:
            await asyncio.wait({task, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if stopped.done():
            results.put_nowait(_cancelled(one.call))
            return
        progress = _Progress(one.call, self._emit)
        context = Context(
            call=one.call,
            abort=self._abort,
            progress=progress,
            session=self._journal.session,
            host=self._host,
        )
        result = await run_call(one.tool, context, stopped)
        progress.over = True
        results.put_nowait(result)

    async def _end(self, results: Iterable[ToolResult]) -> None:
        ended = list(results)
        if not ended:
            return
        await self._journal.append(*(CallEnded(result) for result in ended))
        by_id = {call.id: call for call in self._calls}
        for result in ended:
            self._ended[result.call_id] = result
            self._emit(ToolCallResult(by_id[result.call_id], result))


async def run_call(tool: Tool, context: Context, stopped: asyncio.Future[Any]) -> ToolResult:
    """The end of one call, within its tool's time and not long after `stopped`. Never raises."""
    call = context.call
    running = asyncio.ensure_future(_started(tool, context))
    try:
        await asyncio.wait({running, stopped}, timeout=tool.timeout, return_when=asyncio.FIRST_COMPLETED)
    except asyncio.CancelledError:
        _let_go(running)
        raise
    if running.done():
        return _outcome(call, running)
    cancelled = stopped.done()
    await _stop(running)
    if not cancelled:
        return ToolResult(call.id, call.name, reason="timed_out")
    finished = running.done() and not running.cancelled() and running.exception() is None
    return _outcome(call, running) if finished else _cancelled(call)


async def run_tool(
    tool: Tool, arguments: dict[str, Any] | None = None, *, host: Host | None = None
) -> ToolResult:
    """Run one tool outside of any turn: nothing is journalled and no conversation hears of it."""
    call = ToolCall("single", tool.name, arguments or {})
    if problem := _problem_with(call, tool):
        return ToolResult(call.id, call.name, error=problem)
    never = asyncio.get_running_loop().create_future()
    abort = asyncio.Event()
    context = Context(call=call, abort=abort, progress=_ignore, host=host)
    try:
        return await run_call(tool, context, never)
    except asyncio.CancelledError:
        abort.set()
        raise


def in_order_of_writing(ready: list[_Ready]) -> list[_Ready]:
    """Each with the calls before it that write a path it writes too: those run one after another, in call order."""
    last: dict[str, str] = {}
    ordered: list[_Ready] = []
    for one in ready:
        paths = _paths(one)
        after = tuple(dict.fromkeys(last[path] for path in paths if path in last))
        ordered.append(_Ready(one.call, one.tool, after))
        last.update((path, one.call.id) for path in paths)
    return ordered


def _paths(one: _Ready) -> tuple[str, ...]:
    if one.tool.writes is None:
        return ()
    try:
        return tuple(os.path.realpath(path) for path in one.tool.writes(one.call.arguments))
    except Exception:  # a tool's own function; the call itself will tell the model what is wrong
        return ()


async def _started(tool: Tool, context: Context) -> Any:
    return await tool.run(context.call.arguments or {}, context)


def _outcome(call: ToolCall, running: asyncio.Future[Any]) -> ToolResult:
    """What a tool gave. A failure is a result like any other: the model reads it and goes on."""
    error = None if running.cancelled() else running.exception()
    if running.cancelled() or error is not None:
        told = "it was cancelled" if error is None else sayable(str(error)) or type(error).__name__
        return ToolResult(call.id, call.name, error=f"Tool execution failed: {told}")
    output = output_of(running.result())
    return ToolResult(
        call.id, call.name, output.value, output.error, complete=output.error is None, media=output.media
    )


async def _stop(running: asyncio.Future[Any]) -> None:
    """Cancel and wait a little. What comes later is nobody's business, so it is not reported as lost either."""
    _let_go(running)
    await asyncio.wait({running}, timeout=GRACE)


def _let_go(running: asyncio.Future[Any]) -> None:
    running.cancel()
    running.add_done_callback(lambda late: late.cancelled() or late.exception())


def _cancelled(call: ToolCall) -> ToolResult:
    return ToolResult(call.id, call.name, reason="cancelled_by_user")


def _problem_with(call: ToolCall, tool: Tool) -> str:
    from segue.chat.arguments import problem_with  # noqa: PLC0415 - the validator is loaded with the first call

    return problem_with(call, tool.spec)


def _ignore(_message: str) -> None:
    """Nobody listens."""


class _Progress:
    """Tells how a call gets on, from any thread, until it is over."""

    def __init__(self, call: ToolCall, emit: Emit) -> None:
        self.over = False
        self._call = call
        self._emit = emit
        self._loop = asyncio.get_running_loop()

    def __call__(self, message: str) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._tell, message)

    def _tell(self, message: str) -> None:
        if not self.over:
            self._emit(ToolProgress(self._call, message))

"""The scheduler: runs the calls of a reply as one batch. There is one per session.

It alone writes to the ledger, by entries of the journal: a call is scheduled, begins and ends there before it is
reported. Whatever happens, each call ends exactly once and the batch comes back: a tool that fails, hangs, ignores
being cancelled or does not exist has a result that says so.
"""

from __future__ import annotations

import asyncio
import os
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from segue.conversation.blocks import ToolCall, ToolResult
from segue.conversation.message import Message
from segue.events import Emit, ToolCallResult, ToolCallStart
from segue.providers.models.prices import Bill
from segue.sessions.entries import CallBegun, CallEnded, CallsScheduled, ToolsAnswered
from segue.sessions.journal import Journal
from segue.telemetry.switch import observer
from segue.tools.arguments import problem_with
from segue.tools.definition import Context, Host, Tool, ToolSet
from segue.tools.execution import Progress, abandon, not_run, run_call, stop

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from segue.conversation.blocks import Reason


class Scheduler:
    """Runs batches of calls for one session, one batch at a time."""

    def __init__(self, journal: Journal, host: Host) -> None:
        self.journal = journal
        self.host = host
        self._one_batch = asyncio.Lock()

    async def run(
        self,
        calls: tuple[ToolCall, ...],
        tools: ToolSet,
        emit: Emit,
        abort: asyncio.Event,
        *,
        closed: Reason | None = None,
    ) -> Message:
        """Bring all calls to an end; their results, in call order, are then part of the conversation.

        `closed`: none of them runs, all end with this reason.
        """
        async with self._one_batch:
            by_id = {call.id: call for call in calls}
            return await _Batch(self.journal, self.host, by_id, tools, emit, abort).run(closed)


class _Batch(Struct):
    journal: Journal
    host: Host
    calls: dict[str, ToolCall]
    tools: ToolSet
    emit: Emit
    abort: asyncio.Event
    ended: dict[str, ToolResult] = {}
    bills: dict[str, Bill] = field(default_factory=lambda: defaultdict(Bill))

    async def run(self, closed: Reason | None) -> Message:
        await self.journal.append(CallsScheduled(tuple(self.calls.values())))
        for call in self.calls.values():
            self.emit(ToolCallStart(call))
        stopped = asyncio.ensure_future(self.abort.wait())
        try:
            if closed is None:
                await self._run_all(await self._admit(stopped), stopped)
            else:
                await self._end(not_run(call, closed) for call in self.calls.values())
        finally:
            stopped.cancel()
        await self.journal.append(ToolsAnswered(tuple(self.calls)))
        return Message("tool", tuple(self.ended[call_id] for call_id in self.calls))

    async def _admit(self, stopped: asyncio.Future[Any]) -> list[tuple[ToolCall, Tool]]:
        """Those that may run. The others end here; people are asked one question at a time, in call order."""
        ready: list[tuple[ToolCall, Tool]] = []
        refused: list[ToolResult] = []
        for call in self.calls.values():
            verdict = await self._judge(call, stopped)
            if isinstance(verdict, Tool):
                ready.append((call, verdict))
            else:
                refused.append(verdict)
        await self._end(refused)
        return ready

    async def _judge(self, call: ToolCall, stopped: asyncio.Future[Any]) -> Tool | ToolResult:
        tool = self.tools.by_name.get(call.name)
        if tool is None:
            return ToolResult(call.id, call.name, error=f'Tool "{call.name}" not found')
        if problem := problem_with(call, tool.spec, tool.check):
            return ToolResult(call.id, call.name, error=problem)
        if stopped.done():
            return not_run(call)
        if self.tools.approval is None:
            return tool
        asked = asyncio.ensure_future(self.tools.approval.refusal(call, tool))
        try:
            await asyncio.wait({asked, stopped}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            abandon(asked)
            raise
        if not asked.done():
            await stop(asked)
            return not_run(call)
        if asked.cancelled() or (error := asked.exception()) is not None:
            why = "nobody could be asked" if asked.cancelled() else f"asking for approval failed: {error}"
            return ToolResult(call.id, call.name, error=f"This call did not run: {why}", reason="denied")
        if refusal := asked.result():
            return ToolResult(call.id, call.name, error=refusal, reason="denied")
        return tool

    async def _run_all(self, ready: list[tuple[ToolCall, Tool]], stopped: asyncio.Future[Any]) -> None:
        if not ready:
            return
        if stopped.done():
            await self._end(not_run(call) for call, _ in ready)
            return
        # One entry each, in one write: what may have had effects is known before the first has.
        await self.journal.append(*(CallBegun(call.id) for call, _ in ready))
        running: list[asyncio.Task[None]] = []
        results: asyncio.Queue[ToolResult] = asyncio.Queue()
        writers: dict[str, asyncio.Task[None]] = {}  # by path: whoever writes it too runs after that one
        for call, tool in ready:
            paths = () if tool.writes is None else _paths(call, tool.writes)
            before = {writers[path] for path in paths if path in writers}
            task = asyncio.create_task(self._supervise(call, tool, before, stopped, results))
            writers |= dict.fromkeys(paths, task)
            running.append(task)
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
            for task in running:
                task.cancel()

    async def _supervise(
        self,
        call: ToolCall,
        tool: Tool,
        before: set[asyncio.Task[None]],
        stopped: asyncio.Future[Any],
        results: asyncio.Queue[ToolResult],
    ) -> None:
        for task in before:
            await asyncio.wait({task, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if stopped.done():
            results.put_nowait(not_run(call))
            return
        progress = Progress(call, self.emit)
        context = Context(
            call=call,
            abort=self.abort,
            progress=progress,
            spend=self.bills[call.id].add,
            session=self.journal.session,
            host=self.host,
            deps=self.host.deps,
        )
        with observer().call(call, self.journal.session) as seen:
            result = await run_call(tool, context, stopped)
            seen.call_ended(result)
        progress.over = True
        results.put_nowait(result)

    async def _end(self, results: Iterable[ToolResult]) -> None:
        ended = list(results)
        if not ended:
            return
        bills = [self.bills[result.call_id] for result in ended]
        await self.journal.append(
            *(CallEnded(result, bill.usage, bill.cost) for result, bill in zip(ended, bills, strict=True))
        )
        for result, bill in zip(ended, bills, strict=True):
            self.ended[result.call_id] = result
            self.emit(
                ToolCallResult(
                    self.calls[result.call_id], result, bill.usage, bill.cost, at_least=bill.at_least
                )
            )


def _paths(call: ToolCall, writes: Callable[[dict[str, Any]], tuple[str, ...]]) -> tuple[str, ...]:
    try:
        return tuple(os.path.realpath(path) for path in writes(call.arguments or {}))
    except Exception:  # a tool's own function; the call itself will report what is wrong
        return ()

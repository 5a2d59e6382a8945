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
from segue.sessions.entries import ApprovalAsked, CallBegun, CallEnded, CallsScheduled, ToolsAnswered
from segue.sessions.journal import Journal
from segue.telemetry.switch import observer
from segue.tools.arguments import problem_with
from segue.tools.definition import Approves, Context, Host, PendingApproval, Tool, ToolSet
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
        scheduled: bool = False,
    ) -> Message | ApprovalAsked:
        """Bring all calls to an end; their results, in call order, are then part of the conversation.

        `closed`: none of them runs, all end with this reason. `scheduled`: they are a batch already, which somebody has begun
        and not ended. None of them runs while somebody must be asked who answers later.
        """
        async with self._one_batch:
            by_id = {call.id: call for call in calls}
            batch = _Batch(self.journal, self.host, by_id, tools, emit, abort)
            if scheduled:
                await batch.take_over()
            return await batch.run(closed, scheduled=scheduled)


class _Batch(Struct):
    journal: Journal
    host: Host
    calls: dict[str, ToolCall]
    tools: ToolSet
    emit: Emit
    abort: asyncio.Event
    ended: dict[str, ToolResult] = {}
    bills: dict[str, Bill] = field(default_factory=lambda: defaultdict(Bill))

    async def take_over(self) -> None:
        """What has ended stays so. What has begun may have had effects: it is interrupted, unless its tool may be repeated."""
        state, interrupted = self.journal.state, list[ToolResult]()
        for call_id, call in self.calls.items():
            known = state.ledger[call_id].result
            tool = self.tools.by_name.get(call.name)
            if known is not None:
                self.ended[call_id] = known
            elif call_id in state.begun and not (tool is not None and tool.may_repeat):
                interrupted.append(ToolResult(call_id, call.name, reason="interrupted"))
        await self._end(interrupted)

    async def run(self, closed: Reason | None, *, scheduled: bool) -> Message | ApprovalAsked:
        open_calls = [call for call in self.calls.values() if call.id not in self.ended]
        if not scheduled:
            await self.journal.append(CallsScheduled(tuple(open_calls)))
            for call in open_calls:
                self.emit(ToolCallStart(call))
        stopped = asyncio.ensure_future(self.abort.wait())
        try:
            if closed is None:
                admitted = await self._admit(open_calls, stopped)
                if isinstance(admitted, ApprovalAsked):
                    await self.journal.append(admitted)
                    return admitted
                await self._run_all(admitted, stopped)
            else:
                await self._end(not_run(call, closed) for call in open_calls)
        finally:
            stopped.cancel()
        await self.journal.append(ToolsAnswered(tuple(self.calls)))
        return Message("tool", tuple(self.ended[call_id] for call_id in self.calls))

    async def _admit(
        self, calls: list[ToolCall], stopped: asyncio.Future[Any]
    ) -> list[tuple[ToolCall, Tool]] | ApprovalAsked:
        """Those that may run. The others end here; people are asked one question at a time, in call order."""
        ready: list[tuple[ToolCall, Tool]] = []
        refused: list[ToolResult] = []
        pending: list[str] = []
        for call in calls:
            verdict = await self._judge(call, stopped)
            if verdict is None:
                pending.append(call.id)
            elif isinstance(verdict, Tool):
                ready.append((call, verdict))
            else:
                refused.append(verdict)
        if pending and not stopped.done():
            return ApprovalAsked(tuple(pending))
        await self._end([*refused, *(not_run(self.calls[call_id]) for call_id in pending)])
        return ready

    async def _judge(self, call: ToolCall, stopped: asyncio.Future[Any]) -> Tool | ToolResult | None:
        """None: somebody must be asked who answers later."""
        tool = self.tools.by_name.get(call.name)
        if tool is None:
            return ToolResult(call.id, call.name, error=f'Tool "{call.name}" not found')
        if problem := problem_with(call, tool.spec, tool.check):
            return ToolResult(call.id, call.name, error=problem)
        if stopped.done():
            return not_run(call)
        given = self.journal.state.approvals.get(call.id)
        if given is not None and not given.allowed:
            refusal = given.why or f'Denied: the user does not want this call of "{call.name}".'
            return ToolResult(call.id, call.name, error=refusal, reason="denied")
        if given is not None or self.tools.approval is None:
            return tool
        return await self._asked(call, tool, self.tools.approval, stopped)

    async def _asked(
        self, call: ToolCall, tool: Tool, approval: Approves, stopped: asyncio.Future[Any]
    ) -> Tool | ToolResult | None:
        asked = asyncio.ensure_future(approval.refusal(call, tool))
        try:
            await asyncio.wait({asked, stopped}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            abandon(asked)
            raise
        if not asked.done():
            await stop(asked)
            return not_run(call)
        if asked.cancelled() or (error := asked.exception()) is not None:
            if not asked.cancelled() and isinstance(error, PendingApproval):
                return None
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

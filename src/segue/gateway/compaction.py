"""A conversation compacted for a client that asks its server for that: a summary, in a capsule that only we can open."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from time import monotonic, time
from typing import TYPE_CHECKING, Any, Final, final

import msgspec
from msgspec import structs

from segue.conversation.blocks import Origin
from segue.conversation.events import Event, Failed, Finished, ReplyStarted, Sealed, UsageReported, fold
from segue.conversation.message import user
from segue.errors import ProtocolError, SegueError
from segue.gateway.handovers import hand_over
from segue.gateway.report import AttemptReport
from segue.gateway.text_tool_replies import portions_of, split_sent
from segue.providers.adapter import fold_stream
from segue.routing.route import provider_of
from segue.routing.router import GiveUp, Retry

if TYPE_CHECKING:
    from collections.abc import Callable

    from segue.conversation.events import Reply
    from segue.gateway.handovers import Handover
    from segue.gateway.members import Members
    from segue.gateway.memory.memory import Memory
    from segue.gateway.report import RequestReport
    from segue.gateway.turns import ClientTurn
    from segue.providers.adapter import StreamEvent
    from segue.providers.registry import KnownProviders
    from segue.routing.route import Route
    from segue.routing.router import Routing

INSTRUCTION: Final = (
    "Write a summary of this conversation for yourself: it will replace the conversation, and the work continues from it. "
    "Keep the task and every instruction of the user, what was done and found so far with exact names, paths, commands "
    "and values, what failed and why, and what is left to do. Write the summary only, and call no tools."
)


@final
class ClientCompaction:
    """Asks the model of a turn for a summary of it."""

    def __init__(self, members: Members, providers: KnownProviders, memory: Memory) -> None:
        self._members = members
        self._providers = providers
        self._memory = memory

    async def summarise(self, turn: ClientTurn, report: RequestReport, switched: str = "") -> Reply:
        """The reply with the summary. Raises why there is none. `switched`: the model that an operator chose for the
        conversation."""
        began = monotonic()
        conversation = turn.conversation.append(user(INSTRUCTION))
        options = structs.replace(
            turn.options, tool_choice="none" if turn.tools else None, response_schema=None
        )
        asked = structs.replace(turn, conversation=conversation, options=options, bound="")
        error: SegueError | None = None
        for opened in self._members.routings(asked, switched):
            routing = opened()
            while True:
                report.route = routing.route.name
                tried = AttemptReport(route=report.route, began=time())
                report.tries.append(tried)
                reply = await self._ask(asked, routing, tried)
                if reply.error is None:
                    report.first_content = monotonic() - began
                    return reply
                tried.error = reply.error.code
                step = routing.failed(reply.error, shown=False, ran=False)
                if isinstance(step, GiveUp):
                    error = step.error
                    break
                if isinstance(step, Retry):
                    await asyncio.sleep(step.after)
        raise error or ProtocolError("No member gave a summary.", code="no_summary")

    async def _ask(self, turn: ClientTurn, routing: Routing, tried: AttemptReport) -> Reply:
        route, began = routing.route, monotonic()
        origin = Origin(provider=route.provider, model=route.model)
        try:
            self._members.enter(route.name)
            try:
                reply = await self._written(turn, route, origin, tried.handovers)
            finally:
                tried.seconds = monotonic() - began
                self._members.leave(route.name)
        except SegueError as refused:
            return fold([Failed(refused)], origin)
        except asyncio.CancelledError:
            routing.aborted()
            raise
        if reply.error is None and not reply.message.text.strip():
            empty = ProtocolError(f"{route.name} gave an empty summary.", code="no_summary")
            return structs.replace(reply, error=empty)
        if reply.error is None:
            routing.answered(reply.usage, seconds=monotonic() - began)
        return reply

    async def _written(
        self, turn: ClientTurn, route: Route, origin: Origin, handovers: list[Handover]
    ) -> Reply:
        """What the model writes, with an estimate of what it cost where its provider does not count."""
        provider, request = provider_of(route, self._providers), self._members.request(turn, route)
        self._members.require_whole(turn, provider, request)
        events: list[StreamEvent] = []
        async with aclosing(portions_of(provider, request)) as portions:
            async for portion in portions:
                sent, arrived = split_sent(portion)
                if sent is not None:
                    handovers.append(hand_over(route.name, request, size=len(sent.body)))
                    events.append(sent)
                events += handovers[-1].note(arrived) if handovers else arrived
        reply = fold_stream(events, origin)
        return structs.replace(reply, usage=handovers[-1].usage) if handovers else reply

    def opener(self, caller: str) -> Callable[[str], str | None]:
        """Opens the payload of a compacted item; None if it is not one of ours."""

        def opened(payload: str) -> str | None:
            data = self._memory.open_capsule(caller, payload)
            return None if data is None else data.decode("utf-8", "replace")

        return opened

    def capsule(self, caller: str, reply: Reply) -> str:
        return self._memory.seal_capsule(caller, reply.message.text.encode("utf-8", "replace"))


def compacted_events(item: dict[str, Any], reply_id: str, turn: ClientTurn, summary: Reply) -> list[Event]:
    """A reply that is nothing but a compacted item."""
    return [
        ReplyStarted(reply_id, turn.asked, created=time()),
        Sealed(0, msgspec.json.encode(item).decode(), "encrypted", "text"),
        UsageReported(summary.usage),
        Finished("stop"),
    ]

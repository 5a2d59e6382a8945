"""One turn's request and its reply: tried at one member after another until something of a reply has reached the client.

What precedes the first content of a stream is held back, so that a failure before it is never seen. After it the stream
ends with an error in the client's own wire, and what came is remembered as broken off.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from time import monotonic, time
from typing import TYPE_CHECKING, Final, final

from msgspec import structs

from segue.conversation.events import Event, Failed, Finished, ReplyStarted, UsageReported, fold
from segue.conversation.message import mint_missing
from segue.errors import InvalidRequestError, ProtocolError, SegueError
from segue.gateway.attempts import ForwardedAttempt
from segue.gateway.client_errors import (
    counts_of,
    for_client,
    is_refusal,
    log_failure,
    number_of_kinds,
    strict_error,
    write_error,
)
from segue.gateway.memory.recent import RecentConversation
from segue.gateway.memory.replies import RememberedReply
from segue.gateway.memory.store import ConversationInfo
from segue.gateway.references import error_of_holder
from segue.gateway.report import AttemptReport
from segue.gateway.turns import plain_turn
from segue.gateway.usage_estimates import mark_estimate
from segue.gateway.web import JSON_TYPE, WebResponse
from segue.routing.router import GiveUp, Retry
from segue.transports.reply_meter import TOO_LARGE

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from segue.conversation.events import Reply
    from segue.dialects.references import Reference
    from segue.dialects.server import Reframe
    from segue.gateway.attempts import RouteAttempt
    from segue.gateway.members import Members
    from segue.gateway.memory.memory import Memory
    from segue.gateway.report import RequestReport
    from segue.gateway.turns import ClientTurn
    from segue.gateway.web import ResponseWriter
    from segue.routing.route import Route
    from segue.routing.router import Routing

_LIFECYCLE: Final = frozenset[type]({ReplyStarted, UsageReported, Finished})
"""Without content."""


@final
class Exchange:
    """Serves one request for a reply."""

    def __init__(
        self,
        turn: ClientTurn,
        writer: ResponseWriter,
        report: RequestReport,
        *,
        memory: Memory,
        members: Members,
        keep: Callable[[ClientTurn, bytes, str], Awaitable[None]] | None = None,
        note: Callable[[ConversationInfo], None],
    ) -> None:
        """`keep` gets a complete reply as a whole, and the provider that has stored it too, if one has. `note` records the
        conversation where there is no reply to be remembered along with it."""
        self._turn = turn
        self._writer = writer
        self._report = report
        self._memory = memory
        self._members = members
        self._keep = keep
        self._note = note
        self._noted = False
        self._keep_alive = members.keep_alive
        self._attempt: RouteAttempt | None = None
        self._held: list[bytes] = []
        self._events: list[Event] = []
        self._first_content: float | None = None
        self._started = 0.0
        self._reframe: Reframe | None = turn.door.reframed(turn.request.query, stream=turn.stream)
        writer.reframe = self._reframe
        self._alive: asyncio.TimerHandle | None = None
        self._beat: asyncio.Task[None] | None = None
        self._last_write = 0.0
        self._committed = False
        """Whether the client has got something of a reply: then nobody else may answer."""

    async def run(self, routings: list[Callable[[], Routing]]) -> None:
        """Open and try the routings one after another. What fails in the end is written as an error of the client's wire."""
        self._start_beat()
        try:
            error = await self._first_success(routings)
        finally:
            self._stop_beat()
            if not self._noted:
                self._note(self._seen())
        if error is not None:
            await self._fail(error)

    async def _first_success(self, routings: list[Callable[[], Routing]]) -> SegueError | None:
        error: SegueError | None = None
        for number, opened in enumerate(routings):
            if number:
                self._report.failovers += 1
            try:
                error = await self._try_members(opened())
            except SegueError as none_free:
                error = error or none_free
            if error is None or self._committed:
                return None
            if not _may_go_elsewhere(error):
                break
        return error

    async def _try_members(self, routing: Routing) -> SegueError | None:
        """None if a reply was written, be it whole or broken off; else why there is none."""
        not_held: Reference | None = None
        failed: SegueError | None = None
        while True:
            route = routing.route
            error = await self._try(route, routing, self._turn)
            while error is not None and self._members.asks_otherwise(self._turn, route, error, self._attempt):
                error = await self._try(route, routing, self._turn)
            if error is not None and is_refusal(error) and not self._committed:
                error = await self._try_plain(route, routing, error)
            if error is None:
                return None
            refused = [one for one in self._turn.prepared.references if one.refusal is error]
            not_held, failed = (refused[0], failed) if refused else (not_held, error)
            step = routing.failed(error, shown=self._committed, ran=False)
            if self._committed:
                return None
            match step:
                case GiveUp(last):
                    return last if not_held is None else error_of_holder(not_held, failed)
                case Retry(after):
                    await asyncio.sleep(after)
                case _:
                    self._report.failovers += 1

    async def _try_plain(self, route: Route, routing: Routing, refusal: SegueError) -> SegueError | None:
        """A history from elsewhere may hold what this account or model cannot take: once more without it, if it is whole."""
        if self._turn.prepared.is_part or not self._members.uses_wire_of(self._turn, route):
            return refusal
        plain = await plain_turn(self._turn, self._memory, planned=self._report.forwarded)
        if plain is None:
            return refusal
        dropped = [
            repair
            for repair in plain.repairs
            if repair.kind != "field_corrected" and repair not in self._turn.repairs
        ]
        if dropped and self._turn.strict:
            return strict_error(dropped, route.name, refusal=refusal.message)
        error = await self._try(route, routing, plain)
        # What is wrong with the client's own request is its affair; what else went wrong may pass, or be done elsewhere.
        return refusal if error is not None and is_refusal(error) and not self._committed else error

    async def _try(self, route: Route, routing: Routing, turn: ClientTurn) -> SegueError | None:
        self._report.attempts += 1
        self._report.route = route.name
        self._attempt, self._held, self._events, self._first_content = None, [], [], None
        self._started = monotonic()
        tried = AttemptReport(route=route.name, began=time())
        self._report.tries.append(tried)
        try:
            error = await self._sent(route, routing, turn, tried)
        except BaseException:
            tried.error = "cancelled"
            raise
        finally:
            tried.seconds = monotonic() - self._started
        if error is not None:
            tried.error = error.code
            log_failure(error, route.name, self._report.request_id)
            error.__traceback__ = None  # what failed is kept until the end, and its frames hold what had come
        return error

    async def _sent(
        self, route: Route, routing: Routing, turn: ClientTurn, tried: AttemptReport
    ) -> SegueError | None:
        try:
            self._members.enter(route.name)
            try:
                self._attempt = attempt = self._members.attempt(turn, route)
                attempt.handovers = tried.handovers
                self._report.forwarded = attempt.forwarded
                error = await self._read(attempt, routing)
            finally:
                self._members.leave(route.name)
        except SegueError as refused:
            return refused
        if error is None:
            reply = self._folded(attempt)
            self._report.answer = reply.message
            routing.answered(reply.usage, self._first_content, seconds=monotonic() - self._started)
            await self._finish(attempt, reply)
            return None
        error.provider = error.provider or route.provider
        if self._committed:
            await self._break_off(attempt, error)
        return error

    async def _read(self, attempt: RouteAttempt, routing: Routing) -> SegueError | None:
        """The pieces of a reply, written as they come from the first content on; None if it came to its end."""
        finished = False
        try:
            async with aclosing(attempt.pieces()) as pieces:
                async for events, data in pieces:
                    for place, event in enumerate(events):
                        if type(event) is Failed:
                            if self._committed:
                                self._events += events[:place]
                                await self._writer.write(self._outgoing(data))
                            return event.error
                        if type(event) is Finished:
                            finished = True
                    if self._first_content is None and not _LIFECYCLE.issuperset(map(type, events)):
                        await self._commit(attempt)
                    self._events += events
                    await self._writer.write(self._outgoing(data))
        except asyncio.CancelledError:
            routing.aborted()
            await self._remember_broken(attempt)
            raise
        return None if finished else ProtocolError("The reply broke off before its end.", code="no_end")

    # Writing

    async def _commit(self, attempt: RouteAttempt) -> None:
        """The first content has arrived: from now on this member answers."""
        self._first_content = monotonic() - self._started
        self._report.first_content = self._first_content
        if not self._turn.stream:
            return
        self._committed = True
        headers = self._headers(attempt, (self._reframe or self._turn.dialect.server).stream_type)
        if attempt.forwarded:
            self._stop_beat()
        if not self._writer.started:
            await self._writer.start(200, headers)
        held, self._held = b"".join(self._held), []
        await self._writer.write(self._outgoing(held))

    def _outgoing(self, data: bytes) -> bytes:
        """What the client gets of it now: nothing before the first content."""
        if not data:
            return b""
        if not self._committed:
            self._held.append(data)
            return b""
        self._last_write = monotonic()
        return data if self._reframe is None else self._reframe.feed(data)

    async def _finish(self, attempt: RouteAttempt, reply: Reply) -> None:
        """The reply is complete: it is remembered before its last byte leaves."""
        if not self._turn.stream:
            body = attempt.whole(reply)
            await self._remember(attempt, reply)
            if self._reframe is not None:
                body = self._reframe.feed(body) + self._reframe.close()
            headers = self._headers(attempt, JSON_TYPE)
            await self._writer.whole(WebResponse(headers=headers, body=body))
            return
        if not self._committed:
            await self._commit(attempt)
        self._stop_beat()
        await self._remember(attempt, reply)
        last = attempt.close()
        if self._reframe is not None:
            last = self._reframe.feed(last) + self._reframe.close()
        await self._writer.end(last)

    async def _break_off(self, attempt: RouteAttempt, error: SegueError) -> None:
        self._stop_beat()
        self._report.error = error.code
        await self._remember_broken(attempt, too_large=error.code in TOO_LARGE)
        last = attempt.broken(for_client(error))
        if self._reframe is not None:
            last = self._reframe.feed(last) + self._reframe.close()
        await self._writer.end(last)

    async def _fail(self, error: SegueError) -> None:
        self._report.error = error.code
        await write_error(self._writer, error, self._turn.dialect)

    def _headers(self, attempt: RouteAttempt, content_type: str) -> Mapping[str, str]:
        headers = {
            "content-type": content_type,
            "x-segue-route": self._report.route,
            "x-segue-conversation": self._turn.conversation_id,
            **attempt.headers,
        }
        if attempt.estimated is not None:
            mark_estimate(headers)
        if repairs := attempt.repairs:
            losses = [repair for repair in repairs if repair.lossy]
            self._report.repairs, self._report.losses = number_of_kinds(repairs), number_of_kinds(losses)
            headers["x-segue-repairs"] = counts_of(repairs)
            if losses:
                headers["x-segue-losses"] = counts_of(losses)
        if self._turn.stream:
            headers["cache-control"] = "no-cache"
        return headers

    # Keeping the connection open

    def _start_beat(self) -> None:
        if self._turn.stream and self._turn.dialect.server.keep_alive and self._reframe is None:
            self._last_write = monotonic()
            loop = asyncio.get_running_loop()
            self._alive = loop.call_later(self._keep_alive, self._on_silence)

    def _on_silence(self) -> None:
        silent = monotonic() - self._last_write
        loop = asyncio.get_running_loop()
        if silent >= self._keep_alive:
            self._last_write = monotonic()
            self._beat = loop.create_task(self._send_keep_alive())
            silent = 0.0
        self._alive = loop.call_later(self._keep_alive - silent, self._on_silence)

    async def _send_keep_alive(self) -> None:
        """Also before the first content: the response begins, and the next member may still answer it."""
        server = self._turn.dialect.server
        if not self._writer.started:
            headers = {
                "content-type": server.stream_type,
                "x-segue-conversation": self._turn.conversation_id,
                "cache-control": "no-cache",
            }
            await self._writer.start(200, headers)
        await self._writer.write(server.keep_alive)

    def _stop_beat(self) -> None:
        if self._alive is not None:
            self._alive.cancel()
            self._alive = None

    # Memory

    def _folded(self, attempt: RouteAttempt) -> Reply:
        """The reply as it stands in the conversation, its calls with canonical ids."""
        reply = fold(self._events, attempt.origin, made_under=attempt.made_under)
        message, _ = mint_missing(reply.message, self._turn.conversation.minted)
        return structs.replace(reply, message=message)

    async def _remember(self, attempt: RouteAttempt, reply: Reply, *, broken: bool = False) -> None:
        if isinstance(attempt, ForwardedAttempt):
            attempt.keep_ids(reply)
        if reply.message.blocks:
            remembered = RememberedReply(
                reply.message,
                self._report.route,
                attempt.call_ids(),
                self._turn.conversation_id,
                broken,
                attempt.forwarded,
                self._turn.opening.name.digest,
            )
            began = monotonic()
            seen = None if self._noted else self._seen()
            self._noted = True
            turn, memory = self._turn, self._memory
            by_ids = turn.dialect.client.call_ids and remembered.has_ids
            placeless = by_ids or turn.prepared.unread is not None
            before = None if placeless else turn.originals.fingerprint
            opening = b"" if placeless else turn.opening.digest
            if turn.prepared.unread is None:
                recent = RecentConversation(turn.conversation, reply.message, not turn.prepared.is_part)
                memory.recent.keep(turn.caller, turn.conversation_id, recent, turn.size)
            await memory.remember(turn.caller, before, remembered, seen, opening=opening)
            if attempt.forwarded:
                await memory.remember_words(turn.caller, reply.message)
            self._report.store_seconds += monotonic() - began
        if self._keep is not None and not broken:
            stored_at = attempt.origin.provider if attempt.forwarded else ""
            await self._keep(self._turn, attempt.whole(reply), stored_at)

    def _seen(self) -> ConversationInfo:
        turn, report = self._turn, self._report
        return ConversationInfo(
            id=turn.conversation_id,
            caller=turn.caller,
            client=report.client[:200],
            door=turn.dialect.name,
            asked=turn.asked,
            route=report.route,
        )

    async def _remember_broken(self, attempt: RouteAttempt, *, too_large: bool = False) -> None:
        """`too_large`: it went beyond the limits of a reply. To remember it would take several times as much again."""
        if self._events and self._committed and not too_large:
            await self._remember(attempt, self._folded(attempt), broken=True)


def _may_go_elsewhere(error: SegueError) -> bool:
    """Whether another route may take what this one did not: it failed, or refused in its own way."""
    return not isinstance(error, InvalidRequestError) and error.remedy != "report"

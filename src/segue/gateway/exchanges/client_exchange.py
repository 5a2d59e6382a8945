"""What a client gets of an exchange: its reply, encoded piece by piece and remembered.

What precedes the first content of a stream is held back, so that a failure before it is never seen. After it the stream
ends with an error in the client's own wire, and what came is remembered as broken off.
"""

from __future__ import annotations

import asyncio
from time import monotonic, time
from typing import TYPE_CHECKING, Final, final

from msgspec import structs

from segue.conversation.blocks import Text
from segue.conversation.events import Finished, ReplyStarted, UsageReported
from segue.conversation.message import Message, mint_missing
from segue.conversation.usage import NO_USAGE
from segue.exchange.exchange import Asker, ask_one_after_another
from segue.gateway.conversations.references import error_of_holder
from segue.gateway.conversations.turns import plain_turn
from segue.gateway.exchanges.attempts import ForwardedAttempt
from segue.gateway.exchanges.provider_state import fixed_settings
from segue.gateway.exchanges.usage_estimates import mark_estimate
from segue.gateway.memory.recent import RecentConversation
from segue.gateway.memory.replies import RememberedReply
from segue.gateway.memory.store import ConversationInfo
from segue.gateway.requests.client_errors import (
    counts_of,
    for_client,
    log_failure,
    number_of_kinds,
    strict_error,
    write_error,
)
from segue.gateway.requests.web import JSON_TYPE, WebResponse
from segue.gateway.stored_objects.reply_archive import ReplyOrigin
from segue.gateway.telemetry.report import AttemptReport
from segue.transports.reply_meter import TOO_LARGE

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from segue.conversation.events import Event, Reply
    from segue.dialects.server_side.references import Reference
    from segue.dialects.server_side.wire_server import Reframe
    from segue.errors import SegueError
    from segue.exchange.attempt import Attempt
    from segue.gateway.conversations.turns import ClientTurn
    from segue.gateway.exchanges.attempts import ClientAttempt
    from segue.gateway.exchanges.members import Members
    from segue.gateway.memory.conversation_notes import ConversationNotes
    from segue.gateway.memory.memory import Memory
    from segue.gateway.prompt_caches.forecasts import CacheForecast
    from segue.gateway.requests.web import ResponseWriter
    from segue.gateway.telemetry.report import RequestReport
    from segue.gateway.watcher import GatewayWatcher
    from segue.providers.models.prices import PriceBook
    from segue.routing.route import Route
    from segue.routing.router import Routing

_LIFECYCLE: Final = frozenset[type]({ReplyStarted, UsageReported, Finished})
"""Without content."""


class ReportingAsker(Asker):
    """Reports each attempt of a request, and holds a place at its route meanwhile."""

    def __init__(self, report: RequestReport, members: Members) -> None:
        self._report = report
        self._members = members
        self._entered = ""
        """The route at which this request has a place."""

    def _enter(self, route: Route) -> AttemptReport:
        """Raises if the route has as many requests as it may have."""
        tried = AttemptReport(route=route.name, began=self._report.moment_of(monotonic()))
        self._report.tries.append(tried)
        self._members.enter(route.name)
        self._entered = route.name
        return tried

    def ended(self, route: Route, attempt: Attempt | None, error: SegueError | None) -> None:
        if self._entered:
            self._members.leave(self._entered)
            self._entered = ""
        if attempt is not None and (headroom := attempt.provider.headroom) is not None:
            self._report.headroom[route.name] = headroom.of(route.model)
        tried = self._report.tries[-1]
        # It begins when its request leaves: what the gateway does before, such as rendering, is its own time.
        began = tried.began if attempt is None else self._report.moment_of(attempt.began)
        tried.began, tried.seconds = began, self._report.moment_of(monotonic()) - began
        if error is None:
            tried.error = "" if attempt is not None and attempt.complete else "cancelled"
            return
        tried.error = error.code
        log_failure(error, route.name, self._report.request_id)
        error.__traceback__ = None  # what failed is kept until the end, and its frames hold what had come


@final
class ClientExchange(ReportingAsker):
    """Serves one request for a reply."""

    def __init__(
        self,
        turn: ClientTurn,
        writer: ResponseWriter,
        report: RequestReport,
        *,
        memory: Memory,
        members: Members,
        keep: Callable[[ClientTurn, bytes, ReplyOrigin], Awaitable[None]] | None = None,
        notes: ConversationNotes,
        watcher: GatewayWatcher | None = None,
    ) -> None:
        """`keep` gets a complete reply as a whole, and who made it. `watcher` gets each attempt before it is sent."""
        super().__init__(report, members)
        self._turn = turn
        self._asking = turn
        """The same as the present route is asked: perhaps without what it refused, or with replies that could not be read."""
        self._writer = writer
        self._memory = memory
        self._keep = keep
        self._notes = notes
        self._caches = members.caches
        self._forecast: CacheForecast | None = None
        self._watcher = watcher
        self._noted = False
        self._keep_alive = members.keep_alive
        self._attempt: ClientAttempt | None = None
        self._spent = NO_USAGE
        """On replies of this route that could not be read."""
        self._not_held: Reference | None = None
        self._failed: SegueError | None = None
        """What is referred to and a route does not hold; and why another one failed, that may hold it."""
        self._held: list[bytes] = []
        self._end: list[bytes] = []
        """Of a forwarded stream, what comes from its end on."""
        self._reframe: Reframe | None = turn.door.reframed(turn.request.query, stream=turn.stream)
        writer.reframe = self._reframe
        self._alive: asyncio.TimerHandle | None = None
        self._beat: asyncio.Future[None] | None = None
        self._last_write = 0.0
        self._committed = False
        """Whether the client has got something of a reply: then nobody else may answer."""

    async def run(self, routings: list[Callable[[], Routing]], *, known: bool) -> None:
        """Try the routings one after another. What fails in the end is written as an error of the client's wire. `known`: the store
        has the conversation."""
        self._notes.asked(self._seen(), known=known)
        self._start_beat()
        try:
            try:
                _, error = await ask_one_after_another(self, routings)
            except asyncio.CancelledError:
                if self._attempt is not None:
                    await self._remember_broken(self._attempt)
                raise
            not_held = self._not_held if error is None else self._not_held or self._lost_there(error)
            if error is not None and not_held is not None:
                error = error_of_holder(not_held, self._failed)
            attempt = self._attempt
            if error is None and attempt is not None:
                await self._finish(attempt)
            elif error is not None and attempt is not None and self._committed:
                await self._break_off(attempt, error)
        finally:
            self._stop_beat()
            self._notes.ended(self._seen(), remembered=self._noted)
        if error is not None and not self._committed:
            await self._fail(error)

    def _lost_there(self, error: SegueError) -> Reference | None:
        """What we do not hold and its provider refuses to go on with, in words after which clients do not send everything (THR-16)."""
        if self._committed:
            return None
        return next((one for one in self._turn.prepared.references if error.code in one.fatal), None)

    # What the engine asks of whoever asks

    @property
    def shown(self) -> bool:
        return self._committed

    async def attempt(self, route: Route) -> ClientAttempt:
        report = self._report
        report.attempts += 1
        if report.route != route.name:
            report.failovers += report.attempts > 1
            report.route, self._asking, self._spent = route.name, self._turn, NO_USAGE
        self._attempt, self._held = None, []
        tried = self._enter(route)
        self._attempt = attempt = self._members.attempt(self._asking, route, self._spent)
        tried.handovers = attempt.handovers
        report.forwarded = attempt.forwarded
        if self._watcher is not None:
            self._watcher.asks(report, attempt)
        return attempt

    def take(self, attempt: Attempt, events: list[Event], data: bytes) -> Awaitable[None] | None:
        if attempt.rejected is not None or (attempt.error is not None and not self._committed):
            return None
        if attempt.first_bytes is None:
            attempt.first_bytes = attempt.passed
        if attempt.first_content is None and not _LIFECYCLE.issuperset(map(type, events)):
            attempt.first_content = self._report.first_content = attempt.passed
            if self._turn.stream:
                return self._commit(data)
        if self._keep is not None and self._keeps_end(attempt, events):
            self._end.append(data)
            return None
        return self._writer.put(self._outgoing(data))

    def _keeps_end(self, attempt: Attempt, events: list[Event]) -> bool:
        """Whether the end of a forwarded stream has come that its client may continue as soon as it has it: it leaves when the
        reply is kept."""
        if not attempt.forwarded or not self._committed:
            return False
        return bool(self._end) or (bool(events) and type(events[-1]) is Finished)

    def ended(self, route: Route, attempt: Attempt | None, error: SegueError | None) -> None:
        super().ended(route, attempt, error)
        if error is None:
            return
        refused = [one for one in self._turn.prepared.references if one.refusal is error]
        self._not_held, self._failed = (refused[0], self._failed) if refused else (self._not_held, error)

    async def send_whole(self, route: Route, attempt: Attempt) -> bool:
        del route, attempt
        prepared = self._asking.prepared
        changed = (
            prepared.changed or prepared.whole is None
        )  # else its bytes were made whole, and can be forwarded
        prepared = structs.replace(prepared, native=None, changed=changed)
        self._asking = structs.replace(self._asking, prepared=prepared)
        return True

    async def hold_nothing(self, route: Route, error: SegueError) -> bool:
        if not self._members.refuses_state(self._turn, route, error):
            return False
        prepared = structs.replace(self._asking.prepared, stateless=True)
        self._asking = structs.replace(self._asking, prepared=prepared)
        return True

    async def correct(self, attempt: Attempt, note: str) -> None:
        asked = Message("user", (Text(note),), instruction=True)
        conversation = self._asking.conversation.append(attempt.reply.message).append(asked)
        self._asking = structs.replace(self._asking, conversation=conversation)
        self._spent = self._spent.plus(attempt.usage)

    async def simplify(self, route: Route, attempt: Attempt, error: SegueError) -> bool:
        """A history from elsewhere may hold what this account or model cannot take: once more without it, if it is whole."""
        turn = self._turn
        if turn.prepared.is_part or not self._members.uses_wire_of(turn, route):
            return False
        plain = await plain_turn(turn, self._memory, planned=attempt.forwarded)
        if plain is None:
            return False
        dropped = [
            repair
            for repair in plain.repairs
            if repair.kind != "field_corrected" and repair not in turn.repairs
        ]
        if refused := turn.refused(dropped):
            raise strict_error(refused, route.name, refusal=error.message)
        self._asking = plain
        return True

    # Writing

    def _commit(self, data: bytes) -> Awaitable[None] | None:
        """The first content has arrived: from now on this member answers."""
        attempt = self._attempt
        assert attempt is not None  # noqa: S101 - content is that of an attempt
        self._committed = True
        headers = self._headers(attempt, (self._reframe or self._turn.dialect.server).stream_type)
        if attempt.forwarded:
            self._stop_beat()
        if not self._turn.prepared.kept and (self._watcher is None or not self._watcher.keeps_bodies):
            self._turn.request.free()
            attempt.free()
        if not self._writer.started:
            self._writer.begin(200, headers)
        held, self._held = b"".join([*self._held, data]), []
        return self._writer.put(self._outgoing(held))

    def _outgoing(self, data: bytes) -> bytes:
        """What the client gets of it now: nothing before the first content."""
        if not data:
            return b""
        if not self._committed:
            self._held.append(data)
            return b""
        self._last_write = monotonic()
        return data if self._reframe is None else self._reframe.feed(data)

    async def _finish(self, attempt: ClientAttempt) -> None:
        """The reply is complete: it is remembered before its last byte leaves."""
        reply = self._minted(attempt)
        self._report.answer = reply.message
        if not self._turn.stream:
            body = attempt.whole(reply)
            await self._remember(attempt, reply)
            if self._reframe is not None:
                body = self._reframe.feed(body) + self._reframe.close()
            headers = self._headers(attempt, JSON_TYPE)
            await self._writer.whole(WebResponse(headers=headers, body=body))
            return
        if not self._committed:
            self._report.first_content = attempt.passed
            if (wait := self._commit(b"")) is not None:
                await wait
        self._stop_beat()
        await self._remember(attempt, reply)
        last = b"".join(self._end) + attempt.close()
        if self._reframe is not None:
            last = self._reframe.feed(last) + self._reframe.close()
        await self._writer.end(last)

    async def _break_off(self, attempt: ClientAttempt, error: SegueError) -> None:
        self._stop_beat()
        self._report.error = error.code
        await self._remember_broken(attempt, too_large=error.code in TOO_LARGE)
        last = b"".join(self._end) + attempt.broken(for_client(error))
        if self._reframe is not None:
            last = self._reframe.feed(last) + self._reframe.close()
        await self._writer.end(last)

    async def _fail(self, error: SegueError) -> None:
        self._report.error = error.code
        await write_error(self._writer, error, self._turn.dialect)

    def _headers(self, attempt: ClientAttempt, content_type: str) -> Mapping[str, str]:
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
        if (forecast := self._forecast_of(attempt)) is not None:
            counted = next(
                (one.usage for one in reversed(attempt.events) if type(one) is UsageReported), None
            )
            headers["x-segue-cache"] = self._caches.header(forecast, counted)
        if self._turn.stream:
            headers["cache-control"] = "no-cache"
        return headers

    # What the provider's cache should give

    def _forecast_of(self, attempt: ClientAttempt) -> CacheForecast | None:
        """None where the provider holds a part of the prompt: what is not sent cannot be compared."""
        if attempt.shortcut or self._turn.prepared.is_part:
            return None
        if self._forecast is None or self._forecast.body is not attempt.wire_body:
            turn = self._turn
            self._forecast = self._caches.forecast(
                turn.conversation_id,
                attempt.route,
                attempt.origin.dialect,
                attempt.wire_body,
                last_route=turn.last_route,
            )
        return self._forecast

    def note_cache(self, prices: PriceBook) -> None:
        """The exchange has ended: report what became of the cache."""
        attempt = self._attempt
        if attempt is None or not attempt.complete or not attempt.handovers:
            return
        if (forecast := self._forecast_of(attempt)) is not None:
            self._report.cache = self._caches.ended(forecast, attempt.handovers[-1].usage, prices)

    # Keeping the connection open

    def _start_beat(self) -> None:
        if self._turn.stream and self._turn.dialect.server.keep_alive and self._reframe is None:
            self._last_write = monotonic()
            loop = asyncio.get_running_loop()
            self._alive = loop.call_later(self._keep_alive, self._on_silence)

    def _on_silence(self) -> None:
        silent = monotonic() - self._last_write
        loop = asyncio.get_running_loop()
        if silent >= self._keep_alive and (self._beat is None or self._beat.done()):
            self._last_write = monotonic()
            if (wait := self._send_keep_alive()) is not None:
                self._beat = asyncio.ensure_future(wait)
            silent = 0.0
        self._alive = loop.call_later(max(self._keep_alive - silent, 0.01), self._on_silence)

    def _send_keep_alive(self) -> Awaitable[None] | None:
        """Also before the first content: the response begins, and the next member may still answer it."""
        server = self._turn.dialect.server
        if not self._writer.started:
            headers = {
                "content-type": server.stream_type,
                "x-segue-conversation": self._turn.conversation_id,
                "cache-control": "no-cache",
            }
            self._writer.begin(200, headers)
        return self._writer.put(server.keep_alive)

    def _stop_beat(self) -> None:
        if self._alive is not None:
            self._alive.cancel()
            self._alive = None

    # Memory

    def _minted(self, attempt: ClientAttempt) -> Reply:
        """The reply as it stands in the conversation, its calls with canonical ids."""
        message, _ = mint_missing(attempt.reply.message, self._turn.conversation.minted)
        return structs.replace(attempt.reply, message=message)

    async def _remember(self, attempt: ClientAttempt, reply: Reply, *, broken: bool = False) -> None:
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
                memory.recent.keep_last(turn.caller, turn.conversation_id, recent, turn.size)
            await memory.remember(turn.caller, before, remembered, seen, opening=opening)
            if attempt.forwarded:
                await memory.remember_words(turn.caller, reply.message)
            self._report.store_seconds += monotonic() - began
        if self._keep is not None and not broken:
            made = attempt.origin
            origin = ReplyOrigin(
                made.provider,
                made.endpoint,
                made.model,
                reply.id,
                attempt.held,
                time(),
                fixed_settings(attempt.request) if attempt.held else "",
            )
            await self._keep(self._turn, attempt.whole(reply), origin)

    def _seen(self) -> ConversationInfo:
        turn, report = self._turn, self._report
        return ConversationInfo(
            id=turn.conversation_id,
            caller=turn.caller,
            client=report.client[:200],
            door=turn.dialect.name,
            asked=turn.asked,
            route=report.route,
            session=turn.session,
        )

    async def _remember_broken(self, attempt: ClientAttempt, *, too_large: bool = False) -> None:
        """`too_large`: it went beyond the limits of a reply. To remember it would take several times as much again."""
        if attempt.events and self._committed and not too_large:
            await self._remember(attempt, self._minted(attempt), broken=True)

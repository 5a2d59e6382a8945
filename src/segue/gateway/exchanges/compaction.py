"""A conversation compacted for a client that asks its server for that: a summary, in a capsule that only we can open."""

from __future__ import annotations

from secrets import token_hex
from time import monotonic, time
from typing import TYPE_CHECKING, Any, Final, final

import msgspec
from msgspec import structs

from segue.conversation.blocks import Origin
from segue.conversation.events import Event, Failed, Finished, ReplyStarted, Sealed, UsageReported, fold
from segue.conversation.message import user
from segue.dialects.server_side import stored_replies as stored
from segue.errors import ProtocolError, SegueError
from segue.exchange.attempt import Attempt, Piece
from segue.exchange.exchange import ask_one_after_another
from segue.exchange.handovers import sum_of
from segue.gateway.exchanges.client_exchange import ReportingAsker
from segue.gateway.requests.web import JSON_TYPE, WebResponse
from segue.routing.route import provider_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from segue.conversation.events import Reply
    from segue.gateway.conversations.turns import ClientTurn
    from segue.gateway.exchanges.members import Members
    from segue.gateway.memory.memory import Memory
    from segue.gateway.telemetry.report import RequestReport
    from segue.providers.registry import KnownProviders
    from segue.routing.route import Route

INSTRUCTION: Final = (
    "Write a summary of this conversation for yourself: it will replace the conversation, and the work continues from it. "
    "Keep the task and every instruction of the user, what was done and found so far with exact names, paths, commands "
    "and values, what failed and why, and what is left to do. Write the summary only, and call no tools."
)


@final
class _SummaryAttempt(Attempt):
    """An empty summary is none."""

    def received(self, events: list[Event], data: bytes) -> Piece:
        if type(events[-1]) is Finished and not fold(self.events, self.origin).message.text.strip():
            return [Failed(ProtocolError(f"{self.route} gave an empty summary.", code="no_summary"))], data
        return super().received(events, data)


@final
class _SummaryAsker(ReportingAsker):
    """Asks for the summary of a turn: nobody listens while it is written."""

    def __init__(
        self, turn: ClientTurn, report: RequestReport, members: Members, providers: KnownProviders
    ) -> None:
        super().__init__(report, members)
        self._turn = turn
        self._providers = providers
        self._began = monotonic()

    async def attempt(self, route: Route) -> Attempt:
        provider, turn = provider_of(route, self._providers), self._turn
        self._report.route = route.name
        tried = self._enter(route)
        request = self._members.request(turn, route)
        self._members.require_whole(turn, provider, request)
        attempt = _SummaryAttempt(provider, request, route=route.name)
        tried.handovers = attempt.handovers
        return attempt

    def ended(self, route: Route, attempt: Attempt | None, error: SegueError | None) -> None:
        super().ended(route, attempt, error)
        if attempt is not None and attempt.complete:
            self._report.first_content = monotonic() - self._began


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
        conversation = turn.conversation.append(user(INSTRUCTION))
        options = structs.replace(
            turn.options, tool_choice="none" if turn.tools else None, response_schema=None
        )
        asked = structs.replace(turn, conversation=conversation, options=options, bound="")
        asker = _SummaryAsker(asked, report, self._members, self._providers)
        attempt, error = await ask_one_after_another(asker, self._members.routings(asked, switched))
        if attempt is None or error is not None:
            raise error or ProtocolError("No member gave a summary.", code="no_summary")
        # An estimate of what it cost where its provider does not count.
        return structs.replace(attempt.reply, usage=sum_of(one.usage for one in attempt.handovers))

    async def compacted(self, turn: ClientTurn, report: RequestReport, switched: str) -> WebResponse | None:
        """The compacted conversation that a chat asks for; None if it asks for none, or the provider makes it itself."""
        if not turn.prepared.asks_for_compaction:
            return None
        answering = self._members.names.router(switched or turn.asked).routes[0]
        if not turn.changed and self._members.is_native(turn, answering):
            return None
        summary, item = await self.compact(turn, report, switched)
        events = compacted_events(item, f"resp_{token_hex(24)}", turn, summary)
        dialect = turn.dialect
        if not turn.stream:
            body = dialect.encode_reply(fold(events, Origin(dialect.name, model=turn.asked)))
            return WebResponse(headers={"content-type": JSON_TYPE}, body=body)
        encoder = dialect.new_encoder(turn.asked)
        body = b"".join(map(encoder.feed, events)) + encoder.close()
        return WebResponse(headers={"content-type": dialect.server.stream_type}, body=body)

    async def compact(
        self, turn: ClientTurn, report: RequestReport, switched: str
    ) -> tuple[Reply, dict[str, Any]]:
        """A summary, and the item that its client carries instead of the conversation."""
        summary = await self.summarise(turn, report, switched)
        text = summary.message.text.encode("utf-8", "replace")
        return summary, stored.compacted_item(token_hex(16), self._memory.seal_capsule(turn.caller, text))

    def opener(self, caller: str) -> Callable[[str], str | None]:
        """Opens the payload of a compacted item; None if it is not one of ours."""

        def opened(payload: str) -> str | None:
            data = self._memory.open_capsule(caller, payload)
            return None if data is None else data.decode("utf-8", "replace")

        return opened


def compacted_events(item: dict[str, Any], reply_id: str, turn: ClientTurn, summary: Reply) -> list[Event]:
    """A reply that is nothing but a compacted item."""
    return [
        ReplyStarted(reply_id, turn.asked, created=time(), repeated=turn.repeated),
        Sealed(0, msgspec.json.encode(item).decode(), "encrypted", "text"),
        UsageReported(summary.usage),
        Finished("stop"),
    ]

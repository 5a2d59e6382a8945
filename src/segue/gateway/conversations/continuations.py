"""Requests that hold only what is new: made whole from the replies that we keep, before anything else is done with them.

The whole request is what a client would send that keeps its conversation itself. So no provider, plan, limit or memory sees a
difference. What we do not hold stays as it came: only the provider whose API this is may hold it (`references`).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from time import monotonic
from typing import TYPE_CHECKING, Final, final

import msgspec
from msgspec import Raw, Struct, structs

from segue.cache_budget import SizedCache
from segue.dialects.server_side.continuations import WholeRequest
from segue.errors import JournalError
from segue.gateway.conversations.references import held_reply
from segue.gateway.conversations.turns import NativeHold, PreparedRequest
from segue.gateway.requests.byte_budget import weight_of
from segue.gateway.stored_objects.reply_archive import history

if TYPE_CHECKING:
    from collections.abc import Collection

    from segue.gateway.doors.paths import Door
    from segue.gateway.requests.web import WebRequest
    from segue.gateway.stored_objects.reply_archive import ReplyArchive, ReplyNode

_LOG: Final = logging.getLogger("segue.gateway")
_FIELDS: Final = msgspec.json.Decoder(dict[str, Raw])
_KNOWN_BYTES: Final = 16 << 20
_KNOWN_SECONDS: Final = 600.0
"""After that all nodes are read again: what is not read expires."""


@final
class Continued(Struct, frozen=True):
    """What was put into a request."""

    parent: str = ""
    """The id of the reply that it continues; empty if it begins a conversation."""
    before: int = 0
    """How many messages come from there."""
    conversation: str = ""
    """The id of the conversation that it belongs to; empty if it is not known."""
    native: NativeHold | None = None
    """The provider that holds that reply, too."""
    whole: WholeRequest | None = None
    keeps: bool = True
    """Whether its own reply is to be kept because of that."""

    def noted_in(self, prepared: PreparedRequest) -> PreparedRequest:
        return structs.replace(
            prepared,
            kept=prepared.kept or self.keeps,
            parent=self.parent,
            before=self.before,
            conversation_id=self.conversation,
            native=self.native,
            whole=None if prepared.changed else self.whole,
        )


@final
class JoinedMessages(Struct, frozen=True):
    """The messages of a conversation up to the end of a reply, joined."""

    messages: bytes
    count: int
    seen: float
    """When all of its nodes were last looked at, by the clock of this process."""
    deletions: bytes = b""
    """What was known then of replies that its caller has deleted."""
    settings: str = ""
    """What leads to the settings of its last node, and these."""
    carried: Mapping[str, Raw] = {}


_NOTHING: Final = JoinedMessages(b"", 0, 0.0)


@final
class ContinuationReader:
    """Makes whole requests."""

    def __init__(self, archive: ReplyArchive) -> None:
        self._archive = archive
        self.known: SizedCache[tuple[str, str, str], JoinedMessages] = SizedCache(_KNOWN_BYTES)
        """By caller, wire and reply: a conversation of hundreds of turns is not read anew at each of them."""

    async def read(
        self, door: Door, request: WebRequest, caller: str, names: Collection[str] | None = None
    ) -> tuple[WebRequest, Continued | None]:
        """The request as its client would send it that keeps everything itself, and what was put in; None if it is such a one,
        or continues what we do not hold. `names`: of its outermost fields, if it was read."""
        wire = door.dialect.server.continuations
        if wire is None or (names is not None and wire.field not in names):
            return request, None
        try:
            fields = _FIELDS.decode(request.body)
            previous = wire.previous(fields)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return request, None  # whoever reads it says what is wrong with it
        if previous is None:
            return request, None
        carried: Mapping[str, Raw] = {}
        before, conversation, native = _NOTHING, "", None
        if previous:
            held = await self._held(door, caller, previous)
            if held is None:
                return request, None
            last, before = held
            carried = before.carried
            if (error := wire.unfit(fields, last.reply)) is not None:
                raise error
            conversation, native = last.conversation, held_reply(last.origin)
        try:
            made = wire.whole(fields, carried, before.messages)
        except msgspec.DecodeError:
            return request, None
        whole = structs.replace(
            request, body=made.body, headers=wire.headers(request.headers), weight=weight_of(made.body)
        )
        return whole, Continued(previous, before.count, conversation, native, made, wire.keeps)

    async def _held(self, door: Door, caller: str, previous: str) -> tuple[ReplyNode, JoinedMessages] | None:
        """That reply, and all messages up to its end with their settings; None if something of it is gone."""
        try:
            found, deletions = await self._archive.find_latest(caller, previous, door.dialect.name)
            wire = door.dialect.server.continuations
            if found is None or wire is None or not (found.whole and wire.can_be_continued(found.reply)):
                return None
            before = await self._history(door, caller, previous, found, deletions)
        except JournalError as error:
            _LOG.warning("A conversation was not looked up: %s", error)
            return None
        return None if before is None else (found, before)

    async def _history(
        self, door: Door, caller: str, name: str, last: ReplyNode, deletions: bytes
    ) -> JoinedMessages | None:
        wire, dialect = door.dialect.server.continuations, door.dialect.name
        assert wire is not None  # noqa: S101 - else nothing is continued
        parent = caller, dialect, last.parent
        is_next = last.parent and not (last.replaced or last.ambiguous or last.removed)
        known = self.known.get(parent) if is_next else None
        is_old = known is not None and monotonic() - known.seen >= _KNOWN_SECONDS
        if known is not None and (is_old or known.deletions != deletions):
            known = None
        if known is not None and known.settings == last.settings:
            carried: Mapping[str, Raw] | None = known.carried
        else:
            carried = await self._archive.settings(caller, last)
        if carried is None:
            return None
        if known is not None:
            new = [*last.input, *wire.messages_of(last.reply)]
            joined = b",".join([known.messages, wire.joined(new)]) if new else known.messages
            count, seen = known.count + len(new), known.seen
        else:
            chain = await self._archive.chain(caller, last)
            if chain is None:
                return None
            messages = history(chain, wire.messages_of)
            joined, count, seen = wire.joined(messages), len(messages), monotonic()
        made = JoinedMessages(joined, count, seen, deletions, last.settings, carried)
        self.known.drop(parent)
        size = len(made.messages) + sum(map(len, carried.values()))
        self.known.keep((caller, dialect, name), made, size)
        return made

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
from segue.gateway.stored_objects.conversation_objects import locked
from segue.gateway.stored_objects.reply_archive import ReplyNode, history, removed_before
from segue.gateway.stored_objects.stored_conversation import HeldConversation

if TYPE_CHECKING:
    from segue.gateway.doors.paths import Door
    from segue.gateway.requests.web import WebRequest
    from segue.gateway.stored_objects.conversation_objects import ConversationObjects
    from segue.gateway.stored_objects.reply_archive import ReplyArchive


_LOG: Final = logging.getLogger("segue.gateway")
_FIELDS: Final = msgspec.json.Decoder(dict[str, Raw])
_COMMA: Final = weight_of(b",")
_MOST_PIECES: Final = 32
_KNOWN_BYTES: Final = 16 << 20
_KNOWN_SECONDS: Final = 600.0
"""After that all nodes are read again: what is not read expires."""


@final
class Continued(Struct, frozen=True):
    """What was put into a request."""

    parent: str = ""
    """The id of the reply that it continues; empty if it begins a conversation."""
    last: ReplyNode | None = None
    """That reply."""
    before: int = 0
    """How many messages come from there."""
    conversation: str = ""
    """The id of the conversation that it belongs to; empty if it is not known."""
    native: NativeHold | None = None
    """The provider that holds that reply, too."""
    whole: WholeRequest | None = None
    keeps: bool = True
    """Whether its own reply is to be kept because of that."""
    held: HeldConversation | None = None
    """The conversation object that its turn is added to."""
    removed: tuple[int, ...] = ()
    """The places of deleted items, among all before it."""

    def noted_in(self, prepared: PreparedRequest) -> PreparedRequest:
        return structs.replace(
            prepared,
            kept=prepared.kept or self.keeps,
            parent=self.parent,
            last=self.last,
            before=self.before,
            conversation_id=self.conversation,
            native=self.native,
            held=self.held,
            removed=self.removed,
            whole=None if prepared.changed else self.whole,
        )


@final
class JoinedMessages(Struct, frozen=True):
    """The messages of a conversation up to the end of a reply, joined."""

    messages: tuple[bytes, ...]
    """In pieces, the last ones of a turn each: what is long is not copied at each turn."""
    count: int
    weight: int
    seen: float
    """When all of its nodes were last looked at, by the clock of this process."""
    deletions: bytes = b""
    """What was known then of replies that its caller has deleted."""
    removed: frozenset[int] = frozenset()
    """The places of items that were left out, because they were deleted."""
    settings: str = ""
    """What leads to the settings of its last node, and these."""
    carried: Mapping[str, Raw] = {}


_NOTHING: Final = JoinedMessages((), 0, 0, 0.0)


@final
class ContinuationReader:
    """Makes whole requests."""

    def __init__(self, archive: ReplyArchive, objects: ConversationObjects) -> None:
        self._archive = archive
        self._objects = objects
        self.known: SizedCache[tuple[str, str, str], JoinedMessages] = SizedCache(_KNOWN_BYTES)
        """By caller, wire and reply: a conversation of hundreds of turns is not read anew at each of them."""

    async def read(self, door: Door, request: WebRequest, caller: str) -> tuple[WebRequest, Continued | None]:
        """The request as its client would send it that keeps everything itself, and what was put in; None if it is such a one,
        or continues what we do not hold."""
        wire = door.dialect.server.continuations
        if wire is None:
            return request, None
        try:
            fields = _FIELDS.decode(request.body)
            added_to = wire.conversation(fields)
            previous = None if added_to else wire.previous(fields)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return request, None  # whoever reads it says what is wrong with it
        held = await self._objects.find(caller, added_to) if added_to else None
        if held is not None:
            previous = held.revision.head
        if previous is None:
            return request, None
        last, before, conversation, native = None, _NOTHING, "", None
        if previous:
            found = await self._find(door, caller, previous, held)
            if found is None:
                return request, None
            last, before = found
            if (error := wire.unfit(fields, last.reply)) is not None:
                raise error
            # An item that was deleted behind that reply is not deleted where the reply is held.
            is_held = before.removed == {*last.removed}
            conversation, native = last.conversation, held_reply(last.origin) if is_held else None
        if held is not None:
            await self._archive.check()
        try:
            made = wire.whole(fields, before.carried, before.messages)
        except msgspec.DecodeError:
            return request, None
        # All that is in it was weighed before.
        weight = request.weight or weight_of(request.body)
        weight += before.weight + sum(weight_of(bytes(value)) for value in before.carried.values())
        whole = structs.replace(request, body=made.body, headers=wire.headers(request.headers), weight=weight)
        return whole, Continued(
            parent=previous,
            last=last,
            before=before.count,
            conversation=conversation,
            native=native,
            whole=made,
            keeps=wire.keeps or held is not None,
            held=held,
            removed=tuple(sorted(before.removed)),
        )

    async def _find(
        self, door: Door, caller: str, name: str, held: HeldConversation | None
    ) -> tuple[ReplyNode, JoinedMessages] | None:
        """That reply, and all messages up to its end with their settings; None if something of it is gone. `held`: the conversation
        object that ends with it, if it is not named by itself."""
        try:
            found, deletions = await self._archive.find_latest(caller, name, door.dialect.name)
            wire = door.dialect.server.continuations
            if found is None or wire is None:
                return None
            if held is None and not (found.whole and wire.can_be_continued(found.reply)):
                return None
            if held is not None and found.is_being_made:
                raise locked(held.id)
            removed = None if held is None else held.removed
            before = await self._history(door, caller, name, found, deletions, removed)
        except JournalError as error:
            if held is not None:
                raise
            _LOG.warning("A conversation was not looked up: %s", error)
            return None
        return None if before is None else (found, before)

    async def _history(
        self,
        door: Door,
        caller: str,
        name: str,
        last: ReplyNode,
        deletions: bytes,
        removed: frozenset[int] | None,
    ) -> JoinedMessages | None:
        """All messages up to the end of a reply without those in the places that were `removed`; None: only those that it was made
        without itself."""
        wire, dialect = door.dialect.server.continuations, door.dialect.name
        assert wire is not None  # noqa: S101 - else nothing is continued
        own, parent = (caller, dialect, name), (caller, dialect, last.parent)
        new: list[Raw] = []
        known = self.known.get(own)
        if known is None and last.parent and not last.replaced:
            known, new = self.known.get(parent), [*last.input, *wire.messages_of(last.reply)]
        if known is not None:
            is_old = monotonic() - known.seen >= _KNOWN_SECONDS
            left_out = frozenset(last.removed) if removed is None else removed
            if is_old or last.ambiguous or known.deletions != deletions or known.removed != left_out:
                known = None
        if known is not None and known.settings == last.settings:
            carried: Mapping[str, Raw] | None = known.carried
        else:
            carried = await self._archive.settings(caller, last)
        if carried is None:
            return None
        if known is not None:
            behind = wire.joined(new)
            joined = (*known.messages, behind) if new else known.messages
            joined = (b",".join(joined),) if len(joined) > _MOST_PIECES else joined
            count, seen, left_out = known.count + len(new), known.seen, known.removed
            weight = known.weight + weight_of(behind) + _COMMA
        else:
            chain = await self._archive.chain(caller, last)
            if chain is None:
                return None
            left_out = removed_before(chain).union(removed or ())
            messages = history(chain, wire.messages_of, removed=left_out)
            behind, count, seen = wire.joined(messages), len(messages), monotonic()
            joined = (behind,) if messages else ()
            weight = weight_of(behind) + _COMMA
        made = JoinedMessages(joined, count, weight, seen, deletions, left_out, last.settings, carried)
        self.known.drop(parent)
        if last.beat:  # it may be written once more
            return made
        size = sum(map(len, joined)) + sum(map(len, carried.values()))
        self.known.keep(own, made, size)
        return made

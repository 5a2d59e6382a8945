"""What a request refers to: put in where we hold it, else left for the one provider that may hold it, or refused.

This is the first step of every request, whatever it asks for. What stands for content becomes messages here, or goes along with
the turn as a `Reference`: from then on no way leads to a model that would not get it. Only `Members` decides about it again,
for each route: the field goes to a provider that may hold it, and to all others the client's wire has its own words of refusal.
"""

from __future__ import annotations

from secrets import token_hex
from typing import TYPE_CHECKING, Any, final

import msgspec
from msgspec import structs

from segue.dialects.gemini import cached_contents
from segue.dialects.registry import DIALECTS
from segue.dialects.server_side import stored_replies as stored
from segue.dialects.server_side.references import Reference, filled, references_in
from segue.dialects.server_side.stored_wires import stored_wire
from segue.gateway.conversations.turns import NativeHold, PreparedRequest, read_fields, streams
from segue.gateway.stored_objects.file_owners import FileOwners
from segue.gateway.stored_objects.reply_archive import history
from segue.providers.hosts.addresses import find_address, is_home

if TYPE_CHECKING:
    from collections.abc import Mapping

    from segue.dialects.caches.read_cache import ReadRequest
    from segue.errors import SegueError
    from segue.gateway.conversations.turns import ClientTurn
    from segue.gateway.doors.paths import Door
    from segue.gateway.exchanges.compaction import ClientCompaction
    from segue.gateway.memory.memory import Memory
    from segue.gateway.stored_objects.cached_contents import HeldContents
    from segue.gateway.stored_objects.reply_archive import ReplyArchive, ReplyOrigin
    from segue.providers.adapter import RequestSent


@final
class ReferenceResolver:
    """Puts in what requests refer to, as far as we hold it."""

    def __init__(
        self,
        archive: ReplyArchive,
        compactor: ClientCompaction,
        memory: Memory,
        contents: HeldContents,
    ) -> None:
        self._archive = archive
        self._compactor = compactor
        self._memory = memory
        self._contents = contents
        self._files = FileOwners(memory)

    async def resolve(self, door: Door, fields: dict[str, Any], caller: str) -> PreparedRequest:
        """The body of the chat that a request asks for, with what it refers to: earlier replies, compacted items."""
        server = door.dialect.server
        if door.operation == "generate":
            return PreparedRequest(server.chat_request(fields), changed=True)
        prepared = await self._with_stored(door, fields, caller)
        prepared = await self._with_contents(door, prepared, caller)
        found = references_in(prepared.fields, server.references, door.dialect.name)
        await self._check_owner(found, caller)
        return await self._with_words(prepared, found, caller)

    async def _check_owner(self, found: list[Reference], caller: str) -> None:
        """Raises for what another caller got here: to this one it does not exist, whoever else holds it."""
        for reference in found:
            owners = self._archive if reference.stands_for == "history" else self._files
            if reference.stands_for in ("history", "file") and await owners.is_anothers(
                caller, reference.name
            ):
                raise reference.refusal

    async def _with_words(
        self, prepared: PreparedRequest, found: list[Reference], caller: str
    ) -> PreparedRequest:
        """With what was said in sounds that passed through here."""
        whole, missing = prepared.fields, [*prepared.references]
        for reference in found:
            words = await self._memory.words(caller, reference.name) if reference.fill is not None else ""
            if words:
                whole = filled(whole, reference, words)
            else:
                missing.append(reference)
        return structs.replace(prepared, fields=whole, references=tuple(missing))

    async def read_before(
        self, door: Door, body: bytes, read: ReadRequest, caller: str
    ) -> PreparedRequest | None:
        """The same of a request that was read. What was known of it is not looked at again: its bytes show whether there may be
        anything. None if something has to be put in first."""
        server, whole = door.dialect.server, read.fields
        table = server.references
        kept = False
        if server.stores_replies:
            wire = stored_wire(door.dialect.name)
            named = wire.previous(whole) or (server.item_marks and stored.conversation(whole))
            if read.refers or named or wire.is_background(whole):
                return None
            kept = wire.keeps(whole)
            if wire.insists(whole):
                await self._archive.check()
        if server.holds_contents and cached_contents.name_in(whole):
            return None
        if not read.refers:
            table = tuple(field for field in table if not field.marks)
        elif read.known:
            whole = read_fields(body)
        found = references_in(whole, table, door.dialect.name)
        if any(one.fill for one in found):
            return None
        await self._check_owner(found, caller)
        return PreparedRequest(read.fields, kept=kept, references=tuple(found))

    async def _with_contents(self, door: Door, prepared: PreparedRequest, caller: str) -> PreparedRequest:
        """With cached contents that its caller had made here."""
        if not door.dialect.server.holds_contents or not (name := cached_contents.name_in(prepared.fields)):
            return prepared
        if (found := await self._contents.find(caller, name)) is None:
            return prepared
        whole = cached_contents.inlined(prepared.fields, found.content)
        native = NativeHold(found.provider, found.model) if found.provider else None
        return structs.replace(prepared, fields=whole, changed=True, native=native)

    async def _with_stored(self, door: Door, fields: dict[str, Any], caller: str) -> PreparedRequest:
        """With replies and items of them that we have stored."""
        if not door.dialect.server.stores_replies:
            return PreparedRequest(fields)
        wire = stored_wire(door.dialect.name)
        if (error := wire.unserved(fields)) is not None:
            raise error
        if wire.insists(fields):
            await self._archive.check()
        compacts = bool(door.dialect.server.item_marks)
        prepared = PreparedRequest(
            fields,
            kept=wire.keeps(fields),
            asks_for_compaction=compacts and stored.asks_for_compaction(fields),
        )
        if wire.is_background(fields):
            followed = streams(door, fields)
            fields = wire.foreground(fields)
            reply_id = f"{door.dialect.client.reply_prefix}{token_hex(24)}"
            prepared = structs.replace(
                prepared, fields=fields, changed=True, reply_id=reply_id, followed=followed
            )
        if previous := wire.previous(fields):
            found = await self._archive.find(caller, previous, door.dialect.name)
            if found is None or not found.whole:  # the field stays, and only its provider knows it
                return structs.replace(prepared, at="" if found is None else found.provider)
            chain = await self._archive.chain(caller, found)
            # One before it was deleted, or it has no end: nobody gets an answer to a shortened conversation.
            if chain is None or not wire.can_be_continued(msgspec.json.decode(found.reply)):
                raise next(
                    iter(references_in(fields, door.dialect.server.references, door.dialect.name))
                ).refusal
            before = [msgspec.json.decode(item) for item in history(chain, wire.reply_items)]
            whole = wire.continued(fields, before)
            prepared = structs.replace(
                prepared,
                fields=whole,
                changed=True,
                parent=previous,
                before=len(before),
                native=held_reply(found.origin),
            )
        return await self._with_items(prepared, caller) if compacts else prepared

    async def _with_items(self, prepared: PreparedRequest, caller: str) -> PreparedRequest:
        """With items by their ids, and compacted ones as text. A conversation that is still named is held by its provider alone."""
        if stored.conversation(prepared.fields):
            return prepared
        if references := stored.references(prepared.fields):
            found_items = await self._archive.items(caller, references)
            prepared = _with_items(prepared, references, found_items)
        opened = stored.without_compaction(prepared.fields, self._compactor.opener(caller))
        if opened is not None:
            own = len(stored.input_items(opened)) == len(stored.input_items(prepared.fields))
            prepared = structs.replace(prepared, fields=opened, changed=prepared.changed or own, native=None)
        return prepared


def held_reply(origin: ReplyOrigin | None) -> NativeHold | None:
    """The reply at the provider that holds it too."""
    if origin is None or not origin.held or not origin.id:
        return None
    return NativeHold(
        origin.provider, origin.model, origin.endpoint, origin.id, fixed=origin.fixed, at=origin.at
    )


def _with_items(
    prepared: PreparedRequest,
    references: list[str],
    found: Mapping[str, tuple[Any, str]],
) -> PreparedRequest:
    """A request with the items that it refers to. They can be forwarded as references to the one provider that has all of them;
    or where we have none."""
    fields, unknown = stored.with_items(prepared.fields, {name: item for name, (item, _) in found.items()})
    holders = {found[name][1] for name in references if name in found}
    if prepared.at:
        holders.add(prepared.at)
    at = holders.pop() if len(holders) == 1 else ""
    changed = prepared.changed or (bool(found) and not at)
    missing = []
    if unknown is not None:
        missing.append(Reference(path="input[]", name="", stands_for="history", refusal=unknown))
    return structs.replace(prepared, fields=fields, at=at, changed=changed, references=tuple(missing))


def may_hold(turn: ClientTurn, provider: str) -> bool:
    """Whether a provider may hold all that a turn refers to: it is the one whose API the client uses, or one that nothing is
    known about but its address."""
    if is_home(provider, turn.dialect.name):
        return True
    known = find_address(provider)
    if known is not None and known.base_url and not known.places:
        return False
    return not any(reference.replayed for reference in turn.prepared.references)


def body_of_part(turn: ClientTurn) -> bytes | None:
    """The body of a turn that is only the end of a conversation, as it can be forwarded; None if something that it refers to is no
    longer in there."""
    prepared = turn.prepared
    if not prepared.changed:
        return turn.request.body
    missing = [one for one in prepared.references if one.stands_for == "history"]
    if any(one.path not in prepared.fields for one in missing):
        return None
    return msgspec.json.encode(prepared.fields)


def lost_in(turn: ClientTurn, planned: RequestSent | None) -> SegueError | None:
    """Why a planned request may not be sent: the refusal for the first thing that the client refers to and the plan does not.
    None if it has them all."""
    wanted = turn.prepared.references
    if planned is None or turn.prepared.is_part:
        return next((reference.refusal for reference in wanted), None)
    target = planned.origin.dialect
    fields = read_fields(planned.body)
    sent = {
        (one.stands_for, one.name)
        for one in references_in(fields, DIALECTS[target].server.references, target)
    }
    return next((one.refusal for one in wanted if (one.stands_for, one.name) not in sent), None)


def error_of_holder(reference: Reference, failed: SegueError | None) -> SegueError:
    """What a client gets whose request refers to something: why its holder failed, if one was asked. But whoever sends the whole
    conversation after a refusal is refused, for then another member can answer."""
    return reference.refusal if failed is None or reference.replayed else failed

"""Conversations that a server keeps as objects of their own (CNV-01 to CNV-04): items that every turn adds to.

A conversation is a head that leads to a node of the archive. Each change of it is a revision, and of two that are written at once
only the first counts. Whoever changes it has a lease meanwhile, so that a second turn is refused before a model is asked; the
lease of a gateway that died runs out.
"""

from __future__ import annotations

from hashlib import blake2b
from secrets import token_hex
from time import time
from typing import TYPE_CHECKING, Any, Final, final

import msgspec
from msgspec import Raw, Struct, structs

from segue.dialects.server_side import stored_replies as stored
from segue.errors import InvalidRequestError, JournalError, OverloadError, TranscriptError
from segue.gateway.conversations.turns import read_fields
from segue.gateway.requests.web import json_response
from segue.gateway.stored_objects.reply_archive import ReplyNode, full_history
from segue.gateway.stored_objects.stored_conversation import HeldConversation, Revision

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from segue.gateway.doors.paths import Door
    from segue.gateway.memory.memory import Memory
    from segue.gateway.requests.web import WebRequest, WebResponse
    from segue.gateway.stored_objects.reply_archive import ReplyArchive

MOST_ITEMS: Final = 20
_KIND: Final = "conversation object"
_REVISION: Final = "revision of a conversation"
_LATEST: Final = "latest revision of a conversation"
_LEASE: Final = "lease of a conversation"
_OVER: Final = "end of a lease"
_MOST_ASKED: Final = 16
"""Revisions that are looked for at once, at most; and leases, one after the other."""
_MOST_METADATA: Final = 16


class _Object(Struct):
    """A conversation. It is kept as JSON."""

    created: int
    revision: int | None = None
    """In records of earlier versions: it has at least so many. Now the number is beside it, so that a turn that ends after its
    conversation was deleted does not bring it back."""


class _Lease(Struct):
    token: str
    until: float


@final
class ConversationLease:
    """The right to change a conversation."""

    def __init__(self, objects: ConversationObjects, caller: str, held: HeldConversation, name: str) -> None:
        self._objects = objects
        self._caller = caller
        self._held = held
        self._name = name
        self._done = False

    async def advance(self, head: str = "", **fields: Any) -> None:
        """Write the next revision. Raises if that failed: the change was not made then."""
        before = self._held.revision
        made = structs.replace(before, token=token_hex(8), head=head or before.head, **fields)
        try:
            await self._objects.write_revision(self._caller, self._held, made)
        except JournalError as error:
            raise OverloadError(
                "The conversation could not be changed: its store does not answer.",
                code="store_away",
                hint="Send the request again.",
            ) from error
        self._done = True

    async def close(self) -> None:
        """Others may change it from now on."""
        if not self._done:
            await self._objects.end_lease(self._caller, self._name)


@final
class ConversationObjects:
    """Those of all callers."""

    def __init__(self, memory: Memory, archive: ReplyArchive, lease_seconds: float) -> None:
        """`lease_seconds`: no turn takes longer."""
        self._memory = memory
        self._archive = archive
        self._lease_seconds = lease_seconds

    async def find(self, caller: str, name: str) -> HeldConversation | None:
        """None if there is none, or it is another caller's."""
        data = await self._memory.get_object(caller, _KIND, name)
        if data is None:
            return None
        known = msgspec.json.decode(data, type=_Object)
        number, revision = await self._latest(caller, name, known)
        if revision is None:
            return None
        held = HeldConversation(name, known.created, number, revision, frozenset(revision.places))
        if len(held.removed) == len(revision.removed):
            return held
        if (items := await self._all_items(caller, held)) is None:
            return None
        places = frozenset(at for at, item in enumerate(items) if item["id"] in revision.removed)
        return structs.replace(held, removed=places)

    async def _all_items(self, caller: str, held: HeldConversation) -> list[dict[str, Any]] | None:
        """All items that there were, the oldest first, as clients list them; None if something is gone."""
        if not held.revision.head:
            return []
        last = await self._archive.find(caller, held.revision.head)
        chain = await self._archive.chain(caller, last) if last is not None else None
        if chain is None:
            return None
        given = full_history(chain, stored.reply_items)
        return _listed_items([*map(msgspec.json.decode, given)], held.id)

    async def _latest(self, caller: str, name: str, known: _Object) -> tuple[int, Revision | None]:
        """Its number, and None if it is not there: an older one is never taken for it."""
        counted = await self._memory.get_object(caller, _LATEST, name)
        if counted is None and known.revision is None:
            return 0, None
        number = max(int(counted or 0), known.revision or 0)
        return await self._latest_from(caller, name, number)

    async def _latest_from(self, caller: str, name: str, number: int) -> tuple[int, Revision | None]:
        latest: bytes | None = None
        step = 2  # nearly always the number is right: there is that one, and none behind it
        while True:
            wanted = [f"{name} {at}" for at in range(number, number + step)]
            step = min(2 * step, _MOST_ASKED)
            found = await self._memory.get_objects(caller, _REVISION, wanted)
            for one in wanted:
                if one not in found:
                    number -= latest is not None
                    return number, None if latest is None else msgspec.json.decode(latest, type=Revision)
                latest = found[one]
                number += 1

    async def lease(self, caller: str, held: HeldConversation) -> ConversationLease:
        """Raises if somebody else changes the conversation, or has done so since it was read."""
        token, number = token_hex(8), held.number + 1
        for at in range(_MOST_ASKED):
            name = f"{held.id} {number} {at}"
            over = await self._memory.get_object(caller, _OVER, name)
            if over is not None:
                continue
            mine = msgspec.json.encode(_Lease(token, time() + self._lease_seconds))
            theirs = msgspec.json.decode(
                await self._memory.put_first(caller, _LEASE, name, mine), type=_Lease
            )
            if theirs.token == token:
                if (await self._latest_from(caller, held.id, held.number))[0] == held.number:
                    return ConversationLease(self, caller, held, name)
                await self.end_lease(caller, name)
                break
            if theirs.until > time():
                break
        raise locked(held.id)

    async def end_lease(self, caller: str, name: str) -> None:
        await self._memory.put_object(caller, _OVER, name, b"1")

    async def write_revision(self, caller: str, held: HeldConversation, made: Revision) -> None:
        number = held.number + 1
        written = await self._memory.put_first(
            caller, _REVISION, f"{held.id} {number}", msgspec.json.encode(made)
        )
        if msgspec.json.decode(written, type=Revision).token != made.token:
            raise locked(held.id)
        await self._memory.put_object(caller, _LATEST, held.id, str(number).encode())

    # What clients ask

    async def answer(self, door: Door, request: WebRequest, caller: str) -> WebResponse:
        name, item = door.params.get("id", ""), door.params.get("item", "")
        adds = request.method == "POST"
        fields = read_fields(request.body or b"{}") if adds else {}
        if not name:
            return json_response((await self._create(door, caller, fields)).shown())
        if request.method == "DELETE" and not item:
            await self._delete(caller, name)
            return json_response({"id": name, "object": "conversation.deleted", "deleted": True})
        held, items = await self._known(caller, name)
        if item:
            return await self._one_item(caller, held, items, item, request.method)
        if request.path.rstrip("/").endswith("/items"):
            if not adds:
                return json_response(Raw(stored.encode_page([*items.values()], request.query)))
            return await self._add_items(door, caller, held, fields)
        if adds:
            _refuse_others(fields, "metadata")
            await self._change(caller, held, metadata=_metadata(fields))
            held, _ = await self._known(caller, name)
        return json_response(held.shown())

    async def _known(self, caller: str, name: str) -> tuple[HeldConversation, dict[int, dict[str, Any]]]:
        """A conversation, and its items by their places. Raises if there is none, or something of it is gone."""
        held = await self.find(caller, name)
        items = None if held is None else await self._all_items(caller, held)
        if held is None or items is None:
            raise not_found(name)
        return held, {at: item for at, item in enumerate(items) if at not in held.removed}

    async def _create(self, door: Door, caller: str, fields: Mapping[str, Any]) -> HeldConversation:
        _refuse_others(fields, "items", "metadata")
        items, metadata = await self._items(door, caller, fields, required=False), _metadata(fields)
        name = f"conv_{token_hex(24)}"
        head = await self._add(caller, "", items) if items else ""
        first = Revision(token_hex(8), head, metadata)
        created = int(time())
        await self._memory.put_objects(
            caller,
            {
                (_REVISION, f"{name} 0"): msgspec.json.encode(first),
                (_LATEST, name): b"0",
                (_KIND, name): msgspec.json.encode(_Object(created)),
            },
        )
        return HeldConversation(name, created, 0, first)

    async def _add(self, caller: str, parent: str, items: Sequence[Any]) -> str:
        """A node with these items alone; its id."""
        node_id = f"items_{token_hex(24)}"
        new = [Raw(msgspec.json.encode(item)) for item in items]
        await self._archive.add(caller, node_id, ReplyNode(input=new, parent=parent))
        return node_id

    async def _items(
        self, door: Door, caller: str, fields: Mapping[str, Any], *, required: bool
    ) -> list[Any]:
        """The items that a client adds. Raises for one that cannot be read: every turn would be refused because of it."""
        given = {"model": "", "input": _items(fields, required=required)}
        whole, unknown = stored.with_items(
            given,
            {
                name: item
                for name, (item, _) in (await self._archive.items(caller, stored.references(given))).items()
            },
        )
        if unknown is not None:
            raise unknown
        items: list[Any] = whole["input"]
        if items:
            try:
                door.dialect.decode_request(whole)
            except TranscriptError as error:
                error.path = error.path.replace("input", "items", 1)
                raise
        return items

    async def _delete(self, caller: str, name: str) -> None:
        """With all of its revisions. Replies in it have ids of their own, and stay."""
        data = await self._memory.get_object(caller, _KIND, name)
        if data is None:
            raise not_found(name)
        known = msgspec.json.decode(data, type=_Object)
        number, _ = await self._latest(caller, name, known)
        await self._memory.delete_objects(
            caller,
            [(_KIND, name), (_LATEST, name), *((_REVISION, f"{name} {at}") for at in range(number + 1))],
        )

    async def _add_items(
        self, door: Door, caller: str, held: HeldConversation, fields: Mapping[str, Any]
    ) -> WebResponse:
        _refuse_others(fields, "items")
        items = await self._items(door, caller, fields, required=True)
        lease = await self.lease(caller, held)
        try:
            await lease.advance(await self._add(caller, held.revision.head, items))
        finally:
            await lease.close()
        _, now = await self._known(caller, held.id)
        added = [*now.values()][-len(items) :]
        return json_response(Raw(stored.encode_page(added, {"order": "asc", "limit": str(MOST_ITEMS)})))

    async def _one_item(
        self, caller: str, held: HeldConversation, items: Mapping[int, Any], item: str, method: str
    ) -> WebResponse:
        place = next((at for at, one in items.items() if one["id"] == item), None)
        if place is None:
            raise InvalidRequestError(f"Item with id '{item}' not found.", code="not_found", status=404)
        if method != "DELETE":
            return json_response(items[place])
        places = tuple(sorted((*held.removed, place)))
        await self._change(caller, held, removed=(*held.revision.removed, item), places=places)
        return json_response(held.shown())

    async def _change(self, caller: str, held: HeldConversation, **fields: Any) -> None:
        lease = await self.lease(caller, held)
        try:
            await lease.advance(**fields)
        finally:
            await lease.close()


def _listed_items(items: Sequence[Any], name: str) -> list[dict[str, Any]]:
    """All items of a conversation as clients list them, each with an id that no other one has."""
    taken, listed = set[str](), list[dict[str, Any]]()
    for item in items:
        shown = _listed(item, name, len(listed), taken)
        taken.add(shown["id"])
        listed.append(shown)
    return listed


def _listed(item: Any, name: str, position: int, taken: Collection[str]) -> dict[str, Any]:
    """One that came without an id, or with one that is taken, has one by its place in the conversation, which never changes."""
    shown = dict(item) if isinstance(item, dict) else {"content": item}
    kind = shown.setdefault("type", "message")
    given, place = shown.get("id"), f"{name} {position}"
    while not isinstance(given, str) or given in taken:
        digest = blake2b(place.encode(), digest_size=20).hexdigest()
        given, place = f"{'msg' if kind == 'message' else 'item'}_{digest}", f"{place}'"
    shown = {**shown, "id": given}
    if kind == "message":
        shown.setdefault("status", "completed")
        if isinstance(shown.get("content"), str):
            part = "output_text" if shown.get("role") == "assistant" else "input_text"
            shown["content"] = [{"type": part, "text": shown["content"]}]
    return shown


def _items(fields: Mapping[str, Any], *, required: bool) -> list[Any]:
    items = fields.get("items")
    if items is None and not required:
        return []
    if (
        not isinstance(items, list)
        or not all(isinstance(item, dict) for item in items)
        or (required and not items)
    ):
        raise _invalid("items", "Expected an array of objects.")
    if len(items) > MOST_ITEMS:
        raise _invalid("items", f"Expected an array with maximum length {MOST_ITEMS}, but got {len(items)}.")
    return items


def _refuse_others(fields: Mapping[str, Any], *known: str) -> None:
    """Raises for a field of another request: what it stands for would be lost."""
    if other := next((name for name in fields if name not in known), None):
        raise InvalidRequestError(
            f"Unknown parameter: '{other}'.",
            code="unknown_parameter",
            path=other,
            hint=f"A request to this path has {' and '.join(known)}.",
        )


def _metadata(fields: Mapping[str, Any]) -> dict[str, str]:
    given = fields.get("metadata")
    if given is None:
        return {}
    if (
        not isinstance(given, dict)
        or len(given) > _MOST_METADATA
        or not all(isinstance(value, str) for value in given.values())
    ):
        raise _invalid("metadata", f"Expected an object of at most {_MOST_METADATA} texts.")
    return given


def _invalid(field: str, why: str) -> InvalidRequestError:
    return InvalidRequestError(f"Invalid '{field}'. {why}", code="invalid_value", path=field)


def not_found(name: str) -> InvalidRequestError:
    error = InvalidRequestError(
        f"Conversation with id '{name}' not found.",
        code="conversation_not_found",
        path="conversation",
        status=404,
        hint="Send the whole conversation as input, or create one.",
    )
    error.wire, error.members = "openai_responses", {"error": {"code": None}}
    return error


def locked(name: str) -> InvalidRequestError:
    """CNV-03."""
    error = InvalidRequestError(
        f"Another process is currently operating on the conversation '{name}'. Please retry in a few seconds.",
        code="conversation_locked",
        path="conversation",
        hint="Wait until the running turn is complete.",
    )
    error.wire, error.members = "openai_responses", {"error": {"code": "conversation_locked"}}
    return error

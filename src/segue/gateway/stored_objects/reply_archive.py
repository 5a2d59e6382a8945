"""Replies that a client may name by their ids, on wires that keep them: continued, listed, deleted.

A reply is a node that never changes: it knows the node before it, and holds only what is new since then. So a conversation is stored
once, however many ids lead into it, and from each of them it can be continued any number of times. System prompts and tools
are kept once for all nodes that share them.

A client that sends its whole history each time gives most of it again: what an earlier node has as its input is not stored again.
"""

from __future__ import annotations

import logging
from hashlib import blake2b
from secrets import token_hex
from time import monotonic, time
from typing import TYPE_CHECKING, Any, Final, final

import msgspec
from msgspec import Raw, Struct, structs

from segue.dialects.server_side import stored_replies as stored
from segue.dialects.server_side.stored_wires import stored_wire
from segue.errors import JournalError, OverloadError
from segue.gateway.accounts.register import ANYONE
from segue.gateway.requests.byte_budget import hold_for_request
from segue.gateway.requests.client_errors import STORE_AWAY_SECONDS
from segue.gateway.requests.web import json_response

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from segue.gateway.conversations.turns import ClientTurn
    from segue.gateway.doors.paths import Door
    from segue.gateway.memory.memory import Memory
    from segue.gateway.requests.web import WebRequest, WebResponse

_LOG: Final = logging.getLogger("segue.gateway")
_KIND: Final = "response"
_ITEM: Final = "item of a response"
_CANCELLED: Final = "cancelled response"
_INPUT: Final = "end of an input"
_SETTINGS: Final = "settings of replies"
_OWNER: Final = "owner of a reply"
_DELETIONS: Final = "\0deletions"
"""Beside the nodes of a caller: it changes with each deletion, in whichever process."""
_RESPONSES: Final = "openai_responses"
LOST_SECONDS: Final = 30.0
"""Whoever makes a reply and was not seen for so long has stopped."""
_LINEAGE: Final = 32
"""So many nodes before it are known to a node: a conversation is read in steps of that many."""
_NEAR: Final = 32
"""Among so many last messages of a request the place is looked for up to which an earlier one has them."""
_COMPLETE_SECONDS: Final = 60.0
"""For so long all nodes before one count as there; nobody waits for a look at hundreds of them at each turn."""
_MOST_COMPLETE: Final = 4096
_SHARED_SECONDS: Final = 86_400.0
"""How old the beginning of a node may be that another one begins with, if that does not read it: what is not read expires."""


@final
class ReplyOrigin(Struct, frozen=True, omit_defaults=True):
    """Who made a reply."""

    provider: str = ""
    endpoint: str = ""
    model: str = ""
    id: str = ""
    """The provider's own id of it."""
    held: bool = False
    """Whether the provider was asked to keep it: it can be continued there under that id."""
    at: float = 0.0
    """When, in seconds since 1970."""
    fixed: str = ""
    """A digest of the settings that it cannot be continued without there."""


class ReplyNode(Struct, kw_only=True, omit_defaults=True):
    """A reply, and what its request had beyond the node before it. Records of earlier versions hold all of the input."""

    reply: Raw = Raw(b"null")
    """As the client got it, but for what is `repeated`; null for messages that were only added."""
    input: list[Raw]
    """The messages of the request, as they came, without those of the parent."""
    parent: str = ""
    """The id of the node before it; empty if there is none."""
    replaced: bool = False
    """Whether the input begins behind the parent's input, and holds what the client made of its reply."""
    lineage: list[str] = []
    """The ids of the nodes before it, the parent first, as far as they are known here."""
    began: float = 0.0
    """When the first of them was written."""
    removed: list[int] = []
    """The places of items before it that had been deleted from its conversation: it is continued without them."""
    conversation: str = ""
    """The id of the conversation that it belongs to, as operators see it."""
    settings: str = ""
    """What leads to the system prompt and the tools, on wires where they carry over."""
    repeated: str = ""
    """What leads to those that the reply repeats, on the wire whose replies do."""
    ambiguous: bool = False
    """Whether the provider gave its id to another reply before: nobody knows which of them is meant, so neither is continued."""
    wire: str = _RESPONSES
    whole: bool = True
    """False if the provider holds the beginning of that conversation."""
    provider: str = ""
    """Of a reply whose bytes were forwarded: this provider knows it by its id, too."""
    origin: ReplyOrigin | None = None
    beat: float = 0.0
    """When a reply that is still being made was seen last; 0 if it is complete."""

    @property
    def is_being_made(self) -> bool:
        """Whether somebody is making the reply now: whoever did so and was not seen any more has stopped."""
        return time() - self.beat <= LOST_SECONDS


_DECODER: Final = msgspec.json.Decoder(ReplyNode)


@final
class ReplyArchive:
    """The nodes of all callers."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._complete: dict[tuple[str, str], float] = {}
        """Nodes that begin with others, and when all of these were last seen, by the clock of this process."""

    async def check(self) -> None:
        """Raises if a reply could not be kept now."""
        try:
            await self._memory.store.check()
        except JournalError as error:
            raise OverloadError(
                "The gateway cannot store a reply now.",
                code="store_away",
                retry_after=STORE_AWAY_SECONDS,
                hint="Send the request later, or without store: true.",
            ) from error

    async def find(self, caller: str, reply_id: str, wire: str = _RESPONSES) -> ReplyNode | None:
        """None if there is no such reply, it is another caller's, or of another wire."""
        found = (await self._find_all(caller, [reply_id])).get(reply_id)
        return found if found is not None and found.wire == wire else None

    async def find_latest(self, caller: str, reply_id: str, wire: str) -> tuple[ReplyNode | None, bytes]:
        """The same, and what changes when any reply of this caller is deleted."""
        found = await self._memory.get_objects(caller, _KIND, [reply_id, _DELETIONS])
        node = None
        if (data := found.get(reply_id)) is not None and reply_id != _DELETIONS:
            hold_for_request(data)
            node = _DECODER.decode(data)
        return node if node is not None and node.wire == wire else None, found.get(_DELETIONS, b"")

    async def chain(self, caller: str, last: ReplyNode, *, charged: bool = True) -> list[ReplyNode] | None:
        """All nodes up to and including this one, the oldest first; None if one of them is gone."""
        nodes, seen = [last], set[str]()
        while nodes[-1].parent and not nodes[-1].ambiguous:
            wanted = nodes[-1].lineage or [nodes[-1].parent]
            found = await self._find_all(caller, wanted, charged=charged)
            for name in wanted:
                if (node := found.get(name)) is None or nodes[-1].parent != name or name in seen:
                    self._complete.clear()
                    return None
                seen.add(name)
                nodes.append(node)
        return None if any(node.ambiguous for node in nodes) else nodes[::-1]

    async def _find_all(
        self, caller: str, ids: Sequence[str], *, charged: bool = True
    ) -> dict[str, ReplyNode]:
        """`charged`: for the request that is being served."""
        found: dict[str, ReplyNode] = {}
        for name, data in (await self._memory.get_objects(caller, _KIND, ids)).items():
            if name == _DELETIONS:
                continue
            if charged:
                hold_for_request(data)
            found[name] = _DECODER.decode(data)
        return found

    async def items(self, caller: str, ids: Sequence[str]) -> dict[str, tuple[Any, str]]:
        """Items of stored replies, by their ids, each with the provider that has stored it too."""
        found: dict[str, tuple[Any, str]] = {}
        for item_id in ids:
            if item_id in found or (named := await self._memory.get_object(caller, _ITEM, item_id)) is None:
                continue
            if (reply := await self.find(caller, named.decode())) is not None:
                items = stored.items_by_id(msgspec.json.decode(reply.reply))
                found |= {name: (item, reply.provider) for name, item in items.items()}
        return found

    async def settings(self, caller: str, node: ReplyNode) -> dict[str, Raw] | None:
        """The fields of a request that this node's conversation has from its beginning; None if they are gone."""
        if not node.settings:
            return {}
        data = await self._memory.get_object(caller, _SETTINGS, node.settings)
        if data is None:
            return None
        hold_for_request(data)
        return msgspec.json.decode(data, type=dict[str, Raw])

    async def shown(self, caller: str, node: ReplyNode) -> dict[str, Any]:
        """A kept reply as its client got it; without the long fields of its request, if these are gone."""
        reply: dict[str, Any] = msgspec.json.decode(node.reply)
        data = await self._memory.get_object(caller, _SETTINGS, node.repeated) if node.repeated else None
        if data is not None:
            hold_for_request(data)
            reply |= msgspec.json.decode(data)
        return reply

    async def keep(self, turn: ClientTurn, body: bytes, origin: ReplyOrigin) -> str:
        """A complete reply, as its client gets it; the id that it was kept under, and empty if it was not. A store that fails costs
        this record, and never the reply."""
        prepared = turn.prepared
        reply_id = msgspec.json.decode(body).get("id")
        if not isinstance(reply_id, str):
            return ""
        wire, carried = turn.dialect.server.continuations, turn.dialect.server.carried_fields
        if not reply_id or (wire is not None and not wire.is_kept(body)):
            return ""
        if prepared.whole is not None:
            new, settings = (
                [*prepared.whole.new],
                {name: value for name, value in prepared.whole.fields.items() if name in carried},
            )
        else:
            fields = turn.whole_fields
            new = [Raw(msgspec.json.encode(one)) for one in turn.messages_in(fields)[prepared.before :]]
            settings = {name: Raw(msgspec.json.encode(fields[name])) for name in carried if name in fields}
        node = ReplyNode(
            reply=Raw(body),
            input=new,
            parent=prepared.parent,
            removed=[*prepared.removed],
            conversation=turn.conversation_id,
            wire=turn.dialect.name,
            whole=not prepared.is_part,
            provider=origin.provider if origin.held and origin.id == reply_id else "",
            origin=origin,
        )
        try:
            await self.add(turn.caller, reply_id, node, settings, last=prepared.last)
        except JournalError as error:
            _LOG.warning("A reply was not kept for its client: %s", error)
            return ""
        return reply_id

    async def add(
        self,
        caller: str,
        reply_id: str,
        node: ReplyNode,
        settings: dict[str, Raw] | None = None,
        *,
        last: ReplyNode | None = None,
    ) -> None:
        """Keep a new node behind its parent; or, if it has none, behind the node whose input it repeats. `settings`: the fields of
        the request that carry over to those that continue it. `last`: the parent, if it was read."""
        parent, at, ends, seen = node.parent, 0, "", None
        if not parent and node.whole:
            digests = _digests(node.input)
            parent, at = await self._repeated(caller, digests)
            ends = digests[-1]
        # Ids of our own are given once; those of providers need not be.
        given = [reply_id] if node.origin is not None and node.origin.id == reply_id else []
        wanted = [name for name in ("" if last is not None else parent, *given) if name]
        found = await self._find_all(caller, wanted, charged=False) if wanted else {}
        before = found.get(parent) if last is None else last
        if at and before is not None and _is_shareable(before, node):
            seen = await self._seen_complete(caller, parent, before)
        if at and (before is None or seen is None):
            before, parent, at = None, "", 0
        reply, long = stored.without_long_fields(node.reply) if node.wire == _RESPONSES else (node.reply, {})
        linked = structs.replace(
            node,
            reply=reply,
            input=node.input[at:],
            parent=parent,
            replaced=bool(at),
            ambiguous=node.ambiguous or (reply_id in given and reply_id in found),
            lineage=[parent, *(before.lineage if before is not None else ())][:_LINEAGE] if parent else [],
            began=before.began if before is not None else time(),
            settings=_settings_digest(settings) if settings else "",
            repeated=_settings_digest(long) if long else "",
        )
        objects = {(_INPUT, ends): reply_id.encode()} if ends else {}
        if settings and (before is None or before.settings != linked.settings):
            objects[_SETTINGS, linked.settings] = msgspec.json.encode(settings)
        if long and (before is None or before.repeated != linked.repeated):
            objects[_SETTINGS, linked.repeated] = msgspec.json.encode(long)
        await self.put(caller, reply_id, linked, objects)
        if seen is not None:
            self._complete[caller, reply_id] = seen
            if len(self._complete) > _MOST_COMPLETE:
                del self._complete[next(iter(self._complete))]

    async def _seen_complete(self, caller: str, name: str, before: ReplyNode) -> float | None:
        """When all nodes before this one, and itself, were last seen; None if one of them is gone. A client that sends everything
        because something is gone would be refused again if that were the beginning of its new node."""
        seen = self._complete.pop((caller, name), None)
        if seen is None or monotonic() - seen > _COMPLETE_SECONDS:
            seen = monotonic() if await self.chain(caller, before, charged=False) is not None else None
        return seen

    async def _repeated(self, caller: str, digests: Sequence[str]) -> tuple[str, int]:
        """The last reply whose request had just the first of the messages with these digests, and how many."""
        ends = digests[:-1][-_NEAR:]
        found = await self._memory.get_objects(caller, _INPUT, ends) if ends else {}
        for at in range(len(digests) - 2, len(digests) - 2 - len(ends), -1):
            if digests[at] in found:
                return found[digests[at]].decode(), at + 1
        return "", 0

    async def put(
        self,
        caller: str,
        reply_id: str,
        node: ReplyNode,
        beside: Mapping[tuple[str, str], bytes] | None = None,
    ) -> None:
        """Keep a node under its id, and where each item of its reply is under the item's; and other objects `beside` it."""
        objects = {(_KIND, reply_id): msgspec.json.encode(node), **(beside or {})}
        if node.wire == _RESPONSES:
            names = stored.items_by_id(msgspec.json.decode(node.reply) or {})
            objects |= {(_ITEM, name): reply_id.encode() for name in names}
        if node.provider and caller != ANYONE.name:
            await self._memory.put_object("", _OWNER, reply_id, caller.encode())
        await self._memory.put_objects(caller, objects)

    async def is_anothers(self, caller: str, reply_id: str) -> bool:
        """Whether another caller got this reply here. At a provider all callers may have one account."""
        owner = await self._memory.get_object("", _OWNER, reply_id)
        return owner is not None and owner.decode() != caller

    async def delete(self, caller: str, reply_id: str) -> bool:
        """False if there was none. What continued it can be continued no longer: nobody gets a shortened conversation."""
        self._complete.clear()
        if reply_id == _DELETIONS or not await self._memory.delete_object(caller, _KIND, reply_id):
            return False
        await self._memory.put_object(caller, _KIND, _DELETIONS, token_hex(8).encode())
        return True

    async def cancel(self, caller: str, reply_id: str) -> None:
        """Ask whoever makes this reply to end it."""
        await self._memory.put_object(caller, _CANCELLED, reply_id, b"{}")

    async def is_cancelled(self, caller: str, reply_id: str) -> bool:
        return await self._memory.get_object(caller, _CANCELLED, reply_id) is not None

    async def answer(self, door: Door, request: WebRequest, caller: str) -> WebResponse:
        """List the input of a reply, or delete it."""
        reply_id, wire = door.params.get("id", ""), stored_wire(door.dialect.name)
        if door.operation == "list_input":
            items = await self.input_of(door, caller, reply_id, whole=True)
            return json_response(Raw(stored.encode_input(items, request.query)))
        if await self.find(caller, reply_id, door.dialect.name) is None:
            raise wire.not_found(reply_id)
        await self.delete(caller, reply_id)
        return json_response(Raw(wire.encode_deleted(reply_id)))

    async def input_of(self, door: Door, caller: str, reply_id: str, *, whole: bool = False) -> list[Any]:
        """The input of a reply; `whole`: with all that it continues. Raises if it is gone."""
        wire = stored_wire(door.dialect.name)
        found = await self.find(caller, reply_id, door.dialect.name)
        if found is None:
            raise wire.not_found(reply_id)
        before: list[Raw] = []
        if whole or found.replaced:
            chain = await self.chain(caller, found)
            if chain is None:
                raise wire.not_found(reply_id)
            before = history(chain[:-1], wire.reply_items, end=found)
        return [msgspec.json.decode(item) for item in (*before, *found.input)]


def history(
    chain: Sequence[ReplyNode],
    added: Callable[[Raw], list[Raw]],
    *,
    end: ReplyNode | None = None,
    removed: Collection[int] = (),
) -> list[Raw]:
    """All messages of these nodes, each with those that its reply adds, but for those that were deleted before the last node.
    `end`: the node behind them, if it is not among them. `removed`: the places of those that were deleted since then."""
    messages = full_history(chain, added, end=end)
    gone = removed_before(chain if end is None else (*chain, end)).union(removed)
    return [message for place, message in enumerate(messages) if place not in gone] if gone else messages


def removed_before(chain: Sequence[ReplyNode]) -> frozenset[int]:
    """The places of items that were deleted before the last of these nodes."""
    return frozenset(place for node in chain for place in node.removed)


def full_history(
    chain: Sequence[ReplyNode], added: Callable[[Raw], list[Raw]], *, end: ReplyNode | None = None
) -> list[Raw]:
    """The same with what was deleted: the place of a message in it never changes."""
    messages: list[Raw] = []
    for node, following in zip(chain, (*chain[1:], end), strict=True):
        messages += node.input
        if following is None or not following.replaced:
            messages += added(node.reply)
    return messages


def _is_shareable(before: ReplyNode, node: ReplyNode) -> bool:
    """Whether a node may begin with another one's input, which it names and does not read."""
    return before.wire == node.wire and before.whole and time() - before.began < _SHARED_SECONDS


def _settings_digest(settings: Mapping[str, Raw]) -> str:
    return blake2b(msgspec.json.encode(settings, order="deterministic"), digest_size=20).hexdigest()


def _digests(messages: Sequence[Raw]) -> list[str]:
    """For each number of messages, from one on, a digest of all of them up to there; for none, one of nothing."""
    state, made = blake2b(digest_size=20), list[str]()
    for message in messages:
        state.update(len(message).to_bytes(8, "big"))
        state.update(message)
        made.append(state.hexdigest())
    return made or [state.hexdigest()]

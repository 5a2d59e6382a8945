"""The memory of replies: what a client cannot hold of a reply is kept here and found again when its history returns.

`remember` keeps a reply under every call id that leaves us, and under its place and text if it may return without ids;
`recall` finds many at once. `sole_conversation` knows whether one conversation alone wrote at a place. Everything is encrypted and belongs to one caller: the keys of two callers differ.
"""

from __future__ import annotations

import base64
import binascii
import logging
import secrets
from collections import OrderedDict
from typing import TYPE_CHECKING, Final, final

from msgspec import Struct

from segue.cache_budget import CacheBudget
from segue.conversation.blocks import Media
from segue.errors import JournalError
from segue.gateway.memory.fingerprints import arguments_text
from segue.gateway.memory.histories import KnownHistories
from segue.gateway.memory.installation_key import DIGEST_BYTES
from segue.gateway.memory.recent import RecentConversations
from segue.gateway.memory.replies import RememberedReply, decode_reply, encode_reply, sound_id
from segue.gateway.memory.store import ConversationInfo, GatewayStore, MemoryRecord
from segue.gateway.requests.byte_budget import weight_of
from segue.transcript.blocks.citations import without_source_list

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from segue.conversation.message import Message
    from segue.gateway.memory.installation_key import InstallationKey

CAPSULE_PREFIX: Final = "segue.1."
CACHE_BYTES: Final = 16 << 20
HISTORY_BYTES: Final = 32 << 20

_LOG = logging.getLogger("segue.gateway")
_WORDS: Final = "words of a sound"
_REPLY: Final = b"reply"
_REPLY_AT_ROWS: Final = b"reply at rows"
_COUNT_BYTES: Final = 4
_KEPT_IDS: Final = 1024
_SHORT: Final = 256
_KEY_BYTES: Final = 256
"""What a key takes beside its reply, and what holds the two together."""


@final
class _AtHand(Struct):
    """A reply in the cache, which holds it under one key or several."""

    reply: RememberedReply
    size: int
    keys: int = 0


@final
class _RepliesAtHand:
    """Replies by their keys."""

    budget: CacheBudget

    def __init__(self, max_bytes: int) -> None:
        self._held: OrderedDict[bytes, _AtHand] = OrderedDict()
        self.held = 0
        CacheBudget(max_bytes).share(replies=self)

    def get(self, key: bytes) -> RememberedReply | None:
        if (held := self._held.get(key)) is None:
            return None
        self._held.move_to_end(key)
        return held.reply

    def keep(self, keys: tuple[bytes, ...], reply: RememberedReply, data: bytes) -> None:
        """`data`: the reply as it is stored. What is read from it takes several times as much, above all of a short one."""
        new = _AtHand(reply, weight_of(data))
        for key in keys:
            self._forget(key)
            self._held[key] = new
            new.keys += 1
        size = new.size + _KEY_BYTES * len(keys)
        self.held += size
        self.budget.fit(size)

    def drop_oldest(self) -> None:
        self._forget(next(iter(self._held)))

    def _forget(self, key: bytes) -> None:
        if (held := self._held.pop(key, None)) is None:
            return
        held.keys -= 1
        self.held -= _KEY_BYTES if held.keys else _KEY_BYTES + held.size


class Memory:
    """Encrypts, signs and keeps at hand; a store holds it all."""

    def __init__(self, store: GatewayStore, key: InstallationKey, *, cache_bytes: int = CACHE_BYTES) -> None:
        self.store = store
        """For the conversations that were seen: `note`, `conversation`, `conversations`, `switch`."""
        self.histories = KnownHistories(HISTORY_BYTES)
        """What was recalled for recent requests."""
        self.recent = RecentConversations()
        """The conversations that were answered last."""
        self.failed_reads = 0
        self._key = key
        self.at_hand = _RepliesAtHand(cache_bytes)
        """Replies that were remembered or recalled last."""
        self._conversations: dict[tuple[str, str], str] = {}

    def call_keys(self, caller: str, call_ids: Sequence[str]) -> list[bytes]:
        """The keys of replies by their calls, whose ids are those that the client got. A history holds hundreds."""
        return self._key.digests(("call", caller), call_ids)

    def place_key(self, caller: str, before: bytes, message: Message) -> bytes:
        """The key of a reply by its place and text; `before` is the fingerprint of the client's messages before it."""
        names = [call.name for call in message.calls]
        return self._key.digest("place", caller, before, without_source_list(message.text.strip()), *names)

    def keys_at(
        self, caller: str, name: str, opening: bytes, places: Sequence[bytes]
    ) -> list[tuple[bytes, ...]]:
        """Of each place, which `place_key` gave, the key of a reply to this exact request, and with a name that of one to requests
        with that name alone: the first of `exact_keys`, and `own_place_key`. A history has hundreds."""
        exact = self._key.digests(("exact", caller, opening), places)
        return (
            [*zip(exact, self._key.digests(("named", caller, name), places), strict=True)]
            if name
            else [*zip(exact)]
        )

    def own_place_key(self, caller: str, name: str, before: bytes, message: Message) -> bytes:
        """The same among the replies to requests with that name alone."""
        place = self.place_key(caller, before, message)
        return self._key.digest("named", caller, name, place) if name else place

    def exact_keys(self, caller: str, opening: bytes, before: bytes, message: Message) -> tuple[bytes, bytes]:
        """The keys of a reply by the exact request that it answers, with its text and without. `opening` is the digest of what
        the request says before its messages."""
        place = self.place_key(caller, before, message)
        return (
            self._key.digest("exact", caller, opening, place),
            self._key.digest("prefix", caller, opening, before),
        )

    def arguments_key(self, caller: str, opening: bytes, before: bytes, message: Message) -> bytes:
        """The key of calls by the exact request that they answer, with what they ask for. It tells conversations apart that begin
        alike, where the client drops the ids of calls."""
        asked = [f"{call.name} {arguments_text(call)}" for call in message.calls]
        place = self.place_key(caller, before, message)
        return self._key.digest("arguments", caller, opening, place, *asked)

    def conversation_id(self, caller: str, name: str) -> str:
        """The short id of a conversation, from its client's own name for it."""
        known = self._conversations.get((caller, name))
        if known is None:
            known = _short_id(self._key.digest("conversation", caller, name))
            if len(self._conversations) >= _KEPT_IDS:
                self._conversations.clear()
            if len(name) <= _SHORT:
                self._conversations[caller, name] = known
        return known

    async def remember(
        self,
        caller: str,
        before: bytes | None,
        reply: RememberedReply,
        seen: ConversationInfo | None = None,
        *,
        opening: bytes = b"",
    ) -> None:
        """Keep a reply under all its keys, and record its conversation along with it. When this returns, every gateway on
        this store finds it: wait for it before the last byte of the reply, never before the first. A store that fails
        costs seals, never a reply. `before`: None if it surely returns with the ids of its calls. `opening`: what the
        request says before its messages, as a digest."""
        keys = tuple(self.call_keys(caller, tuple(reply.calls)))
        own: tuple[bytes, ...] = ()
        if before is not None:
            keys = (*keys, self.place_key(caller, before, reply.message))
            own = (
                self.own_place_key(caller, reply.name, before, reply.message),
                *self.exact_keys(caller, opening, before, reply.message),
            )
            if reply.message.calls:
                own = (*own, self.arguments_key(caller, opening, before, reply.message))
        data = encode_reply(reply)
        # Those by which `recall_originals` looks for it; `sole_conversation` asks the store.
        exact = own[:2] if reply.name or reply.message.calls else ()
        self.at_hand.keep(tuple(dict.fromkeys((*keys, *exact))), reply, data)
        keys, firsts = tuple(dict.fromkeys((*keys, *own))), tuple(map(self._first, own))
        record = MemoryRecord(keys, self._sealed((*keys, *firsts), data), firsts)
        try:
            await self.store.write([record], seen)
        except JournalError as error:
            _LOG.warning("A reply was not remembered: %s", error)

    async def recall(
        self, keys: Sequence[bytes], anew: Sequence[bytes] = ()
    ) -> Mapping[bytes, RememberedReply]:
        """The replies under these keys; those never remembered, forgotten or of another caller are missing. `anew`: keys under
        which another gateway may have written since, so that what is at hand does not count."""
        found: dict[bytes, RememberedReply] = {}
        missing: list[bytes] = [*anew]
        for key in keys:
            if (held := self.at_hand.get(key)) is None:
                missing.append(key)
            else:
                found[key] = held
        if missing:
            for key, body in (await self._read(missing)).items():
                data = self._opened(key, body)
                if data is not None:
                    found[key] = decode_reply(data)
                    self.at_hand.keep((key,), found[key], data)
        return found

    async def sole_conversation(self, places: Sequence[bytes], name: str) -> str:
        """The conversation that alone wrote a reply at the first of these places that has one, under this name; empty if several did,
        or none. What is at hand does not count: other gateways may have written there since."""
        pairs = [(place, self._first(place)) for place in places]
        found = await self._read([key for pair in pairs for key in pair]) if pairs else {}
        for pair in pairs:
            if not all(key in found for key in pair):
                continue
            conversations: set[str] = set()
            for key in pair:
                data = self._opened(key, found[key])
                reply = decode_reply(data) if data is not None else None
                conversations.add(reply.conversation if reply is not None and reply.name == name else "")
            if len(conversations) == 1 and (sole := conversations.pop()):
                return sole
        return ""

    async def put_object(self, caller: str, kind: str, object_id: str, data: bytes) -> None:
        """Keep an object that the client may ask for by its id, for example a stored response."""
        await self.put_objects(caller, {(kind, object_id): data})

    async def put_objects(self, caller: str, objects: Mapping[tuple[str, str], bytes]) -> None:
        """Keep objects by kind and id: all of them or none."""
        records: list[MemoryRecord] = []
        for (kind, object_id), data in objects.items():
            key = self._key.digest("object", caller, kind, object_id)
            records.append(MemoryRecord((key,), self._key.encrypt(data, bound_to=key)))
        await self.store.write(records)

    async def put_first(self, caller: str, kind: str, object_id: str, data: bytes) -> bytes:
        """Keep an object unless there is one under this id; the one that is there now, whoever wrote it."""
        key = self._key.digest("object", caller, kind, object_id)
        await self.store.write([MemoryRecord((), self._key.encrypt(data, bound_to=key), (key,))])
        return await self.get_object(caller, kind, object_id) or data

    async def get_object(self, caller: str, kind: str, object_id: str) -> bytes | None:
        """None if there is none, or it belongs to another caller."""
        return (await self.get_objects(caller, kind, [object_id])).get(object_id)

    async def get_objects(self, caller: str, kind: str, ids: Sequence[str]) -> dict[str, bytes]:
        """Those of these objects that there are, by their ids."""
        keys = {self._key.digest("object", caller, kind, name): name for name in ids}
        found: dict[str, bytes] = {}
        for key, body in (await self.store.read([*keys])).items():
            if (data := self._key.decrypt(body, bound_to=key)) is not None:
                found[keys[key]] = data
        return found

    async def delete_object(self, caller: str, kind: str, object_id: str) -> bool:
        """False if there was none."""
        key = self._key.digest("object", caller, kind, object_id)
        known = bool(await self.store.read([key]))
        await self.store.delete([key])
        return known

    async def delete_objects(self, caller: str, objects: Iterable[tuple[str, str]]) -> None:
        """Delete objects by kind and id."""
        await self.store.delete(
            [self._key.digest("object", caller, kind, object_id) for kind, object_id in objects]
        )

    async def remember_words(self, caller: str, message: Message) -> None:
        """Keep what a reply says in sounds that its client may return by their ids alone. If the store fails, the reply is not
        held up by it."""
        ids = [name for block in message.blocks if type(block) is Media and (name := sound_id(block))]
        words = message.text.encode("utf-8", "replace")
        if ids and words:
            try:
                await self.put_objects(caller, {(_WORDS, name): words for name in ids})
            except JournalError as error:
                _LOG.warning("The words of a reply were not remembered: %s", error)

    async def words(self, caller: str, name: str) -> str:
        """What a sound says that passed through here; empty if none did, or the store fails."""
        try:
            held = await self.get_object(caller, _WORDS, name)
        except JournalError as error:
            _LOG.warning("The words of a reply were not recalled: %s", error)
            return ""
        return "" if held is None else held.decode()

    async def note_request(self, seen: ConversationInfo) -> None:
        """Record that a conversation is asked. If the store fails, it is not held up by it."""
        try:
            await self.store.note_request(seen)
        except JournalError as error:
            _LOG.warning("A conversation was not recorded: %s", error)

    async def note(self, seen: ConversationInfo) -> None:
        """Record a conversation. If the store fails, a reply is not held up by it."""
        try:
            await self.store.note(seen)
        except JournalError as error:
            _LOG.warning("A conversation was not recorded: %s", error)

    def session_id(self, caller: str, name: str) -> str:
        """The short id of a session, from its client's own name for it; empty without a name."""
        return self.conversation_id(caller, f"session {name}") if name else ""

    async def switched(self, caller: str, conversation_id: str, session: str = "") -> tuple[str, bool]:
        """The model that was chosen for a conversation of this caller, or for its session before it began, empty if none was
        chosen, or if the store fails; and whether it has begun. The ids are short, so that two callers may have the same."""
        try:
            known = await self.store.conversation(conversation_id)
            if known is None and session:
                return await self.store.session_switch(session, caller), False
        except JournalError as error:
            _LOG.warning("A conversation was not looked up: %s", error)
            return "", True
        return known.switched if known is not None and known.caller == caller else "", known is not None

    def seal_capsule(self, caller: str, data: bytes) -> str:
        """A text that the client may carry in a place for opaque payloads; only we can open it, for the same caller."""
        sealed = self._key.encrypt(data, bound_to=_capsule(caller))
        return CAPSULE_PREFIX + base64.urlsafe_b64encode(sealed).decode().rstrip("=")

    def open_capsule(self, caller: str, text: str) -> bytes | None:
        """None if it is not a capsule of ours, or not this caller's, or was changed."""
        if not text.startswith(CAPSULE_PREFIX):
            return None
        inner = text.removeprefix(CAPSULE_PREFIX)
        try:
            sealed = base64.b64decode(inner + "=" * (-len(inner) % 4), altchars=b"-_", validate=True)
        except (binascii.Error, ValueError):
            return None
        return self._key.decrypt(sealed, bound_to=_capsule(caller))

    async def close(self) -> None:
        await self.store.close()

    def _first(self, place: bytes) -> bytes:
        """The key of the first reply at a place; that of the last one is the place's own."""
        return self._key.digest("first", place)

    def _sealed(self, keys: Sequence[bytes], data: bytes) -> bytes:
        """A reply, encrypted for the rows of these keys: whoever can write to the store can move it to no other row, and keys are
        made for one caller."""
        rows = len(keys).to_bytes(_COUNT_BYTES, "big") + b"".join(keys)
        return self._key.encrypt(rows + data, bound_to=_REPLY_AT_ROWS)

    def _opened(self, key: bytes, body: bytes) -> bytes | None:
        """None if it was made with another installation's key, or for another row."""
        data = self._key.decrypt(body, bound_to=_REPLY_AT_ROWS)
        if data is None:
            return self._key.decrypt(body, bound_to=_REPLY)  # of an earlier version, until it expires
        end = _COUNT_BYTES + int.from_bytes(data[:_COUNT_BYTES], "big") * DIGEST_BYTES
        rows = range(_COUNT_BYTES, end, DIGEST_BYTES)
        return data[end:] if any(data.startswith(key, row) for row in rows) else None

    async def _read(self, keys: Sequence[bytes]) -> Mapping[bytes, bytes]:
        try:
            return await self.store.read(keys)
        except JournalError as error:
            self.failed_reads += 1
            _LOG.warning("Replies were not recalled: %s", error)
            return {}


def new_conversation_id() -> str:
    """For a conversation that its client has no name for."""
    return _short_id(secrets.token_bytes(5))


def _short_id(digest: bytes) -> str:
    return base64.b32encode(digest[:5]).decode().lower()


def is_capsule(text: str) -> bool:
    """Whether this looks like one of our capsules, be it this installation's or not."""
    return text.startswith(CAPSULE_PREFIX)


def _capsule(caller: str) -> bytes:
    return b"capsule\0" + caller.encode("utf-8", "surrogatepass")

"""Reads what a client asks for: its body, what that refers to, the originals of our replies, the conversation that it belongs to.

What is kept of conversations for their next requests is here, all of it under one budget (`gateway.limits.warm_bytes`). What is
dropped of it costs time and nothing else.
"""

from __future__ import annotations

import logging
import re
import sys
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final, final

import msgspec
from msgspec import structs

from segue.cache_budget import CacheBudget
from segue.dialects.caches.read_cache import PartialRequestError, ReadCache, ReadRequest
from segue.errors import SegueError, TranscriptError
from segue.gateway.conversations.client_messages import prepared_by
from segue.gateway.conversations.continuations import ContinuationReader
from segue.gateway.conversations.references import ReferenceResolver
from segue.gateway.conversations.turns import model_of, read_fields, read_turn, unread_turn
from segue.gateway.requests.body import check_messages, too_many_messages
from segue.gateway.requests.byte_budget import VALUE_BYTES
from segue.gateway.requests.large_bodies import LARGE, read_beside

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from segue.cache_budget import BoundedCache
    from segue.config.schema import GatewayLimits
    from segue.conversation.blocks import Origin
    from segue.gateway.conversations.turns import ClientTurn, PreparedRequest
    from segue.gateway.doors.paths import Door
    from segue.gateway.exchanges.compaction import ClientCompaction
    from segue.gateway.memory.memory import Memory
    from segue.gateway.names import ModelNames
    from segue.gateway.requests.web import WebRequest
    from segue.gateway.stored_objects.cached_contents import HeldContents
    from segue.gateway.stored_objects.conversation_objects import ConversationObjects
    from segue.gateway.stored_objects.reply_archive import ReplyArchive
    from segue.providers.requests.request_writer import KeptPlans


MAX_BYTES: Final = 64 << 20
"""Of all that is kept of requests, for the next ones of the same conversations."""
_DENSE: Final = 8
"""A body that counts for more than so many times its bytes holds mostly empty values, and is not kept: a cache counts bytes."""
_NEAR: Final = 400
"""Within so many bytes of either end of a body, its model is looked for."""
_LOG: Final = logging.getLogger("segue.gateway")


@final
class RequestReader:
    """Reads the requests of all callers."""

    def __init__(
        self,
        writer: Callable[[str, str], Origin],
        max_bytes: int = MAX_BYTES,
        *,
        most_messages: int = sys.maxsize,
    ) -> None:
        """`writer`: who evidently wrote the replies that we did not see, by the model that is asked for and the wire."""
        self._writer = writer
        self._most_messages = most_messages
        self.cache = ReadCache(max_bytes // 2)
        self.large = ReadCache(max_bytes // 2)
        """Of large bodies: these are read in a thread of their own, so that their budget is their own, too."""
        self._nothing = ReadCache(0)

    def read(
        self, door: Door, request: WebRequest, caller: str, unless: Collection[str] = ()
    ) -> ReadRequest | None:
        """None if it has to be read in another way: something is wrong with it, or it has a field of those that it is not to be read
        with. Raises if it has too many messages."""
        # Each message is one of the values that it was weighed by.
        if request.weight > VALUE_BYTES * self._most_messages:
            check_messages(request.body, door.dialect.messages_field, self._most_messages)
        server = door.dialect.server
        if door.operation != "chat":
            return None
        body = request.body
        asked = _named_model(body, server.model_field) if server.model_field else model_of(door, {})
        dense = request.weight > _DENSE * len(body)
        cache = self._nothing if dense else self.large if request.weight > LARGE else self.cache
        try:
            read = self._read(cache, door, body, asked, caller, unless)
            if (named := model_of(door, read.fields)) != asked:
                read = self._read(cache, door, body, named, caller, unless)
        except (SegueError, PartialRequestError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None
        return read

    def _read(
        self,
        cache: ReadCache,
        door: Door,
        body: bytes,
        asked: str,
        caller: str,
        unless: Collection[str],
    ) -> ReadRequest:
        dialect = door.dialect
        writer = self._writer(asked, dialect.name)
        # What was read as another writer's is not continued.
        owner = "\n".join((caller, writer.dialect, writer.provider, writer.endpoint))
        prepare = prepared_by(writer, dialect.name)
        return cache.read(dialect, body, owner=owner, model=writer.model, prepare=prepare, unless=unless)


def _named_model(body: bytes, field: str) -> str:
    """The name of the model, by a look at both ends of the body: it may be wrong, and empty if there is none."""
    name = _name(field)
    found = name.search(body, 0, _NEAR) or name.search(body, max(0, len(body) - _NEAR))
    return found[1].decode("utf-8", "replace") if found is not None else ""


@cache
def _name(field: str) -> re.Pattern[bytes]:
    return re.compile(b'"' + re.escape(field.encode()) + rb'"\s*:\s*"([^"\\]+)"')


@final
class TurnReader:
    """Reads the requests of all callers."""

    def __init__(
        self,
        names: ModelNames,
        memory: Memory,
        plans: KeptPlans,
        archive: ReplyArchive,
        objects: ConversationObjects,
        compactor: ClientCompaction,
        contents: HeldContents,
        limits: GatewayLimits,
    ) -> None:
        self._names = names
        self._memory = memory
        self._most_messages = limits.messages
        self._requests = RequestReader(names.writer, most_messages=limits.messages)
        self._references = ReferenceResolver(archive, compactor, memory, contents)
        self._continuations = ContinuationReader(archive, objects)
        self._warm = CacheBudget(limits.warm_bytes)
        self._warm.share(
            requests=self._requests.cache,
            tools=self._requests.cache.tools,
            histories=memory.histories,
            replies=memory.at_hand,
            plans=plans,
            conversations=memory.recent,
            threads=self._continuations.known,
        )

    def keep_warm(self, **caches: BoundedCache) -> None:
        """Within the same budget."""
        self._warm.share(**caches)

    def warm_bytes(self) -> dict[str, int]:
        """What is kept for the next requests of conversations, by its kind."""
        return {**self._warm.by_kind(), "large_requests": self._requests.large.budget.held}

    async def read_chat(self, door: Door, request: WebRequest, caller: str) -> ClientTurn:
        """A request for a reply."""
        wire, continued = door.dialect.server.continuations, None
        unless = () if wire is None else wire.fields
        read = await read_beside(request.weight, partial(self._requests.read, door, request, caller, unless))
        if read is None and wire is not None:
            request, continued = await self._continuations.read(door, request, caller)
            read = await read_beside(request.weight, partial(self._requests.read, door, request, caller))
        known = None if read is None else await self._references.read_before(door, request.body, read, caller)
        if known is not None:
            known = known if continued is None else continued.noted_in(known)
            writer = self._writer(door, known)
            return await read_turn(
                door, request, known, caller=caller, memory=self._memory, writer=writer, read=read
            )
        prepared = await self._references.resolve(door, read_fields(request.body), caller)
        prepared = prepared if continued is None else continued.noted_in(prepared)
        try:
            return await self._read(door, request, prepared, caller)
        except TranscriptError as error:
            if prepared.changed:
                raise
            return unread_turn(door, request, prepared, error, caller=caller, memory=self._memory)

    async def read(self, door: Door, request: WebRequest, fields: dict[str, Any], caller: str) -> ClientTurn:
        """What a request asks about a chat with these fields: to count it, to compact it, to explain it."""
        server = door.dialect.server
        if server.continuations is not None:
            asked = structs.replace(request, body=msgspec.json.encode(fields))
            whole, continued = await self._continuations.read(door, asked, caller)
            request, fields = (request, fields) if continued is None else (whole, read_fields(whole.body))
        prepared = await self._references.resolve(door, fields, caller)
        return await self._read(door, request, prepared, caller)

    async def _read(
        self, door: Door, request: WebRequest, prepared: PreparedRequest, caller: str
    ) -> ClientTurn:
        messages, most = prepared.fields.get(door.dialect.messages_field), self._most_messages
        if isinstance(messages, list) and len(messages) > most:  # with those that it continues
            raise too_many_messages(most)
        writer = self._writer(door, prepared)
        return await read_turn(door, request, prepared, caller=caller, memory=self._memory, writer=writer)

    def _writer(self, door: Door, prepared: PreparedRequest) -> Origin:
        return self._names.writer(model_of(door, prepared.fields), door.dialect.name)

    async def switched(self, turn: ClientTurn) -> str:
        """The model that an operator chose for the conversation; empty if none was, or it is no longer configured. It is none
        for a turn that goes on with calls of a model that we do not know: only the client's own name can mean that."""
        return (await self.looked_up(turn))[0]

    async def looked_up(self, turn: ClientTurn) -> tuple[str, bool]:
        """The same, and whether the conversation is known to the store."""
        if turn.begins or (turn.continues and not turn.bound):
            return "", False
        chosen, known = await self._memory.switched(turn.caller, turn.conversation_id, turn.session)
        if chosen and not self._names.is_known(chosen):
            _LOG.warning("%s was switched to %s, which is not known.", turn.conversation_id, chosen)
            return "", known
        return chosen, known

"""Requests of clients as they are read: of a conversation that is known only what is new."""

from __future__ import annotations

import re
import sys
from functools import cache
from typing import TYPE_CHECKING, Final, final

import msgspec

from segue.dialects.caches.read_cache import ReadCache, ReadRequest
from segue.errors import SegueError
from segue.gateway.conversations.client_messages import prepared_by
from segue.gateway.conversations.turns import model_of
from segue.gateway.requests.body import check_messages
from segue.gateway.requests.byte_budget import VALUE_BYTES
from segue.gateway.requests.large_bodies import LARGE

if TYPE_CHECKING:
    from collections.abc import Callable

    from segue.conversation.blocks import Origin
    from segue.gateway.doors.paths import Door
    from segue.gateway.requests.web import WebRequest

MAX_BYTES: Final = 64 << 20
"""Of all that is kept of requests, for the next ones of the same conversations."""
_DENSE: Final = 8
"""A body that counts for more than so many times its bytes holds mostly empty values, and is not kept: a cache counts bytes."""
_NEAR: Final = 400
"""Within so many bytes of either end of a body, its model is looked for."""


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

    def read(self, door: Door, request: WebRequest, caller: str) -> ReadRequest | None:
        """None if it has to be read in another way: something is wrong with it. Raises if it has
        too many messages."""
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
            read = self._read(cache, door, body, asked, caller)
            if (named := model_of(door, read.fields)) != asked:
                read = self._read(cache, door, body, named, caller)
        except (SegueError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None
        return read

    def _read(self, cache: ReadCache, door: Door, body: bytes, asked: str, caller: str) -> ReadRequest:
        dialect = door.dialect
        writer = self._writer(asked, dialect.name)
        # What was read as another writer's is not continued.
        owner = "\n".join((caller, writer.dialect, writer.provider, writer.endpoint))
        prepare = prepared_by(writer, dialect.name)
        return cache.read(dialect, body, owner=owner, model=writer.model, prepare=prepare)


def _named_model(body: bytes, field: str) -> str:
    """The name of the model, by a look at both ends of the body: it may be wrong, and empty if there is none."""
    name = _name(field)
    found = name.search(body, 0, _NEAR) or name.search(body, max(0, len(body) - _NEAR))
    return found[1].decode("utf-8", "replace") if found is not None else ""


@cache
def _name(field: str) -> re.Pattern[bytes]:
    return re.compile(b'"' + re.escape(field.encode()) + rb'"\s*:\s*"([^"\\]+)"')

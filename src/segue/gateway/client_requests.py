"""Requests of clients as they are read: of a conversation that is known only what is new."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Final, final

import msgspec

from segue.dialects.read_cache import ReadCache, ReadRequest
from segue.errors import SegueError
from segue.gateway.client_messages import prepared_by
from segue.gateway.turns import model_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from segue.conversation.blocks import Origin
    from segue.gateway.doors import Door
    from segue.gateway.web import WebRequest

MAX_BYTES: Final = 64 << 20
"""Of all that is kept of requests, for the next ones of the same conversations."""
_NEAR: Final = 400
"""Within so many bytes of either end of a body, its model is looked for."""


@final
class RequestReader:
    """Reads the requests of all callers."""

    def __init__(self, writer: Callable[[str, str], Origin], max_bytes: int = MAX_BYTES) -> None:
        """`writer`: who evidently wrote the replies that we did not see, by the model that is asked for and the wire."""
        self._writer = writer
        self._cache = ReadCache(max_bytes)

    def read(self, door: Door, request: WebRequest, caller: str) -> ReadRequest | None:
        """None if it has to be read in another way: it refers to earlier replies, or something is wrong with it."""
        server = door.dialect.server
        if door.operation != "chat" or server.stored is not None:
            return None
        body = request.body
        asked = _named_model(body, server.model_field) if server.model_field else model_of(door, {})
        try:
            read = self._read(door, body, asked, caller)
            if (named := model_of(door, read.fields)) != asked:
                read = self._read(door, body, named, caller)
        except (SegueError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None
        return read

    def _read(self, door: Door, body: bytes, asked: str, caller: str) -> ReadRequest:
        dialect = door.dialect
        writer = self._writer(asked, dialect.name)
        # What was read as another writer's is not continued.
        owner = "\n".join((caller, writer.dialect, writer.provider, writer.endpoint))
        prepare = prepared_by(writer, dialect.name)
        return self._cache.read(dialect, body, owner=owner, model=writer.model, prepare=prepare)


def _named_model(body: bytes, field: str) -> str:
    """The name of the model, by a look at both ends of the body: it may be wrong, and empty if there is none."""
    name = _name(field)
    found = name.search(body, 0, _NEAR) or name.search(body, max(0, len(body) - _NEAR))
    return found[1].decode("utf-8", "replace") if found is not None else ""


@cache
def _name(field: str) -> re.Pattern[bytes]:
    return re.compile(b'"' + re.escape(field.encode()) + rb'"\s*:\s*"([^"\\]+)"')

"""Where in a file a decoded message stands.

Decoding may make several messages of one, or one of several; how far it has come after each part of the request
tells which part a message came from.
"""

from __future__ import annotations

from bisect import bisect_right
from functools import cache
from typing import TYPE_CHECKING, Any, final

from segue.dialects.registry import DIALECTS
from segue.errors import SegueError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from segue.interop.source import SourceRequest

_LONGEST = 20_000
"""Beyond this many messages, finding a place would take longer than it helps."""


@final
class FilePositions:
    """The positions of one source's messages."""

    def __init__(self, source: SourceRequest, lines: Sequence[int] = ()) -> None:
        self._source = source
        self._lines = lines
        self._field = DIALECTS[source.dialect].messages_field if source.body else "messages"
        parts: Any = (source.body or {}).get(self._field)
        self._length = len(parts) if isinstance(parts, list) else 0
        self._decoded_count = cache(self._count)

    def index(self, message: int) -> int:
        """The position in the file's own list of the part that holds a decoded message."""
        if not 0 < self._length <= _LONGEST:
            return message
        return bisect_right(range(1, self._length), message, key=self._decoded_count)

    def describe(self, message: int) -> str:
        """The place for people: a path into the file, and the line where it has lines."""
        index = self.index(message)
        path = f"{self._field}[{index}]"
        return f"line {self._lines[index]}, {path}" if index < len(self._lines) else path

    def _count(self, parts: int) -> int:
        try:
            return self._source.decoded_count(parts)
        except SegueError:
            return parts

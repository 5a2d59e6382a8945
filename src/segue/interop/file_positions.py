"""Where in a file a decoded message stands.

Decoding may make several messages of one, or one of several; how far it has come after each part of the request
tells which part a message came from.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

from segue.dialects.registry import DIALECTS
from segue.errors import SegueError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from segue.interop.source import SourceRequest

_FIELDS = ("messages", "contents", "input")
_LONGEST = 20_000
"""Beyond this many messages, finding a place would take longer than it helps."""


@final
class FilePositions:
    """The positions of one source's messages."""

    def __init__(self, source: SourceRequest, lines: Sequence[int] = ()) -> None:
        self._source = source
        self._lines = lines
        body = source.body or {}
        self._field = next((name for name in _FIELDS if isinstance(body.get(name), list)), "")
        self._parts: list[Any] = body[self._field] if self._field else []
        self._decoded_counts: dict[int, int] = {0: 0}

    def index(self, message: int) -> int:
        """The position in the file's own list of the part that holds a decoded message."""
        if not 0 < len(self._parts) <= _LONGEST:
            return message
        low, high = 0, len(self._parts)
        while low + 1 < high:
            middle = (low + high) // 2
            if self._decoded(middle) > message:
                high = middle
            else:
                low = middle
        return low

    def describe(self, message: int) -> str:
        """The place for people: a path into the file, and the line where it has lines."""
        index = self.index(message)
        path = f"{self._field or 'messages'}[{index}]"
        return f"line {self._lines[index]}, {path}" if index < len(self._lines) else path

    def _decoded(self, parts: int) -> int:
        """How many messages the first `parts` parts are decoded to."""
        known = self._decoded_counts.get(parts)
        if known is None:
            body = {**(self._source.body or {}), self._field: self._parts[:parts]}
            try:
                known = len(DIALECTS[self._source.dialect].decode_request(body).messages)
            except SegueError:
                known = parts
            self._decoded_counts[parts] = known
        return known

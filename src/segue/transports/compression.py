"""A compressed body, inflated piece by piece: a reader that stops has inflated no more than it has read."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Final

from segue.errors import ProtocolError, TransportError

if TYPE_CHECKING:
    from collections.abc import Iterator

PIECE: Final = 1 << 20
"""Bytes that are inflated at a time."""
_WINDOWS: Final = {"gzip": 31, "x-gzip": 31, "deflate": 15}
_RAW: Final = -15


class Inflation:
    """Inflates the portions of one body. An encoding that was not asked for is refused."""

    def __init__(self, encoding: str, place: str) -> None:
        self._place = place
        self._encoding = encoding.strip().lower()
        self._inflate: zlib._Decompress | None = None
        self._plain = self._encoding in ("", "identity")
        if not self._plain and self._encoding not in _WINDOWS:
            raise ProtocolError(
                f'{place} compressed its answer as "{self._encoding[:40]}", which was not asked for.',
                code="unknown_encoding",
                hint="Check that the address is that of an API, and what a proxy changes.",
            )

    def feed(self, portion: bytes) -> Iterator[bytes]:
        if self._plain:
            yield portion
            return
        while portion:
            piece, portion = self._next(portion)
            if piece:
                yield piece

    def close(self) -> None:
        """Raises TransportError if the end of the compressed body is missing."""
        if self._inflate is not None and not self._inflate.eof:
            raise self._broken("its end is missing")

    def _next(self, portion: bytes) -> tuple[bytes, bytes]:
        try:
            if self._inflate is None:
                self._inflate = zlib.decompressobj(self._window(portion))
            elif self._inflate.eof:  # several streams, one behind the other
                self._inflate = zlib.decompressobj(_WINDOWS[self._encoding])
            piece = self._inflate.decompress(portion, PIECE)
        except zlib.error as error:
            raise self._broken("it is not what its header names") from error
        return piece, self._inflate.unconsumed_tail or self._inflate.unused_data

    def _window(self, start: bytes) -> int:
        """Some servers send "deflate" without the header of zlib."""
        raw = self._encoding == "deflate" and start[0] & 0x0F != 8
        return _RAW if raw else _WINDOWS[self._encoding]

    def _broken(self, why: str) -> TransportError:
        return TransportError(
            f"The compressed answer of {self._place} cannot be read: {why}.",
            code="connection_broken",
            hint="Try again.",
        )

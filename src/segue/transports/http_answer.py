"""An answer over HTTP whose body is still on its way, by whatever client it was asked for.

A compressed body is inflated piece by piece: a reader that stops has inflated no more than it has read.
"""

from __future__ import annotations

import zlib
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Final

from segue.errors import ProtocolError, TransportError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping

    from segue.transports.deadline import WaitLimits


PIECE: Final = 1 << 20
"""Bytes that are inflated at a time."""
_WINDOWS: Final = {"gzip": 31, "x-gzip": 31, "deflate": 15}
_RAW: Final = -15
USER_AGENT = "segue"
ENCODINGS = "gzip, deflate"
"""What a server may compress its answer with."""


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


class HttpAnswer(ABC):
    """Its portions are those of the connection; a compressed body is inflated on the way."""

    def __init__(self, status: int, headers: Mapping[str, str], limits: WaitLimits) -> None:
        self.status = status
        self.headers = headers
        self._limits = limits

    def portions(self) -> AsyncIterator[bytes]:
        encoding = self.headers.get("content-encoding", "")
        return self._inflated(encoding) if encoding else self

    def __aiter__(self) -> HttpAnswer:
        return self

    @abstractmethod
    async def __anext__(self) -> bytes: ...

    @abstractmethod
    def close(self) -> None:
        """Closes the connection at once, unless the body came to its end: then it is back in the pool."""

    async def _inflated(self, encoding: str) -> AsyncIterator[bytes]:
        body = Inflation(encoding, self._limits.request.place)
        async for portion in self:
            for piece in body.feed(portion):
                yield piece
        body.close()

    async def read(self) -> bytes:
        return b"".join([portion async for portion in self.portions()])

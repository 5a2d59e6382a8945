"""An answer over HTTP whose body is still on its way, by whatever client it was asked for."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from segue.transports.compression import Inflation

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from segue.transports.deadline import WaitLimits

USER_AGENT = "segue"
ENCODINGS = "gzip, deflate"
"""What a server may compress its answer with."""


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

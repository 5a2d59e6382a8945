"""Carries a request not to a socket but to the engine in this process: its answer is a stream of the same wire."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, final

import msgspec

from segue.dialects import sse

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from segue.providers.embedded.engine import Engine
    from segue.transports.transport import WireRequest, WireResponse

_DONE = sse.encode(b"[DONE]")
_END = b'"finish_reason":"'
"""Stands in the piece that ends a reply, and nowhere else: inside of a text its quotes would be escaped."""


@final
class EngineTransport:
    """A transport to the engines of this process; `engine_for` finds the one of a model."""

    def __init__(self, engine_for: Callable[[str], Engine]) -> None:
        self._engine_for = engine_for

    @asynccontextmanager
    async def __call__(self, request: WireRequest) -> AsyncIterator[WireResponse]:
        body = msgspec.json.decode(request.body)
        # While it reads a prompt the engine reports nothing by itself, and could not be stopped then.
        body["return_progress"] = True
        pieces = self._engine_for(body["model"]).chat(msgspec.json.encode(body))
        try:
            first = await anext(pieces, b"{}")
            status = _status(first)
            yield _EngineResponse(status, _stream(first, pieces) if status == 200 else _single(first))
        finally:
            await pieces.aclose()


@final
class _EngineResponse:
    def __init__(self, status: int, body: AsyncIterator[bytes]) -> None:
        self.status = status
        self.headers: Mapping[str, str] = {"content-type": "text/event-stream"}
        self._body = body

    def portions(self) -> AsyncIterator[bytes]:
        return self._body

    async def read(self) -> bytes:
        return b"".join([portion async for portion in self._body])


async def _single(piece: bytes) -> AsyncIterator[bytes]:
    yield piece


async def _stream(first: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    ended = _END in first
    yield sse.encode(first)
    async for piece in rest:
        ended = ended or _END in piece
        yield sse.encode(piece)
    if ended:  # else it was cut off, and must not be taken for whole
        yield _DONE


def _status(piece: bytes) -> int:
    error = msgspec.json.decode(piece).get("error")
    code = error.get("code") if isinstance(error, dict) else None
    return (code if isinstance(code, int) else 500) if error else 200

"""Carries a request not to a socket but to the engine in this process: its answer is a stream of the same wire."""

from __future__ import annotations

import math
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, final

import msgspec

from segue.dialects.streams import sse

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from segue.providers.embedded.engine import Engine
    from segue.transports.transport import WireRequest, WireResponse

_DONE = sse.encode(b"[DONE]")
_END = b'"finish_reason":"'
"""Stands in the piece that ends a reply, and nowhere else: inside of a text its quotes would be escaped."""

_READING = b'"prompt_progress"'


@final
class EngineTransport:
    """A transport to the engines of this process; `engine_for` finds the one of a model."""

    def __init__(self, engine_for: Callable[[str], Engine]) -> None:
        self._engine_for = engine_for

    @asynccontextmanager
    async def __call__(self, request: WireRequest) -> AsyncIterator[WireResponse]:
        asked = msgspec.json.decode(request.body)
        # While it reads a prompt the engine reports nothing by itself, and could not be stopped then.
        asked["return_progress"] = True
        engine = self._engine_for(asked["model"])
        pieces = engine.chat(msgspec.json.encode(asked))
        try:
            first = await anext(pieces, b"{}")
            status = _status(first)
            body = _stream(first, pieces, engine.settings.seconds) if status == 200 else _single(first)
            yield _EngineResponse(status, body)
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


async def _stream(first: bytes, rest: AsyncIterator[bytes], seconds: float) -> AsyncIterator[bytes]:
    """`seconds`: how long the model may write; then its reply ends as at a limit of tokens. 0: as long as it wants."""
    ended = _END in first
    limit = math.inf
    yield sse.encode(first)
    async for piece in rest:
        ended = ended or _END in piece
        if (
            seconds and limit == math.inf and _READING not in piece
        ):  # it has read the prompt, and begins to write
            limit = time.monotonic() + seconds
        yield sse.encode(piece)
        if not ended and time.monotonic() > limit:
            yield sse.encode(_cut_off(piece))
            ended = True
            break
    if ended:  # else it was cut off, and must not be taken for whole
        yield _DONE


def _cut_off(piece: bytes) -> bytes:
    """The end of a reply whose last piece this was."""
    chunk = msgspec.json.decode(piece)
    chunk.pop("prompt_progress", None)
    return msgspec.json.encode({**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": "length"}]})


def _status(piece: bytes) -> int:
    error = msgspec.json.decode(piece).get("error")
    code = error.get("code") if isinstance(error, dict) else None
    return (code if isinstance(code, int) else 500) if error else 200

"""An ASGI application in this process as the place that requests go to: no socket, no server, the same behaviour.

The application runs beside its reader and is slowed down by a slow one. Leaving before the end is a hang-up, of which
it is notified as by a server.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, final
from urllib.parse import unquote, urlsplit

from segue.errors import TransportError

if TYPE_CHECKING:
    from segue.transports.transport import WireRequest, WireResponse

AsgiMessage: TypeAlias = MutableMapping[str, Any]
Application: TypeAlias = Callable[
    [AsgiMessage, Callable[[], Awaitable[AsgiMessage]], Callable[[AsgiMessage], Awaitable[None]]],
    Awaitable[None],
]

AHEAD: Final = 8
"""How many portions the application may be ahead of its reader."""
GRACE_SECONDS: Final = 1.0
"""Seconds that it may continue after a hang-up."""
_LOG: Final = logging.getLogger(__name__)


@final
class AsgiTransport:
    """Carries requests to an application in this process."""

    def __init__(
        self, application: Application, *, extensions: Mapping[str, Mapping[str, Any]] | None = None
    ) -> None:
        """`extensions`: of ASGI, which the application finds in its scope."""
        self._application = application
        self._extensions = dict(extensions or {})

    @asynccontextmanager
    async def __call__(self, request: WireRequest) -> AsyncIterator[WireResponse]:
        exchange = _Exchange(request, self._extensions)
        running = asyncio.ensure_future(exchange.run(self._application))
        try:
            yield await exchange.answer()
        finally:
            exchange.hung_up.set()
            await asyncio.wait({running}, timeout=GRACE_SECONDS)
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running


class _Exchange:
    """One request, seen from both sides."""

    def __init__(self, request: WireRequest, extensions: dict[str, Mapping[str, Any]]) -> None:
        self._request = request
        self._extensions = extensions
        self._messages: asyncio.Queue[AsgiMessage] = asyncio.Queue(AHEAD)
        self._asked = False
        self._lost = False
        self.hung_up = asyncio.Event()

    async def run(self, application: Application) -> None:
        try:
            await application(_scope(self._request, self._extensions), self._receive, self._send)
            end: AsgiMessage = {"type": "end"}
        except Exception as error:  # a server would close the connection
            _LOG.warning("The application failed with %s at %s", type(error).__name__, self._request.place)
            end = {"type": "end", "why": "the application failed"}
        with suppress(ConnectionError):
            await self._send(end)

    async def _receive(self) -> AsgiMessage:
        if not self._asked:
            self._asked = True
            return {"type": "http.request", "body": self._request.body, "more_body": False}
        await self.hung_up.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: AsgiMessage) -> None:
        put = asyncio.ensure_future(self._messages.put(message))
        gone = asyncio.ensure_future(self.hung_up.wait())
        try:
            await asyncio.wait({put, gone}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            gone.cancel()
            put.cancel()
        if self.hung_up.is_set():
            # As on a socket: what is sent first into the void is lost, and only then sending fails.
            if self._lost:
                raise ConnectionError("The client has gone.")
            self._lost = True

    async def answer(self) -> _LoopbackAnswer:
        start = await self.next(self._request.first_wait)
        if start["type"] != "http.response.start":
            raise self.broken(start)
        return _LoopbackAnswer(self, start)

    async def next(self, what: Literal["first_byte", "whole_reply", "idle"]) -> AsgiMessage:
        seconds: float | None = getattr(self._request.timeouts, what)
        try:
            async with asyncio.timeout(seconds):
                return await self._messages.get()
        except TimeoutError:
            raise TransportError(
                f"{self._request.place} sent nothing for {seconds:g} s.",
                code=f"{what}_timeout",
                hint=f"Try again, or allow more time: timeouts.{what}.",
            ) from None

    def broken(self, message: AsgiMessage) -> TransportError:
        why = message.get("why") or "the application ended without an answer"
        return TransportError(
            f"The connection to {self._request.place} broke off: {why}.",
            code="connection_broken",
            hint="Try again.",
        )


@final
class _LoopbackAnswer:
    def __init__(self, exchange: _Exchange, start: AsgiMessage) -> None:
        self.status: int = start["status"]
        self.headers = {
            name.decode("latin-1").lower(): value.decode("latin-1")
            for name, value in start.get("headers", ())
        }
        self._exchange = exchange
        self._over = False

    async def portions(self) -> AsyncIterator[bytes]:
        while not self._over:
            message = await self._exchange.next("idle")
            if message["type"] != "http.response.body":
                raise self._exchange.broken(message)
            self._over = not message.get("more_body", False)
            if portion := message.get("body", b""):
                yield portion

    async def read(self) -> bytes:
        return b"".join([portion async for portion in self.portions()])


def _scope(request: WireRequest, extensions: dict[str, Mapping[str, Any]]) -> AsgiMessage:
    parts = urlsplit(request.url)
    headers = {
        "host": parts.netloc.rpartition("@")[2],
        "content-length": str(len(request.body)),
        **request.headers,
    }
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": "1.1",
        "method": request.method,
        "scheme": parts.scheme or "http",
        "path": unquote(parts.path),
        "raw_path": parts.path.encode(),
        "query_string": parts.query.encode(),
        "root_path": "",
        "headers": [(name.lower().encode(), value.encode("latin-1")) for name, value in headers.items()],
        "client": ("127.0.0.1", 0),
        "server": (parts.hostname or "loopback", parts.port or 80),
        "extensions": extensions,
    }

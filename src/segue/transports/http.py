"""Requests over HTTP by aiohttp's client, which is loaded with the first of them.

Connections are kept open and used again, one pool per event loop. Proxies and certificates are those that the
environment names. Each wait has a limit of its own, and each limit a code of its own.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, final
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from contextlib import AbstractAsyncContextManager

    from segue.transports.aiohttp_session import AiohttpSession, HttpAnswer
    from segue.transports.transport import WireRequest, WireResponse


@final
class HttpTransport:
    """A transport over real sockets. One may serve any number of loops, one after another or side by side."""

    def __init__(self) -> None:
        self._pools: WeakKeyDictionary[
            asyncio.AbstractEventLoop, tuple[AiohttpSession, AsyncGenerator[AiohttpSession, None]]
        ] = WeakKeyDictionary()

    def __call__(self, request: WireRequest) -> AbstractAsyncContextManager[WireResponse]:
        return _HttpExchange(self, request)

    async def close(self) -> None:
        """Close the connections of the running loop. A loop that is shut down closes its own."""
        kept = self._pools.get(asyncio.get_running_loop())
        if kept is not None:
            await kept[1].aclose()

    async def session(self) -> AiohttpSession:
        """The one of the running loop."""
        loop = asyncio.get_running_loop()
        kept = self._pools.get(loop)
        if kept is not None:
            return kept[0]
        # A loop that ends closes its asynchronous generators, and so this one its connections.
        pool = self._pool(loop)
        session = await anext(pool)
        self._pools[loop] = session, pool
        return session

    async def _pool(self, loop: asyncio.AbstractEventLoop) -> AsyncGenerator[AiohttpSession, None]:
        from segue.transports.aiohttp_session import AiohttpSession  # noqa: PLC0415 - loads aiohttp

        session = AiohttpSession()
        try:
            yield session
        finally:
            self._pools.pop(loop, None)
            await session.close()


@final
class _HttpExchange:
    """One request, whose answer is closed when its context is left."""

    def __init__(self, transport: HttpTransport, request: WireRequest) -> None:
        self._transport = transport
        self._request = request
        self._answer: HttpAnswer | None = None

    async def __aenter__(self) -> HttpAnswer:
        session = await self._transport.session()
        self._answer = answer = await session.send(self._request)
        return answer

    async def __aexit__(self, *_: object) -> None:
        if self._answer is not None:
            self._answer.close()


DEFAULT_TRANSPORT: Final = HttpTransport()
"""One pool of connections per process and loop."""

"""Requests over HTTP: by a client of our own, or by aiohttp's where that one does not do (`DirectSession.takes`).

Connections are kept open and used again, one pool per event loop. Proxies and certificates are those that the
environment names. Each wait has a limit of its own, and each limit a code of its own.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, final
from weakref import WeakKeyDictionary

from segue.transports.proxies import EnvironmentProxies

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from contextlib import AbstractAsyncContextManager

    from segue.transports.aiohttp_session import AiohttpSession
    from segue.transports.direct_session import DirectSession
    from segue.transports.http_answer import HttpAnswer
    from segue.transports.transport import WireRequest, WireResponse


@final
class HttpTransport:
    """A transport over real sockets. One may serve any number of loops, one after another or side by side."""

    def __init__(self, *, direct: bool = True) -> None:
        """`direct`: whether our own client may be used."""
        self._direct = direct
        self._pools: WeakKeyDictionary[
            asyncio.AbstractEventLoop, tuple[_Sessions, AsyncGenerator[_Sessions, None]]
        ] = WeakKeyDictionary()

    def __call__(self, request: WireRequest) -> AbstractAsyncContextManager[WireResponse]:
        return _HttpExchange(self, request)

    async def close(self) -> None:
        """Close the connections of the running loop. A loop that is shut down closes its own."""
        kept = self._pools.get(asyncio.get_running_loop())
        if kept is not None:
            await kept[1].aclose()

    async def send(self, request: WireRequest) -> HttpAnswer:
        """The answer must be closed."""
        kept = self._pools.get(asyncio.get_running_loop())
        return await (kept[0] if kept is not None else await self._open()).send(request)

    async def _open(self) -> _Sessions:
        loop = asyncio.get_running_loop()
        # A loop that ends closes its asynchronous generators, and so this one its connections.
        pool = self._pool(loop)
        session = await anext(pool)
        self._pools[loop] = session, pool
        return session

    async def _pool(self, loop: asyncio.AbstractEventLoop) -> AsyncGenerator[_Sessions, None]:
        sessions = _Sessions(direct=self._direct)
        try:
            yield sessions
        finally:
            self._pools.pop(loop, None)
            await sessions.close()


@final
class _Sessions:
    """The clients of one loop, each opened with its first request. Proxies are those that the environment names now."""

    def __init__(self, *, direct: bool) -> None:
        self._proxies = EnvironmentProxies()
        self._may_direct = direct
        self._direct: DirectSession | None = None
        self._other: AiohttpSession | None = None

    async def send(self, request: WireRequest) -> HttpAnswer:
        if self._direct is None and self._may_direct:
            from segue.transports.direct_session import DirectSession  # noqa: PLC0415 - loads the parser

            self._direct = DirectSession()
        if (
            self._direct is not None
            and self._direct.takes(request)
            and self._proxies.proxy_for(request.url) is None
        ):
            return await self._direct.send(request)
        if self._other is None:
            from segue.transports.aiohttp_session import AiohttpSession  # noqa: PLC0415 - loads aiohttp

            self._other = AiohttpSession(self._proxies)
        return await self._other.send(request)

    async def close(self) -> None:
        for session in (self._direct, self._other):
            if session is not None:
                await session.close()


@final
class _HttpExchange:
    """One request, whose answer is closed when its context is left."""

    def __init__(self, transport: HttpTransport, request: WireRequest) -> None:
        self._transport = transport
        self._request = request
        self._answer: HttpAnswer | None = None

    async def __aenter__(self) -> HttpAnswer:
        self._answer = answer = await self._transport.send(self._request)
        return answer

    async def __aexit__(self, *_: object) -> None:
        if self._answer is not None:
            self._answer.close()


DEFAULT_TRANSPORT: Final = HttpTransport()
"""One pool of connections per process and loop."""

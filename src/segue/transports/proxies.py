"""Requests through a proxy that the environment names, by aiohttp's client, which is loaded with the first of them."""

from __future__ import annotations

import asyncio
import os
from functools import lru_cache
from io import BytesIO
from typing import TYPE_CHECKING, Final, final
from urllib.parse import urlsplit

from segue.transports.waits import RequestWaits, broken, unreachable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from ssl import SSLContext
    from types import SimpleNamespace

    from aiohttp import ClientResponse, ClientSession, TraceConfig

    from segue.transports.transport import WireRequest

LARGE_BODY: Final = 2**20
"""Bytes above which a body is sent in portions: written in one go it would hold up all other requests."""


@final
class ProxyClient:
    """The connections of one event loop to proxies."""

    def __init__(self, certificates: Callable[[], SSLContext]) -> None:
        self._certificates = certificates
        self._session: ClientSession | None = None

    async def send(self, request: WireRequest, proxy: str, waits: RequestWaits) -> ProxiedAnswer:
        """Raises TransportError, and TimeoutError where the server takes too long."""
        import aiohttp  # noqa: PLC0415 - loaded when the first request is made
        from yarl import URL  # noqa: PLC0415 - aiohttp's own

        session = self._session = self._session or self._open()
        head = asyncio.timeout_at(waits.limit())
        try:
            async with head:
                response = await session.request(
                    request.method,
                    URL(request.url, encoded=True),
                    headers=request.headers,
                    data=BytesIO(request.body) if len(request.body) > LARGE_BODY else request.body or None,
                    timeout=aiohttp.ClientTimeout(total=None, connect=waits.connect),
                    proxy=proxy,
                    allow_redirects=False,  # a key goes where it was meant to go and nowhere else
                    trace_request_ctx=(waits, head),
                )
        except aiohttp.ConnectionTimeoutError as error:
            raise waits.too_long("connect") from error
        except aiohttp.ClientConnectorError as error:
            raise unreachable(waits.place, error) from error
        except aiohttp.ClientError as error:
            raise broken(waits.place, error) from error
        return ProxiedAnswer(response, waits)

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    def _open(self) -> ClientSession:
        import aiohttp  # noqa: PLC0415 - loaded when the first request is made

        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ssl=self._certificates()),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"user-agent": "segue", "accept-encoding": "gzip, deflate"},
            auto_decompress=False,  # it would inflate whatever arrives at once, a thousandfold
            trace_configs=[_trace()],
        )


@final
class ProxiedAnswer:
    """An answer whose body is still on its way."""

    def __init__(self, response: ClientResponse, waits: RequestWaits) -> None:
        self.status = response.status
        self.headers = {name.lower(): value for name, value in response.headers.items()}
        self._response = response
        self._waits = waits

    async def portion(self, deadline: float | None) -> bytes:
        """What has arrived of the body; empty at its end. Raises TransportError, and TimeoutError at the deadline."""
        import aiohttp  # noqa: PLC0415 - it was loaded for the request

        try:
            async with asyncio.timeout_at(deadline):
                return await self._response.content.readany()
        except aiohttp.ClientError as error:
            raise broken(self._waits.place, error) from error

    def close(self) -> None:
        self._response.close()


def _trace() -> TraceConfig:
    """Notifies the limits of a request when it has a connection, new or kept."""
    import aiohttp  # noqa: PLC0415 - loaded when the first request is made

    async def connected(_: ClientSession, context: SimpleNamespace, __: object) -> None:
        waits, head = context.trace_request_ctx
        waits.connected()
        head.reschedule(waits.limit())

    trace = aiohttp.TraceConfig()
    trace.on_connection_create_end.append(connected)
    trace.on_connection_reuseconn.append(connected)
    return trace


_PROXY_VARIABLES: Final = tuple(
    spelled
    for name in ("http", "https", "all", "no")
    for spelled in (f"{name}_proxy", f"{name.upper()}_PROXY")
)


@lru_cache(maxsize=4)
def _proxies(*variables: str | None) -> Mapping[str, str]:  # noqa: ARG001 - they are read by getproxies
    """Found once for each state of the environment: the search takes longer than all else that precedes a request."""
    from urllib.request import getproxies  # noqa: PLC0415 - slow to load, and aiohttp needs it too

    return getproxies()


def proxy_for(url: str) -> str | None:
    """The proxy that the environment names for this address, if any."""
    proxies = _proxies(*[os.environ.get(name) for name in _PROXY_VARIABLES])
    if not proxies:
        return None
    from urllib.request import proxy_bypass  # noqa: PLC0415 - slow to load, and aiohttp needs it too

    parts = urlsplit(url)
    found = proxies.get(parts.scheme) or proxies.get("all")
    if not found or _is_here(parts.hostname or "") or proxy_bypass(parts.netloc.rpartition("@")[2]):
        return None
    return found if "://" in found else f"http://{found}"


def _is_here(host: str) -> bool:
    """Whether this very machine is meant. A proxy would look for the server on its own."""
    from ipaddress import ip_address  # noqa: PLC0415 - who has no proxy need not load it

    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")

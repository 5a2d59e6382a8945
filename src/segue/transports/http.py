"""Requests over HTTP by aiohttp's client, which is loaded with the first of them.

Connections are kept open and used again, one pool per event loop. Proxies and certificates are those that the
environment names. Each wait has a limit of its own, and each limit a code of its own.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import asynccontextmanager
from functools import lru_cache
from io import BytesIO
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, final
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from segue.errors import TransportError, UsageError
from segue.transports.compression import Inflation

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Mapping
    from contextlib import AbstractAsyncContextManager
    from ssl import SSLContext
    from types import SimpleNamespace

    from aiohttp import ClientResponse, ClientSession, TraceConfig
    from yarl import URL

    from segue.transports.transport import Timeouts, WireRequest, WireResponse

LARGE_BODY: Final = 2**20
"""Bytes above which a body is sent in portions: written in one go it would hold up all other requests."""

_Wait: TypeAlias = Literal["connect", "first_byte", "idle", "total"]
_TOO_LONG: Final[Mapping[_Wait, str]] = {
    "connect": "No connection to {place} within {seconds:g} s.",
    "first_byte": "{place} accepted the request and sent nothing for {seconds:g} s.",
    "idle": "{place} stopped in the middle of its answer and sent nothing for {seconds:g} s.",
    "total": "{place} did not end its answer within {seconds:g} s.",
}


@final
class HttpTransport:
    """A transport over real sockets. One may serve any number of loops, one after another or side by side."""

    def __init__(self) -> None:
        self._pools: WeakKeyDictionary[
            asyncio.AbstractEventLoop, tuple[ClientSession, AsyncGenerator[ClientSession, None]]
        ] = WeakKeyDictionary()

    def __call__(self, request: WireRequest) -> AbstractAsyncContextManager[WireResponse]:
        return self._ask(request)

    async def close(self) -> None:
        """Close the connections of the running loop. A loop that is shut down closes its own."""
        kept = self._pools.get(asyncio.get_running_loop())
        if kept is not None:
            await kept[1].aclose()

    @asynccontextmanager
    async def _ask(self, request: WireRequest) -> AsyncIterator[WireResponse]:
        waits = _Waits(request)
        response = await self._send(request, waits)
        try:
            yield _HttpAnswer(response, waits)
        finally:
            # Closes the connection at once, unless the body was read to its end: then it is back in the pool.
            response.close()

    async def _send(self, request: WireRequest, waits: _Waits) -> ClientResponse:
        import aiohttp  # noqa: PLC0415 - loaded when the first request is made

        url = _url(request)
        session = await self._session()
        try:
            async with waits.head:
                return await session.request(
                    request.method,
                    url,
                    headers=request.headers,
                    data=BytesIO(request.body) if len(request.body) > LARGE_BODY else request.body or None,
                    timeout=aiohttp.ClientTimeout(total=None, connect=request.timeouts.connect),
                    proxy=_proxy_for(request.url),
                    allow_redirects=False,  # a key goes where it was meant to go and nowhere else
                    trace_request_ctx=waits,
                )
        except aiohttp.ConnectionTimeoutError as error:
            raise waits.too_long("connect") from error
        except TimeoutError as error:
            raise waits.too_long("first_byte") from error
        except aiohttp.ClientConnectorError as error:
            raise _unreachable(waits.place, error) from error
        except (aiohttp.InvalidURL, aiohttp.NonHttpUrlClientError):
            raise _bad_url(request) from None
        except ValueError:
            raise UsageError(
                f"A header of the request to {waits.place} holds characters that no header may hold.",
                code="bad_header",
                hint="Look for line breaks in keys and headers.",
            ) from None
        except (aiohttp.ClientError, OSError) as error:
            raise _broken(waits.place, error) from error

    async def _session(self) -> ClientSession:
        loop = asyncio.get_running_loop()
        kept = self._pools.get(loop)
        if kept is not None:
            return kept[0]
        # A loop that ends closes its asynchronous generators, and so this one its connections.
        pool = self._pool(loop)
        session = await anext(pool)
        self._pools[loop] = session, pool
        return session

    async def _pool(self, loop: asyncio.AbstractEventLoop) -> AsyncGenerator[ClientSession, None]:
        import aiohttp  # noqa: PLC0415 - loaded when the first request is made

        certificates = _certificates(
            os.environ.get("SSL_CERT_FILE") or os.environ.get("REQUESTS_CA_BUNDLE", "")
        )
        session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ssl=certificates or True),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"user-agent": "segue", "accept-encoding": "gzip, deflate"},
            auto_decompress=False,  # it would inflate whatever arrives at once, a thousandfold
            trace_configs=[_trace()],
        )
        try:
            yield session
        finally:
            self._pools.pop(loop, None)
            await session.close()


@lru_cache(maxsize=1)
def default_transport() -> HttpTransport:
    """The default transport: one pool of connections per process and loop."""
    return HttpTransport()


@final
class _Waits:
    """The limits of one request. Which one holds depends on how far it has come."""

    def __init__(self, request: WireRequest) -> None:
        self.place = request.place
        self._limits: Timeouts = request.timeouts
        self._loop = asyncio.get_running_loop()
        self._end = _after(self._loop.time(), request.timeouts.total)
        self._first_byte: float | None = None
        self._begun = False
        self.head = asyncio.timeout_at(self._end)

    def connected(self) -> None:
        """The connection stands: from now on the server is waited for."""
        self._first_byte = _after(self._loop.time(), self._limits.first_byte)
        self.head.reschedule(_earlier(self._end, self._first_byte))

    def portion(self) -> asyncio.Timeout:
        """The limit on the wait for more of the body."""
        limit = _after(self._loop.time(), self._limits.idle) if self._begun else self._first_byte
        return asyncio.timeout_at(_earlier(self._end, limit))

    def arrived(self) -> None:
        self._begun = True

    def too_long(self, what: _Wait) -> TransportError:
        if self._end is not None and self._loop.time() >= self._end:
            what = "total"
        elif what != "connect":
            what = "idle" if self._begun else "first_byte"
        seconds: float = getattr(self._limits, what) or 0.0
        return TransportError(
            _TOO_LONG[what].format(place=self.place, seconds=seconds),
            code=f"{what}_timeout",
            hint=f"Try again, or allow more time: timeouts.{what}.",
        )


@final
class _HttpAnswer:
    """An answer whose body is still on its way."""

    def __init__(self, response: ClientResponse, waits: _Waits) -> None:
        self.status = response.status
        self.headers = {name.lower(): value for name, value in response.headers.items()}
        self._response = response
        self._waits = waits
        self._encoding = self.headers.get("content-encoding", "")

    async def portions(self) -> AsyncIterator[bytes]:
        body = Inflation(self._encoding, self._waits.place)
        while portion := await self._more():
            for piece in body.feed(portion):
                yield piece
        body.close()

    async def read(self) -> bytes:
        return b"".join([portion async for portion in self.portions()])

    async def _more(self) -> bytes:
        """What has arrived; empty at the end."""
        import aiohttp  # noqa: PLC0415 - it was loaded for the request

        content = self._response.content
        try:
            async with self._waits.portion():
                portion = await content.readany()
        except TimeoutError as error:
            raise self._waits.too_long("idle") from error
        except (aiohttp.ClientError, OSError) as error:
            raise _broken(self._waits.place, error) from error
        self._waits.arrived()
        return portion


def _after(now: float, seconds: float | None) -> float | None:
    return None if seconds is None else now + seconds


def _earlier(one: float | None, other: float | None) -> float | None:
    if one is None or other is None:
        return other if one is None else one
    return min(one, other)


def _trace() -> TraceConfig:
    """Notifies the limits of a request when it has a connection, new or kept."""
    import aiohttp  # noqa: PLC0415 - loaded when the first request is made

    async def connected(_: ClientSession, context: SimpleNamespace, __: object) -> None:
        context.trace_request_ctx.connected()

    trace = aiohttp.TraceConfig()
    trace.on_connection_create_end.append(connected)
    trace.on_connection_reuseconn.append(connected)
    return trace


@lru_cache(maxsize=4)
def _certificates(file: str) -> SSLContext | None:
    """Trust in the authorities of a file; the system's own where none is named."""
    if not file:
        return None
    import ssl  # noqa: PLC0415 - only where somebody brings certificates of their own

    try:
        return ssl.create_default_context(cafile=file)
    except (OSError, ssl.SSLError) as error:
        raise UsageError(
            f'The certificates in "{file}" cannot be read: {error}.',
            code="bad_certificates",
            hint="Check SSL_CERT_FILE and REQUESTS_CA_BUNDLE.",
        ) from error


def _url(request: WireRequest) -> URL:
    from yarl import URL  # noqa: PLC0415 - aiohttp's own

    try:
        url = URL(request.url, encoded=True)
        _ = url.host, url.port  # looked at only now: they may be none
    except ValueError:
        raise _bad_url(request) from None
    return url


def _bad_url(request: WireRequest) -> UsageError:
    return UsageError(
        f'"{request.place}" is no address.', code="bad_url", hint="Write it as http://host:port/path."
    )


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


def _proxy_for(url: str) -> str | None:
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


def _unreachable(place: str, error: Exception) -> TransportError:
    return TransportError(
        f"Failed to connect to {place}: {_reason(error)}.",
        code="CONNECTION_FAILED",
        hint="Check the address, and that the server runs.",
    )


def _broken(place: str, error: Exception) -> TransportError:
    return TransportError(
        f"The connection to {place} broke off: {_reason(error)}.",
        code="connection_broken",
        hint="Try again.",
    )


def _reason(error: Exception) -> str:
    """Why, in the words of the system: aiohttp's own texts hold the whole address, in which there may be a secret."""
    cause = getattr(error, "os_error", None) or error
    number = getattr(cause, "errno", None)
    if isinstance(number, int) and number > 0:
        return os.strerror(number)
    reason = getattr(cause, "strerror", None) or type(cause).__name__
    return str(reason).rstrip(".")

"""Requests over HTTP: straight to the server, or by aiohttp's client where the environment names a proxy.

Connections are kept open and used again, one pool per event loop. Certificates are those that the environment names. Each
wait has a limit of its own, and each limit a code of its own.
"""

from __future__ import annotations

import asyncio
import os
import re
from base64 import b64encode
from contextlib import asynccontextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, final
from urllib.parse import unquote, urlsplit
from weakref import WeakKeyDictionary

from segue.errors import UsageError
from segue.transports.compression import Inflation
from segue.transports.proxies import ProxyClient, proxy_for
from segue.transports.waits import RequestWaits, broken, unreachable

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator
    from contextlib import AbstractAsyncContextManager
    from ssl import SSLContext

    from segue.transports.connections import ConnectionPool, Server, ServerConnection
    from segue.transports.transport import WireRequest, WireResponse

_ALWAYS: Final = {"user-agent": "segue", "accept": "*/*", "accept-encoding": "gzip, deflate"}
_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_UNSENDABLE: Final = re.compile(r"[\0\r\n]")


class _ReadableAnswer(Protocol):
    """What came back, by whichever client."""

    status: int
    headers: dict[str, str]

    async def portion(self, deadline: float | None) -> bytes: ...

    def close(self) -> None: ...


class _Clients(NamedTuple):
    """Those of one loop. The generator closes them: a loop that ends closes its asynchronous generators."""

    pool: ConnectionPool
    proxied: ProxyClient
    closing: AsyncGenerator[None, None]


@final
class HttpTransport:
    """A transport over real sockets. One may serve any number of loops, one after another or side by side."""

    def __init__(self) -> None:
        self._pools: WeakKeyDictionary[asyncio.AbstractEventLoop, _Clients] = WeakKeyDictionary()

    def __call__(self, request: WireRequest) -> AbstractAsyncContextManager[WireResponse]:
        return self._ask(request)

    async def close(self) -> None:
        """Close the connections of the running loop. A loop that is shut down closes its own."""
        kept = self._pools.get(asyncio.get_running_loop())
        if kept is not None:
            await kept.closing.aclose()

    @asynccontextmanager
    async def _ask(self, request: WireRequest) -> AsyncIterator[WireResponse]:
        waits = RequestWaits(request)
        answer = await self._send(request, waits)
        try:
            yield _HttpAnswer(answer, waits)
        finally:
            # Closes the connection at once, unless the body was read to its end: then it is back in the pool.
            answer.close()

    async def _send(self, request: WireRequest, waits: RequestWaits) -> _ReadableAnswer:
        try:
            address = _address(request.url)
        except ValueError:
            raise _bad_url(request) from None
        clients = self._pools.get(asyncio.get_running_loop()) or await self._open_clients()
        proxy = proxy_for(request.url)
        try:
            head = _head(request, address)
            if proxy is not None:
                return await clients.proxied.send(request, proxy, waits)
            server = address.server(_certificates_for_all())
            connection = clients.pool.kept(server)
            if connection is None:
                connection = await _connected(clients.pool, server, waits)
            waits.connected()
            return await connection.send(head, request.body, waits.limit())
        except TimeoutError as error:
            raise waits.too_long("first_byte") from error
        except _HeaderError:
            raise UsageError(
                f"A header of the request to {waits.place} holds characters that no header may hold.",
                code="bad_header",
                hint="Look for line breaks in keys and headers.",
            ) from None
        except OSError as error:
            raise broken(waits.place, error) from error

    async def _open_clients(self) -> _Clients:
        from segue.transports.connections import ConnectionPool  # noqa: PLC0415 - loaded with the first request

        loop = asyncio.get_running_loop()
        pool, proxied = ConnectionPool(), ProxyClient(_certificates_for_all)
        closing = self._closing(loop, pool, proxied)
        await anext(closing)
        self._pools[loop] = clients = _Clients(pool, proxied, closing)
        return clients

    async def _closing(
        self, loop: asyncio.AbstractEventLoop, pool: ConnectionPool, proxied: ProxyClient
    ) -> AsyncGenerator[None, None]:
        try:
            yield
        finally:
            self._pools.pop(loop, None)
            await pool.close()
            await proxied.close()


@lru_cache(maxsize=1)
def default_transport() -> HttpTransport:
    """The default transport: one pool of connections per process and loop."""
    return HttpTransport()


async def _connected(pool: ConnectionPool, server: Server, waits: RequestWaits) -> ServerConnection:
    try:
        return await pool.open(server, waits.connect)
    except TimeoutError as error:
        raise waits.too_long("connect") from error
    except OSError as error:
        raise unreachable(waits.place, error) from error


@final
class _HttpAnswer:
    """An answer whose body is still on its way."""

    def __init__(self, answer: _ReadableAnswer, waits: RequestWaits) -> None:
        self.status = answer.status
        self.headers = answer.headers
        self._answer = answer
        self._waits = waits

    async def portions(self) -> AsyncIterator[bytes]:
        encoding = self.headers.get("content-encoding", "")
        if not encoding:
            while portion := await self._more():
                yield portion
            return
        body = Inflation(encoding, self._waits.place)
        while portion := await self._more():
            for piece in body.feed(portion):
                yield piece
        body.close()

    async def read(self) -> bytes:
        return b"".join([portion async for portion in self.portions()])

    async def _more(self) -> bytes:
        """What has arrived; empty at the end."""
        try:
            portion = await self._answer.portion(self._waits.limit())
        except TimeoutError as error:
            raise self._waits.too_long("idle") from error
        except OSError as error:
            raise broken(self._waits.place, error) from error
        self._waits.arrived()
        return portion


class _Address(NamedTuple):
    """An address, taken apart."""

    host: str
    port: int
    secure: bool
    named: str
    """As the server is called in requests."""
    path: str
    authorization: str
    """For the name and password in the address; empty if there are none."""

    def server(self, certificates: SSLContext) -> Server:
        from segue.transports.connections import Server  # noqa: PLC0415 - loaded with the first request

        return Server(self.host, self.port, certificates if self.secure else None)


@lru_cache(maxsize=256)
def _address(url: str) -> _Address:
    """Raises ValueError if it is none."""
    parts = urlsplit(url)
    host, secure = parts.hostname, parts.scheme == "https"
    if parts.scheme not in ("http", "https") or not host:
        raise ValueError(url)
    usual = 443 if secure else 80
    port = usual if parts.port is None else parts.port
    named = host if host.isascii() else host.encode("idna").decode()
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    if not path.isascii() or not path.isprintable() or " " in path:
        raise ValueError(url)
    authorization = ""
    if parts.username is not None:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        authorization = f"Basic {b64encode(pair.encode()).decode()}"
    shown = f"[{named}]" if ":" in named else named
    return _Address(named, port, secure, shown if port == usual else f"{shown}:{port}", path, authorization)


class _HeaderError(Exception):
    """A header that cannot be sent."""


def _head(request: WireRequest, address: _Address) -> bytes:
    """The request without its body."""
    headers = {"host": address.named, **_ALWAYS}
    if address.authorization:
        headers["authorization"] = address.authorization
    headers |= {name.lower(): value for name, value in request.headers.items()}
    if request.body or request.method not in ("GET", "HEAD"):
        headers["content-length"] = str(len(request.body))
    lines = [f"{request.method} {address.path} HTTP/1.1"]
    for name, value in headers.items():
        if _NAME.fullmatch(name) is None or _UNSENDABLE.search(value) is not None:
            raise _HeaderError
        lines.append(f"{name}: {value}")
    try:
        return ("\r\n".join(lines) + "\r\n\r\n").encode()
    except UnicodeEncodeError:
        raise _HeaderError from None


def _certificates_for_all() -> SSLContext:
    return _certificates(os.environ.get("SSL_CERT_FILE") or os.environ.get("REQUESTS_CA_BUNDLE", ""))


@lru_cache(maxsize=4)
def _certificates(file: str) -> SSLContext:
    """Trust in the authorities of a file; the system's own where none is named."""
    import ssl  # noqa: PLC0415 - loaded with the first request

    try:
        context = ssl.create_default_context(cafile=file or None)
    except (OSError, ssl.SSLError) as error:
        raise UsageError(
            f'The certificates in "{file}" cannot be read: {error}.',
            code="bad_certificates",
            hint="Check SSL_CERT_FILE and REQUESTS_CA_BUNDLE.",
        ) from error
    context.set_alpn_protocols(["http/1.1"])
    return context


def _bad_url(request: WireRequest) -> UsageError:
    return UsageError(
        f'"{request.place}" is no address.', code="bad_url", hint="Write it as http://host:port/path."
    )

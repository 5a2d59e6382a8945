"""Requests by aiohttp's client, with the connections of one event loop. Loaded when the first request is made."""

from __future__ import annotations

import os
from contextvars import ContextVar
from functools import lru_cache
from io import BytesIO
from typing import TYPE_CHECKING, Final, final

import aiohttp
from yarl import URL

from segue.errors import SegueError, TransportError, UsageError
from segue.transports.compression import Inflation
from segue.transports.deadline import WaitLimits
from segue.transports.proxies import EnvironmentProxies

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from ssl import SSLContext

    from aiohttp.connector import Connection
    from aiohttp.tracing import Trace

    from segue.transports.transport import WireRequest

LARGE_BODY: Final = 2**20
"""Bytes above which a body is sent in portions: written in one go it would hold up all other requests."""
_CONNECTING: ContextVar[list[WaitLimits]] = ContextVar("_CONNECTING")
"""Of the request that waits for a connection; empty when it has one. A connection keeps the context that it was opened in for as
long as it lives, and the limits know the request with its body."""


class _Connector(aiohttp.TCPConnector):
    """Notifies the limits of a request when it has a connection, new or kept."""

    async def connect(
        self, req: aiohttp.ClientRequest, traces: list[Trace], timeout: aiohttp.ClientTimeout
    ) -> Connection:
        connection = await super().connect(req, traces, timeout)
        for waiting in _CONNECTING.get():
            waiting.connected()
        return connection


@final
class AiohttpSession:
    """Proxies and certificates are those that the environment names when it is opened."""

    def __init__(self) -> None:
        certificates = _certificates(
            os.environ.get("SSL_CERT_FILE") or os.environ.get("REQUESTS_CA_BUNDLE", "")
        )
        self._proxies = EnvironmentProxies()
        self._session = aiohttp.ClientSession(
            connector=_Connector(limit=0, ssl=certificates or True),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"user-agent": "segue", "accept-encoding": "gzip, deflate"},
            auto_decompress=False,  # it would inflate whatever arrives at once, a thousandfold
        )

    async def send(self, request: WireRequest) -> HttpAnswer:
        limits = WaitLimits(request)
        try:
            return HttpAnswer(await self._ask(request, limits), limits)
        except SegueError as error:
            error.unbilled = not limits.is_connected
            raise

    async def _ask(self, request: WireRequest, limits: WaitLimits) -> aiohttp.ClientResponse:
        url = _url(request)
        waiting = [limits]
        _CONNECTING.set(waiting)
        try:
            with limits:
                return await self._session.request(
                    request.method,
                    url,
                    headers=request.headers,
                    data=BytesIO(request.body) if len(request.body) > LARGE_BODY else request.body or None,
                    timeout=_timeout(request.timeouts.connect),
                    proxy=self._proxies.proxy_for(request.url),
                    allow_redirects=False,  # a key goes where it was meant to go and nowhere else
                )
        except aiohttp.ConnectionTimeoutError as error:
            raise limits.too_long("connect") from error
        except TimeoutError as error:
            raise limits.too_long("first_byte") from error
        except aiohttp.ClientConnectorError as error:
            raise _unreachable(request.place, error) from error
        except (aiohttp.InvalidURL, aiohttp.NonHttpUrlClientError):
            raise _bad_url(request) from None
        except ValueError:
            raise UsageError(
                f"A header of the request to {request.place} holds characters that no header may hold.",
                code="bad_header",
                hint="Look for line breaks in keys and headers.",
            ) from None
        except (aiohttp.ClientError, OSError) as error:
            raise _broken(request.place, error) from error
        finally:
            waiting.clear()

    async def close(self) -> None:
        await self._session.close()


@final
class HttpAnswer:
    """An answer whose body is still on its way."""

    def __init__(self, response: aiohttp.ClientResponse, limits: WaitLimits) -> None:
        self.status = response.status
        self.headers = {name.lower(): value for name, value in response.headers.items()}
        self._response = response
        self._content = response.content
        self._limits = limits

    def portions(self) -> AsyncIterator[bytes]:
        encoding = self.headers.get("content-encoding", "")
        return self._inflated(encoding) if encoding else self

    def __aiter__(self) -> HttpAnswer:
        return self

    async def __anext__(self) -> bytes:
        limits = self._limits
        try:
            with limits:
                portion = await self._content.readany()
        except TimeoutError as error:
            raise limits.too_long("idle") from error
        except (aiohttp.ClientError, OSError) as error:
            raise _broken(limits.request.place, error) from error
        limits.begun = True
        if not portion:
            raise StopAsyncIteration
        return portion

    async def _inflated(self, encoding: str) -> AsyncIterator[bytes]:
        body = Inflation(encoding, self._limits.request.place)
        async for portion in self:
            for piece in body.feed(portion):
                yield piece
        body.close()

    async def read(self) -> bytes:
        return b"".join([portion async for portion in self.portions()])

    def close(self) -> None:
        """Closes the connection at once, unless the body was read to its end: then it is back in the pool."""
        self._response.close()


@lru_cache(maxsize=16)
def _timeout(connect: float | None) -> aiohttp.ClientTimeout:
    """All other waits have limits of our own."""
    return aiohttp.ClientTimeout(total=None, connect=connect)


def _url(request: WireRequest) -> URL:
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
    """Why, in the words of the system or ours: aiohttp's texts hold the whole address, in which there may be a secret."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return _distrust(error.certificate_error)
    cause = getattr(error, "os_error", None) or error
    number = getattr(cause, "errno", None)
    if isinstance(number, int) and number > 0:
        return os.strerror(number)
    reason = getattr(cause, "strerror", None)
    return str(reason).rstrip(".") if reason else _in_words(cause)


def _distrust(error: Exception) -> str:
    """Its number is no number of the system, where 1 means that an operation is not permitted."""
    words = "the server's certificate is not trusted"
    if getattr(error, "verify_code", 0) == 62:  # OpenSSL's; its text names the host
        return f"{words}: it is for another host"
    why = str(getattr(error, "verify_message", "") or "").rstrip(".")
    return f"{words}: {why}" if why else words


def _in_words(cause: Exception) -> str:
    match cause:
        case aiohttp.ClientPayloadError():
            return "the answer is not complete"
        case aiohttp.ServerDisconnectedError():
            return "the server closed it without an answer"
        case aiohttp.ServerFingerprintMismatch():
            return "the server's certificate is not trusted"
        case aiohttp.ClientHttpProxyError():
            return f"the proxy answered with status {cause.status}"
        case aiohttp.ClientResponseError():
            return "the answer is not HTTP"
        case _:
            return "the connection failed"

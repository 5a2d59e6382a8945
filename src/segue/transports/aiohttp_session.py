"""Requests by aiohttp's client, with the connections of one event loop: for what goes through a proxy, and for addresses that are
written in an unusual way. Loaded with the first of them."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from functools import lru_cache
from io import BytesIO
from typing import TYPE_CHECKING, Final, final

import aiohttp
from aiohttp.http_exceptions import HttpProcessingError
from yarl import URL

from segue.errors import SegueError
from segue.transports.deadline import WaitLimits
from segue.transports.failures import bad_header, bad_url, broken, reason_of, unreachable, unsent
from segue.transports.http_answer import ENCODINGS, USER_AGENT, HttpAnswer
from segue.transports.trust import trusted_certificates

if TYPE_CHECKING:
    from aiohttp.connector import Connection
    from aiohttp.tracing import Trace

    from segue.transports.proxies import EnvironmentProxies
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

    def __init__(self, proxies: EnvironmentProxies) -> None:
        self._proxies = proxies
        self._session = aiohttp.ClientSession(
            connector=_Connector(limit=0, ssl=trusted_certificates()),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"user-agent": USER_AGENT, "accept-encoding": ENCODINGS},
            auto_decompress=False,  # it would inflate whatever arrives at once, a thousandfold
        )

    async def send(self, request: WireRequest) -> AiohttpAnswer:
        limits = WaitLimits(request)
        try:
            return AiohttpAnswer(await self._ask(request, limits), limits)
        except SegueError as error:
            error.unbilled = not limits.is_connected
            raise
        except asyncio.CancelledError:
            if limits.is_connected:
                raise
            raise asyncio.CancelledError from unsent(request.place)

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
            raise unreachable(request.place, _reason(error)) from error
        except (aiohttp.InvalidURL, aiohttp.NonHttpUrlClientError):
            raise bad_url(request) from None
        except ValueError:
            raise bad_header(request) from None
        except (aiohttp.ClientError, OSError) as error:
            raise broken(request.place, _reason(error)) from error
        finally:
            waiting.clear()

    async def close(self) -> None:
        await self._session.close()


@final
class AiohttpAnswer(HttpAnswer):
    """Of aiohttp's client."""

    def __init__(self, response: aiohttp.ClientResponse, limits: WaitLimits) -> None:
        headers = {name.lower(): value for name, value in response.headers.items()}
        super().__init__(response.status, headers, limits)
        self._response = response
        self._content = response.content

    async def __anext__(self) -> bytes:
        limits = self._limits
        try:
            with limits:
                portion = await self._content.readany()
        except TimeoutError as error:
            raise limits.too_long("idle") from error
        except (aiohttp.ClientError, HttpProcessingError, OSError, RuntimeError) as error:  # the last: closed
            raise broken(limits.request.place, _reason(error)) from error
        limits.begun = True
        if not portion:
            raise StopAsyncIteration
        return portion

    def close(self) -> None:
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
        raise bad_url(request) from None
    return url


def _reason(error: Exception) -> str:
    """Why, in the words of the system or ours: aiohttp's texts hold the whole address, in which there may be a secret."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return reason_of(error.certificate_error)
    cause = getattr(error, "os_error", None) or error
    return reason_of(cause) or _in_words(cause)


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

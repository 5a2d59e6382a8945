"""The gateway as the place that clients of this process send their requests to: a transport for httpx and httpx2, whose clients
wait or do not. The same gateway serves all of them, so that a conversation may pass from one client to another.

Their classes differ in name alone, and each library wants answers of its own classes: those of the library that made the request
are used, and none is loaded otherwise.
"""

from __future__ import annotations

import sys
from contextlib import AsyncExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Self, final

from segue.errors import TransportError
from segue.gateway.asgi import IN_PROCESS, GatewayApplication, gateway_app
from segue.gateway.loop_thread import await_on, wait_on
from segue.transports.asgi import AsgiTransport
from segue.transports.transport import Timeouts, WireRequest

if TYPE_CHECKING:
    import asyncio
    from collections.abc import AsyncIterator, Iterator

    import httpx
    import httpx2

    from segue.transports.transport import WireResponse

    class _AnyTransport(
        httpx.BaseTransport, httpx.AsyncBaseTransport, httpx2.BaseTransport, httpx2.AsyncBaseTransport
    ):
        def handle_request(self, request: Any) -> Any: ...

        async def handle_async_request(self, request: Any) -> Any: ...
else:
    _AnyTransport = object


def in_process_transport(app: GatewayApplication | None = None) -> InProcessTransport:
    """A transport for any client of httpx or httpx2, which brings requests to a gateway in this process: no server, no port.

    The client keeps its base URL: of the address only the path counts. `app`: the gateway; it stays open when a client closes its transport. Without it the transport has one of its own, as
    `gateway_app()` makes it.
    """
    return InProcessTransport(app)


@final
class InProcessTransport(_AnyTransport):
    """One for all clients: of httpx and httpx2, those that wait and those that do not."""

    def __init__(self, app: GatewayApplication | None = None) -> None:
        """As `in_process_transport`."""
        self._owned = app is None
        self._app = gateway_app() if app is None else app
        self._send = AsgiTransport(self._app, extensions={IN_PROCESS: {}})

    def handle_request(self, request: Any) -> Any:
        with _in_words_of(request):
            answer = _Answer(self._send, self._app.home(), _wire_request(request, request.read()), request)
            wait_on(answer.loop, answer.begin())
        return answer.as_response(_library(request).SyncByteStream)

    async def handle_async_request(self, request: Any) -> Any:
        with _in_words_of(request):
            wire = _wire_request(request, await request.aread())
            answer = _Answer(self._send, self._app.home(), wire, request)
            await await_on(answer.loop, answer.begin())
        return answer.as_response(_library(request).AsyncByteStream)

    def close(self) -> None:
        if self._owned:
            self._app.close()

    async def aclose(self) -> None:
        if self._owned:
            await self._app.aclose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


@final
class _Answer:
    """One answer. Everything but its two ends happens in the gateway's loop."""

    def __init__(
        self, send: AsgiTransport, loop: asyncio.AbstractEventLoop, wire: WireRequest, request: Any
    ) -> None:
        self.loop = loop
        self._request = request
        self._opened = send(wire)
        self._held = AsyncExitStack()
        self._portions: AsyncIterator[bytes] | None = None
        self._head: WireResponse | None = None

    async def begin(self) -> None:
        self._head = await self._held.enter_async_context(self._opened)
        self._portions = self._head.portions()

    async def _next(self) -> bytes:
        """Empty at the end."""
        return b"" if self._portions is None else await anext(self._portions, b"")

    async def _end(self) -> None:
        self._portions = None
        await self._held.aclose()

    def as_response(self, stream_class: Any) -> Any:
        """With a body that arrives while it is read."""
        answer = self

        class Body(stream_class):  # type: ignore[misc]
            """The portions in which it arrives. Closing it early is a hang-up."""

            def __iter__(self) -> Iterator[bytes]:
                with _in_words_of(answer._request):
                    while portion := wait_on(answer.loop, answer._next()):
                        yield portion

            async def __aiter__(self) -> AsyncIterator[bytes]:
                with _in_words_of(answer._request):
                    while portion := await await_on(answer.loop, answer._next()):
                        yield portion

            def close(self) -> None:
                wait_on(answer.loop, answer._end())

            async def aclose(self) -> None:
                await await_on(answer.loop, answer._end())

        assert self._head is not None  # noqa: S101
        return _library(self._request).Response(
            self._head.status,
            headers=dict(self._head.headers),
            stream=Body(),
            extensions={"http_version": b"HTTP/1.1"},
        )


def _library(request: Any) -> Any:
    """The one that made the request."""
    return sys.modules[type(request).__module__.partition(".")[0]]


def _wire_request(request: Any, body: bytes) -> WireRequest:
    waits = request.extensions.get("timeout") or {}
    read = waits.get("read")
    return WireRequest(
        method=request.method,
        url=str(request.url),
        # No name leads here by way of a browser, so none has to be checked.
        headers={**{name.lower(): value for name, value in request.headers.items()}, "host": "localhost"},
        body=body,
        timeouts=Timeouts(first_byte=read, idle=read, whole_reply=read),
    )


@contextmanager
def _in_words_of(request: Any) -> Iterator[None]:
    """Failures as the client's library names them, so that it retries and reports them as those of a network."""
    try:
        yield
    except TransportError as error:
        library = _library(request)
        timed_out = error.code.endswith("_timeout")
        kind = library.ReadTimeout if timed_out else library.RemoteProtocolError
        raise kind(str(error), request=request) from error

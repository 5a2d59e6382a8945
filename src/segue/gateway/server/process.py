"""The gateway on a port: one process that serves, drains when it is ended, and reads its settings anew on request."""

from __future__ import annotations

import asyncio
import errno
import gc
import ipaddress
import logging
import signal
import socket
import ssl
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

import uvicorn

from segue.errors import SegueError, UsageError
from segue.gateway.server.free_memory import give_back_for_ever
from segue.gateway.server.http_protocol import SOCKET_BYTES, BoundedSocket, bounded_protocol
from segue.gateway.server.response_socket import POSTS_TO
from segue.system import signals

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from segue.config.schema import GatewaySettings

_LOG = logging.getLogger("segue.gateway")
BACKLOG: Final = 2048
_REPORT_SECONDS: Final = 10.0
_LISTEN_HINTS: Final = {
    errno.EADDRINUSE: "Perhaps a gateway runs there already. Choose another port: --port N, or 0 for any that is free.",
    errno.EACCES: "This port needs rights that you do not have. Choose one above 1023: --port N",
}
_CUT_SECONDS: Final = 2.0
_ACCEPT_AGAIN: Final = "._start_serving("


def open_listener(host: str, port: int) -> socket.socket:
    """The socket, open for connections from now on: a client that comes early waits instead of being refused."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Only on a socket that is named as TCP does asyncio send small portions at once, not 40 ms later.
    listener = socket.socket(family, proto=socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise UsageError(
            f"The gateway cannot listen on {host}:{port}: {error.strerror or error}.",
            code="cannot_listen",
            hint=_LISTEN_HINTS.get(error.errno or 0, "Name an address of this machine: --host 127.0.0.1"),
        ) from error
    return listener


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach it."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_local(listener: socket.socket) -> bool:
    """Whether only this machine can reach it, whatever the settings say by now."""
    name = listener.getsockname()
    return not isinstance(name, tuple) or is_loopback(name[0])


def address_of(listener: socket.socket, settings: GatewaySettings) -> str:
    host, port = listener.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    return f"{'https' if settings.tls_certificate else 'http'}://{shown}:{port}"


class GatewayApp(Protocol):
    """An application that can be drained and closed."""

    draining: bool
    """Set, and new requests are refused while those that run come to their end."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None: ...

    async def complete(self) -> None:
        """Wait for the end of what is made without a request that waits for it."""

    async def close(self) -> None: ...


OpenApp: TypeAlias = "Callable[[], tuple[GatewaySettings, GatewayApp]]"
"""Reads the settings and opens the application that they describe."""


async def serve(
    settings: GatewaySettings,
    listener: socket.socket,
    app: GatewayApp,
    open_app: OpenApp,
    on_ready: Callable[[], object] = lambda: None,
    until_closed: int | None = None,
) -> None:
    """Serve until SIGTERM or SIGINT; then running replies may end, for `limits.drain` seconds. On SIGHUP `open_app` reads
    the settings anew, and new requests go to what it opens. `on_ready` is called once nothing stands in the way.
    `until_closed`: a pipe that whoever started this gateway holds open; its end is the gateway's, too."""
    served = _Served(app)
    server = http_server(served, settings)
    spare_collections()
    asyncio.get_running_loop().set_exception_handler(_LoopErrors())

    def end() -> None:
        served.drain()
        server.force_exit = server.should_exit
        server.should_exit = True

    def leave(pipe: int) -> None:
        asyncio.get_running_loop().remove_reader(pipe)
        end()

    reactions: dict[signal.Signals, Callable[[], object]] = {signal.SIGTERM: end, signal.SIGINT: end}
    if hasattr(signal, "SIGHUP"):
        reactions[signal.SIGHUP] = lambda: _reload(served, server, open_app)
    with signals.handle(reactions, ignored_too=True):
        on_ready()
        if until_closed is not None:
            asyncio.get_running_loop().add_reader(until_closed, leave, until_closed)
        giving_back = asyncio.ensure_future(give_back_for_ever())
        try:
            await server.serve(sockets=[listener])
        finally:
            giving_back.cancel()
            await served.close()


class _LoopErrors:
    """What goes wrong in the loop itself. Without a file for a new connection, the loop reports each of two thousand attempts a
    second with a traceback: that would fill the disk of the log."""

    def __init__(self) -> None:
        self._reported = float("-inf")

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if isinstance(error, ValueError) and _ACCEPT_AGAIN in context.get("message", ""):
            return  # the loop would accept connections again, and the gateway has ended meanwhile
        if not isinstance(error, OSError) or error.errno not in (errno.EMFILE, errno.ENFILE):
            loop.default_exception_handler(context)
        elif loop.time() - self._reported > _REPORT_SECONDS:
            self._reported = loop.time()
            _LOG.error(
                "New connections wait: %s. Raise the limit (ulimit -n, LimitNOFILE= of a service).",
                error.strerror,
            )


def spare_collections() -> None:
    """Requests are read into thousands of values that no cycle holds; the usual thresholds would look through all of them
    several times for each request, and now and then through everything that was ever loaded."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)


class _Served:
    """The application of the moment. An earlier one is closed when its last request has ended."""

    def __init__(self, app: GatewayApp) -> None:
        self.current = app
        self._running: dict[GatewayApp, int] = {app: 0}
        self._closing: set[asyncio.Future[None]] = set()
        self._ending = asyncio.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        app = self.current
        if scope["type"] == "websocket":
            scope[POSTS_TO] = self  # its later requests are for the application of their moment
        self._running[app] += 1
        try:
            await app(scope, receive, send)
        finally:
            self._running[app] -= 1
            self._close_earlier(app)

    def replace(self, app: GatewayApp) -> None:
        earlier, self.current = self.current, app
        self._running[app] = 0
        self._close_earlier(earlier)

    def _close_earlier(self, app: GatewayApp) -> None:
        if app is not self.current and not self._running[app]:
            del self._running[app]
            closing = asyncio.ensure_future(self._retire(app))
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)

    async def _retire(self, app: GatewayApp) -> None:
        """Close it when all is made that nobody waits for, or when the server ends."""
        waits = {asyncio.ensure_future(app.complete()), asyncio.ensure_future(self._ending.wait())}
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()
        await app.close()

    def drain(self) -> None:
        for app in self._running:
            app.draining = True

    async def close(self) -> None:
        self._ending.set()
        # What the server has cut is about to end, and has to be remembered and counted before the stores are closed.
        with suppress(TimeoutError):
            async with asyncio.timeout(_CUT_SECONDS):
                while any(self._running.values()):
                    await asyncio.sleep(0.01)
        await self.current.close()
        while self._closing:
            await asyncio.wait(self._closing)


def _reload(served: _Served, server: uvicorn.Server, open_app: OpenApp) -> None:
    try:
        settings, app = open_app()
        if server.config.ssl is not None and (settings.tls_certificate or settings.tls_key):
            load_certificate(server.config.ssl, settings)
    except (SegueError, OSError) as error:
        _LOG.error("The settings were not read anew, the old ones hold: %s", error)
        return
    served.replace(app)
    _LOG.warning("The settings were read anew.")


class _Server(uvicorn.Server):
    """Leaves the signals to us: the usual one raises them again after a graceful end."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def check_certificate(settings: GatewaySettings) -> None:
    """Raises if the settings want TLS and it cannot be had."""
    if settings.tls_certificate or settings.tls_key:
        load_certificate(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), settings)


def load_certificate(context: ssl.SSLContext, settings: GatewaySettings) -> None:
    names = {"tls_certificate": settings.tls_certificate, "tls_key": settings.tls_key}
    if not all(names.values()):
        raise UsageError(
            "TLS needs a certificate and its key.",
            code="config",
            hint="Set both gateway.tls_certificate and gateway.tls_key.",
        )
    for name, file in names.items():
        try:
            Path(file).read_bytes()
        except OSError as error:
            raise UsageError(
                f"gateway.{name} cannot be read: {error.strerror or error}: {file}", code="config"
            ) from error
    try:
        # Without a password it would be asked for at the terminal, of every process.
        context.load_cert_chain(settings.tls_certificate, settings.tls_key, password="")
    except ssl.SSLError as error:
        raise UsageError(
            f"{settings.tls_certificate} and {settings.tls_key} are no certificate and its key"
            f"{f': {error.reason}' if error.reason else ''}.",
            code="config",
            hint="Both are PEM files. The key must be that of the certificate, and may have no password.",
        ) from error


def http_server(app: Any, settings: GatewaySettings) -> uvicorn.Server:
    limits = settings.limits
    check_certificate(settings)
    config = uvicorn.Config(
        app,
        http=bounded_protocol(
            header_bytes=limits.header_bytes,
            header_seconds=limits.body_timeout,
            body_bytes=limits.body_bytes,
        ),
        log_config=None,
        log_level="critical",  # what it would report is in our own log, or the noise of strangers
        access_log=False,
        lifespan="off",
        ws=BoundedSocket,
        ws_max_size=min(limits.body_bytes, SOCKET_BYTES),
        ws_per_message_deflate=False,  # a small message would unfold into a large one
        backlog=BACKLOG,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=max(1, round(limits.drain)),
        server_header=False,
        proxy_headers=False,
        ssl_certfile=settings.tls_certificate or None,
        ssl_keyfile=settings.tls_key or None,
    )
    return _Server(config)

"""Connections to servers, kept open and used again: HTTP/1.1 with as little as a request needs.

Bodies are read as they arrive; a server that sends faster than it is read is slowed down. Proxies are not for it.
"""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, cast, final

import httptools

if TYPE_CHECKING:
    from ssl import SSLContext

KEEP_SECONDS: Final = 15.0
"""How long a connection that nobody uses stays open; servers close theirs after some more."""
HEAD_BYTES: Final = 1 << 18
"""Of the head of an answer."""
MOST_WAITING: Final = 1 << 18
"""Bytes of a body that may have arrived and are not read yet."""
PORTION: Final = 1 << 16
"""A large request is written in portions of so many bytes: in one go it would hold up all other requests."""
_NEXT_ADDRESS: Final = 0.25
"""Seconds after which the next address of a host is tried beside the first one."""


class Server(NamedTuple):
    """Who is connected to."""

    host: str
    port: int
    certificates: SSLContext | None
    """None: without encryption."""


class BrokenConnectionError(ConnectionError):
    """The connection ended before the answer did, or what arrived is no HTTP."""


@final
class DirectAnswer:
    """An answer whose head has arrived, or will. Its body is read portion by portion."""

    def __init__(self, connection: ServerConnection) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        """With lower-case names."""
        self._connection: ServerConnection | None = connection
        self._loop = connection.loop
        self._portions: list[bytes] = []
        self._size = 0
        self._error: Exception | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._deadline: float | None = None
        self._timer: asyncio.TimerHandle | None = None

    async def head(self, deadline: float | None) -> None:
        """Wait for the head. Raises TimeoutError at the deadline, and BrokenConnectionError."""
        while not self.status:
            await self._wait(deadline)

    async def portion(self, deadline: float | None) -> bytes:
        """What has arrived of the body; empty at its end. Raises as `head` does."""
        while not self._portions:
            if self._connection is None and self._error is None:
                return b""
            await self._wait(deadline)
        portions = self._portions
        self._portions, self._size = [], 0
        if self._connection is not None:
            self._connection.read_on()
        return portions[0] if len(portions) == 1 else b"".join(portions)

    def close(self) -> None:
        """Hang up, unless all of it has arrived: then the connection is used for something else already."""
        if self._connection is not None:
            self._connection.hang_up()
            self._connection = None
        self._stop_timer()

    # From the connection

    def arrived(self, portion: bytes) -> bool:
        """Whether more of it should wait."""
        self._portions.append(portion)
        self._size += len(portion)
        return self._size > MOST_WAITING

    def notify(self) -> None:
        """Something has changed."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def ended(self, error: Exception | None) -> None:
        self._connection = None
        self._error = error
        self._stop_timer()

    # Waiting

    async def _wait(self, deadline: float | None) -> None:
        if self._error is not None:
            raise self._error
        self._deadline = deadline
        if deadline is not None and (self._timer is None or self._timer.when() > deadline):
            self._start_timer(deadline)
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _start_timer(self, deadline: float) -> None:
        self._stop_timer()
        self._timer = self._loop.call_at(deadline, self._on_time)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _on_time(self) -> None:
        """One timer for all waits of an answer: most deadlines move on before they are reached."""
        self._timer = None
        if self._waiter is None or self._waiter.done() or self._deadline is None:
            return
        if self._loop.time() >= self._deadline:
            self._waiter.set_exception(TimeoutError())
        else:
            self._start_timer(self._deadline)


@final
class ServerConnection(asyncio.Protocol):
    """One connection. It carries one request at a time."""

    def __init__(self, pool: ConnectionPool, server: Server) -> None:
        self.loop = asyncio.get_running_loop()
        self.free_since = 0.0
        self._pool = pool
        self._server = server
        self._transport: asyncio.Transport | None = None
        self._arrived: list[bytes] = []
        self.on_body = (
            self._arrived.append
        )  # a stream comes in many small chunks: each is one call, of no code of ours
        self._parser: Any = httptools.HttpResponseParser(self)
        self._answer: DirectAnswer | None = None
        self._head: list[tuple[bytes, bytes]] = []
        self._head_size = 0
        self._to_the_end = False
        """Whether the body ends where the connection does."""
        self._reading_paused = False
        self._writing_paused: asyncio.Future[None] | None = None
        self._written = True

    @property
    def usable(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    async def send(self, head: bytes, body: bytes, deadline: float | None) -> DirectAnswer:
        """Write a request; the answer has a head. Cancelled, it hangs up."""
        answer = self._answer = DirectAnswer(self)
        transport = self._transport
        if transport is None:
            raise BrokenConnectionError("the server hung up")
        try:
            if len(body) <= PORTION * 16:
                transport.write(head + body)
            else:
                async with asyncio.timeout_at(deadline):
                    await self._write_portions(transport, head, body)
            await answer.head(deadline)
        except BaseException:
            answer.close()
            raise
        return answer

    async def _write_portions(self, transport: asyncio.Transport, head: bytes, body: bytes) -> None:
        """As fast as the server takes them. One that answers before it has all gets no more."""
        answer, view = self._answer, memoryview(body)
        self._written = False
        transport.write(head)
        for start in range(0, len(body), PORTION):
            if self._answer is not answer or (answer is not None and answer.status):
                return
            transport.write(view[start : start + PORTION])
            if self._writing_paused is not None:
                await self._writing_paused
            else:
                await asyncio.sleep(0)
        self._written = True

    def read_on(self) -> None:
        if self._reading_paused and self._transport is not None:
            self._reading_paused = False
            self._transport.resume_reading()

    def hang_up(self) -> None:
        self._answer = None
        if self._transport is not None:
            self._transport.abort()

    # From the loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._pool.opened(self)

    def data_received(self, data: bytes) -> None:
        answer = self._answer
        if answer is None:  # nobody asked
            self.hang_up()
            return
        if not answer.status:
            self._head_size += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._fail(answer, BrokenConnectionError(f"what arrived is no HTTP: {type(error).__name__}"))
            return
        if not answer.status and self._head_size > HEAD_BYTES:
            self._fail(answer, BrokenConnectionError("the head of the answer has no end"))
        self._hand_over(answer)
        answer.notify()

    def connection_lost(self, exc: Exception | None) -> None:
        answer, self._answer, self._transport = self._answer, None, None
        self.resume_writing()
        self._pool.dropped(self._server, self)
        if answer is None:
            return
        whole = answer.status and self._to_the_end and exc is None
        answer.ended(None if whole else _lost(exc))
        answer.notify()

    def pause_writing(self) -> None:
        self._writing_paused = self.loop.create_future()

    def resume_writing(self) -> None:
        paused, self._writing_paused = self._writing_paused, None
        if paused is not None and not paused.done():
            paused.set_result(None)

    def _fail(self, answer: DirectAnswer, error: Exception) -> None:
        answer.ended(error)
        answer.notify()
        self.hang_up()

    # From the parser

    def on_header(self, name: bytes, value: bytes) -> None:
        self._head.append((name, value))

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        head, self._head = self._head, []
        if status < 200 or self._answer is None:  # "continue" and the like precede the answer
            return
        headers = {
            name.decode("latin-1").lower(): value.decode("utf-8", "surrogateescape") for name, value in head
        }
        self._to_the_end = "content-length" not in headers and "transfer-encoding" not in headers
        self._answer.headers, self._answer.status = headers, status
        self._head_size = 0

    def _hand_over(self, answer: DirectAnswer) -> None:
        """What has arrived of the body."""
        if not self._arrived:
            return
        data = self._arrived[0] if len(self._arrived) == 1 else b"".join(self._arrived)
        self._arrived.clear()
        if answer.arrived(data) and self._answer is answer and not self._reading_paused:
            self._reading_paused = True
            if self._transport is not None:
                self._transport.pause_reading()

    def on_message_complete(self) -> None:
        answer = self._answer
        if answer is None or not answer.status:
            return
        self._hand_over(answer)
        self._answer = None
        answer.ended(None)
        self.read_on()
        if self._written and self._parser.should_keep_alive():
            self._pool.free(self._server, self)
        else:
            self.hang_up()


def _lost(exc: Exception | None) -> Exception:
    return exc if isinstance(exc, OSError) else BrokenConnectionError("the server hung up")


def _is_plain(host: str) -> bool:
    return ":" in host or host.replace(".", "").isdigit()


_Kept: TypeAlias = "dict[Server, list[ServerConnection]]"


@final
class ConnectionPool:
    """The connections of one event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._free: _Kept = {}
        self._all: set[ServerConnection] = set()
        self._sweeper: asyncio.TimerHandle | None = None

    def kept(self, server: Server) -> ServerConnection | None:
        """One that is open already and free; None if there is none."""
        free = self._free.get(server)
        while free:
            connection = free.pop()
            if connection.usable and monotonic() - connection.free_since < KEEP_SECONDS:
                return connection
            connection.hang_up()
        return None

    async def open(self, server: Server, seconds: float | None) -> ServerConnection:
        """A new one. Raises TimeoutError, and OSError where there is no such server."""
        async with asyncio.timeout(seconds):
            _, connection = await self._loop.create_connection(
                lambda: ServerConnection(self, server),
                server.host,
                server.port,
                ssl=server.certificates,
                # A plain address has no others; and where the wait for several is cancelled, a socket may stay open.
                happy_eyeballs_delay=None if _is_plain(server.host) else _NEXT_ADDRESS,
            )
        return connection

    async def close(self) -> None:
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None
        for connection in [*self._all]:
            connection.hang_up()
        while self._all:  # until the loop has closed their sockets
            await asyncio.sleep(0)

    # From the connections

    def opened(self, connection: ServerConnection) -> None:
        self._all.add(connection)

    def free(self, server: Server, connection: ServerConnection) -> None:
        connection.free_since = monotonic()
        self._free.setdefault(server, []).append(connection)
        if self._sweeper is None:
            self._sweeper = self._loop.call_later(KEEP_SECONDS, self._sweep)

    def dropped(self, server: Server, connection: ServerConnection) -> None:
        self._all.discard(connection)
        free = self._free.get(server)
        if free is not None and connection in free:
            free.remove(connection)
            if not free:
                del self._free[server]

    def _sweep(self) -> None:
        """Close those that nobody has used for long."""
        self._sweeper = None
        before = monotonic() - KEEP_SECONDS
        for free in [*self._free.values()]:
            for connection in [one for one in free if one.free_since <= before]:
                connection.hang_up()
        if self._free:
            self._sweeper = self._loop.call_later(KEEP_SECONDS, self._sweep)

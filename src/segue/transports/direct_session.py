"""Requests straight to their servers, over HTTP/1.1, with the connections of one event loop.

A parser in C reads the answers: all that arrived at once costs one pass, in however many chunks it is. Addresses that are written
in an unusual way are declined (`DirectSession.takes`), as are proxies: another client is there for them.
"""

from __future__ import annotations

import asyncio
import os
import re
import socket
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Final, final

import httptools
from msgspec import Struct

from segue.errors import SegueError, TransportError
from segue.transports.deadline import WaitLimits
from segue.transports.failures import bad_header, broken, reason_of, unreachable, unsent
from segue.transports.http_answer import ENCODINGS, USER_AGENT, HttpAnswer
from segue.transports.trust import trusted_certificates

if TYPE_CHECKING:
    import ssl
    from collections.abc import Awaitable

    from segue.transports.transport import TakePortion, WireRequest

KEEP_SECONDS: Final = 15.0
"""How long a connection is kept that nobody uses."""
AHEAD_BYTES: Final = 1 << 17
"""Of a body that nobody has read yet. With more, the server has to wait."""
HEAD_BYTES: Final = 1 << 16
"""Of all headers of an answer, and of what stands around the chunks of its body."""
FIELD_BYTES: Final = 8190
MOST_FIELDS: Final = 128
MOST_INTERIM: Final = 32
"""Answers with a status below 200, which precede the answer itself."""
_WRITE_BYTES: Final = 1 << 18
"""A longer request is written in portions: in one go it would hold up all other requests."""
_NEXT_FAMILY_SECONDS: Final = 0.25
"""A host may have several addresses of which not all can be reached: the next one is tried after so long. Not so with an address
itself: where such a race of CPython 3.11 is cancelled, its socket stays open until it is collected."""
_IS_ADDRESS: Final = re.compile(r"[0-9.]+|.*:.*")
_METHODS: Final = frozenset({"DELETE", "GET", "PATCH", "POST", "PUT"})
_ASKED_TWICE: Final = frozenset({"DELETE", "GET", "PUT"})
"""They may be asked again if a kept connection turns out to be closed."""
_WITHOUT_BODY: Final = frozenset({"DELETE", "GET"})
"""Most of their requests have none."""
_OWN_HEADERS: Final = frozenset({"connection", "content-length", "expect", "transfer-encoding", "upgrade"})
_ADDRESS: Final = re.compile(
    r"(https?)://([A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*|\[[0-9A-Fa-f:.]+\])(?::([0-9]{1,5}))?([/?][!-~]*)?"
)
_ERRNO: Final = re.compile(r"\[Errno (\d{1,4})\]")
_UPGRADED: Final = 101
_FORBIDDEN: Final = re.compile(r"[\r\n\0]")
_CLOSED: Final = "the server closed it without an answer"
_INCOMPLETE: Final = "the answer is not complete"
_NOT_HTTP: Final = "the answer is not HTTP"


@final
class DirectAddress(Struct, frozen=True):
    """Where a request goes."""

    place: tuple[bool, str, int]
    """Whether it is secure, host and port: requests to the same place share their connections."""
    head: bytes
    """What its headers begin with."""
    target: bytes

    def __repr__(self) -> str:
        return f"DirectAddress({self.place})"


@lru_cache(maxsize=256)
def address_of(url: str) -> DirectAddress | None:
    """None if it is not written as most addresses are."""
    found = _ADDRESS.fullmatch(url)
    if found is None:
        return None
    scheme, host, digits, target = found.groups(default="")
    secure = scheme == "https"
    port = int(digits) if digits else (443 if secure else 80)
    if not 0 < port < 65_536 or "#" in target or "/." in target or "\\" in target:
        return None
    target = target if target.startswith("/") else f"/{target}"
    named = f"{host}:{digits}" if digits and port != (443 if secure else 80) else host
    return DirectAddress(
        (secure, host.strip("[]").lower(), port), f"host: {named}\r\n".encode(), target.encode()
    )


@final
class DirectSession:
    """Certificates are those that the environment names when the first secure connection is opened."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._idle: dict[tuple[bool, str, int], list[_Connection]] = {}
        self._all: set[_Connection] = set()
        self._trust: ssl.SSLContext | None = None
        self._sweep: asyncio.TimerHandle | None = None

    @staticmethod
    def takes(request: WireRequest) -> bool:
        """Whether it can carry a request; another client must carry the others."""
        return (
            request.method in _METHODS
            and address_of(request.url) is not None
            and _OWN_HEADERS.isdisjoint(map(str.lower, request.headers))
        )

    async def send(self, request: WireRequest) -> DirectAnswer:
        """`request`: one that it takes."""
        limits = WaitLimits(request)
        try:
            with limits:
                return await self._ask(request, limits)
        except TimeoutError as error:
            raise _unbilled(limits.too_long("first_byte"), limits) from error
        except SegueError as error:
            raise _unbilled(error, limits) from error.__cause__
        except asyncio.CancelledError:
            if limits.is_connected:
                raise
            raise asyncio.CancelledError from unsent(request.place)

    async def _ask(self, request: WireRequest, limits: WaitLimits) -> DirectAnswer:
        address = address_of(request.url)
        assert address is not None  # noqa: S101 - else it is not taken
        head = _head(request, address)
        again = request.method in _ASKED_TWICE
        while True:
            connection = self._kept(address.place)
            kept = connection is not None
            if connection is None:
                connection = await self._connect(address, request, limits)
            limits.connected()
            answer = DirectAnswer(connection, limits)
            try:
                connection.ask(answer, head, request.body)
                await answer.begun()
            except TransportError:
                if not (again and kept and connection.silent):
                    raise
                again = False
            except BaseException:
                connection.abort()
                raise
            else:
                return answer

    def _kept(self, place: tuple[bool, str, int]) -> _Connection | None:
        idle = self._idle.get(place, [])
        while idle:
            if not (connection := idle.pop()).is_closing:
                return connection
        return None

    async def _connect(self, address: DirectAddress, request: WireRequest, limits: WaitLimits) -> _Connection:
        secure, host, port = address.place
        if secure and self._trust is None:
            self._trust = trusted_certificates()
        try:
            async with asyncio.timeout(request.timeouts.connect):
                _, connection = await self._loop.create_connection(
                    lambda: _Connection(self, address.place),
                    host,
                    port,
                    ssl=self._trust if secure else None,
                    happy_eyeballs_delay=None if _IS_ADDRESS.fullmatch(host) else _NEXT_FAMILY_SECONDS,
                )
        except OSError as error:
            if isinstance(error, TimeoutError) and error.errno is None:
                raise limits.too_long("connect") from error
            raise unreachable(request.place, _why_unreachable(error)) from error
        except UnicodeError as error:  # of a name with a part of no or of too many letters
            raise unreachable(request.place, "there is no such host") from error
        return connection

    def opened(self, connection: _Connection) -> None:
        self._all.add(connection)

    def released(self, connection: _Connection) -> None:
        """It is free for the next request."""
        connection.free_since = self._loop.time()
        self._idle.setdefault(connection.place, []).append(connection)
        if self._sweep is None:
            self._sweep = self._loop.call_later(KEEP_SECONDS, self._close_unused)

    def lost(self, connection: _Connection) -> None:
        self._all.discard(connection)
        self._forget(connection)

    def _forget(self, connection: _Connection) -> None:
        idle = self._idle.get(connection.place, [])
        if connection in idle:
            idle.remove(connection)
        if not idle:
            self._idle.pop(connection.place, None)

    def _close_unused(self) -> None:
        now, self._sweep = self._loop.time(), None
        oldest = now
        for connection in [one for idle in self._idle.values() for one in idle]:
            if now - connection.free_since >= KEEP_SECONDS:
                self._forget(connection)
                connection.leave()
            else:
                oldest = min(oldest, connection.free_since)
        if self._idle:
            self._sweep = self._loop.call_at(oldest + KEEP_SECONDS, self._close_unused)

    async def close(self) -> None:
        if self._sweep is not None:
            self._sweep.cancel()
            self._sweep = None
        self._idle.clear()
        for connection in [*self._all]:
            connection.fail("it was closed on this side")
        for _ in range(3):  # until the loop has closed their sockets
            await asyncio.sleep(0)


@final
class _Connection(asyncio.Protocol):
    """Carries one request at a time. What arrives for it goes to its answer."""

    def __init__(self, session: DirectSession, place: tuple[bool, str, int]) -> None:
        self.place = place
        self.free_since = 0.0
        self.silent = True
        """Whether nothing has arrived since the request."""
        self._session = session
        self._transport: asyncio.Transport
        self._answer: DirectAnswer | None = None
        self._parser = httptools.HttpResponseParser(self)
        # What servers are known to do, and what no other answer could be hidden in.
        self._parser.set_dangerous_leniencies(
            lenient_headers=True, lenient_optional_cr_before_lf=True, lenient_spaces_after_chunk_size=True
        )
        self._left = memoryview(b"")
        """Of the request, what is still to be written."""
        self._can_write = True
        self._paused = False
        self._fields: list[tuple[bytes, bytes]] = []
        self._in_head = True
        self._interim = 0
        self._surplus = 0
        """Bytes since the last ones that were content."""
        self._ended = False
        """Whether the last byte of the answer is here."""
        self._until_closed = False
        """Whether the answer ends with the connection."""
        self._lasts = False

    # What the session and the answer ask of it

    def ask(self, answer: DirectAnswer, head: bytes, body: bytes) -> None:
        self._answer, self.silent = answer, True
        self._in_head, self._interim, self._surplus = True, 0, 0
        self._ended = self._until_closed = self._lasts = False
        if len(body) <= _WRITE_BYTES:
            self._transport.write(head + body)
        else:
            self._transport.write(head)
            self._left = memoryview(body)
            self._write_on()

    @property
    def is_closing(self) -> bool:
        return self._transport.is_closing()

    def pause(self) -> None:
        if not self._paused and not self._transport.is_closing():
            self._paused = True
            self._transport.pause_reading()

    def resume(self) -> None:
        if self._paused:
            self._paused = False
            if not self._transport.is_closing():
                self._transport.resume_reading()

    def leave(self) -> None:
        """Closed as one closes a connection that nothing is waited for on."""
        self._transport.close()

    def abort(self) -> None:
        self._answer, self._left = None, memoryview(b"")
        self._transport.abort()

    def fail(self, why: str) -> None:
        answer = self._answer
        self.abort()
        if answer is not None:
            answer.fail(why)

    # What the loop reports

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - of a stream
        self._transport = transport
        if (opened := transport.get_extra_info("socket")) is not None:
            with suppress(OSError):
                opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self._session.opened(self)

    def data_received(self, data: bytes) -> None:
        if self._answer is None:  # nobody asked
            self.abort()
            return
        self.silent = False
        self._surplus += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            if not self._ended:
                self.fail(_NOT_HTTP if self._in_head else _INCOMPLETE)
                return
            self._lasts = False
        if self._ended:
            self._release()
        elif self._surplus > HEAD_BYTES:
            self.fail(_NOT_HTTP)
        else:
            self._answer.arrived()

    def connection_lost(self, exc: Exception | None) -> None:
        self._session.lost(self)
        if self._until_closed and exc is None and self._answer is not None:
            answer, self._answer = self._answer, None
            answer.end()
        elif self._in_head:
            self.fail((reason_of(exc) if exc is not None else "") or _CLOSED)
        else:
            self.fail(_INCOMPLETE)

    def pause_writing(self) -> None:
        self._can_write = False

    def resume_writing(self) -> None:
        self._can_write = True
        self._write_on()

    # What the parser reports

    def on_message_begin(self) -> None:
        if self._ended:
            self._lasts = False  # an answer that nobody asked for
        self._fields = []

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._in_head:
            return  # a trailer
        if len(self._fields) >= MOST_FIELDS or len(value) > FIELD_BYTES or len(name) > FIELD_BYTES:
            raise _RefusedError
        self._fields.append((name, value))

    def on_headers_complete(self) -> None:
        answer = self._answer
        if answer is None or self._ended:
            return
        status = self._parser.get_status_code()
        if status < 200:
            self._interim += 1
            if self._interim > MOST_INTERIM or status == _UPGRADED:
                raise _RefusedError
            return
        headers = {_text(name).lower(): _text(value) for name, value in self._fields}
        self._in_head, self._surplus = False, 0
        self._lasts = self._parser.should_keep_alive()
        self._until_closed = (
            status not in (204, 304)
            and "content-length" not in headers
            and not headers.get("transfer-encoding", "").lower().endswith("chunked")
        )
        answer.begin(status, headers)

    def on_body(self, data: bytes) -> None:
        self._surplus = 0
        if self._answer is not None and not self._ended:
            self._answer.add(data)

    def on_message_complete(self) -> None:
        if not self._in_head:
            self._ended = True

    # Steps

    def _write_on(self) -> None:
        while self._left and self._can_write and not self._transport.is_closing():
            some, self._left = self._left[:_WRITE_BYTES], self._left[_WRITE_BYTES:]
            self._transport.write(some)

    def _release(self) -> None:
        """The answer is complete. The connection lasts, unless something stands in its way."""
        answer, self._answer = self._answer, None
        if self._lasts and not self._left and not self._transport.is_closing():
            self.resume()
            self._session.released(self)
        else:
            self.abort()
        if answer is not None:
            answer.end()


@final
class DirectAnswer(HttpAnswer):
    """What has arrived of it waits here until it is read, or goes at once to whoever it is pushed to."""

    def __init__(self, connection: _Connection, limits: WaitLimits) -> None:
        super().__init__(0, {}, limits)
        self._connection: _Connection | None = connection
        self._pieces: list[bytes] = []
        self._size = 0
        self._why = ""
        self._waiter: asyncio.Future[None] | None = None
        self._take: TakePortion | None = None
        """Who gets the portions as they arrive."""
        self._held: Awaitable[None] | None = None
        """What is waited for before it gets more."""
        self._raised: Exception | None = None

    async def begun(self) -> None:
        """Waits until its head is here."""
        while not self.status:
            if self._why:
                raise broken(self._limits.request.place, self._why)
            await self._wait()

    async def __anext__(self) -> bytes:
        limits = self._limits
        if not self._pieces and self._connection is not None:
            await self._wait_for_more()
        limits.begun = True
        if pieces := self._pieces:
            self._pieces, self._size = [], 0
            if self._connection is not None:
                self._connection.resume()
            return pieces[0] if len(pieces) == 1 else b"".join(pieces)
        if self._why:
            raise broken(limits.request.place, self._why)
        raise StopAsyncIteration

    async def push(self, take: TakePortion) -> None:
        """As `PushedResponse` has it; for a body that is not compressed. This task waits, and wakes up for the end only, or to
        wait for `take`."""
        limits, self._take = self._limits, take
        try:
            self._hand_over()
            while True:
                if self._raised is not None:
                    raise self._raised
                if self._held is not None:
                    await self._held
                    self._held = None
                    self._hand_over()
                elif self._connection is None:
                    break
                else:
                    self._connection.resume()
                    await self._wait_for_more()
        finally:
            self._take = self._held = None
        if self._why:
            raise broken(limits.request.place, self._why)

    def _hand_over(self) -> bool:
        """Push what is here. Whether whoever pushes has something to do now."""
        pieces, take = self._pieces, self._take
        if pieces and take is not None:
            self._pieces, self._size = [], 0
            self._limits.heard()
            try:
                self._held = take(pieces[0] if len(pieces) == 1 else b"".join(pieces))
            except Exception as error:  # it is that of whoever pushes, who waits in a task
                self._raised, self._take = error, None
        return self._held is not None or self._raised is not None

    def close(self) -> None:
        if self._connection is not None:
            self._connection.abort()
            self._connection = None
        self._pieces = []

    async def _wait_for_more(self) -> None:
        """Until there is something to read, or to do for whoever pushes."""
        limits = self._limits
        try:
            with limits:
                await self._wait()
                while self._take is None and not self._pieces and self._connection is not None:
                    await self._wait()  # what arrived had no content
        except TimeoutError as error:
            raise limits.too_long("idle") from error

    async def _wait(self) -> None:
        self._waiter = self._limits.loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    # What the connection reports

    def begin(self, status: int, headers: dict[str, str]) -> None:
        self.status, self.headers = status, headers

    def add(self, data: bytes) -> None:
        self._pieces.append(data)
        self._size += len(data)

    def arrived(self) -> None:
        """All that came at once is here."""
        if self._take is None or (self._held is None and self._hand_over()):
            self._wake()
        if self._size > AHEAD_BYTES and self._connection is not None:  # it waits for whoever reads
            self._connection.pause()

    def end(self) -> None:
        self._connection = None
        if self._held is None:
            self._hand_over()
        self._wake()

    def fail(self, why: str) -> None:
        self._why = why
        self.end()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class _RefusedError(Exception):
    """Ends the work of the parser."""


def _unbilled(error: SegueError, limits: WaitLimits) -> SegueError:
    """With whether nobody can have seen the request."""
    error.unbilled = not limits.is_connected
    return error


def _why_unreachable(error: OSError) -> str:
    """If a host has several addresses, why the first of them failed stands only in the text of the error."""
    if error.errno is None and (number := _ERRNO.search(str(error))) is not None:
        return os.strerror(int(number[1]))
    return reason_of(error) or "the connection failed"


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _head(request: WireRequest, address: DirectAddress) -> bytes:
    fields = {"user-agent": USER_AGENT, "accept": "*/*", "accept-encoding": ENCODINGS}
    if request.method not in _WITHOUT_BODY or request.body:
        fields["content-type"] = "application/octet-stream"
    fields |= {name.lower(): value for name, value in request.headers.items()}
    host = b"" if "host" in fields else address.head
    lines = [f"{name}: {value}" for name, value in fields.items()]
    # A look at the text takes a fifth of a look with the pattern.
    if not all(map(str.isprintable, lines)) and any(map(_FORBIDDEN.search, lines)):
        raise bad_header(request)
    if request.body or request.method != "GET":
        lines.append(f"content-length: {len(request.body)}")
    return b"%s %s HTTP/1.1\r\n%s%s\r\n\r\n" % (
        request.method.encode(),
        address.target,
        host,
        "\r\n".join(lines).encode(),
    )

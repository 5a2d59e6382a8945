"""HTTP as the gateway's server reads and writes it: whatever a client sends is bounded in size and in time, and the head of a
response leaves together with what begins its body.

The server itself bounds only the size of a body, and only while somebody reads it. Headers, trailers, requests that wait behind
another on the same connection, and the rest of a body that was refused could fill the memory or stay for ever, and none of
them needs a key. And it would write the head of a response on its own: one more system call, and a packet.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, ClassVar, Final, final

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from segue.gateway.requests.disconnection import ON_DISCONNECT
from segue.gateway.requests.web import RESPONSE

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Awaitable, Callable

    from uvicorn.protocols.http.httptools_impl import RequestResponseCycle
    from websockets.frames import Frame


_HEAD: Final = b"HTTP/"
_BODY_AT_ONCE: Final = 1 << 20
"""So many bytes of a body are taken in before its reader asks for them. The server itself would stop at 64 KB, so that the
request of an agent costs four system calls to stop reading and to begin again."""
MOST_FIELDS: Final = 256
"""Headers of one request. A short one takes a hundred times its bytes."""
MOST_WAITING: Final = 16
"""Requests that wait behind another on the same connection. Few clients send any."""
SOCKET_BYTES: Final = 32 << 20
"""Of one message of a WebSocket; what is still incomplete on all of them together may be twice as much."""
_CONTROL_BYTES: Final = 1 << 20
"""Of control frames that may come before a message ends."""
_WITHOUT_BODY: Final = (204, 304)
_LEAST_FRAME: Final = 6
_LINGER_SECONDS: Final = 2.0
"""How long a client may go on sending after its connection was refused: closed at once, it would lose what it was told."""


class _RefusedError(Exception):
    """Ends the work of the parser, with what the client is told."""

    def __init__(self, status: int, why: bytes) -> None:
        super().__init__(status)
        self.status, self.why = status, why


@final
class _Transport:
    """A transport that lets the head of a response wait for what begins its body. All else is written at once: what arrived of a
    reply at one moment is one portion by then, and must not wait for other requests."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._head = b""
        self.is_closing = transport.is_closing

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        if self._head:
            data, self._head = self._head + data, b""
        elif data.startswith(_HEAD):
            self._head = data
            self._loop.call_soon(self.flush)  # a body may be long in coming
            return
        if not self._transport.is_closing():
            self._transport.write(data)

    def write_eof(self) -> None:
        self.flush()
        self._transport.write_eof()

    def close(self) -> None:
        self.flush()
        self._transport.close()

    def flush(self) -> None:
        if self._head and not self._transport.is_closing():
            self._transport.write(self._head)
        self._head = b""


@final
class _Response:
    """The response to one request, by plain calls (`PlainResponse`): what the server does with messages, without them. Its state is
    the server's own, which also knows connections that end, close or wait for the next request by it."""

    def __init__(self, cycle: RequestResponseCycle, transport: asyncio.Transport) -> None:
        self._cycle = cycle
        self._transport = transport
        self._head = b""
        self._bodiless = False

    def start(self, status: int, fields: list[tuple[bytes, bytes]]) -> None:
        cycle = self._cycle
        if cycle.response_started:
            raise RuntimeError("The response has begun already.")
        cycle.response_started, cycle.waiting_for_100_continue = True, False
        self._bodiless = cycle.scope["method"] == "HEAD" or status in _WITHOUT_BODY
        lines = [b"%b: %b\r\n" % field for field in (*cycle.default_headers, *fields)]
        if not cycle.keep_alive:
            lines.append(b"connection: close\r\n")
        has_length = any(name == b"content-length" for name, _ in fields)
        # HTTP/1.0 has no chunks: the body ends with the connection.
        is_old = cycle.scope["http_version"] == "1.0"
        cycle.chunked_encoding = not (self._bodiless or has_length or is_old)
        if cycle.chunked_encoding:
            lines.append(b"transfer-encoding: chunked\r\n")
        self._head = b"%b%b\r\n" % (STATUS_LINE[status], b"".join(lines))

    def write(self, data: bytes, *, last: bool) -> Awaitable[None] | None:
        cycle = self._cycle
        if cycle.disconnected or cycle.response_complete:
            return None
        if self._bodiless:
            data = b""
        elif cycle.chunked_encoding:
            data = b"%x\r\n%b\r\n" % (len(data), data) if data else b""
            if last:
                data += b"0\r\n\r\n"
        if self._head:
            cycle.transport.flush()  # type: ignore[attr-defined]  # of `_Transport`: an interim answer
            data, self._head = self._head + data, b""
        if data and not self._transport.is_closing():
            self._transport.write(data)
        if last:
            cycle.response_complete = True
            cycle.message_event.set()
            if not cycle.keep_alive:
                cycle.transport.close()
            cycle.on_response()
        elif cycle.flow.write_paused:
            return cycle.flow.drain()
        return None


class BoundedProtocol(HttpToolsProtocol):
    """One connection. A subclass sets the bounds: `bounded_protocol` makes it."""

    header_bytes: ClassVar[int]
    header_seconds: ClassVar[float]
    body_bytes: ClassVar[int]

    _head_size = 0
    _in_head = False
    _in_body = False
    _framing = 0
    """Bytes behind the head since the last ones that were content: what stands around chunks, and trailers."""
    _unread = 0
    """Bytes that arrived after their request was answered."""
    _refused = False
    _is_socket = False
    """A WebSocket has taken the connection over."""
    _head_timer: asyncio.TimerHandle | None = None
    _linger_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        self._raw_transport: asyncio.Transport = transport
        super().connection_made(_Transport(transport, self.loop))  # type: ignore[arg-type]
        self._watchers: set[Callable[[], None]] = set()
        self._watch_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_head()
        self._end_lingering()
        super().connection_lost(exc)
        for gone in [*self._watchers]:
            gone()

    def data_received(self, data: bytes) -> None:
        if self._linger_timer is not None:
            self._unread += len(data)
            if self._unread > self.body_bytes:
                self.transport.abort()
                return
            if self._refused:
                return
        if self._in_head:
            self._head_size += len(data)
        elif self._in_body:
            self._framing += len(data)
        super().data_received(data)
        if self._is_socket:
            return
        if self._in_body and self._framing > self.header_bytes:
            self._refuse(431, b"What follows the body is larger than this gateway accepts.")
        elif self._in_head:
            # A body may have arrived along with the headers; then the head is complete by now.
            if self._head_size > self.header_bytes:
                self._refuse(431, b"The headers are larger than this gateway accepts.")
            elif self._head_timer is None:
                self._watch_head()
        elif not self._in_body and self.timeout_keep_alive_task is None and self._is_idle():
            # Empty lines: the server counts the connection as busy, and no request begins.
            self._watch_head()

    def handle_websocket_upgrade(self) -> None:
        self._is_socket = True
        self._end_head()
        super().handle_websocket_upgrade()

    def on_message_begin(self) -> None:
        if len(self.pipeline) >= MOST_WAITING:
            raise _RefusedError(400, b"Too many requests wait on this connection.")
        super().on_message_begin()
        self.scope[ON_DISCONNECT] = self._watchers  # type: ignore[typeddict-unknown-key]
        if not self._in_head:
            self._in_head, self._head_size = True, 0

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._in_head:
            return  # a trailer: nobody may be known, or anything be decided, by what comes behind the body
        if len(self.headers) >= MOST_FIELDS:
            raise _RefusedError(431, b"There are more headers than this gateway accepts.")
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._end_head()
        self._in_body, self._framing = True, 0
        before: RequestResponseCycle | None = self.cycle
        super().on_headers_complete()
        if self.cycle is not before:  # else it asks for a WebSocket
            self.scope[RESPONSE] = _Response(self.cycle, self._raw_transport)  # type: ignore[typeddict-unknown-key]

    def on_body(self, body: bytes) -> None:
        self._framing = 0
        cycle: Any = self.cycle
        if cycle.response_complete:
            return
        # It is read as bytes. Most bodies arrive whole, and then need not be copied into a buffer and out of it again.
        if not cycle.body:
            cycle.body = body
        else:
            cycle.body = bytearray(cycle.body) if type(cycle.body) is bytes else cycle.body
            cycle.body += body
        if len(cycle.body) > _BODY_AT_ONCE:
            self.flow.pause_reading()
        cycle.message_event.set()

    def on_message_complete(self) -> None:
        self._in_body = False
        if self._linger_timer is not None:
            # The connection serves the next request, and waits for it as after any other.
            self._end_lingering()
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )
        super().on_message_complete()

    def on_response_complete(self) -> None:
        # Without a request behind it, this response is that of the request which arrives.
        if self._in_body and not self.pipeline:
            self._linger(self.header_seconds)
        super().on_response_complete()

    def send_400_response(self, msg: str) -> None:
        """The parser has given up."""
        why = sys.exception()
        refused = why.__context__ if why is not None else None
        if isinstance(refused, _RefusedError):
            self._refuse(refused.status, refused.why)
        else:
            self._refuse(400, msg.encode())

    def _is_idle(self) -> bool:
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is None or cycle.response_complete

    def _watch_head(self) -> None:
        """Most heads arrive whole: only one that does not, and the first of a connection, has a timer."""
        self._in_head = True
        self._head_timer = self.loop.call_later(
            self.header_seconds, self._refuse, 408, b"The headers took too long to arrive."
        )

    def _end_head(self) -> None:
        self._in_head = False
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _linger(self, seconds: float) -> None:
        """Let the client send what it has begun: many read no answer before that. What arrives is thrown away, and the end
        comes after so many seconds, or as many bytes as a body may have."""
        self._end_lingering()
        self._linger_timer = self.loop.call_later(seconds, self.transport.abort)

    def _end_lingering(self) -> None:
        self._unread = 0
        if self._linger_timer is not None:
            self._linger_timer.cancel()
            self._linger_timer = None

    def _refuse(self, status: int, why: bytes) -> None:
        self._end_head()
        if self.transport.is_closing():
            return
        if self.pipeline or (not self._is_idle() and self.cycle.response_started):
            self.transport.close()  # the answer would stand in the midst of another
            return
        self.transport.write(
            STATUS_LINE[status]
            + b"content-type: text/plain; charset=utf-8\r\nconnection: close\r\ncontent-length: %d\r\n\r\n%s"
            % (len(why), why)
        )
        if self.transport.can_write_eof() and self._is_idle():
            self._refused = True
            self._linger(min(self.header_seconds, _LINGER_SECONDS))
            self.transport.write_eof()
        else:
            self.transport.close()


class BoundedSocket(WebSocketsSansIOProtocol):
    """One WebSocket. What has arrived of messages that are not complete is bounded for all sockets of the process together."""

    pending: ClassVar[int] = 0
    _mine = 0

    def data_received(self, data: bytes) -> None:
        self._mine += len(data)
        BoundedSocket.pending += len(data)
        if self._mine > SOCKET_BYTES + _CONTROL_BYTES or BoundedSocket.pending > SOCKET_BYTES * 2:
            self.transport.abort()
            return
        super().data_received(data)

    def handle_ping(self) -> None:
        self._control()
        super().handle_ping()

    def handle_pong(self, event: Frame) -> None:
        self._control()
        super().handle_pong(event)

    def _control(self) -> None:
        """Such a frame is complete, and is nothing that is kept."""
        size = min(self._mine, _LEAST_FRAME)
        self._mine -= size
        BoundedSocket.pending -= size

    def send_receive_event_to_app(self) -> None:
        self._settle()
        super().send_receive_event_to_app()

    def connection_lost(self, exc: Exception | None) -> None:
        self._settle()
        super().connection_lost(exc)

    def _settle(self) -> None:
        BoundedSocket.pending -= self._mine
        self._mine = 0


def bounded_protocol(*, header_bytes: int, header_seconds: float, body_bytes: int) -> type[BoundedProtocol]:
    """The protocol with these bounds. In as many seconds as the head of a request may take, the rest of one that was answered
    before its end must have arrived."""
    bounds = {"header_bytes": header_bytes, "header_seconds": header_seconds, "body_bytes": body_bytes}
    return type("BoundedProtocol", (BoundedProtocol,), bounds)

"""HTTP as the gateway's server reads and writes it: the headers of a request are bounded in size and in time, and the head of
a response leaves together with what begins its body.

The server itself bounds neither, so that one connection could fill the memory, and idle ones could stay for ever. And it
would write the head on its own: one more system call, and a packet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final, final

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from segue.gateway.disconnection import ON_DISCONNECT

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable


_HEAD: Final = b"HTTP/"
_BODY_AT_ONCE: Final = 1 << 20
"""So many bytes of a body are taken in before its reader asks for them. The server itself would stop at 64 KB, so that the
request of an agent costs four system calls to stop reading and to begin again."""


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
            self._loop.call_soon(self._flush)  # a body may be long in coming
            return
        if not self._transport.is_closing():
            self._transport.write(data)

    def close(self) -> None:
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        if self._head and not self._transport.is_closing():
            self._transport.write(self._head)
        self._head = b""


class BoundedProtocol(HttpToolsProtocol):
    """One connection. A subclass sets the bounds: `bounded_protocol` makes it."""

    header_bytes: ClassVar[int]
    header_seconds: ClassVar[float]

    _head_size = 0
    _in_head = False
    _head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(_Transport(transport, self.loop))  # type: ignore[arg-type]
        self._watchers: set[Callable[[], None]] = set()
        self._watch_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_head()
        super().connection_lost(exc)
        for gone in [*self._watchers]:
            gone()

    def data_received(self, data: bytes) -> None:
        if self._in_head:
            self._head_size += len(data)
        super().data_received(data)
        # A body may have arrived along with the headers; then the head is complete by now.
        if not self._in_head:
            return
        if self._head_size > self.header_bytes:
            self._refuse(431, b"The headers are larger than this gateway accepts.")
        elif self._head_timer is None:
            self._watch_head()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope[ON_DISCONNECT] = self._watchers  # type: ignore[typeddict-unknown-key]
        if not self._in_head:
            self._in_head, self._head_size = True, 0

    def on_headers_complete(self) -> None:
        self._end_head()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
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

    def _refuse(self, status: int, why: bytes) -> None:
        self._end_head()
        if self.transport.is_closing():
            return
        self.transport.write(
            STATUS_LINE[status]
            + b"content-type: text/plain; charset=utf-8\r\nconnection: close\r\ncontent-length: %d\r\n\r\n%s"
            % (len(why), why)
        )
        self.transport.close()


def bounded_protocol(*, header_bytes: int, header_seconds: float) -> type[BoundedProtocol]:
    """The protocol with these bounds."""
    bounds = {"header_bytes": header_bytes, "header_seconds": header_seconds}
    return type("BoundedProtocol", (BoundedProtocol,), bounds)

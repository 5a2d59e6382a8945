"""HTTP as the gateway's server reads it: the headers of a request are bounded in size and in time.

The server itself bounds neither, so that one connection could fill the memory, and idle ones could stay for ever.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

if TYPE_CHECKING:
    import asyncio


class BoundedProtocol(HttpToolsProtocol):
    """One connection. A subclass sets the bounds: `bounded_protocol` makes it."""

    header_bytes: ClassVar[int]
    header_seconds: ClassVar[float]

    _head_size = 0
    _in_head = False
    _head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._begin_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_head()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._in_head:
            self._head_size += len(data)
        super().data_received(data)
        # A body may have arrived along with the headers; then the head is complete by now.
        if self._in_head and self._head_size > self.header_bytes:
            self._refuse(431, b"The headers are larger than this gateway accepts.")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if not self._in_head:
            self._begin_head()

    def on_headers_complete(self) -> None:
        self._end_head()
        super().on_headers_complete()

    def _begin_head(self) -> None:
        self._in_head, self._head_size = True, 0
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

"""Server-sent events: bytes in, frames out, wherever the bytes are cut; and frames back into bytes.

Lines end with LF, CR or CRLF. Comments, ids and retry hints carry nothing for us. Unlike a browser we keep a last
frame that lacks its blank line: some servers close the connection right behind the last byte of data.
"""

from __future__ import annotations

from typing import final

from msgspec import Struct

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@final
class Frame(Struct, frozen=True, gc=False):
    """One event: its name, empty if it has none, and its data, several lines joined by LF."""

    data: bytes
    event: str = ""


class FrameDecoder:
    """Cuts a stream of bytes into frames. A byte is looked at once, however many portions a line takes to arrive."""

    __slots__ = ("_after_cr", "_data", "_event", "_fresh", "_line", "_started")

    def __init__(self) -> None:
        self._line: list[bytes] = []
        """Pieces of a line whose end has not arrived."""
        self._data: list[bytes] = []
        self._event = ""
        self._after_cr = False
        self._started = False
        self._fresh = False
        """Whether the next byte is the first of a frame."""

    def sole(self, data: bytes) -> bytes | None:
        """The data of the one nameless frame that these bytes are: the common case, told at a glance.

        Nothing if they are anything else; then `feed` is to be asked.
        """
        if self._fresh:
            line, _, rest = data.partition(b"\n")
            if rest == b"\n" and line[:6] == b"data: " and b"\r" not in line:
                return line[6:]
        return None

    def sole_named(self, data: bytes) -> bytes | None:
        """The same for a frame with a name, which is left out: on most wires the data tells it again."""
        if self._fresh and data[:7] == b"event: " and b"\r" not in data:
            line, _, rest = data.partition(b"\n")[2].partition(b"\n")
            if rest == b"\n" and line[:6] == b"data: ":
                return line[6:]
        return None

    def feed(self, data: bytes) -> list[Frame]:
        only = self.sole(data)
        if only is not None:
            return [Frame(only)]
        if not data:
            return []
        if not self._started:
            data = self._without_mark(data)
        if self._after_cr:
            self._after_cr = False
            if data.startswith(b"\n"):
                data = data[1:]
        frames = self._read(data)
        self._fresh = self._started and not (self._line or self._data or self._event or self._after_cr)
        return frames

    def close(self) -> list[Frame]:
        """The stream is over: the frame that was still open, if it had any data."""
        frames: list[Frame] = []
        if self._line:
            self._take(b"".join(self._line), frames)
            self._line = []
        self._take(b"", frames)
        return frames

    def _without_mark(self, data: bytes) -> bytes:
        data = b"".join((*self._line, data))
        self._line = []
        if len(data) < len(_BYTE_ORDER_MARK) and _BYTE_ORDER_MARK.startswith(data):
            self._line = [data]
            return b""
        self._started = True
        return data.removeprefix(_BYTE_ORDER_MARK)

    def _read(self, data: bytes) -> list[Frame]:
        if b"\r" in data:
            self._after_cr = data.endswith(b"\r")
            lines = data.splitlines()
            if data.endswith((b"\r", b"\n")):
                lines.append(b"")
        else:
            lines = data.split(b"\n")
        rest = lines.pop() if lines else b""
        frames: list[Frame] = []
        if lines and self._line:
            lines[0] = b"".join((*self._line, lines[0]))
            self._line = []
        for line in lines:
            self._take(line, frames)
        if rest:
            self._line.append(rest)
        return frames

    def _take(self, line: bytes, frames: list[Frame]) -> None:
        if not line:
            if self._data:
                whole = self._data[0] if len(self._data) == 1 else b"\n".join(self._data)
                frames.append(Frame(whole, self._event))
                self._data = []
            self._event = ""
        elif line.startswith(b"data: "):
            self._data.append(line[6:])
        else:
            name, _, value = line.partition(b":")
            if name == b"data":
                self._data.append(value.removeprefix(b" "))
            elif name == b"event":
                self._event = value.removeprefix(b" ").decode("utf-8", "replace")


def encode(data: bytes, event: str = "") -> bytes:
    """One frame as bytes."""
    if b"\n" in data or b"\r" in data:
        data = b"\ndata: ".join(data.splitlines())
    return b"event: %b\ndata: %b\n\n" % (event.encode(), data) if event else b"data: %b\n\n" % data

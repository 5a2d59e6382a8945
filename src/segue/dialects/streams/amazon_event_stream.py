"""Frames of `application/vnd.amazon.eventstream` (BDR-18), both ways.

Lengths of the frame and of its headers, a checksum of both, headers, payload, a checksum of all before it; numbers are big-endian.
"""

from __future__ import annotations

from binascii import crc32
from struct import Struct as Layout
from typing import TYPE_CHECKING, Final, NamedTuple, final

if TYPE_CHECKING:
    from collections.abc import Mapping

CONTENT_TYPE: Final = "application/vnd.amazon.eventstream"
_PRELUDE = Layout(">III")
_NUMBER = Layout(">I")
_OVERHEAD = 16
_LARGEST = 24 << 20
"""What AWS allows is 16 MiB of payload and 128 KiB of headers: a longer frame is none."""
_STRING = 7
_BYTES = 6
_FIXED: Final[Mapping[int, int]] = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}
"""Bytes of the values whose type tells their length."""


class FrameError(ValueError):
    """Bytes that are no frame, or were changed on their way."""


class EventFrame(NamedTuple):
    """One message of a stream: those of its headers that are text, and its payload."""

    headers: Mapping[str, str]
    payload: bytes


@final
class EventFrameDecoder:
    """Bytes in, frames out, wherever the bytes are cut."""

    def __init__(self) -> None:
        self._held = bytearray()

    @property
    def is_empty(self) -> bool:
        """Whether no frame has begun."""
        return not self._held

    def feed(self, data: bytes) -> list[EventFrame]:
        """Raises FrameError; the frames before the broken one are in its `frames`."""
        held = self._held
        held += data
        frames: list[EventFrame] = []
        at = 0
        try:
            while (end := whole_frame(held, at)) > 0:
                frames.append(_read(bytes(held[at:end])))
                at = end
        except FrameError as error:
            error.add_note(f"behind {len(frames)} frames of this portion")
            raise BrokenFrameError(frames) from error
        del held[:at]
        return frames


class BrokenFrameError(FrameError):
    """A stream that cannot be read on, and what came before of the same portion."""

    def __init__(self, frames: list[EventFrame]) -> None:
        super().__init__("The stream has a frame that cannot be read.")
        self.frames = frames


def whole_frame(held: bytes | bytearray, at: int = 0) -> int:
    """Where the frame ends that begins here; 0 if not all of it is there."""
    if len(held) - at < _PRELUDE.size:
        return 0
    total, headers, checksum = _PRELUDE.unpack_from(held, at)
    if checksum != crc32(held[at : at + 8]):
        raise FrameError("The lengths of a frame do not fit their checksum.")
    if not _OVERHEAD <= total <= _LARGEST or headers > total - _OVERHEAD:
        raise FrameError("The lengths of a frame are impossible.")
    end: int = at + total
    return end if end <= len(held) else 0


def _read(frame: bytes) -> EventFrame:
    if _NUMBER.unpack_from(frame, len(frame) - 4)[0] != crc32(frame[:-4]):
        raise FrameError("A frame does not fit its checksum.")
    behind = _PRELUDE.size + _NUMBER.unpack_from(frame, 4)[0]
    return EventFrame(_read_headers(frame[_PRELUDE.size : behind]), frame[behind:-4])


def _read_headers(data: bytes) -> dict[str, str]:
    found: dict[str, str] = {}
    at = 0
    try:
        while at < len(data):
            name = data[at + 1 : (at := at + 1 + data[at])].decode()
            kind = data[at]
            at += 1
            if kind in (_STRING, _BYTES):
                size = int.from_bytes(data[at : at + 2], "big")
                at += 2
                if kind == _STRING:
                    found[name] = data[at : at + size].decode()
            else:
                size = _FIXED[kind]
            at += size
    except (IndexError, KeyError, UnicodeDecodeError) as error:
        raise FrameError("A frame has headers that cannot be read.") from error
    if at != len(data):
        raise FrameError("A header of a frame is cut.")
    return found


def encode_frame(headers: Mapping[str, str], payload: bytes) -> bytes:
    written = b"".join(
        bytes((len(key := name.encode()),))
        + key
        + bytes((_STRING,))
        + len(text := value.encode()).to_bytes(2)
        + text
        for name, value in headers.items()
    )
    lengths = _NUMBER.pack(len(written) + len(payload) + _OVERHEAD) + _NUMBER.pack(len(written))
    frame = b"".join((lengths, _NUMBER.pack(crc32(lengths)), written, payload))
    return frame + _NUMBER.pack(crc32(frame))


def event_frame(event: str, payload: bytes) -> bytes:
    return encode_frame(
        {":event-type": event, ":content-type": "application/json", ":message-type": "event"}, payload
    )


def exception_frame(exception: str, payload: bytes) -> bytes:
    return encode_frame(
        {":exception-type": exception, ":content-type": "application/json", ":message-type": "exception"},
        payload,
    )


def cut_frames(data: bytes) -> tuple[list[bytes], bytes]:
    """The whole frames in some bytes, and the rest. What is no frame is one piece."""
    pieces: list[bytes] = []
    at = 0
    try:
        while (end := whole_frame(data, at)) > 0:
            pieces.append(data[at:end])
            at = end
    except FrameError:
        return [*pieces, data[at:]], b""
    return pieces, data[at:]

"""A stream of Messages as Bedrock's InvokeModel sends it, both ways (AWS-04): each event is base64 in a frame of its own."""

from __future__ import annotations

from base64 import b64decode
from binascii import Error as NotBase64Error
from typing import Any, Final, final

import msgspec

from segue.dialects.streams import sse
from segue.dialects.streams.amazon_event_stream import (
    CONTENT_TYPE,
    BrokenFrameError,
    EventFrame,
    EventFrameDecoder,
    event_frame,
    exception_frame,
)

_CHUNK: Final = "chunk"
_ERROR: Final = "error"
_TYPES: Final = {
    "throttlingException": "rate_limit_error",
    "validationException": "invalid_request_error",
    "serviceUnavailableException": "overloaded_error",
    "modelTimeoutException": "timeout_error",
    "modelStreamErrorException": "api_error",
    "internalServerException": "api_error",
}
"""The exceptions that end a stream, and Messages' words for them."""
_EXCEPTIONS: Final = {kind: exception for exception, kind in reversed(_TYPES.items())}


class _Chunk(msgspec.Struct):
    bytes: str


class _Event(msgspec.Struct):
    type: str = ""


_CHUNKS: Final = msgspec.json.Decoder(_Chunk)
_EVENTS: Final = msgspec.json.Decoder(_Event)


@final
class EventsInFrames:
    """Frames in, the same events as Messages streams them out."""

    stream_type = "text/event-stream"

    def __init__(self) -> None:
        self._frames = EventFrameDecoder()
        self.is_broken = False
        """Whether the stream cannot be read on. What ends too early is not: it has no `message_stop`."""

    def feed(self, data: bytes) -> bytes:
        """The events up to the one that cannot be read."""
        try:
            frames = self._frames.feed(data)
        except BrokenFrameError as error:
            frames, self.is_broken = error.frames, True
        events: list[bytes] = []
        for frame in frames:
            event = _event_in(frame)
            if event is None:
                self.is_broken = True
                break
            events.append(event)
        return b"".join(events)


def _event_in(frame: EventFrame) -> bytes | None:
    """None if it cannot be read."""
    kind = frame.headers.get(":message-type", "event")
    if kind != "event":
        return sse.encode(_error_in(frame), _ERROR)
    if frame.headers.get(":event-type") != _CHUNK:
        return b""  # newer than we are
    try:
        event = b64decode(_CHUNKS.decode(frame.payload).bytes, validate=True)
        return sse.encode(event, _EVENTS.decode(event).type)
    except (msgspec.MsgspecError, NotBase64Error, UnicodeDecodeError):
        return None


def _error_in(frame: EventFrame) -> bytes:
    name = frame.headers.get(":exception-type") or frame.headers.get(":error-code", "")
    try:
        fields: Any = msgspec.json.decode(frame.payload)
    except (msgspec.DecodeError, UnicodeDecodeError):
        fields = None
    given = fields.get("message") if isinstance(fields, dict) else None
    message = given or frame.headers.get(":error-message") or name or "The stream was ended by an error."
    kind = _TYPES.get(name[:1].lower() + name[1:], "api_error")
    return msgspec.json.encode({"type": _ERROR, "error": {"type": kind, "message": message}})


@final
class FramedEvents:
    """Events as Messages streams them in, frames out, for clients of InvokeModel."""

    stream_type = CONTENT_TYPE

    def __init__(self) -> None:
        self._events = sse.FrameDecoder()

    def feed(self, data: bytes) -> bytes:
        return b"".join([_framed(frame) for frame in self._events.feed(data)])

    def close(self) -> bytes:
        return b"".join([_framed(frame) for frame in self._events.close()])


def _framed(event: sse.Frame) -> bytes:
    if event.event == _ERROR:
        error = msgspec.json.decode(event.data).get(_ERROR, {})
        fields = {"message": error.get("message", "")}
        return exception_frame(
            _EXCEPTIONS.get(error.get("type", ""), "internalServerException"), msgspec.json.encode(fields)
        )
    # msgspec writes bytes as base64.
    return event_frame(_CHUNK, msgspec.json.encode({"bytes": event.data}))

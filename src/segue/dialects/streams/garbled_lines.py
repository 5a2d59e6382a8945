"""Frames of a stream that cannot be read as they came.

Something of the reply may be missing then, and a reply with a hole is worse than none: it ends with an error, as one that
was cut off. Two things cost nothing: words that are no frame of the wire at all, as some proxies send to keep a connection
open; and in a text, a character that JSON cannot hold, which is replaced where everybody sees it.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import msgspec

from segue.conversation.events import ArgumentsDelta, CallStarted
from segue.conversation.json_safe import json_safe
from segue.errors import ProtocolError

if TYPE_CHECKING:
    from collections.abc import Callable

    from segue.conversation.events import Event

UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What the readers of frames raise."""
_NO_FRAME = re.compile(rb"[\w\s.,;:!?*#/-]*|\[DONE\]")
"""Words alone. Whatever is left of a chunk has a quote or a bracket."""
_TEXTS = frozenset(
    {
        "text",
        "content",
        "delta",
        "thinking",
        "reasoning",
        "reasoning_content",
        "refusal",
        "summary",
        "transcript",
    }
)
"""Fields that hold what the model wrote, on all wires."""
_UNSPEAKABLE = re.compile("[\x00-\x1f\ud800-\udfff\ufffd]")


def check_encoding(data: bytes) -> None:
    """Raise where bytes are no UTF-8: msgspec does not look at fields that nobody reads, and one of them may be the text's,
    under a name that was garbled."""
    if not data.isascii():
        data.decode()


def read_garbled(data: bytes, read: Callable[[bytes, list[Event]], None], events: list[Event]) -> bool:
    """Read a frame once more that could not be read; False if something of the reply is lost with it.

    So is a call with something replaced: it must not be run.
    """
    if _NO_FRAME.fullmatch(data):
        return True
    readable = _replaced(data)
    if readable is None:
        return False
    found: list[Event] = []
    read(readable, found)
    if any(isinstance(event, CallStarted | ArgumentsDelta) for event in found):
        return False
    events += found
    return True


def is_other_type(data: bytes, known: frozenset[str]) -> bool:
    """Whether this is an event of a type that is not known here: in whatever shape, it is no part of the reply."""
    try:
        event = msgspec.json.decode(data)
    except UNREADABLE:
        return False
    return isinstance(event, dict) and isinstance(event.get("type"), str) and event["type"] not in known


def reply_garbled(frame: str) -> ProtocolError:
    """The end of a reply of which a frame could not be read. `frame`: what one is called on this wire."""
    return ProtocolError(f"The reply broke off: {frame} of it could not be read.", code="reply_garbled")


def reply_cut_off() -> ProtocolError:
    """The end of a reply that has none."""
    return ProtocolError("The reply broke off before its end.", code="reply_cut_off")


def _replaced(data: bytes) -> bytes | None:
    """The frame as JSON that says the same but for characters in its texts; None if it is JSON already, or none at all."""
    try:
        msgspec.json.decode(data)
    except UNREADABLE:
        pass
    else:
        return None
    try:
        value = json.loads(data.decode("utf-8", "replace"), parse_constant=lambda _: None, strict=False)
    except (ValueError, RecursionError):
        return None
    return msgspec.json.encode(json_safe(value)) if _is_clear(value) else None


def _is_clear(value: Any) -> bool:
    """Whether all but its texts is legible: a field under another name, or another type, would not be noticed."""
    waiting: list[tuple[str, Any]] = [("", value)]
    while waiting:
        name, held = waiting.pop()
        if isinstance(held, dict):
            if any(_UNSPEAKABLE.search(key) for key in held):
                return False
            waiting += held.items()
        elif isinstance(held, list):
            waiting += [(name, one) for one in held]
        elif isinstance(held, str) and name not in _TEXTS and _UNSPEAKABLE.search(held):
            return False
    return True

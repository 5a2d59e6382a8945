"""Lines of a stream that are no JSON because of a character or a number alone: half a surrogate pair, a byte that is no
UTF-8, NaN. They are read with a replacement in its place, so that no text is lost.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import msgspec

from segue.conversation.events import ArgumentsDelta, CallStarted
from segue.conversation.json_safe import json_safe

if TYPE_CHECKING:
    from collections.abc import Callable

    from segue.conversation.events import Event


def read_garbled(
    data: bytes, read: Callable[[bytes, list[Event]], None], events: list[Event], unread: list[bytes]
) -> None:
    """Read a line again that could not be read; it is added to `unread` if that does not help.

    A call counts as unread even so: with something replaced in its arguments it must not be run.
    """
    readable = _replaced(data)
    if readable is None:
        unread.append(data)
        return
    found: list[Event] = []
    read(readable, found)
    if any(isinstance(event, CallStarted | ArgumentsDelta) for event in found):
        unread.append(data)
    events += found


def _replaced(data: bytes) -> bytes | None:
    """The line as JSON that says the same but for what cannot be said; None if it is JSON already, or none at all."""
    try:
        msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    else:
        return None
    try:
        value = json.loads(data.decode("utf-8", "replace"), parse_constant=lambda _: None, strict=False)
    except (ValueError, RecursionError):
        return None
    return msgspec.json.encode(json_safe(value))

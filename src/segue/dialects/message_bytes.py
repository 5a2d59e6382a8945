"""Where the messages of a request stand in its bytes."""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec
from msgspec import Raw

_BETWEEN = frozenset(b" \t\r\n,")


@cache
def _splitter(field: str) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(
        msgspec.defstruct("Body", [("messages", list[Raw])], rename={"messages": field})
    )


def split_messages(body: bytes, field: str) -> list[Raw]:
    """The messages of a body, each as it is written."""
    pieces: list[Raw] = _splitter(field).decode(body).messages
    return pieces


def start_of_messages(body: bytes, field: str) -> int:
    """Where the list of messages probably begins."""
    name = b'"%b"' % field.encode()
    at = body.find(name) + len(name)
    return body.find(b"[", at) + 1


def end_of_messages(body: bytes, start: int, pieces: list[Raw], count: int) -> int:
    """Where so many messages end, of those that begin at `start`; 0 if they do not stand there."""
    end = at = start
    for piece in pieces[: count + 1]:
        end = at
        while body[at] in _BETWEEN:
            at += 1
        at += memoryview(piece).nbytes
    last = bytes(pieces[count])
    return end if body.startswith(last, at - len(last)) else 0

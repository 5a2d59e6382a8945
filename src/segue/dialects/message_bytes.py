"""Where the messages of a request stand in its bytes."""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec
from msgspec import Raw

_SEPARATORS = b" \t\r\n,"
_BETWEEN = frozenset(_SEPARATORS)
_TRIES = 4
_FIELDS = msgspec.json.Decoder(dict[str, Raw])
_LIST = msgspec.json.Decoder(list[Raw])


@cache
def _splitter(field: str) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(
        msgspec.defstruct("Body", [("messages", list[Raw])], rename={"messages": field})
    )


def split_messages(body: bytes, field: str) -> list[Raw]:
    """The messages of a body, each as it is written."""
    pieces: list[Raw] = _splitter(field).decode(body).messages
    return pieces


def split_last_messages(
    body: bytes, fields: dict[str, Any], field: str, least: int
) -> tuple[int, list[Raw]] | None:
    """Where the last messages begin, at least so many of them, and each as it is written; None if that is not found by a look
    from the end of the body. `fields`: what was read of it. To split a long list from its start takes as long as to read it."""
    first = next(iter(fields[field][-1]), None)
    if type(first) is not str:
        return None
    start = b'{"%b"' % first.encode()
    before, at, names = b'{"%b":[' % field.encode(), len(body), [*fields]
    for number in range(least + _TRIES):
        if (at := body.rfind(start, 0, at)) < 0:
            return None
        if number < least:
            continue
        try:
            rest = _FIELDS.decode(b"".join((before, memoryview(body)[at:])))
            pieces = _LIST.decode(rest[field])
        except msgspec.DecodeError:
            continue  # it began in something else, and there is too much behind it
        # Behind another list of the body, not all of the fields would follow.
        if len(pieces) >= least and [*rest] == names[names.index(field) :]:
            return (at, pieces) if len(pieces) < len(fields[field]) else None
    return None


def end_of_first_messages(body: bytes, start: int, given: list[Any], count: int) -> int:
    """Where so many messages end, of all those given, which begin at `start`; 0 if that is not found by a look at how the next
    one begins. What stands behind the messages is not read for it."""
    first = next(iter(given[count]), None)
    if type(first) is not str:
        return 0
    name, at = b'{"%b"' % first.encode(), len(body)
    for _ in given[count:]:
        if (at := body.rfind(name, start, at)) < 0:
            return 0
    messages = body[start:at].rstrip(_SEPARATORS)
    try:
        # If they are as many whole values, nothing else can have been cut off.
        found = len(_LIST.decode(b"[%b]" % messages))
    except msgspec.DecodeError:
        return 0
    return start + len(messages) if found == count else 0


def start_of_messages(body: bytes, field: str) -> int:
    """Where the list of messages probably begins."""
    name = b'"%b"' % field.encode()
    at = body.find(name) + len(name)
    return body.find(b"[", at) + 1


def is_start_of_messages(head: bytes, field: str) -> bool:
    """Whether a body that begins with this has no message yet, and they come next."""
    try:
        fields = _FIELDS.decode(head + b"]}")
    except msgspec.DecodeError:
        return False
    return [*fields][-1:] == [field] and bytes(fields[field]) == b"[]"


def end_of_messages(body: bytes, start: int, pieces: list[Raw], count: int) -> int:
    """Where so many messages end, of those that begin at `start`; 0 if they do not stand there."""
    end = at = start
    for piece in pieces[: count + 1]:
        end = at
        while body[at] in _BETWEEN:
            at += 1
        at += len(piece)
    last = bytes(pieces[count])
    return end if body.startswith(last, at - len(last)) else 0

"""A planned request in the spelling of the client whose conversation it is.

On its own wire most of what is planned is what the client wrote, and often its provider has got it before in the client's own
bytes. JSON has many spellings for one value: order of keys, spaces, escapes. So where a plan begins with the same messages, they
are sent in the client's bytes, whether the request before was planned or forwarded; the same for the fields beside them.
"""

from __future__ import annotations

from itertools import takewhile
from typing import Any

import msgspec
from msgspec import Raw

_FIELDS = msgspec.json.Decoder(dict[str, Raw])
_LIST = msgspec.json.Decoder(list[Raw])
_VALUES = msgspec.json.Decoder()
_SORTED = msgspec.json.Encoder(order="sorted")


def spelled_as(planned: bytes, came: bytes, messages_field: str) -> bytes:
    """The planned request, with the bytes of `came`, the client's request, for all values that are the same in both: of the
    messages for those from the first one on."""
    try:
        ours, theirs = _FIELDS.decode(planned), _FIELDS.decode(came)
        spelled = {
            name: theirs[name] if name in theirs and _is_same(raw, theirs[name]) else raw
            for name, raw in ours.items()
            if name != messages_field
        }
        messages = _messages(ours.get(messages_field), theirs.get(messages_field))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return planned  # not every body that is read with care is plain JSON
    if messages is None:
        return planned
    written: dict[str, Any] = {name: spelled.get(name, raw) for name, raw in ours.items()}
    return msgspec.json.encode({**written, messages_field: messages})


def _messages(ours: Raw | None, theirs: Raw | None) -> list[Raw] | Raw | None:
    if ours is None or theirs is None:
        return ours
    if not (bytes(ours).startswith(b"[") and bytes(theirs).startswith(b"[")):
        return ours  # one message need not be in a list
    planned, came = _LIST.decode(ours), _LIST.decode(theirs)
    same = [*takewhile(lambda pair: _is_same(*pair), zip(planned, came, strict=False))]
    return [*(raw for _, raw in same), *planned[len(same) :]]


def _is_same(one: Raw, other: Raw) -> bool:
    """Whether two texts are the same JSON value. A number with a point is none without."""
    first, second = bytes(one), bytes(other)
    return first == second or _SORTED.encode(_VALUES.decode(first)) == _SORTED.encode(_VALUES.decode(second))

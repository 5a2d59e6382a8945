"""Bodies of requests, so that what they have in common is kept once; and as pieces, when somebody looks at them.

A client sends its whole history each time: of 400 requests of one session nearly all bytes repeat. A `KeptBody` holds what differs
from the body before it, by a common beginning and a common end, which costs two comparisons of memory. So a session costs about
as much as its last request. Cutting a body into fields and elements of lists is left to whoever looks at it; joined again the pieces
are the body, byte for byte.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, final

import msgspec

from segue.gateway.prompt_caches.prompts import common_bytes

if TYPE_CHECKING:
    from collections.abc import Callable

_FIELDS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ELEMENTS: Final = msgspec.json.Decoder(list[msgspec.Raw])
_DEEPEST: Final = 2
"""Lists in objects of the body are cut too: `toolConfig.tools`."""
_NAME: Final = re.compile(rb'\{?\s*"[^"\\]{1,100}"\s*:\s*')
_MOST_BEHIND: Final = 5
"""Brackets that may stand behind the last piece of a list in an object."""
_WORTH: Final = 256
"""Bytes in common from which on a body is kept as a difference."""
_EXACTLY: Final = 256
"""To so many bytes the common end of two bodies is known."""
_LONGEST_SECRET: Final = 512
_CUT_FROM: Final = 256
"""A value that is shorter stays whole."""


@final
class KeptBody:
    """One body: bytes of the one before it, with other ones between."""

    __slots__ = ("_head", "_middle", "_parent", "_tail")

    def __init__(self, middle: bytes, parent: KeptBody | None = None, head: int = 0, tail: int = 0) -> None:
        """`head`, `tail`: so many bytes at the start and at the end are those of `parent`."""
        self._middle = middle
        self._parent = parent if head or tail else None
        self._head, self._tail = head, tail

    @property
    def size(self) -> int:
        """The bytes that it holds itself."""
        return len(self._middle)

    def data(self) -> bytes:
        chain, node = list[KeptBody](), self
        while node._parent is not None:
            chain.append(node)
            node = node._parent
        body = node._middle
        for one in reversed(chain):
            body = body[: one._head] + one._middle + body[len(body) - one._tail :]
        return body

    def whole(self) -> list[tuple[str, bytes]]:
        """Its pieces in order, each with the place it stands at: `model`, `messages[3]`."""
        return cut(self.data())


def kept(
    body: bytes, before: KeptBody | None, data_before: bytes, clean: Callable[[bytes], bytes]
) -> KeptBody:
    """`before`: the body before it, whose bytes are `data_before`. `clean` cuts secrets out of what is new."""
    if before is None:
        return KeptBody(clean(body))
    head = common_bytes(body, data_before)
    most = min(len(body), len(data_before)) - head
    tail = _same_end(body, data_before, most)
    if head < _WORTH and tail < _WORTH:
        return KeptBody(clean(body))
    head = max(head - _LONGEST_SECRET, 0)  # a secret may begin in what is the same and end in what is not
    return KeptBody(clean(body[head : len(body) - tail]), before, head, tail)


def _same_end(one: bytes, other: bytes, most: int) -> int:
    """About so many bytes, of `most`, are the same at the end of both, by comparing memory; a few more may be."""
    # Nearly always all of the rest is the same but for a mark that moved. What differs early is found early.
    view, low, high, less = memoryview(other), 0, most, 0
    while high > 0:
        if one.endswith(view[len(other) - high :]):
            low = high
            break
        less = 4 * less or _EXACTLY
        high = most - less
    high = min(most, low + max(less - less // 4, 0))
    while high - low > _EXACTLY:
        middle = (low + high) // 2
        if one.endswith(view[len(other) - middle : len(other) - low], 0, len(one) - low):
            low = middle
        else:
            high = middle
    return low


def cut(body: bytes) -> list[tuple[str, bytes]]:
    """The pieces of a body with their places. What is no JSON object is one piece."""
    spans: list[tuple[str, int]] = []
    try:
        if _cut_fields(body, 0, "", _FIELDS.decode(body), spans, _DEEPEST) < 0:
            return [("body", body)]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return [("body", body)]
    pieces, start = [], 0
    for label, end in spans:
        pieces.append((label, body[start:end]))
        start = end
    if start < len(body):
        if not pieces:
            return [("body", body)]
        label, last = pieces[-1]
        pieces[-1] = label, last + body[start:]
    return pieces


def _cut_fields(
    body: bytes,
    at: int,
    place: str,
    fields: dict[str, msgspec.Raw],
    spans: list[tuple[str, int]],
    depth: int,
) -> int:
    """Notes where each part of an object ends that begins at `at`. Returns where the last one does, or -1 if it is not found."""
    for name, raw in fields.items():
        value, label = bytes(raw), f"{place}.{name}" if place else name
        # Wherever it is found, the pieces join to the body again; its neighbours only make sure that the place is right.
        start = body.find(value, at)
        if start < 0:
            return -1
        end = start + len(value)
        if len(value) >= _CUT_FROM and value[:1] == b"[":
            at = start
            for number, element in enumerate(_ELEMENTS.decode(raw)):
                found = body.find(bytes(element), at)
                if found < 0:
                    return -1
                at = found + len(element)
                spans.append((f"{label}[{number}]", at))
        elif len(value) >= _CUT_FROM and value[:1] == b"{" and depth > 1:
            if _cut_fields(body, start, label, _FIELDS.decode(raw), spans, depth - 1) < 0:
                return -1
        else:
            spans.append((label, end))
        at = end
    return at


def value_in(piece: bytes) -> Any:
    """What a piece holds, without the name and the brackets that stand before or behind it; None if it cannot be read."""
    text = piece.lstrip(b" ,]}\n\t").rstrip(b" ,\n\t")
    # First as it is: an object that is an element of a list begins with a name too.
    starts = [text]
    if found := _NAME.match(text):
        starts.append(text[found.end() :])
    starts += [start.lstrip(b"[ \n\t") for start in starts]
    for start in starts:
        end = start
        for _ in range(_MOST_BEHIND):
            try:
                return msgspec.json.decode(end)
            except (msgspec.DecodeError, UnicodeDecodeError):
                if end[-1:] not in (b"}", b"]"):
                    break
                end = end[:-1].rstrip()
    return None

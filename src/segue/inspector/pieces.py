"""Bodies of requests as pieces, so that what they have in common is kept once.

A client sends its whole history each time: of 400 requests of one session nearly all bytes repeat. A body is cut into its
fields, and lists into their elements; joined again the pieces are the body, byte for byte. A `PieceList` holds only what
differs from the request before it, and equal pieces are one object wherever they stand. So a session costs about as much as its
last request.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any, Final, TypeAlias, final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

BodyPiece: TypeAlias = bytes | tuple[int, int]
"""The bytes; or, where content is not recorded, a digest that holds within this process, and their number."""
_FIELDS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ELEMENTS: Final = msgspec.json.Decoder(list[msgspec.Raw])
_DEEPEST: Final = 2
"""Lists in objects of the body are cut too: `toolConfig.tools`."""
_NAME: Final = re.compile(rb'\{?\s*"[^"\\]{1,100}"\s*:\s*')
_MOST_BEHIND: Final = 5
"""Brackets that may stand behind the last piece of a list in an object."""
_CUT_FROM: Final = 256
"""A value that is shorter stays whole."""


@final
class PieceList:
    """The pieces of one body, as far as they differ from those of an earlier one."""

    __slots__ = ("labels", "own", "parent", "shared")

    def __init__(
        self,
        labels: tuple[str, ...],
        own: tuple[BodyPiece, ...],
        parent: PieceList | None = None,
        shared: int = 0,
    ) -> None:
        """`shared`: so many pieces are the first ones of `parent`."""
        self.labels = labels
        self.own = own
        self.parent = parent if shared else None
        self.shared = shared if parent is not None else 0

    def whole(self) -> list[tuple[str, BodyPiece]]:
        """All pieces in order, each with the place it stands at: `model`, `messages[3]`."""
        parts = [list(zip(self.labels, self.own, strict=True))]
        limit, node = self.shared, self.parent
        while node is not None and limit:
            if node.shared < limit:
                own = limit - node.shared
                parts.append(list(zip(node.labels[:own], node.own[:own], strict=True)))
                limit = node.shared
            node = node.parent
        return [piece for part in reversed(parts) for piece in part]

    def __len__(self) -> int:
        return self.shared + len(self.own)


def size_of(piece: BodyPiece) -> int:
    return len(piece) if isinstance(piece, bytes) else piece[1]


def body_of(pieces: PieceList) -> bytes:
    """The body; empty if its content was not recorded."""
    return b"".join([piece for _, piece in pieces.whole() if isinstance(piece, bytes)])


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


def listed(
    cut_pieces: Sequence[tuple[str, bytes]], before: PieceList | None, keep: Callable[[bytes], BodyPiece]
) -> PieceList:
    """`before`: of the request before it. `keep` gives a piece as it is kept."""
    known = before.whole() if before is not None else []
    shared = 0
    for (label, data), (known_label, piece) in zip(cut_pieces, known, strict=False):
        same = piece == data if isinstance(piece, bytes) else piece == (hash(data), len(data))
        if label != known_label or not same:
            break
        shared += 1
    own = cut_pieces[shared:]
    return PieceList(
        tuple([label for label, _ in own]), tuple([keep(data) for _, data in own]), before, shared
    )


def value_in(piece: bytes) -> Any:
    """What a piece holds, without the name and the brackets that stand before or behind it; None if it cannot be read."""
    text = piece.lstrip(b" ,]}\n\t").rstrip(b" ,\n\t")
    if found := _NAME.match(text):
        text = text[found.end() :]
    for start in (text, text.lstrip(b"[ \n\t")):
        end = start
        for _ in range(_MOST_BEHIND):
            try:
                return msgspec.json.decode(end)
            except (msgspec.DecodeError, UnicodeDecodeError):
                if end[-1:] not in (b"}", b"]"):
                    break
                end = end[:-1].rstrip()
    return None


def digested(data: bytes) -> BodyPiece:
    """For comparisons within this process, without the content."""
    return hash(data), len(data)


@final
class PieceStore:
    """Pieces by their content, each once, and how many lists hold it."""

    def __init__(self) -> None:
        self._held: dict[bytes, bytes] = {}
        self._uses: Counter[bytes] = Counter()
        self.bytes = 0

    def keep(self, data: bytes) -> bytes:
        self._uses[data] += 1
        known = self._held.setdefault(data, data)
        if known is data:
            self.bytes += len(data)
        return known

    def release(self, pieces: PieceList) -> None:
        """What this list alone holds is forgotten; not what it shares with the one before it."""
        for piece in pieces.own:
            if not isinstance(piece, bytes) or piece not in self._held:
                continue
            self._uses[piece] -= 1
            if self._uses[piece] <= 0:
                del self._uses[piece], self._held[piece]
                self.bytes -= len(piece)

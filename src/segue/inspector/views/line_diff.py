"""Two bodies as lines of pretty JSON: which were added, removed or changed, and which words of a changed line differ."""

from __future__ import annotations

from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, final

import msgspec
from msgspec import Struct

from segue.inspector.record.pieces import value_in

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_MOST_LINES: Final = 3000
_LONGEST: Final = 400
"""Characters of a line that are shown."""
_AROUND: Final = 120
"""Characters that are shown before and behind what differs in a long line."""
_SAME: Final = 3
"""Equal lines that are shown before and behind a change."""
_ALIKE: Final = 0.4
"""Two lines that have so much in common are one line that was changed."""
_WORDS: Final = 400

DiffSign: TypeAlias = Literal["+", "−", " "]


@final
class DiffLine(Struct, frozen=True):
    """A line, in parts: every second part is what differs."""

    sign: DiffSign
    parts: tuple[str, ...]

    @property
    def text(self) -> str:
        return "".join(self.parts)


def pretty_lines(pieces: Sequence[tuple[str, bytes]]) -> list[str]:
    """Each piece under the place that it stands at. Without the commas between: they are no difference."""
    lines: list[str] = []
    for place, piece in pieces:
        value = value_in(piece)
        if value is None:
            text = piece.decode("utf-8", "replace")
        else:
            text = msgspec.json.format(msgspec.json.encode(value), indent=2).decode("utf-8", "replace")
        lines += [line.removesuffix(",") for line in f"{place}: {text}".splitlines()]
    return lines


def diff_lines(was: Sequence[str], now: Sequence[str]) -> list[DiffLine]:
    """Long stretches of equal lines are folded to one that has their number."""
    start = next(
        (n for n, (a, b) in enumerate(zip(was, now, strict=False)) if a != b), min(len(was), len(now))
    )
    most = min(len(was), len(now)) - start
    end = next((n for n in range(most) if was[len(was) - 1 - n] != now[len(now) - 1 - n]), most)
    old, new = was[start : len(was) - end][:_MOST_LINES], now[start : len(now) - end][:_MOST_LINES]
    found = list(_equal(was[:start], first=True, last=not (old or new or end)))
    for tag, a, b, c, d in SequenceMatcher(None, old, new, autojunk=True).get_opcodes():
        if tag == "equal":
            found += _equal(old[a:b])
        else:
            found += _changed(old[a:b], new[c:d])
    return [*found, *_equal(was[len(was) - end :], last=True)]


def _equal(lines: Sequence[str], *, first: bool = False, last: bool = False) -> Iterator[DiffLine]:
    before, behind = (0 if first else _SAME), (0 if last else _SAME)
    if len(lines) > before + behind + _SAME:
        hidden = len(lines) - before - behind
        lines = [*lines[:before], f"… {hidden:,} equal lines", *lines[len(lines) - behind :]]
    for line in lines:
        yield DiffLine(" ", (_short(line),))


def _changed(was: Sequence[str], now: Sequence[str]) -> Iterator[DiffLine]:
    """Lines that were changed stand under each other; the rest was removed or added."""
    pairs = 0
    for old, new in zip(was, now, strict=False):
        parts = _differing(old, new)
        if parts is None and len(was) != len(now):
            break
        pairs += 1
        yield DiffLine("−", parts[0] if parts is not None else (_short(old),))
        yield DiffLine("+", parts[1] if parts is not None else (_short(new),))
    yield from (DiffLine("−", (_short(line),)) for line in was[pairs:])
    yield from (DiffLine("+", (_short(line),)) for line in now[pairs:])


def _differing(old: str, new: str) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """The parts of both lines, by words; None if they have little in common."""
    start = next(
        (n for n, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new))
    )
    most = min(len(old), len(new)) - start
    end = next((n for n in range(most) if old[len(old) - 1 - n] != new[len(new) - 1 - n]), most)
    head, tail = old[:start], old[len(old) - end :]
    middles = _words(old[start : len(old) - end]), _words(new[start : len(new) - end])
    if max(map(len, middles)) > _WORDS:
        middles = ["".join(middles[0])], ["".join(middles[1])]
    sides = list[str](["", ""]), list[str](["", ""])
    sides[0][0] = sides[1][0] = head
    same = len(head) + len(tail)
    for tag, a, b, c, d in SequenceMatcher(None, *middles, autojunk=False).get_opcodes():
        for side, words in ((sides[0], middles[0][a:b]), (sides[1], middles[1][c:d])):
            if tag == "equal":
                side += ["".join(words), ""]
            else:
                side[-1] += "".join(words)
        if tag == "equal":
            same += len("".join(middles[0][a:b]))
    if same < _ALIKE * max(len(old), len(new)):
        return None
    return tuple(_fitted([*sides[0], tail])), tuple(_fitted([*sides[1], tail]))


def _words(text: str) -> list[str]:
    """With what stands between them."""
    words: list[str] = []
    for letter in text:
        if words and letter.isalnum() and words[-1][-1].isalnum():
            words[-1] += letter
        else:
            words.append(letter)
    return words


def _fitted(parts: Sequence[str]) -> Iterator[str]:
    """Of what is equal, only what stands near to a difference."""
    if sum(map(len, parts)) <= _LONGEST:
        yield from parts
        return
    for number, part in enumerate(parts):
        if number % 2:
            yield _short(part)
        elif number == 0:
            yield part if len(part) <= _AROUND else f"…{part[-_AROUND:]}"
        elif number == len(parts) - 1:
            yield part if len(part) <= _AROUND else f"{part[:_AROUND]}…"
        else:
            yield part if len(part) <= 2 * _AROUND else f"{part[:_AROUND]}…{part[-_AROUND:]}"


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}… {len(text) - _LONGEST:,} more characters"

"""A session file that is being repaired: only lines that change are written anew, all others stay byte for byte."""

from __future__ import annotations

import json
import re
from copy import deepcopy
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, Literal, final

from msgspec import Struct

from segue.conversation.json_text import read_json
from segue.errors import TranscriptError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from segue.interop.agents.session_file import Row

Effect = Literal["refused", "lost", "healed"]
"""What becomes of a fault if nobody repairs it: the provider refuses every later request; the program drops content without
a word; or the program repairs it by itself."""


REFUSED: Final = "the provider refuses every later request of this session"
CLOSED: Final = "an error result that says so is put behind it"
ORPHAN: Final = "[Result of an earlier tool call that is no longer in this session:]"


@final
class SessionFault(Struct, frozen=True, kw_only=True):
    """One thing in a session file that its program does not take back as it is."""

    line: int
    kind: str
    """The kind of repair that rendering would make for it; own words where there is none."""
    effect: Effect
    what: str
    then: str
    """What the program does with it."""
    fix: str = ""
    """What the repair does; empty where the program heals it."""
    call_ids: tuple[str, ...] = ()


@final
class SessionDraft:
    """The lines of a file. Changes are made on copies of their objects, and counted once per line."""

    def __init__(self, data: bytes) -> None:
        self._lines = data.splitlines(keepends=True)
        self._changed: dict[int, dict[str, Any]] = {}
        self._removed: set[int] = set()
        self._added: dict[int, list[dict[str, Any]]] = {}
        self._rows: list[Row] = []
        for number, line in enumerate(self._lines, 1):
            try:
                row = read_json(line) if line.strip() else None
            except TranscriptError:
                continue  # half a line is skipped by all programs, too
            if isinstance(row, dict):
                self._rows.append((number, row))

    @property
    def rows(self) -> list[Row]:
        """The objects in the file's own lines, as they are by now."""
        return [
            (number, self._changed.get(number, row))
            for number, row in self._rows
            if number not in self._removed
        ]

    def change(self, line: int) -> dict[str, Any]:
        """The object of a line, to be changed."""
        if line not in self._changed:
            self._changed[line] = deepcopy(next(row for number, row in self._rows if number == line))
        return self._changed[line]

    def insert_after(self, line: int, row: dict[str, Any]) -> None:
        self._added.setdefault(line, []).append(row)

    def remove(self, line: int) -> None:
        self._removed.add(line)

    @property
    def shortened(self) -> bool:
        """Whether a line was removed."""
        return bool(self._removed)

    def written(self) -> list[tuple[int, bytes]]:
        """The lines of the repaired file, each with the number of the line that it came from or follows."""
        written: list[tuple[int, bytes]] = []
        for number, line in enumerate(self._lines, 1):
            end = b"\n" if line.endswith(b"\n") or number in self._added else b""
            if number in self._changed and number not in self._removed:
                written.append((number, _json(self._changed[number]) + end))
            elif number not in self._removed:
                written.append((number, line if line.endswith(b"\n") or not end else line + end))
            written += [(number, _json(row) + b"\n") for row in self._added.get(number, ())]
        return written


def _json(row: dict[str, Any]) -> bytes:
    return json.dumps(row, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


_LEGAL: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


def is_legal_id(call_id: str) -> bool:
    """Whether every provider takes it."""
    return _LEGAL.fullmatch(call_id) is not None


def new_id(prefix: str, *parts: object) -> str:
    """An id that depends on what it replaces alone, so that repairing the same file again gives the same."""
    return prefix + sha256(json.dumps([str(part) for part in parts]).encode()).hexdigest()[:24]


@final
class IdUse(Struct, frozen=True):
    """A place that holds the id of a call: in the call itself, or in a result of it."""

    line: int
    path: tuple[str | int, ...]
    id: str
    call: bool


@final
class NewId(Struct, frozen=True):
    """A call whose id could not stay."""

    use: IdUse
    repeated: bool
    """Whether the id was legal, but that of an earlier call."""


def rename_calls(
    draft: SessionDraft,
    uses: Iterable[IdUse],
    prefix: str,
    legal: Callable[[str], bool] = is_legal_id,
    scope: Callable[[IdUse], object] = lambda _: None,
) -> tuple[list[NewId], list[IdUse]]:
    """Give each call a legal id of its own, and its results the same. The calls that were renamed, and the results whose call
    is not there. `scope`: where an id may be used once only; by default in the whole session.

    Results of an id that several calls have are taken in the order of the calls.
    """
    waiting: dict[str, list[str]] = {}
    answered: dict[str, str] = {}
    taken: set[tuple[object, str]] = set()
    renamed: list[NewId] = []
    orphans: list[IdUse] = []
    for use in uses:
        if use.call:
            place = scope(use), use.id
            stays = legal(use.id) and place not in taken
            used = use.id if stays else new_id(prefix, use.id, use.line, *use.path)
            if not stays:
                renamed.append(NewId(use, repeated=place in taken and legal(use.id)))
            taken.add(place)
            waiting.setdefault(use.id, []).append(used)
        elif use.id in waiting:
            calls = waiting[use.id]
            used = answered[use.id] = calls.pop(0) if calls else answered[use.id]
        else:
            orphans.append(use)
            continue
        if used != use.id:
            put(draft.change(use.line), use.path, used)
    return renamed, orphans


def id_fault(new: NewId, effect: Effect = "refused", then: str = REFUSED, illegal: str = "") -> SessionFault:
    """`illegal`: what is wrong with an id that was not legal, if more can be said than that."""
    given = new.use.id
    return SessionFault(
        line=new.use.line,
        kind="id_replaced",
        effect=effect,
        what=f'call id "{given}" is used a second time'
        if new.repeated
        else illegal or f'call id "{given}" is not legal',
        then=then,
        fix="a new id is given to the call and its results",
        call_ids=(given,),
    )


def orphan_fault(line: int, call_id: str, effect: Effect, then: str) -> SessionFault:
    """A result without a call, which became a text."""
    return SessionFault(
        line=line,
        kind="call_reconstructed",
        effect=effect,
        what="result without a call",
        then=then,
        fix="the result becomes a text of the user",
        call_ids=(call_id,),
    )


def put(row: Any, path: tuple[str | int, ...], value: object) -> None:
    """Set what stands at a path."""
    for step in path[:-1]:
        row = row[step]
    row[path[-1]] = value


def at(row: Any, path: tuple[str | int, ...]) -> Any:
    for step in path:
        row = row[step]
    return row

"""A tool call as a person would write it: what it does, the lines of a file that it changes, how it ended, and its output,
folded."""

from __future__ import annotations

import re
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Final, final

from msgspec import Struct, structs

from segue.conversation.blocks import status_of
from segue.text.terminal_text import revealed, sanitised
from segue.transcript.blocks.value_text import json_of, text_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from segue.conversation.blocks import ToolCall, ToolResult


MOST_LINES: Final = 5
"""Lines of an output that are shown whole."""
_LONG: Final = 200
"""Characters from which on the size of arguments is shown while they arrive."""
_BEGINNING: Final = 2_000
_PATH: Final = re.compile(r'"path"\s*:\s*"([^"\\]+)"')
_EXIT_CODE: Final = re.compile(r"\n?\(exit code (-?\d+)\)\s*\Z")
_VERBS: Final = {
    "run_shell": ("command", "$", "$"),
    "read_file": ("path", "reads", "read"),
    "write_file": ("path", "writes", "wrote"),
    "edit_file": ("path", "edits", "edited"),
    "list_dir": ("path", "lists", "listed"),
    "search": ("pattern", "searches", "searched"),
    "fetch_url": ("url", "fetches", "fetched"),
}
"""Of the built-in tools: the argument that matters, and the verb while the call runs and after it."""
_COUNTED: Final = {"read_file": "line", "list_dir": "entry", "search": "hit", "fetch_url": "line"}
"""Tools whose output is for the model: people see how much it was."""
_REASONS: Final = {
    "cancelled_by_user": "stopped by you",
    "interrupted": "interrupted",
    "denied": "refused",
    "timed_out": "took too long",
}


@final
class CallEnd(Struct, frozen=True):
    """How a call ended, for people."""

    mark: str
    colour: str
    detail: str = ""
    """Beside the call."""
    output: tuple[str, ...] = ()
    """Below it, unfolded."""


def call_words(call: ToolCall, *, done: bool) -> str:
    """`$ make test`, `read server.py`, or `name key: value` for tools of others; on one line."""
    arguments = call.arguments if isinstance(call.arguments, dict) else {}
    if call.name in _VERBS and isinstance(subject := arguments.get(_VERBS[call.name][0], "."), str):
        verb = _VERBS[call.name][2 if done else 1]
        shown = f'"{subject}"' if call.name == "search" else subject
        return _one_line(f"{verb} {shown}")
    fields = ", ".join(argument_text(name, value) for name, value in arguments.items())
    return _one_line(f"{call.name} {fields or ('' if arguments else call.raw)}".strip())


def argument_text(name: str, value: object) -> str:
    return f"{name}: {value if isinstance(value, str) else json_of(value)}"


@final
class WrittenArguments(Struct, frozen=True):
    """What has arrived of the JSON of a call: its beginning and its size, so that each portion is read once."""

    beginning: str = ""
    size: int = 0
    lines: int = 0

    def plus(self, portion: str) -> WrittenArguments:
        beginning = (self.beginning + portion)[:_BEGINNING] if self.size < _BEGINNING else self.beginning
        return WrittenArguments(beginning, self.size + len(portion), self.lines + portion.count("\\n"))


def writing_words(name: str, written: WrittenArguments) -> str:
    """`writing new.py, 40 lines`, while a model writes a call."""
    path = _PATH.search(written.beginning)
    if name in ("write_file", "edit_file") and path is not None:
        return _one_line(f"writing {path[1]}" + (f", {written.lines} lines" if written.lines else ""))
    size = f" ({written.size} characters)" if written.size >= _LONG else ""
    return f"calling {name}{size}"


def call_end(call: ToolCall, result: ToolResult) -> CallEnd:
    """A command that ends with another code than 0 has failed, whatever its tool reports."""
    if result.reason is not None:
        why = _REASONS.get(result.reason, result.reason.replace("_", " "))
        return CallEnd("-", "dim", why, _lines(result.output))
    if result.error is not None:
        return CallEnd("✗", "red", "", _lines(result.error))
    text = text_of(result.output)
    if call.name == "run_shell" and (found := _EXIT_CODE.search(text)):
        lines = _lines(text[: found.start()])
        if found[1] == "0":
            return CallEnd("✓", "green", "", lines)
        return CallEnd("✗", "red", f"exit {found[1]}", lines)
    if status_of(result) == "pending":
        return CallEnd("?", "yellow")
    if call.name in _COUNTED:
        return CallEnd("✓", "green", _count(text, _COUNTED[call.name]))
    if call.name in ("write_file", "edit_file"):
        return CallEnd("✓", "green")
    shown = _lines(text) or (("an image",) if result.media else ())
    return CallEnd("✓", "green", "", shown)


def folded(lines: Sequence[str], *, failed: bool = False) -> list[str]:
    """The first line and the last two; of a failure the last ones, where the reason is."""
    if len(lines) <= MOST_LINES:
        return list(lines)
    first, last = (0, 3) if failed else (1, 2)
    hidden = f"… {len(lines) - first - last} lines · ctrl-o"
    return [*lines[:first], hidden, *lines[-last:]]


def _count(text: str, unit: str) -> str:
    if text.startswith("(") and "\n" not in text.strip():
        return sanitised(text.strip().strip("()"))
    count = len(text.splitlines())
    plural = {"entry": "entries"}.get(unit, f"{unit}s")
    return f"1 {unit}" if count == 1 else f"{count} {plural}"


def _lines(value: object) -> tuple[str, ...]:
    return tuple(sanitised(text_of(value)).expandtabs(4).strip("\n").splitlines())


def _one_line(text: str) -> str:
    return " ".join(sanitised(text).split())


_COLOURS: Final = {"+": "green", "-": "red", " ": "dim", "…": "dim"}
CONTEXT: Final = 3
"""Unchanged lines around each change."""
_LARGEST: Final = 1_000_000
"""Bytes of a file that is compared with its new content."""
_MOST_COMPARED: Final = 2_000
"""Lines that differ: finding the best diff of more takes too long."""


@final
class ChangedLine(Struct, frozen=True):
    """One line of a diff."""

    mark: str
    """"+", "-", " ", or "…" where lines are skipped."""
    number: int
    """In the new file; of a removed line in the old one. 0 if unknown."""
    text: str


@final
class FileChange(Struct, frozen=True):
    """A change of one file."""

    lines: tuple[ChangedLine, ...]
    is_new: bool = False

    @property
    def added(self) -> int:
        return sum(line.mark == "+" for line in self.lines)

    @property
    def removed(self) -> int:
        return sum(line.mark == "-" for line in self.lines)


def change_of(arguments: Mapping[str, object], file: Path) -> FileChange | None:
    """What the arguments of a call would do to a file; None if they have no known shape."""
    content, old, new = (arguments.get(name) for name in ("content", "old", "new"))
    before = _present(file)
    if isinstance(content, str):
        return FileChange(tuple(difference(before or "", content)), is_new=before is None)
    if not isinstance(old, str) or not isinstance(new, str):
        return None
    before = before or ""
    if "\r\n" in before:
        before, old, new = (text.replace("\r\n", "\n") for text in (before, old, new))
    if not old or old not in before:
        # The call will fail; what it asks for is shown all the same.
        return FileChange(tuple(structs.replace(line, number=0) for line in difference(old, new)))
    after = before.replace(old, new, -1 if arguments.get("every") is True else 1)
    return FileChange(tuple(difference(before, after)))


def change_lines(change: FileChange) -> tuple[tuple[str, str], ...]:
    """The lines of a change with their numbers, and their colours."""
    width = max((len(str(line.number)) for line in change.lines), default=1)
    return tuple(
        (
            f"{line.number or '':>{width}} {line.mark} {revealed(line.text).expandtabs(4)}".rstrip(),
            _COLOURS[line.mark],
        )
        for line in change.lines
    )


def difference(before: str, after: str) -> Iterator[ChangedLine]:
    """The changed lines, with a few unchanged ones around them."""
    old, new = _file_lines(before), _file_lines(after)
    last = 0
    for group in _groups(old, new):
        if last and group[0][1] > last:
            yield ChangedLine("…", 0, "")
        for tag, old_start, old_end, new_start, new_end in group:
            if tag == "equal":
                for place in range(new_start, new_end):
                    yield ChangedLine(" ", place + 1, new[place])
                continue
            for place in range(old_start, old_end):
                yield ChangedLine("-", place + 1, old[place])
            for place in range(new_start, new_end):
                yield ChangedLine("+", place + 1, new[place])
        last = group[-1][2]


def _groups(old: list[str], new: list[str]) -> Iterator[list[tuple[str, int, int, int, int]]]:
    shared = _shared(old, new)
    ending = _shared(old[shared:][::-1], new[shared:][::-1])
    removed, added = len(old) - shared - ending, len(new) - shared - ending
    if not removed and not added:
        return
    if max(removed, added) <= _MOST_COMPARED:
        yield from SequenceMatcher(None, old, new).get_grouped_opcodes(CONTEXT)
        return
    start, end = max(shared - CONTEXT, 0), min(ending, CONTEXT)
    old_end, new_end = shared + removed, shared + added
    yield [
        ("equal", start, shared, start, shared),
        ("replace", shared, old_end, shared, new_end),
        ("equal", old_end, old_end + end, new_end, new_end + end),
    ]


def _shared(old: list[str], new: list[str]) -> int:
    """How many lines both begin with."""
    return next(
        (place for place, (one, other) in enumerate(zip(old, new, strict=False)) if one != other),
        min(len(old), len(new)),
    )


def _file_lines(text: str) -> list[str]:
    """Lines as other programs count them."""
    lines = text.split("\n")
    return lines if lines[-1] else lines[:-1]


def _present(file: Path) -> str | None:
    """The text of the file; None if there is none."""
    try:
        if not file.is_file():
            return None
        return file.read_text("utf-8", "replace") if file.stat().st_size <= _LARGEST else ""
    except (OSError, ValueError):
        return None

"""Two bodies side by side: one row holds the same step of the conversation in each, and the lines that a repair changed are marked."""

from __future__ import annotations

from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any, Final, final

import msgspec
from msgspec import Struct

from segue.conversation.blocks import ToolResult
from segue.conversation.message import Message
from segue.dialects.registry import DIALECTS
from segue.errors import SegueError
from segue.inspector.views.change_list import changes_of, sign_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from segue.dialects.dialect import Dialect
    from segue.transcript.repairs import Repair

_CUT: Final = 600
"""Characters of a text that are shown; the raw view has all of it."""
_DEEPEST: Final = 6
_MOST_LINES: Final = 120
_CONTENT: Final = ("content", "parts")
_OPAQUE: Final = frozenset({"signature", "thoughtSignature", "encrypted_content", "redactedContent"})
_CUT_OPAQUE: Final = 60
_THOUGHTS: Final = (
    "thinking",
    "redacted_thinking",
    "reasoning",
    "thought",
    "thoughtSignature",
    "reasoningContent",
)


@final
class BodyLine(Struct, frozen=True):
    """A field and its value."""

    indent: int
    key: str
    value: str
    sign: str = ""
    code: str = ""


@final
class Side(Struct, frozen=True):
    """What one body has in a row."""

    title: str
    lines: tuple[BodyLine, ...]
    more: int = 0
    """Lines that are not shown."""

    def runs(self) -> Iterator[tuple[BodyLine, bool]]:
        """Each line, and whether a run of lines with the same mark begins with it."""
        last = None
        for line in self.lines:
            yield line, (line.sign, line.code) != last
            last = line.sign, line.code


@final
class StepRow(Struct, frozen=True, kw_only=True):
    """One step in both bodies, and as segue keeps it."""

    label: str
    client: Side | None
    provider: Side | None
    messages: tuple[Message, ...] = ()

    @property
    def marked(self) -> list[tuple[str, str]]:
        """Signs and codes of its changes."""
        return [
            (line.sign, line.code)
            for side in (self.client, self.provider)
            if side is not None
            for line, begins in side.runs()
            if line.sign and begins
        ]


@final
class _Step(Struct):
    kind: str
    items: list[tuple[int, Any]]
    messages: list[Message]


def rows_of(
    client: bytes, provider: bytes, wire: str, dialect: str, repairs: Sequence[Repair]
) -> list[StepRow]:
    """Settings, system prompt and tools first, then each step."""
    ours, theirs = _parsed(client), _parsed(provider)
    marks = _Marks(repairs, dialect)
    rows = [_settings(ours, theirs, wire, dialect, marks)]
    mine, other = _steps(ours, wire), _steps(theirs, dialect)
    kinds = "".join(step.kind for step in mine), "".join(step.kind for step in other)
    for tag, a, b, c, d in SequenceMatcher(None, *kinds, autojunk=False).get_opcodes():
        pairs: list[tuple[_Step | None, _Step | None]]
        if tag == "equal":
            pairs = [(mine[a + n], other[c + n]) for n in range(b - a)]
        else:
            pairs = [*((step, None) for step in mine[a:b]), *((None, step) for step in other[c:d])]
        rows += [_row(left, right, marks) for left, right in pairs]
    return rows


class _Marks:
    """Which texts in which body were changed by which repair."""

    def __init__(self, repairs: Sequence[Repair], dialect: str) -> None:
        codes = {change.kind: change.code for change in changes_of(repairs, dialect)}
        self.client: dict[str, tuple[str, str]] = {}
        self.provider: dict[str, tuple[str, str]] = {}
        self.options: dict[str, tuple[str, str]] = {}
        self.thoughts: tuple[str, str] | None = None
        self.inserted: tuple[str, str] = ("+", "added")
        self.closed: dict[str, tuple[str, str]] = {}
        """Results that were put in, by the id of their call."""
        for repair in repairs:
            mark = sign_of(repair), codes.get(repair.kind, repair.kind)
            if repair.kind == "reasoning_dropped" or (
                repair.kind == "seal_dropped" and self.thoughts is None
            ):
                self.thoughts = mark
            elif repair.kind in ("option_not_sent", "thinking_changed"):
                self.options[repair.path.rpartition(".")[2]] = mark
            elif repair.kind in ("bridged", "opened", "ended"):
                self.inserted = mark
            elif repair.kind == "call_closed":
                for name in (*repair.emitted_result_ids, *repair.emitted_call_ids):
                    self.closed[name] = mark
            for name in repair.emitted_call_ids if repair.kind == "id_replaced" else ():
                self.provider[name] = mark
            for name in repair.call_ids if repair.kind == "id_replaced" else ():
                self.client[name] = mark


def _parsed(body: bytes) -> dict[str, Any]:
    try:
        value = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _steps(body: dict[str, Any], wire: str) -> list[_Step]:
    dialect = DIALECTS.get(wire)
    items = body.get(dialect.messages_field) if dialect is not None else None
    if isinstance(items, str):
        items = [items]
    if dialect is None or not isinstance(items, list):
        return []
    steps: list[_Step] = []
    for number, item in (
        (number, part) for number, whole in enumerate(items) for part in _split(dialect, whole)
    ):
        messages = _decoded(dialect, item)
        kind = _kind(messages, item)
        if steps and steps[-1].kind == kind:
            steps[-1].items.append((number, item))
            steps[-1].messages += messages
        else:
            steps.append(_Step(kind, [(number, item)], messages))
    return steps


def _split(dialect: Dialect, item: Any) -> list[Any]:
    """A message that holds both results of tools and words of the user, as two: other wires have a message for each."""
    blocks = [type(block) is ToolResult for message in _decoded(dialect, item) for block in message.blocks]
    name = next(
        (name for name in _CONTENT if isinstance(item, dict) and isinstance(item.get(name), list)), ""
    )
    if not name or all(blocks) or not any(blocks):
        return [item]
    parts: list[tuple[bool, list[Any]]] = []
    for block in item[name]:
        alone = {**item, name: [block]}
        is_result = _kind(_decoded(dialect, alone), alone) == "t"
        if parts and parts[-1][0] == is_result:
            parts[-1][1].append(block)
        else:
            parts.append((is_result, [block]))
    return [{**item, name: blocks} for _, blocks in parts]


def _decoded(dialect: Dialect, item: Any) -> list[Message]:
    try:
        return list(dialect.decode_request({dialect.messages_field: [item]}).messages)
    except (SegueError, AttributeError, TypeError, KeyError, ValueError):
        return []


def _kind(messages: Sequence[Message], item: Any) -> str:
    """Of a wire's message: what the user, the model or a tool says, or the operator."""
    if any(type(block) is ToolResult for message in messages for block in message.blocks):
        return "t"
    speakers = {message.speaker for message in messages}
    if "model" in speakers:
        return "m"
    if isinstance(item, dict) and item.get("role") in ("system", "developer"):
        return "s"
    return "u"


_MOVED: Final = ("~", "this wire’s place")
"""The system prompt, which stands in a field of its own on other wires."""
_TITLES: Final = {"u": "user", "m": "model", "t": "results", "s": "instructions"}


def _row(left: _Step | None, right: _Step | None, marks: _Marks) -> StepRow:
    step = left or right
    assert step is not None  # noqa: S101 - one of them is there
    numbers = [number + 1 for number, _ in step.items]
    span = f"{numbers[0]}" if len(numbers) == 1 else f"{numbers[0]}–{numbers[-1]}"
    inserted = marks.inserted if left is None else None
    if inserted is not None and step.kind == "s":
        inserted = _MOVED
    theirs = marks.provider
    if right is not None and right.kind == "t":
        theirs = {**theirs, **marks.closed}
        if inserted is not None and marks.closed:
            inserted = next(iter(marks.closed.values()))
    return StepRow(
        label=f"{span} {_TITLES[step.kind]}",
        client=_side(left, marks.client, marks.thoughts) if left is not None else None,
        provider=_side(right, theirs, None, inserted) if right is not None else None,
        messages=tuple(step.messages),
    )


def _side(
    step: _Step,
    marked: dict[str, tuple[str, str]],
    thoughts: tuple[str, str] | None,
    inserted: tuple[str, str] | None = None,
) -> Side:
    lines: list[BodyLine] = []
    more = 0
    for number, item in step.items:
        if len(lines) >= _MOST_LINES:
            more += 1
            continue
        lines += _item_lines(number, item, marked, thoughts, inserted)
    return Side("", tuple(lines[:_MOST_LINES]), more + max(len(lines) - _MOST_LINES, 0))


def _item_lines(
    number: int,
    item: Any,
    marked: dict[str, tuple[str, str]],
    thoughts: tuple[str, str] | None,
    inserted: tuple[str, str] | None,
) -> Iterator[BodyLine]:
    fields = item if isinstance(item, dict) else {"text": item}
    role = fields.get("role") or fields.get("type") or "item"
    sign, code = inserted or ("", "")
    yield BodyLine(0, f"{number + 1} {role}", "", sign, code)
    rest = {name: value for name, value in fields.items() if name != "role"}
    within, below = ("", ""), -1
    for line in _lines(rest, 0):
        if line.indent <= below:
            within, below = ("", ""), -1
        sign, code = inserted or _mark_of(line, marked, thoughts)
        if thoughts is not None and (sign, code) == thoughts and below < 0:
            within, below = thoughts, line.indent
        if not sign:
            sign, code = within
        yield BodyLine(line.indent, line.key, line.value, sign, code)


def _mark_of(
    line: BodyLine, marked: dict[str, tuple[str, str]], thoughts: tuple[str, str] | None
) -> tuple[str, str]:
    bare = line.value.strip('"')
    if bare in marked:
        return marked[bare]
    if thoughts is not None and (line.key in _THOUGHTS or bare in _THOUGHTS):
        return thoughts
    return "", ""


def _lines(value: Any, indent: int, key: str = "") -> Iterator[BodyLine]:
    if isinstance(value, dict) and indent < _DEEPEST:
        if key and not value:
            yield BodyLine(indent, key, "{}")
        elif key:
            kind = value.get("type") if isinstance(value.get("type"), str) else ""
            yield BodyLine(indent, key, str(kind))
        for name, held in value.items():
            yield from _lines(held, indent + (1 if key else 0), name)
    elif isinstance(value, list) and value and indent < _DEEPEST:
        if all(not isinstance(held, dict | list) for held in value):
            yield BodyLine(indent, key, _short(msgspec.json.encode(value).decode()))
            return
        for number, held in enumerate(value):
            label = f"{key}[{number}]" if len(value) > 1 else key
            yield from _lines(held, indent, label)
    else:
        yield BodyLine(indent, key, _shown(value, _CUT_OPAQUE if key in _OPAQUE else _CUT))


def _shown(value: Any, most: int = _CUT) -> str:
    if isinstance(value, str):
        return f'"{_short(value, most)}"'
    return _short(msgspec.json.encode(value).decode(), most)


def _short(text: str, most: int = _CUT) -> str:
    return text if len(text) <= most else f"{text[:most]} … {len(text) - most:,} more characters"


def _settings(
    ours: dict[str, Any], theirs: dict[str, Any], wire: str, dialect: str, marks: _Marks
) -> StepRow:
    """All but the messages; what differs is marked."""
    mine, other = _plain(ours, wire), _plain(theirs, dialect)
    left: list[BodyLine] = []
    for name, value in mine.items():
        mark = marks.options.get(name, ("", ""))
        if not mark[0] and name not in other and name not in _LISTS:
            mark = ("~", "spelt otherwise")
        left.append(BodyLine(0, name, _field(name, value), *mark))
    right: list[BodyLine] = []
    for name, value in other.items():
        sign, code = "", ""
        if name == "model" and mine.get("model") not in (None, value):
            sign, code = "~", "route"
        elif name not in _LISTS and name in mine and mine[name] != value:
            sign, code = "~", "changed"
        elif name not in mine and name not in _LISTS:
            sign, code = "+", "this wire’s word"
        right.append(BodyLine(0, name, _field(name, value), sign, code))
    for name, mark in marks.options.items():
        if name not in other:
            right.append(BodyLine(0, name, "not sent", *mark))
    return StepRow(
        label="settings, system prompt, tools",
        client=Side("", tuple(left)),
        provider=Side("", tuple(right)),
    )


_LISTS: Final = frozenset(
    {"tools", "toolConfig", "system", "instructions", "systemInstruction", "system_instruction"}
)


def _plain(body: dict[str, Any], wire: str) -> dict[str, Any]:
    field = DIALECTS[wire].messages_field if wire in DIALECTS else ""
    return {name: value for name, value in body.items() if name != field}


def _field(name: str, value: Any) -> str:
    if name in _LISTS:
        size = len(msgspec.json.encode(value))
        number = f"{len(value)} × " if isinstance(value, list) else ""
        return f"{number}{size:,} bytes"
    return (
        _shown(value) if not isinstance(value, dict | list) else _short(msgspec.json.encode(value).decode())
    )

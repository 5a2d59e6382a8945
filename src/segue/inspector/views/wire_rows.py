"""Two bodies side by side: one row holds the same step of the conversation in each, and the lines that a repair changed are marked."""

from __future__ import annotations

from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any, Final, final

import msgspec
from msgspec import Struct, structs

from segue.conversation.blocks import ToolCall, ToolResult
from segue.conversation.message import Message
from segue.dialects.registry import DIALECTS
from segue.errors import SegueError
from segue.inspector.record.records import said_in
from segue.inspector.views.repair_marks import NO_MARKS, RepairMarks, joined

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from segue.conversation.message import Conversation
    from segue.dialects.dialect import Dialect
    from segue.inspector.views.repair_marks import ItemMarks, Mark
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
    "reasoning_content",
    "thought",
    "thoughtSignature",
    "reasoningContent",
)

_ARGUMENTS: Final = ("input", "args")
_NONE: Final[Mark] = ("", "")
ID_WRITTEN: Final = "id written for this provider"


@final
class BodyLine(Struct, frozen=True):
    """A field and its value."""

    indent: int
    key: str
    value: str
    sign: str = ""
    code: str = ""
    note: str = ""
    """What is said of it that is no repair."""

    @property
    def text(self) -> str:
        """Its value, if that is a text."""
        return self.value.strip('"')

    @property
    def is_id(self) -> bool:
        return self.key.lower().endswith("id")


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

    place: str = ""
    """As paths of repairs name it: `messages[3]`; empty for the settings."""
    last_place: str = ""
    """Of the last message, if the step has several."""
    written_ids: tuple[str, ...] = ()
    """Ids of calls, as the provider got them, that are not the client's. No repair: each wire has its own."""

    @property
    def marked(self) -> list[Mark]:
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
    read: list[tuple[int, list[Message]]]
    """The same, decoded."""

    @property
    def messages(self) -> list[Message]:
        return [message for _, messages in self.read for message in messages]

    @property
    def ids(self) -> list[str]:
        """Of its calls or results, in order."""
        blocks = [block for message in self.messages for block in message.blocks]
        return [block.native_id for block in blocks if type(block) is ToolCall or type(block) is ToolResult]


def rows_of(
    client: bytes,
    provider: bytes,
    wire: str,
    dialect: str,
    repairs: Sequence[Repair],
    said: Conversation | None = None,
) -> list[StepRow]:
    """Settings, system prompt and tools first, then each step.

    `said`: what the paths of the repairs count in; without it, what the client's body says.
    """
    ours, theirs = _parsed(client), _parsed(provider)
    mine, other = _steps(ours, wire), _steps(theirs, dialect)
    items = [(number, messages) for step in mine for number, messages in step.read]
    marks = RepairMarks(repairs, dialect, items, said or said_in(client, wire))
    rows = [_settings(ours, theirs, wire, dialect, marks)]
    kinds = "".join(step.kind for step in mine), "".join(step.kind for step in other)
    steps = [("equal", 0, len(mine), 0, len(other))]
    if kinds[0] != kinds[1]:  # the comparison is quadratic: most requests do without
        steps = [*SequenceMatcher(None, *kinds, autojunk=False).get_opcodes()]
    for tag, a, b, c, d in steps:
        pairs: list[tuple[_Step | None, _Step | None]]
        if tag == "equal":
            pairs = [(mine[a + n], other[c + n]) for n in range(b - a)]
        else:
            pairs = [*((step, None) for step in mine[a:b]), *((None, step) for step in other[c:d])]
        rows += [_row(left, right, marks, (wire, dialect)) for left, right in pairs]
    return rows


def ids_written(rows: Sequence[StepRow]) -> int:
    """Calls whose id is another one for this provider than for the client; the call and its result count once."""
    return len({name for row in rows for name in row.written_ids})


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
            steps[-1].read.append((number, messages))
        else:
            steps.append(_Step(kind, [(number, item)], [(number, messages)]))
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


_MOVED: Final = ("~", "placed as this API wants")
"""The system prompt, which stands in a field of its own on other wires."""
_TITLES: Final = {"u": "user", "m": "model", "t": "results", "s": "instructions"}


def _row(left: _Step | None, right: _Step | None, marks: RepairMarks, wires: tuple[str, str]) -> StepRow:
    step = left or right
    assert step is not None  # noqa: S101 - one of them is there
    field = DIALECTS[wires[left is None]].messages_field
    places = [f"{field}[{number}]" for number, _ in step.items]
    span = places[0] if places[0] == places[-1] else f"{places[0]} to {places[-1]}"
    inserted = marks.inserted if left is None else None
    if inserted is not None and step.kind == "s":
        inserted = _MOVED
    theirs = marks.provider
    if right is not None and right.kind == "t":
        theirs = {**theirs, **marks.closed}
        if inserted is not None and marks.closed:
            inserted = next(iter(marks.closed.values()))
    written: tuple[str, ...] = ()
    if left is not None and right is not None:
        written = _written_ids(
            left.ids, [name for name in right.ids if step.kind != "t" or name not in marks.closed]
        )
    quiet = tuple([name for name in written if name not in theirs])
    return StepRow(
        label=f"{span} {_TITLES[step.kind]}",
        client=_side(left, wires[0], marks.client, marks.items) if left is not None else None,
        provider=_side(right, wires[1], theirs, {}, inserted, quiet) if right is not None else None,
        messages=tuple(step.messages),
        place=places[0],
        last_place=places[-1],
        written_ids=quiet,
    )


def _written_ids(mine: Sequence[str], other: Sequence[str]) -> tuple[str, ...]:
    if len(mine) != len(other):  # which of them are the same cannot be told
        return ()
    return tuple(
        [theirs for ours, theirs in zip(mine, other, strict=True) if ours and theirs and ours != theirs]
    )


def _side(
    step: _Step,
    wire: str,
    marked: dict[str, Mark],
    items: dict[int, ItemMarks],
    inserted: Mark | None = None,
    written: tuple[str, ...] = (),
) -> Side:
    lines: list[BodyLine] = []
    more = 0
    for number, item in step.items:
        if len(lines) >= _MOST_LINES:
            more += 1
            continue
        place = f"{DIALECTS[wire].messages_field}[{number}]"
        held = list(_item_lines(place, item))
        if inserted is not None:
            lines += [structs.replace(line, sign=inserted[0], code=inserted[1]) for line in held]
        else:
            lines += _marked_lines(held, marked, items.get(number, NO_MARKS), written)
    return Side("", tuple(lines[:_MOST_LINES]), more + max(len(lines) - _MOST_LINES, 0))


def _item_lines(place: str, item: Any) -> Iterator[BodyLine]:
    fields = item if isinstance(item, dict) else {"text": item}
    yield BodyLine(0, f"{place} {fields.get('role') or fields.get('type') or 'item'}", "")
    yield from _lines({name: value for name, value in fields.items() if name != "role"}, 0)


def _marked_lines(
    lines: list[BodyLine], marked: dict[str, Mark], marks: ItemMarks, written: tuple[str, ...]
) -> Iterator[BodyLine]:
    """The first line is the message's own: it is marked where none within has what the repair concerns."""
    found: dict[int, Mark] = {}
    if marks.thoughts is not None:
        found = dict.fromkeys(_thoughts_in(lines), marks.thoughts)
    heads = {
        place: _head_of(lines, place)
        for place, line in enumerate(lines)
        if line.is_id and line.text in marks.calls
    }
    for place, head in heads.items():
        found[head] = joined(found.get(head), marks.calls[lines[place].text])
    missing = [
        mark for name, mark in marks.calls.items() if name not in {lines[place].text for place in heads}
    ]
    if marks.thoughts is not None and marks.thoughts not in found.values():
        missing.append(marks.thoughts)
    for mark in (*missing, *([marks.whole] if marks.whole is not None else [])):
        found[0] = joined(found.get(0), mark)
    for place, line in enumerate(lines):
        note = ID_WRITTEN if line.is_id and line.text in written else ""
        sign, code = found.get(place) or (marked.get(line.text, _NONE) if line.is_id else _NONE)
        yield structs.replace(line, sign=sign, code=code, note=note) if sign or note else line


def _thoughts_in(lines: Sequence[BodyLine]) -> Iterator[int]:
    """Lines of reasoning: the field that is named so, and all within it. An argument of a call may have any name."""
    if any(line.indent == 0 and line.key == "type" and line.text in _THOUGHTS for line in lines):
        yield from range(len(lines))  # the message itself is reasoning
        return
    below, within = -1, False
    for place, line in enumerate(lines[1:], 1):
        if line.indent <= below:
            below = -1
            within = False
        if below >= 0:
            if within:
                yield place
        elif line.key in _ARGUMENTS:
            below = line.indent
        elif line.key in _THOUGHTS or line.value in _THOUGHTS:
            below, within = line.indent, True
            yield place


def _head_of(lines: Sequence[BodyLine], place: int) -> int:
    """The line that the field at this place belongs to."""
    indent = lines[place].indent
    return next((n for n in range(place - 1, 0, -1) if lines[n].indent < indent), 0)


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
    ours: dict[str, Any], theirs: dict[str, Any], wire: str, dialect: str, marks: RepairMarks
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
            sign, code = "+", "added for this API"
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

"""Rows of two bodies as markup: the same step in each column, its changes marked on their lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from segue.conversation.blocks import Code, Media, Reasoning, Text, ToolCall, ToolResult
from segue.inspector.markup import words
from segue.inspector.markup.html import Element, Node, e
from segue.inspector.views.chat_view import about, short_result
from segue.transcript.blocks.value_text import text_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from segue.conversation.blocks import Block
    from segue.conversation.message import Message
    from segue.inspector.views.wire_rows import BodyLine, Side, StepRow


def fold(rows: Sequence[StepRow]) -> Node:
    if not rows:
        return None
    counts: dict[str, int] = {}
    for row in rows:
        for sign, code in row.marked:
            counts[f"{sign} {code}"] = counts.get(f"{sign} {code}", 0) + 1
    tags = [
        e("span", f"{mark[:1]} {number} × {mark[2:]}", cls=f"tag {_tag(mark[:1])}".strip())
        for mark, number in counts.items()
    ]
    named = [row for row in rows if row.client is not None] or rows
    first, last = named[0].place, named[-1].last_place
    title = f"{first} to {last}" if first != last else first
    return e(
        "details",
        e("summary", e("span", title), tags, cls="foldrow"),
        [pair(row) for row in rows],
        cls="early",
    )


def unchanged_folded(rows: Sequence[StepRow]) -> list[Node]:
    """Rows with changes, and between them each stretch without any, folded; the last row is always open."""
    found: list[Node] = []
    held: list[StepRow] = []
    for row in rows:
        if row.marked or row is rows[-1]:
            found += [fold(held), pair(row)]
            held = []
        else:
            held.append(row)
    return found


def _tag(sign: str) -> str:
    return {"−": "loss", "+": "ok"}.get(sign, "")


def pair(row: StepRow) -> Element:
    canonical = [_canonical(message) for message in row.messages]
    return e(
        "div",
        e("div", _side(row.client), cls="msg", data_col="client"),
        e(
            "div",
            e("div", canonical or e("span", row.label, cls="f"), cls="json"),
            cls="msg",
            data_col="canonical",
        ),
        e("div", _side(row.provider), cls="msg", data_col="provider"),
        cls="pair",
    )


def _side(side: Side | None) -> Node:
    if side is None:
        return e("span", "–", cls="f")
    more = e("div", f"… {side.more:,} more lines in the raw view", cls="foldrow") if side.more else None
    lines = [_line_of(line, is_tagged=bool(line.sign) and begins) for line, begins in side.runs()]
    return [e("div", lines, cls="json"), more]


def _line_of(line: BodyLine, *, is_tagged: bool) -> Element:
    kind = {"~": "ch rw", "−": "ch no", "+": "ch add"}.get(line.sign, "ln1")
    tag = e("span", f"{line.sign} {line.code}", cls=f"tag {_tag(line.sign)}".strip()) if is_tagged else None
    pad = " " * line.indent
    return e(
        "span",
        tag,
        pad,
        e("span", line.key, cls="k"),
        f" {line.value}" if line.value else "",
        e("span", f" · {line.note}", cls="f") if line.note else None,
        "\n",
        cls=kind,
        data_mark=is_tagged,
    )


def _canonical(message: Message) -> Node:
    who = f"{message.speaker}{' (note)' if message.instruction else ''}"
    made = f" by {message.origin.model}" if message.origin is not None and message.origin.model else ""
    return [e("span", f"{who}{made}\n", cls="k"), [[block_line(block), "\n"] for block in message.blocks]]


def block_line(block: Block) -> str:
    match block:
        case Text(text):
            return f' "{words.plain_text(text, 400)}"'
        case Reasoning(text, seal):
            return f" reasoning {len(text):,} characters{', sealed' if seal is not None else ''}"
        case ToolCall():
            return f" call {block.name} {about(block.arguments)}"
        case ToolResult():
            return f" result {short_result(block.error or text_of(block.output))}"
        case Media():
            return f" {block.kind} {block.mime}"
        case Code(code):
            return f" code {len(code):,} characters"

"""A conversation as a page to read: messages, calls and their results; and a session in order, with what happened to
it in between."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, TypeAlias, assert_never, final

from msgspec import Struct

from segue.conversation.blocks import Code, Media, Reasoning, Text, ToolCall, ToolResult
from segue.conversation.json_safe import encodable
from segue.conversation.message import Message
from segue.sessions.entries import Compacted, ModelReplied, Rewound, Switched, TurnEnded
from segue.text.terminal_text import sanitised
from segue.transcript.blocks.media import describe
from segue.transcript.blocks.value_text import arguments_of, text_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from segue.conversation.blocks import Block
    from segue.sessions.entries import Entry, Record
    from segue.sessions.state import State


@final
class Aside(Struct, frozen=True):
    """Something that happened beside the messages."""

    text: str
    failed: bool = False


PageItem: TypeAlias = Message | Aside


def page_of(state: State, records: Sequence[Record] = ()) -> list[PageItem]:
    """All messages, also compacted ones; with `records`, also switches, repairs, errors and compactions."""
    items: list[PageItem] = []
    entries = [record.entry for record in records]
    at = 0
    for message in state.history.messages:
        found = _place_of(message, entries, at) if message.speaker == "model" else None
        if found is not None:
            items += _asides(entries[at:found])
            reply = entries[found]
            if isinstance(reply, ModelReplied) and reply.repairs:
                items.append(Aside(_repairs(reply.repairs)))
            at = found + 1
        items.append(message)
    return [*items, *_asides(entries[at:])]


def _place_of(message: Message, entries: list[Entry], start: int) -> int | None:
    for index, entry in enumerate(entries[start:], start):
        if isinstance(entry, ModelReplied) and entry.message == message:
            return index
    return None


def _asides(entries: list[Entry]) -> list[PageItem]:
    found: list[PageItem] = []
    for entry in entries:
        match entry:
            case Rewound():  # what came before was undone
                found = []
            case Switched(previous=previous, model=model, reason=reason):
                found.append(Aside(f"{previous} → {model} ({reason})"))
            case Compacted(strategy=strategy):
                found.append(Aside(f"The conversation was shortened ({strategy})."))
            case TurnEnded(finish=finish, error=error) if finish != "complete":
                why = f": {error.get('message', '')}" if error else ""
                found.append(Aside(f"The turn ended: {finish.replace('_', ' ')}{why}", failed=True))
            case _:
                pass
    return found


def _repairs(count: int) -> str:
    changes = "1 repair" if count == 1 else f"{count} repairs"
    return f"The request for this reply took {changes}."


MAX_OUTPUT: Final = 4_000
"""Characters of a tool's output that suit a screen."""


def as_markdown(state: State, records: Sequence[Record] = (), *, max_output: int | None = None) -> str:
    """`records`: of the same session; with them switches, repairs and errors stand in their places."""
    title = _line(state.title) or "Conversation"
    parts = [f"# {title}"]
    if state.model:
        parts.append(f"*{_line(state.model)}*")
    if state.conversation.system:
        parts += ["## System", encodable(state.conversation.system)]
    messages, left = state.history.messages, len(state.conversation.messages)
    if messages != state.conversation.messages:
        parts.append(f"*Compacted: models are sent {left} messages instead of these {len(messages)}.*")
    for message in page_of(state, records):
        if isinstance(message, Aside):
            parts.append(f"*{_line(message.text)}*")
            continue
        if message.speaker != "tool":
            parts.append(f"## {_heading(message)}")
        parts += [_block(block, max_output) for block in message.blocks]
    return sanitised("\n\n".join(part for part in parts if part.strip()) + "\n")


def _heading(message: Message) -> str:
    if message.speaker == "user":
        return "Note" if message.instruction else "User"
    return _line(message.origin.model) if message.origin and message.origin.model else "Model"


def _block(block: Block, max_output: int | None) -> str:
    match block:
        case Text(text):
            return encodable(text)
        case Reasoning(text):
            return "\n".join(f"> {line}" for line in encodable(text).splitlines())
        case ToolCall():
            return f"**{_line(block.name)}** ({_line(block.id)})\n\n{_fenced(arguments_of(block)[0], 'json')}"
        case ToolResult():
            return _result(block, max_output)
        case Media():
            return f"*{_shown(block)}*"
        case Code(code, language):
            return _fenced(encodable(code), language)
        case _:
            assert_never(block)


def _result(result: ToolResult, max_output: int | None) -> str:
    heading = f"→ **{_line(result.name) or 'result'}** ({_line(result.call_id)})"
    if result.reason is not None:
        heading += f": {result.reason.replace('_', ' ')}"
    elif result.error is not None:
        heading += ": failed"
    text = "\n".join(part for part in (encodable(result.error or ""), text_of(result.output)) if part)
    if max_output is not None and len(text) > max_output:
        text = f"{text[:max_output]}\n… {len(text) - max_output} more characters"
    parts = [heading, _fenced(text) if text else "", *(f"*{_shown(media)}*" for media in result.media)]
    return "\n\n".join(part for part in parts if part)


def _shown(media: Media) -> str:
    return describe(media).text.removeprefix("[").partition(": not shown")[0]


def _fenced(text: str, language: str = "") -> str:
    """Between fences longer than any in the text."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def _line(text: str) -> str:
    return " ".join(encodable(text).split())

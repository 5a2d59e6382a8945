"""Events of a chat as lines beside the answer, one each: tools, switches, retries, warnings."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from segue.cli.display.text_width import cut
from segue.conversation.blocks import status_of
from segue.events import (
    Compaction,
    MediaChunk,
    Retrying,
    Switch,
    ToolCallResult,
    ToolCallStart,
    Warned,
)
from segue.text.terminal_text import sanitised
from segue.transcript.blocks.value_text import text_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from segue.events import ChatEvent
    from segue.transcript.repairs import Repair

_MOST = 100
"""Columns of arguments and results that are shown."""


def event_line(event: ChatEvent) -> str:
    """One line about an event; "" if it needs none."""
    match event:
        case ToolCallStart(call):
            arguments = json.dumps(call.arguments, ensure_ascii=False, default=str)
            return f"→ {call.name} {shortened(arguments)}"
        case ToolCallResult(call, result):
            mark = {"complete": "✓", "error": "✗", "cancelled": "■", "pending": "…"}[status_of(result)]
            text = (result.reason or "").replace("_", " ") or result.error or text_of(result.output)
            return f"{mark} {call.name}: {shortened(text)}"
        case MediaChunk(media):
            return f"[{media.kind}: {media.mime}]"
        case Switch():
            return switch_line(event)
        case Retrying(model, error, after):
            return f"{model}: {shortened(error.message)} Retrying in {after:.1f} s."
        case Compaction(strategy, why):
            return f"The conversation was compacted ({strategy}): {why}."
        case Warned(message):
            return f"warning: {shortened(message, 300)}"
        case _:
            return ""


def switch_line(switch: Switch) -> str:
    """From, to, why if the user did not ask for it, and what the new model does not see."""
    why = "" if switch.reason == "asked" else f" ({switch.reason})"
    if switch.error is not None:
        why = f" ({switch.reason}: {shortened(switch.error.message)})"
    hidden = hidden_parts(switch.losses)
    loss = f"hidden from the new model: {hidden}" if hidden else "nothing is lost"
    return f"{switch.previous} → {switch.model}{why}; {loss}"


_HIDDEN = {
    "result_superseded": "duplicate results",
    "message_dropped": "whole messages",
    "reasoning_dropped": "earlier reasoning",
    "seal_dropped": "signatures",
    "media_described": "media (described in words)",
    "item_dropped": "items of another API",
    "text_dropped": "text behind a call",
}
"""What a lossy repair hides from the new model."""


def hidden_parts(losses: Iterable[Repair]) -> str:
    """What the new model does not see, for people; "" if it sees everything."""
    return ", ".join(sorted({_HIDDEN.get(repair.kind, repair.kind.replace("_", " ")) for repair in losses}))


def shortened(text: str, most: int = _MOST) -> str:
    """A text from outside on one line, in at most `most` columns."""
    line = " ".join(sanitised(text).split())
    return line if 2 * len(line) <= most else cut(line, most)  # no character takes more than two columns

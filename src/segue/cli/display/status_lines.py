"""What is told beside an answer, on stderr: tools, switches, retries, warnings, one line each."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from segue.cli.display.sanitise import sanitised
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
from segue.transcript.value_text import text_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from segue.conversation.blocks import ToolResult
    from segue.events import ChatEvent
    from segue.transcript.repairs import Repair

_MOST = 100
"""Letters of arguments and results that are shown."""


def event_line(event: ChatEvent) -> str:
    """One line about an event; nothing where there is nothing to say."""
    match event:
        case ToolCallStart(call):
            arguments = json.dumps(call.arguments, ensure_ascii=False, default=str)
            return f"→ {call.name} {shortened(arguments)}"
        case ToolCallResult(call, result):
            mark = {"complete": "✓", "error": "✗", "cancelled": "■", "pending": "…"}[status_of(result)]
            return f"{mark} {call.name}: {shortened(outcome_of(result))}"
        case MediaChunk(media):
            return f"[{media.kind}: {media.mime}]"
        case Switch():
            return switch_line(event)
        case Retrying(model, error, after):
            return f"{model}: {shortened(error.message)} Trying again in {after:.1f} s."
        case Compaction(strategy, why):
            return f"The conversation was made shorter ({strategy}): {why}."
        case Warned(message):
            return f"warning: {shortened(message, 300)}"
        case _:
            return ""


def outcome_of(result: ToolResult) -> str:
    """What came of a call, in one text."""
    if result.reason is not None:
        return result.reason.replace("_", " ")
    return result.error if result.error is not None else text_of(result.output)


def switch_line(switch: Switch) -> str:
    """From, to, why, and what is dropped or rewritten."""
    lost = sorted({str(repair.kind).replace("_", " ") for repair in switch.losses})
    told = f"; not told there: {', '.join(lost)}" if lost else "; nothing is lost"
    why = switch.reason if switch.error is None else f"{switch.reason}: {shortened(switch.error.message)}"
    return f"{switch.previous} → {switch.model} ({why}){told}"


def lossy_kinds(losses: Iterable[Repair]) -> str:
    return ", ".join(sorted({str(repair.kind).replace("_", " ") for repair in losses}))


def shortened(text: str, most: int = _MOST) -> str:
    """One line of a text that came from elsewhere, in at most so many columns."""
    return cut(" ".join(sanitised(text).split()), most)

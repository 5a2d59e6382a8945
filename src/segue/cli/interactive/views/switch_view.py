"""A switch of the model on the screen: who answers from now on, and what was carried over."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from segue.cli.display.turn_summary import counted
from segue.cli.error_report import trouble_words

if TYPE_CHECKING:
    from collections.abc import Iterable

    from segue.cli.interactive.views.screen import Screen
    from segue.conversation.message import Conversation
    from segue.events import Switch
    from segue.transcript.repairs import Repair

_NOT_SENT: Final = {
    "reasoning_dropped": ("reasoning block", "not sent: only the provider that wrote {them} can read {them}"),
    "seal_dropped": ("reasoning block", "sent without its signature"),
    "media_described": ("file", "described in words"),
    "message_dropped": ("message", "not sent"),
    "result_superseded": ("repeated result", "not sent"),
    "item_dropped": ("item of another API", "not sent"),
    "text_dropped": ("text behind a call", "not sent"),
}


def show_switch(screen: Screen, switch: Switch, conversation: Conversation | None = None) -> None:
    """Who answers from now on and why, then what it means for the conversation."""
    screen.gap()
    screen.paragraph(f"⇄ {_headline(switch)}", "bold", 2)
    parts = [
        carried(conversation) if conversation is not None else "",
        *losses(switch.losses),
    ]
    if conversation is not None and conversation.messages:
        parts.append("/view shows what is sent" if switch.losses else "nothing is lost")
    if line := " · ".join(part for part in parts if part):
        screen.paragraph(f"  {line}", "dim", 2)


def carried(conversation: Conversation) -> str:
    """`9 messages and 2 tool calls carried over`; "" if there are none."""
    messages = len(conversation.messages)
    calls = sum(len(message.calls) for message in conversation.messages)
    if not messages:
        return ""
    tools = f" and {counted(calls, 'tool call')}" if calls else ""
    return f"{counted(messages, 'message')}{tools} carried over"


def losses(repairs: Iterable[Repair]) -> list[str]:
    """What the new model does not see, or sees in another form: one phrase for each kind."""
    counts = Counter(repair.kind for repair in repairs)
    phrases = []
    for kind, count in counts.items():
        what, how = _NOT_SENT.get(kind, (kind.replace("_", " "), ""))
        them = "it" if count == 1 else "them"
        phrases.append(f"{counted(count, what)} {how.format(them=them)}".rstrip())
    return phrases


def _headline(switch: Switch) -> str:
    if switch.error is not None:
        return f"{switch.model} answers: {trouble_words(switch.error, switch.previous)}"
    why = "" if switch.reason == "asked" else f"; {switch.reason}"
    return f"{switch.model} answers from now on (was {switch.previous}{why})"

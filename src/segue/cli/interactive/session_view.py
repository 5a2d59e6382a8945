"""A resumed session on the screen: what it is, its last exchange, and whether its tools are here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from segue.cli.interactive.call_view import CallView
from segue.conversation.blocks import Text, ToolCall, ToolResult

if TYPE_CHECKING:
    from segue.cli.interactive.interactive_chat import InteractiveChat
    from segue.conversation.message import Message

MOST_SHOWN: Final = 8
"""Messages of the last exchange that are shown."""


def show_session(interactive: InteractiveChat) -> None:
    """Id, model and size of the session, and its last exchange as it was."""
    screen, messages = interactive.screen, interactive.chat.conversation.messages
    count = f"{len(messages)} {'message' if len(messages) == 1 else 'messages'}"
    screen.paragraph(f"session {interactive.chat.id} · {interactive.chat.model} · {count}", "dim", 2)
    begins = max((place for place, message in enumerate(messages) if message.speaker == "user"), default=0)
    begins = max(begins, len(messages) - MOST_SHOWN)
    if begins:
        screen.paragraph(f"… {begins} earlier {'message' if begins == 1 else 'messages'} · /view", "dim", 2)
    results = {
        block.call_id: block
        for message in messages[begins:]
        for block in message.blocks
        if isinstance(block, ToolResult)
    }
    for message in messages[begins:]:
        _show(interactive, message, results)
    if not interactive.runtime.tools and any(_calls(message) for message in messages):
        screen.gap()
        screen.paragraph(
            "  This conversation used tools, and none are offered now: segue -r ID -T all", "yellow", 2
        )


def _show(interactive: InteractiveChat, message: Message, results: dict[str, ToolResult]) -> None:
    screen = interactive.screen
    for block in message.blocks:
        if isinstance(block, Text) and block.text.strip():
            screen.gap()
            if message.speaker == "user":
                screen.paragraph(f"› {block.text.strip()}", "bold", 2)
            elif message.speaker == "model":
                screen.text(block.text)
                screen.end_text()
    calls = _calls(message)
    if calls:
        screen.gap()
    for call in calls:
        result = results.get(call.id) or ToolResult(call.id, call.name, reason="interrupted")
        for line in CallView(call, 0.0, result=result).block(screen):
            screen.line(line)


def _calls(message: Message) -> list[ToolCall]:
    return [block for block in message.blocks if isinstance(block, ToolCall)]

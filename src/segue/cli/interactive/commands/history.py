"""/undo, /rewind, /redo, /compact: change the conversation so far."""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

from segue.chat.compaction.compact import Strategy
from segue.cli.interactive.commands.settings import check_known
from segue.cli.interactive.views.start_screen import show_session
from segue.cli.interactive.views.turn_view import compaction_line

if TYPE_CHECKING:
    from segue.cli.interactive.interactive_chat import InteractiveChat


async def compact(interactive: InteractiveChat, words: list[str]) -> None:
    if words:
        check_known(words[0], get_args(Strategy), "strategy", "unknown_strategy")
    strategy: Strategy | None = words[0] if words else None  # type: ignore[assignment]
    async with interactive.watched("compacting") as view:
        done = await interactive.chat.compact(strategy)
    if done is not None:
        interactive.screen.paragraph(compaction_line(done), "yellow", 2)
        if done.problem:
            interactive.screen.paragraph(f"  {done.problem}", "yellow", 2)
    elif view.interrupted:
        interactive.screen.line("⊘ interrupted; the conversation is unchanged", "yellow")
    else:
        interactive.screen.line("  The conversation is already as short as possible.")


async def undo(interactive: InteractiveChat, words: list[str]) -> None:
    for _ in range(_count(words)):
        await interactive.chat.undo()
    interactive.screen.line("  The turn is removed. What its tools did is not undone.")
    show_session(interactive)


async def rewind(interactive: InteractiveChat, words: list[str]) -> None:
    """Undo turns and put the first removed prompt into the input line, to edit it."""
    messages = interactive.chat.conversation.messages
    prompts = [message.text for message in messages if message.speaker == "user"]
    count = _count(words)
    await undo(interactive, words)
    interactive.unsent = prompts[-count] if count <= len(prompts) else ""


async def redo(interactive: InteractiveChat, words: list[str]) -> None:
    for _ in range(_count(words)):
        await interactive.chat.redo()
    show_session(interactive)


def _count(words: list[str]) -> int:
    return int(words[0]) if words and words[0].isdecimal() else 1

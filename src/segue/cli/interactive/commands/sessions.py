"""/sessions, /resume, /new, /clear, /fork, /save, /undo, /rewind, /redo, /compact: which session this is, and how far
it goes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from segue.chat.compaction.compact import Strategy
from segue.cli.commands.sessions import find_session, session_line
from segue.cli.display.status_lines import shortened
from segue.cli.display.text_width import cut, padded, width_of
from segue.cli.interactive.commands.settings import check_known
from segue.cli.interactive.prompts.picker import pick
from segue.cli.interactive.prompts.questions import ConsentPrompt
from segue.cli.interactive.views.start_screen import ago, show_session
from segue.cli.interactive.views.turn_view import compaction_line
from segue.config.trust import approve_copy
from segue.errors import UsageError

if TYPE_CHECKING:
    from segue.cli.interactive.interactive_chat import InteractiveChat
    from segue.cli.interactive.views.screen import Screen
    from segue.cli.runtime import Runtime
    from segue.sessions.stores.store import SessionInfo


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


LISTED = 20
PICKED = 200
WIDE = 54
"""Columns from which on more than the title is shown."""


async def show_sessions(interactive: InteractiveChat, words: list[str]) -> None:
    for info in await interactive.runtime.store.find(text=" ".join(words), used=True, limit=LISTED):
        interactive.screen.line("  " + session_line(info, interactive.screen.width - 3))


async def resume(interactive: InteractiveChat, words: list[str]) -> None:
    if words:
        session = (await find_session(interactive.runtime.store, " ".join(words))).id
    elif interactive.can_pick:
        interactive.keep_typed_ahead()
        session = await pick_session(interactive.runtime, interactive.screen)
    else:
        await show_sessions(interactive, [])
        interactive.screen.line("  Resume one with: /resume ID")
        return
    if session and session != interactive.chat.id:
        await interactive.replace_chat(interactive.runtime.chat(session=session))
        ask = ConsentPrompt(interactive.screen, interactive.source) if sys.stdin.isatty() else None
        for line in await interactive.runtime.restore_tools(interactive.chat, ask):
            interactive.screen.paragraph(f"  {line}", "dim", 2)
        show_session(interactive)


async def pick_session(runtime: Runtime, screen: Screen) -> str:
    """The id of a saved session, those of this directory first; "" if none was picked."""
    known = await runtime.store.find(used=True, limit=PICKED)
    if not known:
        raise UsageError("There are no saved sessions.", code="unknown_session", hint="Start one: segue")
    here = str(runtime.directory)
    known = sorted(known, key=lambda info: info.directory != here)
    options = [(info.id, _label(info, screen.width - 6, here)) for info in known]
    return await pick("Resume which session?", options, colourless=screen.paint.colourless)


def _label(info: SessionInfo, width: int, here: str) -> str:
    """Title, folder if it is another one, age and model; a narrow window has the title only."""
    title = shortened(info.title or info.first_words or "(no title)", 60)
    place = "" if info.directory == here else f"  {Path(info.directory).name}"
    rest = f"{place}  {ago(info.updated)}  {info.model.rpartition('/')[2]}"
    room = max(width - width_of(rest), width // 2)
    return f"{padded(cut(title, room), min(room, 48))}{rest}" if width >= WIDE else title


async def fork(interactive: InteractiveChat, _words: list[str]) -> None:
    before, cost = interactive.chat.id, interactive.forked_cost + (interactive.chat.cost or 0.0)
    await interactive.replace_chat(await interactive.chat.fork())
    interactive.forked_cost = cost
    approve_copy(str(interactive.runtime.directory), before, interactive.chat.id)
    interactive.screen.line(f"  {before} is saved unchanged; you are now in its copy {interactive.chat.id}.")


async def begin(interactive: InteractiveChat, _words: list[str]) -> None:
    await interactive.replace_chat(interactive.runtime.chat(model=interactive.chat.model))
    interactive.screen.line(f"  New session {interactive.chat.id}. The previous one is saved: /sessions")


async def clear(interactive: InteractiveChat, words: list[str]) -> None:
    interactive.screen.clear()
    await begin(interactive, words)


async def save(interactive: InteractiveChat, words: list[str]) -> None:
    if not words:
        raise UsageError("A title is missing.", code="usage", hint="/save TITLE")
    await interactive.chat.rename(" ".join(words))
    interactive.screen.line(f"  Saved as {' '.join(words)}.")

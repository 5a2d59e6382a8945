"""/sessions, /resume, /new, /clear, /fork, /save: which session this is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from segue.cli.commands.sessions import find_session, session_line
from segue.cli.display.status_lines import shortened
from segue.cli.interactive.picker import pick
from segue.errors import UsageError

if TYPE_CHECKING:
    from segue.cli.interactive.interactive_chat import InteractiveChat
    from segue.cli.runtime import Runtime

LISTED = 20
PICKED = 200


async def show_sessions(interactive: InteractiveChat, words: list[str]) -> None:
    for info in await interactive.runtime.store.find(text=" ".join(words), used=True, limit=LISTED):
        interactive.screen.line("  " + session_line(info, interactive.screen.width - 3))


async def resume(interactive: InteractiveChat, words: list[str]) -> None:
    if words:
        session = (await find_session(interactive.runtime.store, " ".join(words))).id
    elif interactive.can_pick:
        interactive.keep_typed_ahead()
        session = await pick_session(interactive.runtime, interactive.screen.width)
    else:
        await show_sessions(interactive, [])
        interactive.screen.line("  Resume one with: /resume ID")
        return
    if session and session != interactive.chat.id:
        await interactive.replace_chat(interactive.runtime.chat(session=session))
        show_session(interactive)


async def pick_session(runtime: Runtime, width: int) -> str:
    """The id of a saved session, those of this directory first; "" if none was picked."""
    known = await runtime.store.find(used=True, limit=PICKED)
    if not known:
        raise UsageError("There are no saved sessions.", code="unknown_session", hint="Start one: segue")
    known = sorted(known, key=lambda info: info.directory != str(runtime.directory))
    options = [(info.id, session_line(info, width - 6)) for info in known]
    return await pick("Resume which session? enter: select · esc: cancel", options)


def show_session(interactive: InteractiveChat) -> None:
    """Id, model and size of the session, and its last messages."""
    screen, messages = interactive.screen, interactive.chat.conversation.messages
    count = f"{len(messages)} {'message' if len(messages) == 1 else 'messages'}"
    screen.paragraph(f"session {interactive.chat.id} · {interactive.chat.model} · {count}", "dim", 2)
    for message in messages[-2:]:
        if message.text.strip():
            mark = ">" if message.speaker == "user" else " "
            screen.line(f"{mark} {shortened(message.text, screen.width - 4)}", "dim")


async def fork(interactive: InteractiveChat, words: list[str]) -> None:
    del words
    before = interactive.chat.id
    await interactive.replace_chat(await interactive.chat.fork())
    interactive.screen.line(f"  {before} is saved unchanged; you are now in its copy {interactive.chat.id}.")


async def begin(interactive: InteractiveChat, words: list[str]) -> None:
    del words
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

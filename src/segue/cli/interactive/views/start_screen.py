"""The first lines of a chat: where one is, which model answers, what it may do, and how to begin.

Of a resumed session: what it is, its last exchange, and whether its tools are here.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from segue import __version__
from segue.cli.display.status_lines import shortened
from segue.cli.display.turn_summary import counted
from segue.cli.interactive.views.turn_view import CallView
from segue.conversation.blocks import Text, ToolResult

if TYPE_CHECKING:
    from segue.cli.interactive.interactive_chat import InteractiveChat
    from segue.conversation.message import Message
    from segue.sessions.stores.store import SessionInfo
    from segue.tools.approval import Mode

HINTS: Final = "/ commands · @ file · ! shell · esc interrupts · ? keys · ctrl-d exits"
MODE_WORDS: Final[dict[Mode, str]] = {
    "ask": "asks before edits and commands",
    "auto-edit": "edits files, asks before commands",
    "yolo": "runs everything without asking",
    "plan": "plans, only reads",
}
"""What an approval mode means."""
MOST_SHOWN: Final = 8
"""Messages of the last exchange of a session that are shown."""
_MOST_NAMED: Final = 5
_REF: Final = "ref: refs/heads/"


async def show_start(interactive: InteractiveChat) -> None:
    screen, runtime = interactive.screen, interactive.runtime
    screen.line(
        f"{screen.paint('bold', 'segue')} {screen.paint('dim', f'{__version__} · {_place(runtime.directory)}')}"
    )
    screen.line()
    screen.paragraph(f"  {interactive.chat.model}", indent=2)
    screen.paragraph(f"  {_powers(interactive)}", "dim", 2)
    if runtime.runs_commands:
        held = runtime.sandbox.summary(asks=runtime.asks_about_commands)
        screen.paragraph(f"  {held}", "yellow" if runtime.sandbox.is_missing else "dim", 2)
    others = [name for name in runtime.configured() if not interactive.chat.model.startswith(f"{name}/")]
    if others:
        more = f" and {len(others) - _MOST_NAMED} more" if len(others) > _MOST_NAMED else ""
        screen.paragraph(
            f"  also ready: {', '.join(others[:_MOST_NAMED])}{more} · switch at any time with /model",
            "dim",
            2,
        )
    if last := await _last_here(interactive):
        title = shortened(last.title or last.first_words, 40)
        screen.paragraph(f"  last here: “{title}”, {ago(last.updated)} · /resume", "dim", 2)
    screen.line()
    screen.paragraph(f"  {HINTS}", "dim", 2)
    screen.line()


def _powers(interactive: InteractiveChat) -> str:
    count = len(interactive.runtime.tools)
    if not count:
        return "no tools · with tools: segue -T all"
    return f"{counted(count, 'tool')} · {MODE_WORDS[interactive.runtime.approval.mode]}"


async def _last_here(interactive: InteractiveChat) -> SessionInfo | None:
    found = await interactive.runtime.store.find(used=True, limit=50)
    here = str(interactive.runtime.directory)
    return next((info for info in found if info.directory == here and info.id != interactive.chat.id), None)


def _place(directory: Path) -> str:
    """`~/project (branch)`."""
    home, shown = str(Path.home()), str(directory)
    if shown == home or shown.startswith(f"{home}/"):
        shown = f"~{shown[len(home) :]}"
    branch = _branch(directory)
    return shortened(f"{shown} ({branch})" if branch else shown, 200)


def _branch(directory: Path) -> str:
    """The branch of git, read without running git; "" if there is none."""
    for folder in (directory, *directory.parents):
        if (folder / ".git").is_dir():
            try:
                head = (folder / ".git" / "HEAD").read_text("utf-8", "replace")[:200].strip()
            except OSError:
                return ""
            return head.removeprefix(_REF) if head.startswith(_REF) else ""
    return ""


def ago(at: float) -> str:
    """`2 minutes ago`."""
    seconds = max(time.time() - at, 0)
    for size, unit in ((86_400, "day"), (3_600, "hour"), (60, "minute")):
        if seconds >= size:
            return f"{counted(int(seconds // size), unit)} ago"
    return "just now"


def show_session(interactive: InteractiveChat) -> None:
    """Id, model and size of the session, and its last exchange as it was."""
    screen, messages = interactive.screen, interactive.chat.conversation.messages
    count = counted(len(messages), "message")
    screen.paragraph(f"session {interactive.chat.id} · {interactive.chat.model} · {count}", "dim", 2)
    begins = max((place for place, message in enumerate(messages) if message.speaker == "user"), default=0)
    begins = max(begins, len(messages) - MOST_SHOWN)
    if begins:
        screen.paragraph(f"… {counted(begins, 'earlier message')} · /view", "dim", 2)
    results = {
        block.call_id: block
        for message in messages[begins:]
        for block in message.blocks
        if isinstance(block, ToolResult)
    }
    for message in messages[begins:]:
        _show_message(interactive, message, results)
    if not interactive.runtime.tools and any(message.calls for message in messages):
        screen.gap()
        screen.paragraph(
            "  This conversation used tools, and none are offered now: segue -r ID -T all", "yellow", 2
        )


def _show_message(interactive: InteractiveChat, message: Message, results: dict[str, ToolResult]) -> None:
    screen = interactive.screen
    for block in message.blocks:
        if isinstance(block, Text) and block.text.strip():
            screen.gap()
            if message.speaker == "user":
                screen.paragraph(f"› {block.text.strip()}", "bold", 2)
            elif message.speaker == "model":
                screen.text(block.text)
                screen.end_text()
    if message.calls:
        screen.gap()
    for call in message.calls:
        result = results.get(call.id) or ToolResult(call.id, call.name, reason="interrupted")
        for line in CallView(call, 0.0, result=result).block(screen):
            screen.line(line)

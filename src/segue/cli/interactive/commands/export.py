"""/export, /dump, /copy: the conversation, the next request or the last answer, for use elsewhere."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path
from typing import TYPE_CHECKING

from segue.errors import UsageError
from segue.interop.source import CONVERSATION
from segue.sessions.export import export_session
from segue.text.terminal_text import safe_json_bytes

if TYPE_CHECKING:
    from segue.cli.interactive.interactive_chat import InteractiveChat


async def export(interactive: InteractiveChat, words: list[str]) -> None:
    path = Path(words[0] if words else f"{interactive.chat.id}.json").expanduser()
    form = {".md": "markdown", ".html": "html", ".jsonl": "journal"}.get(path.suffix, CONVERSATION)
    path.write_bytes(await export_session(interactive.runtime.store, interactive.chat.id, form))
    interactive.screen.line(f"  Written to {path}.")


async def dump(interactive: InteractiveChat, words: list[str]) -> None:
    body = interactive.chat.preview("").body
    path = Path(words[0] if words else f"{interactive.chat.id}-request.json").expanduser()
    path.write_bytes(safe_json_bytes(body))
    interactive.screen.paragraph(
        f"  {len(body)} bytes written to {path}: the body of the next request, without the key.", indent=4
    )


async def copy(interactive: InteractiveChat, _words: list[str]) -> None:
    answers = [m.text for m in interactive.chat.conversation.messages if m.speaker == "model"]
    text = next((text for text in reversed(answers) if text.strip()), "")
    if not text:
        raise UsageError("There is no answer yet.", code="nothing_to_copy", hint="Send a prompt first.")
    # OSC 52: the terminal itself keeps it, so this works over ssh as well.
    sequence = f"\x1b]52;c;{b64encode(text.encode()).decode()}\x07"
    interactive.screen.control(sequence)
    interactive.screen.line(
        f"  Copied {len(text)} characters, if the terminal lets programs write its clipboard."
    )

"""Commands about words that go elsewhere: to the clipboard, to an editor, into the project."""

from __future__ import annotations

import asyncio
import os
import shlex
import tempfile
from base64 import b64encode
from pathlib import Path
from typing import TYPE_CHECKING, Final

from segue.cli.tool_loader import tools_named
from segue.errors import UsageError

if TYPE_CHECKING:
    from segue.cli.interactive.interactive_chat import InteractiveChat

INSTRUCTIONS: Final = "AGENTS.md"
_TOOLS: Final = ("list_dir", "read_file", "search", "write_file")
_REQUEST: Final = f"""Look at this project and write {INSTRUCTIONS}: what a coding assistant has to know that the code does
not show at once. How to build, test and lint it, where the main parts are, which conventions hold. Look before you
write; invent nothing; at most 60 lines."""


async def copy(interactive: InteractiveChat, words: list[str]) -> None:
    del words
    said = [message.text for message in interactive.chat.conversation.messages if message.speaker == "model"]
    text = next((text for text in reversed(said) if text.strip()), "")
    if not text:
        raise UsageError("Nothing was answered yet.", code="nothing_to_copy", hint="Ask something first.")
    # OSC 52: the terminal itself keeps it, so this works over ssh as well.
    kept = f"\x1b]52;c;{b64encode(text.encode()).decode()}\x07"
    interactive.screen.line(
        f"{kept}  {len(text)} characters, if this terminal lets programs write its clipboard."
    )


async def edit(interactive: InteractiveChat, words: list[str]) -> None:
    """What is written there comes into the prompt, to be looked at once more."""
    del words
    editor = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "message.md"
        file.write_text(interactive.unsent, "utf-8")
        with interactive.cooked():
            process = await asyncio.create_subprocess_exec(*editor, str(file))
            await process.wait()
        interactive.unsent = file.read_text("utf-8", "replace").rstrip("\n")


async def describe(interactive: InteractiveChat, words: list[str]) -> None:
    del words
    if (interactive.runtime.directory / INSTRUCTIONS).exists():
        raise UsageError(
            f"{INSTRUCTIONS} is there already.", code="already_there", hint="Ask the model to change it."
        )
    known = {tool.name for tool in interactive.runtime.tools}
    more = tools_named(
        [name for name in _TOOLS if name not in known], workspace=interactive.runtime.workspace
    )
    interactive.runtime.tools = (*interactive.runtime.tools, *more)
    await interactive.chat.equip(interactive.runtime.tools)
    await interactive.take_turn(_REQUEST)

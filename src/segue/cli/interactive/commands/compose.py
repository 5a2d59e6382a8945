"""/edit, /init: prompts that are written elsewhere, in an editor or by segue."""

from __future__ import annotations

import asyncio
import os
import shlex
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from segue.errors import UsageError

if TYPE_CHECKING:
    from segue.cli.interactive.interactive_chat import InteractiveChat

INSTRUCTIONS: Final = "AGENTS.md"
_TOOLS: Final = ("list_dir", "read_file", "search", "write_file")
_REQUEST: Final = f"""Look at this project and write {INSTRUCTIONS}: what a coding assistant has to know that the code does
not show at once. How to build, test and lint it, where the main parts are, which conventions hold. Look before you
write; invent nothing; at most 60 lines."""


async def edit(interactive: InteractiveChat, _words: list[str]) -> None:
    """The text from the editor becomes the input line, to be sent with enter."""
    editor = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "message.md"
        file.write_text(interactive.unsent, "utf-8")
        with interactive.source.cooked_mode():
            process = await asyncio.create_subprocess_exec(*editor, str(file))
            await process.wait()
        interactive.unsent = file.read_text("utf-8", "replace").rstrip("\n")


async def init(interactive: InteractiveChat, _words: list[str]) -> None:
    runtime = interactive.runtime
    if (runtime.directory / INSTRUCTIONS).exists():
        raise UsageError(
            f"{INSTRUCTIONS} exists already.", code="already_there", hint="Ask the model to change it."
        )
    runtime.load_tools(_TOOLS)
    await interactive.chat.equip(runtime.tools)
    await interactive.run_turn(_REQUEST)

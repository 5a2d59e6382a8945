"""`!command`: run it here, show what it says, and tell the model with the next message."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from segue.cli.sanitise import sanitised

if TYPE_CHECKING:
    from segue.cli.interactive.talk import Talk

MOST = 30_000
"""Characters of output that are kept for the model."""


async def run_here(talk: Talk, command: str) -> None:
    """The user asked for it, so nobody else is."""
    if not command:
        return
    process = await asyncio.create_subprocess_shell(
        command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT, cwd=talk.around.directory
    )
    told = ""
    assert process.stdout is not None  # noqa: S101 - it was asked for above
    try:
        async for line in process.stdout:
            text = sanitised(line.decode("utf-8", "replace")).rstrip("\n")
            talk.screen.say(text)
            told += text + "\n"
    except (asyncio.CancelledError, KeyboardInterrupt):
        process.kill()
    code = await process.wait()
    if code:
        talk.screen.say(talk.screen.paint("yellow", f"exit code {code}"))
    talk.notes.append(f'<command line="{command}" exit="{code}">\n{told[-MOST:]}</command>')

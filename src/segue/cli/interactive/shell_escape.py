"""`!command`: run it here, show what it says, and tell the model with the next message."""

from __future__ import annotations

import asyncio
from codecs import getincrementaldecoder
from typing import TYPE_CHECKING, Final

from segue.cli.display.sanitise import Sanitiser

if TYPE_CHECKING:
    from segue.cli.interactive.interactive_chat import InteractiveChat

MOST: Final = 30_000
"""Characters of output that are kept for the model: the last ones."""
_PORTION: Final = 65_536


async def run_here(interactive: InteractiveChat, command: str) -> None:
    """The user asked for it, so nobody else is. Ctrl-C reaches the command, which shares our terminal, and not us."""
    if not command:
        return
    process = await asyncio.create_subprocess_shell(
        command,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        cwd=interactive.runtime.directory,
    )
    told = ""
    decoder, sanitiser = getincrementaldecoder("utf-8")("replace"), Sanitiser()
    assert process.stdout is not None  # noqa: S101 - it was asked for above
    while data := await process.stdout.read(_PORTION):
        shown = sanitiser.feed(decoder.decode(data))
        interactive.screen.put(shown)
        told = (told + shown)[-MOST:]
    code = await process.wait()
    interactive.screen.end_text()
    if code < 0:
        code = 128 - code  # as a shell tells it
    if code:
        interactive.screen.line(f"exit code {code}", "yellow")
    interactive.notes.append(f'<command line="{command}" exit="{code}">\n{told}</command>')

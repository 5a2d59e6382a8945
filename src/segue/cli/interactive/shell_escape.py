"""`!command`: runs a shell command and sends its output to the model with the next message."""

from __future__ import annotations

import asyncio
from codecs import getincrementaldecoder
from typing import TYPE_CHECKING, Final

from segue.text.redaction import StreamRedaction
from segue.text.terminal_text import Sanitiser

if TYPE_CHECKING:
    from segue.cli.interactive.interactive_chat import InteractiveChat

MOST: Final = 30_000
"""Characters of output that are kept for the model: the last ones."""
_PORTION: Final = 65_536


async def run_shell_command(interactive: InteractiveChat, command: str) -> None:
    """No approval is needed: the user typed it. Ctrl-C reaches the command, which shares the terminal, and not segue."""
    if not command:
        return
    process = await asyncio.create_subprocess_shell(
        command,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        cwd=interactive.runtime.directory,
    )
    output = ""
    decoder, sanitiser = getincrementaldecoder("utf-8")("replace"), Sanitiser()
    redaction = StreamRedaction()  # the output is sent to a model: `!env` must not send keys along
    assert process.stdout is not None  # noqa: S101 - it was asked for above
    while data := await process.stdout.read(_PORTION):
        output = _show(interactive, output, sanitiser.feed(redaction.feed(decoder.decode(data))))
    output = _show(interactive, output, sanitiser.feed(redaction.feed("", last=True)))
    code = await process.wait()
    interactive.screen.end_text()
    if code < 0:
        code = 128 - code  # as shells report a signal
    if code:
        interactive.screen.line(f"exit code {code}", "yellow")
    interactive.command_outputs.append(f'<command line="{command}" exit="{code}">\n{output}</command>')


def _show(interactive: InteractiveChat, output: str, shown: str) -> str:
    interactive.screen.put(shown)
    return (output + shown)[-MOST:]

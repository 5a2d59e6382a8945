"""Shows a long text in the user's pager, so that the scrollback stays as it is."""

from __future__ import annotations

import asyncio
import os
import shlex
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    from segue.cli.interactive.screen import Screen

_DEFAULT: Final = "less"


async def show_in_pager(screen: Screen, lines: Sequence[str], released: AbstractContextManager[None]) -> None:
    """Wait until the user has closed the pager. Without one, the lines are printed.

    `released`: gives the terminal to the pager.
    """
    command = shlex.split(os.environ.get("PAGER", "")) or [_DEFAULT]
    # A key that was typed for the chat must start no shell and no editor from the pager.
    environment = {**os.environ, "LESSSECURE": "1", "LESS": "-R -c -~"}
    text = "".join(f"{line}\n" for line in lines).encode("utf-8", "replace")
    try:
        with screen.held(), released:
            process = await asyncio.create_subprocess_exec(
                *command, stdin=asyncio.subprocess.PIPE, env=environment
            )
            await process.communicate(text)
    except OSError:
        code = 1
    else:
        code = process.returncode or 0
    if code:
        for line in lines:
            screen.line(line)

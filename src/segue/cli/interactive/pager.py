"""Shows a long text in the user's pager, so that the scrollback stays as it is."""

from __future__ import annotations

import os
import shlex
import subprocess
from typing import TYPE_CHECKING, Final

from segue.system.worker_threads import in_thread
from segue.text.terminal_text import styled

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    from segue.cli.interactive.views.screen import Screen

_DEFAULT: Final = "less"


async def show_in_pager(screen: Screen, lines: Sequence[str], released: AbstractContextManager[None]) -> None:
    """Wait until the user has closed the pager. `released`: gives the terminal to the pager."""
    with screen.held(), released:
        shown = await in_thread(lambda: _run(lines), "segue-pager")
    if not shown:
        _print(screen, lines)


def page(screen: Screen, lines: Sequence[str]) -> None:
    """The same where nothing else uses the terminal."""
    if not _run(lines):
        _print(screen, lines)


def _run(lines: Sequence[str]) -> bool:
    """Whether there is a pager that has shown them."""
    command = shlex.split(os.environ.get("PAGER", "")) or [_DEFAULT]
    # A key that was typed for the chat must start no shell and no editor from the pager.
    environment = {**os.environ, "LESSSECURE": "1", "LESS": "-R -c -~"}
    text = "".join(f"{styled(line)}\n" for line in lines).encode("utf-8", "replace")
    try:
        return subprocess.run(command, input=text, env=environment, check=False).returncode == 0  # noqa: S603 - the user's own pager
    except OSError:
        return False


def _print(screen: Screen, lines: Sequence[str]) -> None:
    for line in lines:
        screen.line(line)

"""The terminal of a prompt: what it writes to, with the gate in front of every text, and keys that were typed before anybody read them: text for the input line, never the answer to a later prompt."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import TYPE_CHECKING, Final, final

from prompt_toolkit.input.typeahead import get_typeahead
from prompt_toolkit.keys import Keys
from prompt_toolkit.output import create_output
from prompt_toolkit.output.vt100 import Vt100_Output

from segue.cli.display.terminal import ungated
from segue.text.terminal_text import sanitised

if TYPE_CHECKING:
    from prompt_toolkit.application import Application
    from prompt_toolkit.input import Input
    from prompt_toolkit.output import Output


@final
class _GatedOutput(Vt100_Output):
    """Its own sequences are written by `write_raw`; what comes to `write` is text."""

    def write(self, data: str) -> None:
        super().write(sanitised(data))


def gated_output() -> Output:
    """The output for the next prompt: stdout, or stderr if that is the terminal."""
    stream = ungated(sys.stdout if sys.stdout.isatty() else sys.stderr)
    if sys.platform == "win32" or not stream.isatty():
        return create_output(stream)
    return _GatedOutput.from_pty(stream, term=os.environ.get("TERM"))


FRESH_SECONDS: Final = 0.3
"""After a prompt was painted: keys that were already on their way are not meant for it."""


def take_typed(source: Input) -> str:
    """The text that was typed until now; Enter is a line break."""
    presses = [*get_typeahead(source), *source.read_keys(), *source.flush_keys()]
    return "".join(
        "\n" if press.key is Keys.ControlM else press.data
        for press in presses
        if press.key in (Keys.ControlM, Keys.BracketedPaste) or len(str(press.key)) == 1
    )


@final
class PaintedGate:
    """Open from a moment after an application was painted: before, its keys do not count."""

    def __init__(self) -> None:
        self._is_painted = False
        self._is_open = False

    def watch(self, application: Application[str]) -> None:
        application.after_render += self._painted

    def is_open(self) -> bool:
        return self._is_open

    def _painted(self, _application: Application[str]) -> None:
        if not self._is_painted:
            self._is_painted = True
            # A timer, not the clock: a loop that is late reads what was typed before it runs its timers.
            asyncio.get_running_loop().call_later(FRESH_SECONDS, self._open)

    def _open(self) -> None:
        self._is_open = True

"""What prompts and pickers write to: the terminal, with the gate in front of every text."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, final

from prompt_toolkit.output import create_output
from prompt_toolkit.output.vt100 import Vt100_Output

from segue.cli.display.gate import ungated
from segue.text.terminal_text import sanitised

if TYPE_CHECKING:
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

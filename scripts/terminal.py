"""A real terminal for programs that want one: types keys, and knows what the screen shows."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self, final

import pexpect
import pyte
from pyte.screens import Char, HistoryScreen

HISTORY = 5000
_FAINT, _GREY = 2, 90


class _Screen(HistoryScreen):
    """Shows faint text, which pyte does not know, in grey."""

    def select_graphic_rendition(self, *attrs: int, **kwargs: bool) -> None:
        super().select_graphic_rendition(*(_GREY if code == _FAINT else code for code in attrs), **kwargs)


def _hang_up() -> None:
    """A terminal that closes ends its programs, also where this one was started to outlive its own (nohup)."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


@final
class Terminal:
    """A command that runs in a terminal of its own until the block ends."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        columns: int = 100,
        rows: int = 40,
        environment: Mapping[str, str] | None = None,
        directory: Path | None = None,
        answers: bool = False,
    ) -> None:
        """`answers`: it reports where its cursor is, as real terminals do, while somebody waits for its output."""
        self._screen = _Screen(columns, rows, history=HISTORY, ratio=0.001)
        self._stream = pyte.ByteStream(self._screen)
        surroundings = {**(environment or os.environ), "TERM": "xterm-256color"}
        if not answers:
            surroundings["PROMPT_TOOLKIT_NO_CPR"] = "1"
        self._child: pexpect.spawn[bytes] = pexpect.spawn(
            command[0],
            list(command[1:]),
            dimensions=(rows, columns),
            env=surroundings,
            cwd=None if directory is None else str(directory),
            timeout=5,
            preexec_fn=_hang_up,
        )
        self._child.delaybeforesend = None
        if answers:
            self._screen.write_process_input = self.type  # type: ignore[method-assign,assignment]
        self.raw = b""
        """Everything that was written, byte for byte."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._child.close(force=True)
        except (
            pexpect.ExceptionPexpect
        ):  # killed, but on a busy machine not gone within the tenth of a second it gets
            self._child.wait()

    def type(self, keys: str) -> None:
        self._child.send(keys)

    def send(self, number: signal.Signals) -> None:
        """A signal to the command."""
        self._child.kill(number)

    def wait_for(self, pattern: str, seconds: float = 20.0) -> str:
        """Wait until the screen shows what matches; the whole text so far."""
        deadline = time.monotonic() + seconds
        while not re.search(pattern, self.text()):
            if time.monotonic() > deadline or not self._listen(0.1):
                if re.search(pattern, self.text()):
                    break
                raise AssertionError(f"the screen never showed {pattern!r}:\n{self.text()}")
        return self.text()

    def settle(self, seconds: float = 0.3) -> str:
        """Wait until nothing has been written for a moment; the whole text so far."""
        quiet = time.monotonic()
        seen = len(self.raw)
        while time.monotonic() - quiet < seconds and self._listen(0.05):
            if len(self.raw) != seen:
                quiet, seen = time.monotonic(), len(self.raw)
        return self.text()

    def exit_code(self, seconds: float = 10.0) -> int:
        """Wait for the command's end."""
        deadline = time.monotonic() + seconds
        while self._listen(0.1):
            if time.monotonic() > deadline:
                raise AssertionError(f"it goes on:\n{self.text()}")
        self._child.close()
        return int(
            self._child.exitstatus if self._child.exitstatus is not None else -(self._child.signalstatus or 0)
        )

    def text(self) -> str:
        """What scrolled away and what the screen shows, without the blanks at the ends of lines."""
        return "\n".join("".join(cell.data for cell in line).rstrip() for line in self.cells()).rstrip()

    def cells(self) -> list[list[Char]]:
        columns = range(self._screen.columns)
        above = [[line[column] for column in columns] for line in self._screen.history.top]
        return [
            *above,
            *([self._screen.buffer[row][column] for column in columns] for row in range(self._screen.lines)),
        ]

    def _listen(self, seconds: float) -> bool:
        """Take in what is written meanwhile; whether the command still runs."""
        try:
            data = self._child.read_nonblocking(65_536, seconds)
        except pexpect.TIMEOUT:
            return True
        except pexpect.EOF:
            return False
        self.raw += data
        self._stream.feed(data)
        return True

"""The terminal: colours, status lines and errors on stderr, and the gate that every text for it passes, styles of ours excepted."""

from __future__ import annotations

import os
import sys
from codecs import getincrementaldecoder
from typing import TYPE_CHECKING, Any, Final, final

from segue.text.terminal_text import ControlSequence, sanitised, styled

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import TextIO


_CODES: Final = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
_WITHOUT_COLOUR: Final = frozenset({"bold", "dim"})
"""What NO_COLOR leaves."""

_INDENT: Final = " " * 7
"""Below the first word after `segue:`."""


@final
class Colours:
    """Styles text for a stream; plain if asked, without a terminal or on a dumb one. NO_COLOR leaves bold and dim."""

    def __init__(self, stream: TextIO, *, plain: bool = False) -> None:
        self.plain = plain or os.environ.get("TERM") == "dumb" or not stream.isatty()
        self.colourless = bool(os.environ.get("NO_COLOR"))

    def __call__(self, colour: str, text: str) -> str:
        if self.plain or not text or (self.colourless and colour not in _WITHOUT_COLOUR):
            return text
        return f"\x1b[{_CODES[colour]}m{text}\x1b[0m"


def columns_of(stream: TextIO) -> int:
    """The width of a terminal; 0 if the stream is none, and lines may have any length."""
    if not stream.isatty():
        return 0
    import shutil  # noqa: PLC0415 - only tables need it

    return shutil.get_terminal_size().columns


def print_status(text: str, colour: str = "") -> None:
    """One line on stderr."""
    line = sanitised(text)
    sys.stderr.write((Colours(sys.stderr)(colour, line) if colour else line) + "\n")
    sys.stderr.flush()


def print_error(message: str, *hints: str) -> None:
    """What went wrong, and below it what to do; wrapped at a terminal."""
    room = columns_of(sys.stderr)
    first, *others = (part for text in (message, *hints) for part in _lines(sanitised(text), room))
    sys.stderr.write(f"{Colours(sys.stderr)('red', 'segue:')} {first}\n")
    for line in others:
        sys.stderr.write(f"{_INDENT}{line}\n")


def _lines(text: str, room: int) -> list[str]:
    if not room:
        return text.split("\n")
    from segue.cli.display.text_width import wrapped  # noqa: PLC0415 - only at a terminal

    return [part for line in text.split("\n") for part in wrapped(line, room - 1 - len(_INDENT))]


@final
class GatedStream:
    """A stream to a terminal that lets nothing through which controls it, but a `ControlSequence` of ours."""

    def __init__(self, stream: TextIO) -> None:
        self.ungated = stream
        """For programs with a gate of their own."""
        self.buffer = _GatedBytes(self)

    def write(self, text: str) -> int:
        self.ungated.write(text if type(text) is ControlSequence else styled(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.ungated, name)


@final
class _GatedBytes:
    """The same for bytes."""

    def __init__(self, gate: GatedStream) -> None:
        self._gate = gate
        self._decoder = getincrementaldecoder("utf-8")("replace")

    def write(self, data: bytes) -> int:
        self._gate.write(self._decoder.decode(data))
        return len(data)

    def flush(self) -> None:
        self._gate.flush()


def install_gate() -> None:
    """Put the gate before stdout and stderr where they are terminals. Pipes and files get their bytes as they are."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is not None and not isinstance(stream, GatedStream) and stream.isatty():
            setattr(sys, name, GatedStream(stream))


def ungated(stream: TextIO | GatedStream) -> TextIO:
    """The terminal itself, for what has been through `styled` already."""
    return stream.ungated if isinstance(stream, GatedStream) else stream

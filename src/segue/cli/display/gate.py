"""The gate in front of a terminal: whatever is written to stdout or stderr passes it, styles of ours excepted."""

from __future__ import annotations

import sys
from codecs import getincrementaldecoder
from typing import Any, final

from segue.text.terminal_text import ControlSequence, styled

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import TextIO


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

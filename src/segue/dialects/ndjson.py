"""One JSON value per line: bytes in, lines out, wherever the bytes are cut. Blank lines say nothing."""

from __future__ import annotations


class LineDecoder:
    """Cuts a stream of bytes into lines. The last one counts also without its line feed."""

    __slots__ = ("_pieces",)

    def __init__(self) -> None:
        self._pieces: list[bytes] = []

    def feed(self, data: bytes) -> list[bytes]:
        # The common case, one whole line, is told at a glance.
        if not self._pieces and data[:1] == b"{" and data.find(b"\n") == len(data) - 1:
            return [data]
        lines = data.split(b"\n")
        rest = lines.pop()
        if lines and self._pieces:
            lines[0] = b"".join((*self._pieces, lines[0]))
            self._pieces = []
        if rest:
            self._pieces.append(rest)
        return [line for line in lines if line and not line.isspace()]

    def close(self) -> list[bytes]:
        last = b"".join(self._pieces)
        self._pieces = []
        return [last] if last and not last.isspace() else []

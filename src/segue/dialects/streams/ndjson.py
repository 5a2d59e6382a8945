"""One JSON value per line: bytes in, lines out, wherever the bytes are cut. Blank lines do not count."""

from __future__ import annotations

(_LF,) = b"\n"


class LineDecoder:
    """Cuts a stream of bytes into lines. The last one counts also without its line feed."""

    __slots__ = ("_pieces",)

    def __init__(self) -> None:
        self._pieces: list[bytes] = []

    def sole(self, data: bytes) -> bytes | None:
        """The one line that these bytes are: the common case, seen at a glance.

        None if they are anything else; then call `feed`.
        """
        line = data.removesuffix(b"\n")
        if line > b"{" and len(line) < len(data) and _LF not in line and not self._pieces:
            return line
        return None

    def feed(self, data: bytes) -> list[bytes]:
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

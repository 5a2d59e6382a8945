"""The lines of a session file: each an entry with its number, written in one go with those it belongs to."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, final

import msgspec
from msgspec import Struct

from segue.sessions import errors

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from segue.errors import JournalError
    from segue.sessions.entries import Entry
    from segue.sessions.entry_codec import EncodedEntry

_LOG = logging.getLogger("segue.sessions")


@final
class JournalLine(Struct, frozen=True):
    """One line. `more` lines behind it were written together with it."""

    seq: int
    at: float
    epoch: int
    entry: msgspec.Raw
    more: int = 0


@final
class JournalLines(Struct, frozen=True):
    """What is whole in a file, how many bytes that is, and how many follow that a crash tore off."""

    lines: tuple[JournalLine, ...]
    size: int
    torn: int

    @property
    def epoch(self) -> int:
        return self.lines[-1].epoch if self.lines else 0


_DECODER = msgspec.json.Decoder(JournalLine)


def encode_lines(entries: Sequence[EncodedEntry[Entry]], *, first: int, at: float, epoch: int) -> bytes:
    lines = []
    for index, encoded in enumerate(entries):
        more = len(entries) - index - 1
        together = b'"more":%d,' % more if more else b""
        moment = f"{at:.6f}".encode()
        lines.append(
            b'{"seq":%d,"at":%b,"epoch":%d,%b"entry":%b}\n'
            % (first + index, moment, epoch, together, encoded.body)
        )
    return b"".join(lines)


def read_lines(file: Path, data: bytes | None = None) -> JournalLines:
    """The whole lines of a file. Raises JournalError `damaged` for anything but a torn end."""
    data = file.read_bytes() if data is None else data
    *pieces, rest = data.split(b"\n")
    lines: list[JournalLine] = []
    size = whole = 0
    kept = 0
    for number, piece in enumerate(pieces, 1):
        line = _parse(piece)
        if line is None or line.seq != number:
            if number == len(pieces) and not rest:
                break  # a power cut can leave a line of which only the end arrived
            raise errors.damaged(f"{file}, line {number}", "not a line of a session")
        lines.append(line)
        size += len(piece) + 1
        if not line.more:
            kept, whole = len(lines), size
    return JournalLines(tuple(lines[:kept]), whole, len(data) - whole)


def report_torn(file: Path, lines: JournalLines) -> None:
    _LOG.warning(
        "%s: the last %d bytes were being written when the process or the machine stopped; they were never "
        "acknowledged and are dropped.",
        file,
        lines.torn,
    )


def report_unreadable(file: Path, error: JournalError) -> None:
    if error.code != "unknown_session":  # deleted while the list was made
        _LOG.warning("%s is missing from the list: %s", file, error.message)


def _parse(piece: bytes) -> JournalLine | None:
    try:
        return _DECODER.decode(piece)
    except (msgspec.DecodeError, UnicodeError):
        return _parse_slowly(piece)


def _parse_slowly(piece: bytes) -> JournalLine | None:
    """A line with lone surrogates, which only the standard library reads, or None if it is no line."""
    try:
        fields = json.loads(piece)
        return msgspec.convert(
            {**fields, "entry": msgspec.Raw(json.dumps(fields["entry"]).encode())}, JournalLine
        )
    except (ValueError, TypeError, KeyError, RecursionError):
        return None

"""The lines of a session file: each an entry with its number and a checksum, written in one go with those it belongs to.

A write that a crash cut off was never acknowledged: its lines are torn, and dropped together. Any other line that cannot
be read is damaged: it is kept and reported with its place.
"""

from __future__ import annotations

import json
import logging
import re
from typing import TYPE_CHECKING, Final, TypeAlias, final
from zlib import crc32

import msgspec
from msgspec import Struct

from segue.sessions.entries import DamagedEntry, Record

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from segue.errors import JournalError
    from segue.sessions.entries import Entry
    from segue.sessions.entry_codec import EncodedEntry

_LOG = logging.getLogger("segue.sessions")


@final
class JournalLine(Struct, frozen=True, gc=False):
    """One line. `more` lines behind it were written together with it."""

    seq: int
    at: float
    epoch: int
    entry: msgspec.Raw
    more: int = 0


LineOrDamage: TypeAlias = JournalLine | DamagedEntry


@final
class JournalLines(Struct, frozen=True):
    """What is in a file, how many bytes that is, and how many follow that a crash tore off."""

    lines: tuple[LineOrDamage, ...]
    size: int
    torn: int
    epoch: int = 0
    last_seq: int = 0
    end_damaged: bool = False
    """Another byte stands where the last line should end."""


_DECODER = msgspec.json.Decoder(JournalLine)
_RECORD_DECODER = msgspec.json.Decoder(Record)

_CHECKSUM: Final = b',"checksum":"%08x"}'
_CHECKSUM_SIZE: Final = len(_CHECKSUM % 0)
_CHECKSUM_MARK: Final = _CHECKSUM.partition(b"%")[0]
_LINE_END: Final = _CHECKSUM + b"\n"
_LINE_END_SIZE: Final = _CHECKSUM_SIZE + 1
_LINE_START: Final = re.compile(rb'(?=\{"seq":)')
_TAIL: Final = 65_536
_PORTION: Final = 250_000
"""Bytes of lines that are read together: few enough to stay in the processor's cache."""


def encode_lines(
    entries: Sequence[EncodedEntry[Entry]], *, first: int, times: Sequence[float], epoch: int
) -> bytes:
    lines = []
    for index, (encoded, at) in enumerate(zip(entries, times, strict=True)):
        more = len(entries) - index - 1
        together = b'"more":%d,' % more if more else b""
        moment = f"{at:.6f}".encode()
        line = b'{"seq":%d,"at":%b,"epoch":%d,%b"entry":%b' % (
            first + index,
            moment,
            epoch,
            together,
            encoded.body,
        )
        lines += [line, _CHECKSUM % crc32(line), b"\n"]
    return b"".join(lines)


def read_lines(file: Path, data: bytes | None = None) -> JournalLines:
    """All lines of a file but a torn end; those that cannot be read are in it as damaged entries."""
    data = file.read_bytes() if data is None else data
    *pieces, rest = data.split(b"\n")
    scan = _Scan(str(file))
    for index, piece in enumerate(pieces):
        line = _parse(piece)
        if line is not None and line.seq == scan.last_seq + 1:
            scan.take(line, len(piece) + 1)
        elif line is None and _was_being_written(pieces[index:]):
            break
        else:
            scan.take_damaged(piece, index + 1, line)
    else:
        if rest and (line := _parse(rest[:-1])) is not None and line.seq == scan.last_seq + 1:
            scan.take(line, len(rest))  # it was whole: only the byte behind it changed
            return scan.result(len(data), end_damaged=True)
    return scan.result(len(data))


def read_records(file: Path) -> list[Record] | None:
    """All entries of a file, read once; None if anything about it is unusual, so that `read_lines` must look at it."""
    records: list[Record] = []
    last = b""
    with file.open("rb", buffering=_TAIL) as stream:
        # Step by step for all lines of a portion, so that the work is done in C: a long session has many.
        while lines := stream.readlines(_PORTION):
            ends = map(_LINE_END.__mod__, map(crc32, [line[:-_LINE_END_SIZE] for line in lines]))
            if not all(map(bytes.endswith, lines, ends)):
                return None
            try:
                records += map(_RECORD_DECODER.decode, lines)
            except (msgspec.DecodeError, UnicodeError, RecursionError):
                return None
            last = lines[-1]
    newest = _parse(last[:-1])
    in_order = [record.seq for record in records] == list(range(1, len(records) + 1))
    return records if in_order and newest is not None and not newest.more else None


def read_end(file: Path) -> JournalLines | None:
    """Where the lines of a file end, without any of them; None if its last write is not whole, so that all must be read."""
    with file.open("rb") as stream:
        size = stream.seek(0, 2)
        stream.seek(max(0, size - _TAIL))
        _, *pieces, rest = (b"\n" * (size <= _TAIL) + stream.read()).split(b"\n")
    last = None if rest or not pieces else _parse(pieces[-1])
    if last is None or last.more:
        return None
    for before, piece in enumerate(reversed(pieces[:-1]), 1):
        line = _parse(piece)
        if line is None or line.seq != last.seq - before or line.more not in (0, before):
            return None
        if not line.more:
            return JournalLines((), size, 0, last.epoch, last.seq)
    return None


class _Scan:
    """The lines so far, and where the last write that is whole ends."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._lines: list[LineOrDamage] = []
        self._size = 0
        self._missing = 0
        """Lines that belong to the last write and did not come yet."""
        self._whole = (0, 0, 0)
        self.last_seq = 0
        self._epoch = 0

    def take(self, line: JournalLine, size: int) -> None:
        self._missing, self._epoch = line.more, line.epoch
        self._add(line, line.seq, size)

    def take_damaged(self, piece: bytes, number: int, line: JournalLine | None) -> None:
        """A piece that is no line, or not the next one. Lines that run into each other are told apart."""
        place = f"{self._file}, line {number}"
        found = [line] if line is not None else [*_separate(piece)]
        for known in found:
            if known is not None and known.seq > self.last_seq + 1:
                why = f"entries {self.last_seq + 1} to {known.seq - 1} are missing"
                self._add(DamagedEntry(known.seq - 1, place, why), known.seq - 1, 0)
            if known is not None and known.seq == self.last_seq + 1:
                self.take(known, 0)
                continue
            self._missing = max(self._missing - 1, 0)
            why = "it cannot be read" if known is None else f"entry {known.seq} follows entry {self.last_seq}"
            self._add(DamagedEntry(self.last_seq + 1, place, why, piece), self.last_seq + 1, 0)
        self._add_size(len(piece) + 1)

    def result(self, total: int, *, end_damaged: bool = False) -> JournalLines:
        count, size, last_seq = self._whole
        end_damaged = end_damaged and size == total
        return JournalLines(
            tuple(self._lines[:count]), size, total - size, self._epoch, last_seq, end_damaged
        )

    def _add(self, line: LineOrDamage, seq: int, size: int) -> None:
        self._lines.append(line)
        self.last_seq = seq
        self._add_size(size)

    def _add_size(self, size: int) -> None:
        self._size += size
        if not self._missing:
            self._whole = (len(self._lines), self._size, self.last_seq)


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
    """The line, or None if it is no line or its checksum is another one. Older lines have none."""
    content = piece[:-_CHECKSUM_SIZE]
    if piece.startswith(_CHECKSUM_MARK, len(content)) and piece[len(content) :] != _CHECKSUM % crc32(content):
        return None
    try:
        return _DECODER.decode(piece)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
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


def _separate(piece: bytes) -> list[JournalLine | None]:
    """Lines between which a byte that was no end of line any more stands; None for each that cannot be read."""
    parts = [part for part in _LINE_START.split(piece) if part]
    found = [_parse(part) or _parse(part[:-1]) for part in parts]
    return found if any(found) else [None]


def _was_being_written(pieces: Sequence[bytes]) -> bool:
    """Whether these pieces are what a power cut leaves of the last write: parts that never reached the disk are zeros, and
    the lines that did reach it count down to the end."""
    if not _has_holes(pieces[0]):
        return False
    for left, piece in enumerate(reversed(pieces[1:])):
        line = _parse(piece)
        if not _has_holes(piece) and (line is None or line.more != left):
            return False
    return True


def _has_holes(piece: bytes) -> bool:
    # One zero inside a line is a changed space: what never reached a disk is longer, or begins with the line.
    return b"\0\0" in piece or piece.startswith(b"\0")

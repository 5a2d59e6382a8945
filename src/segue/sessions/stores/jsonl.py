"""Sessions that people can read: one file of lines each, and beside it a lock file with who may write.

Every operation holds the lock of its session, so the check of the epoch and the write that follows are one. All who
share the files are on one machine, so leases are measured by its clock.

A line is an entry with its number and a checksum. Lines written together hold how many more belong to them: what a
crash tore off at the end of a file was never acknowledged, and is dropped as a whole. Any other line that cannot be
read is damaged: it is kept and reported with its place.
"""

from __future__ import annotations

import json
import logging
import os
import re
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, ParamSpec, TypeAlias, TypeVar, cast, final
from zlib import crc32

import msgspec
from msgspec import Struct

from segue.errors import JournalError, UsageError
from segue.sessions import errors
from segue.sessions.entries import DamagedEntry, Entry, Record, SessionStarted
from segue.sessions.entry_codec import EncodedEntry, decode_entry, decode_stored
from segue.sessions.leases import LEASE_SECONDS, Claim, Lease, active_owner, refuse_busy
from segue.sessions.listing import fold_text, is_shown, listing_change, mentions, update_info
from segue.sessions.stores.store import SessionInfo, check_session_id, intact
from segue.system.worker_threads import Worker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from segue.sessions.entries import Entry
    from segue.sessions.entry_codec import EncodedEntry
    from segue.sessions.leases import Owner


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


_SIZE: Final = 1024
"""The file is written in one piece of this size, so that no crash leaves half of it."""
# The size counts as data; the time of the last write, which fsync waits for as well, does not matter.
_SYNC: Callable[[int], None] = getattr(os, "fdatasync", os.fsync)
_P = ParamSpec("_P")
_T = TypeVar("_T")


@final
class _Content(Struct, frozen=True, omit_defaults=True):
    epoch: int = 0
    claim: Claim | None = None


_CONTENT_DECODER = msgspec.json.Decoder(_Content)


class LockFile:
    """What the file holds, to be read and written under the lock only."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        content = _read(descriptor)
        self.epoch = content.epoch
        self.claim = content.claim

    def write(self, epoch: int, claim: Claim | None, *, durably: bool) -> None:
        self.epoch, self.claim = epoch, claim
        os.pwrite(self._descriptor, msgspec.json.encode(_Content(epoch, claim)).ljust(_SIZE - 1) + b"\n", 0)
        if durably:
            os.fsync(self._descriptor)


@contextmanager
def lock(file: Path) -> Iterator[LockFile]:
    """Wait for the lock. The kernel takes it back from a process that dies."""
    try:
        from fcntl import LOCK_EX, flock  # noqa: PLC0415 - not every system has it
    except ImportError as error:
        raise UsageError(
            "This system has no POSIX locks, which sessions in text files need.",
            code="no_file_locks",
            hint="Keep sessions in SQLite.",
        ) from error
    while True:
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            flock(descriptor, LOCK_EX)
            if not _is_at(file, descriptor):
                continue  # it was deleted while we waited
            yield LockFile(descriptor)
            return
        finally:
            os.close(descriptor)


def _is_at(file: Path, descriptor: int) -> bool:
    try:
        return file.stat().st_ino == os.fstat(descriptor).st_ino
    except FileNotFoundError:
        return False


def _read(descriptor: int) -> _Content:
    try:
        return _CONTENT_DECODER.decode(os.pread(descriptor, _SIZE, 0))
    except msgspec.DecodeError:
        return _Content()  # new, or lost in a power cut


class JsonlStore:
    """Keeps journals in a directory, which only its owner may read. Needs a system with POSIX locks, a local disk."""

    def __init__(self, directory: str | os.PathLike[str], *, lease_seconds: float = LEASE_SECONDS) -> None:
        self._directory = Path(directory)
        self._lease_seconds = lease_seconds
        self._worker = Worker("segue-jsonl")
        self._searcher = Worker(
            "segue-jsonl-search"
        )  # reading thousands of files must not keep a writer waiting
        self._ends: dict[str, tuple[int, int]] = {}
        """Session → last entry and size of its file, so that an append need not read the file."""

    async def create(
        self,
        session: str,
        started: EncodedEntry[SessionStarted],
        owner: Owner,
        *,
        more: Sequence[EncodedEntry[Entry]] = (),
        times: Sequence[float] = (),
    ) -> Lease:
        check_session_id(session)
        return await self._run(self._create, session, (started, *more), owner, times)

    async def claim(self, session: str, owner: Owner, *, take_over: bool = False) -> Lease:
        return await self._run(self._claim, session, owner, take_over=take_over)

    async def renew(self, lease: Lease) -> None:
        await self._run(self._renew, lease)

    async def release(self, lease: Lease) -> None:
        await self._run(self._release, lease)

    async def append(self, lease: Lease, entries: Sequence[EncodedEntry[Entry]]) -> int:
        return await self._run(self._append, lease, entries)

    async def read(self, session: str, *, after: int = 0) -> list[Record]:
        return intact(session, await self._run(self._read, session, after))

    async def salvage(self, session: str) -> list[Record | DamagedEntry]:
        return await self._run(self._read, session, 0)

    async def find(
        self, *, text: str = "", parent: str = "", used: bool = False, limit: int = 50
    ) -> list[SessionInfo]:
        return await self._run_in(self._searcher, self._find, fold_text(text), parent, limit, used=used)

    async def delete(self, session: str) -> None:
        await self._run(self._delete, session)

    async def close(self) -> None:
        await self._searcher.close(lambda: None)
        await self._worker.close(self._ends.clear)

    async def _run(self, do: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        return await self._run_in(self._worker, do, *args, **kwargs)

    async def _run_in(self, worker: Worker, do: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        try:
            return await worker.run(do, *args, **kwargs)
        except OSError as error:
            raise errors.store_failed(str(self._directory), str(error)) from error

    # Everything below runs in a worker's thread; the searcher's changes nothing.

    def _create(
        self, session: str, entries: Sequence[EncodedEntry[Entry]], owner: Owner, times: Sequence[float]
    ) -> Lease:
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        with lock(self._lock_file(session)) as lock_file:
            if self._file(session).exists() and read_lines(self._file(session)).lines:
                raise errors.session_exists(session)
            lease = self._grant(lock_file, session, owner, epoch=1)
            self._ends[session] = (0, 0)
            try:
                self._write(lease, entries, [*times] or [time.time()] * len(entries))
            except BaseException:
                self._file(session).unlink(missing_ok=True)
                self._lock_file(session).unlink()
                raise
            _sync_directory(self._directory)
        return lease

    def _claim(self, session: str, owner: Owner, *, take_over: bool) -> Lease:
        with self._locked(session) as lock_file:
            if not take_over:
                refuse_busy(session, lock_file.claim, time.time(), claimant=owner)
            known = self._drop_torn_end(session)
            if not known.last_seq:
                raise errors.unknown_session(session)  # its first write was cut off
            # A power cut may have lost the lock file; the entries remember how far it had come.
            return self._grant(lock_file, session, owner, epoch=max(lock_file.epoch, known.epoch) + 1)

    def _grant(self, lock_file: LockFile, session: str, owner: Owner, *, epoch: int) -> Lease:
        now = time.time()
        lock_file.write(epoch, Claim(owner, now, now + self._lease_seconds), durably=True)
        return Lease(session, owner, epoch)

    def _renew(self, lease: Lease) -> None:
        with self._held(lease) as (lock_file, claim):
            until = time.time() + self._lease_seconds
            lock_file.write(lease.epoch, Claim(claim.owner, claim.since, until), durably=False)

    def _release(self, lease: Lease) -> None:
        if self._file(lease.session).exists():
            with self._locked(lease.session) as lock_file:
                if lease.is_current(lock_file.epoch, lock_file.claim):
                    lock_file.write(lease.epoch, None, durably=False)

    def _append(self, lease: Lease, entries: Sequence[EncodedEntry[Entry]]) -> int:
        with self._held(lease):
            return self._write(lease, entries, [time.time()] * len(entries))

    def _write(self, lease: Lease, entries: Sequence[EncodedEntry[Entry]], times: Sequence[float]) -> int:
        """Add lines behind what is known to be whole. Called under the lock, by its holder."""
        file = self._file(lease.session)
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            last, size = self._end(lease.session, descriptor)
            data = encode_lines(entries, first=last + 1, times=times, epoch=lease.epoch)
            _write_all(descriptor, data, size)
        finally:
            os.close(descriptor)
        self._ends[lease.session] = (last + len(entries), size + len(data))
        return last + len(entries)

    def _end(self, session: str, descriptor: int) -> tuple[int, int]:
        known = self._ends.get(session)
        if known is not None and known[1] == os.fstat(descriptor).st_size:
            return known
        lines = self._drop_torn_end(session)
        return lines.last_seq, lines.size

    def _drop_torn_end(self, session: str) -> JournalLines:
        """Where the lines of a file end; what a write left of others that was cut off by a crash is dropped."""
        file = self._file(session)
        lines = read_end(file) or read_lines(file)
        if lines.torn:
            report_torn(file, lines)
            os.truncate(file, lines.size)
        if lines.end_damaged:
            _end_last_line(file, lines.size)
        self._ends[session] = (lines.last_seq, lines.size)
        return lines

    def _read(self, session: str, after: int) -> list[Record | DamagedEntry]:
        with self._locked(session):  # nobody is in the middle of a line
            if (records := read_records(self._file(session))) is not None:
                return cast("list[Record | DamagedEntry]", records[after:])
            lines = read_lines(self._file(session))
        file = self._file(session)
        if lines.torn:
            report_torn(file, lines)
        return [
            line
            if isinstance(line, DamagedEntry)
            else decode_stored(bytes(line.entry), line.seq, line.at, f"{file}, entry {line.seq}")
            for line in lines.lines
            if line.seq > after
        ]

    def _find(self, text: str, parent: str, limit: int, *, used: bool) -> list[SessionInfo]:
        found: list[SessionInfo] = []
        for session in self._last_used_first():
            if len(found) == limit:
                break
            try:
                info, said = self._info(session)
            except JournalError as error:
                report_unreadable(self._file(session), error)
                continue
            if is_shown(info, parent, used=used) and mentions(info, said, text):
                found.append(info)
        return sorted(found, key=lambda info: info.updated, reverse=True)

    def _info(self, session: str) -> tuple[SessionInfo, tuple[str, ...]]:
        with self._locked(session) as lock_file:
            read = read_lines(self._file(session))
            holder = active_owner(lock_file.claim, time.time())
        lines = [line for line in read.lines if isinstance(line, JournalLine)]
        if not lines:
            raise errors.unknown_session(session)
        entries = [entry for line in lines if (entry := _known(line)) is not None]
        started = next((entry for entry in entries if isinstance(entry, SessionStarted)), SessionStarted())
        info = SessionInfo(
            id=session,
            directory=started.directory,
            created=lines[0].at,
            parent=started.parent,
            holder=holder,
        )
        change = listing_change(entries)
        return update_info(info, change, entries=read.last_seq, updated=lines[-1].at), change.texts

    def _delete(self, session: str) -> None:
        with self._locked(session):
            pass
        family = self._family(session)
        for name in family:
            with self._locked(name) as lock_file:
                refuse_busy(name, lock_file.claim, time.time())
        for name in family:
            with self._locked(name) as lock_file:
                refuse_busy(name, lock_file.claim, time.time())
                self._file(name).unlink()
                self._lock_file(name).unlink()
            self._ends.pop(name, None)
        _sync_directory(self._directory)

    def _family(self, session: str) -> list[str]:
        """The session, its subagents' sessions, and theirs."""
        children: dict[str, list[str]] = {}
        for name in self._last_used_first():
            started = _first_entry(self._file(name))
            if started is not None and started.parent is not None and started.parent.call:
                children.setdefault(started.parent.session, []).append(name)
        family = [session]
        for parent in family:
            family += children.get(parent, ())
        return family

    def _last_used_first(self) -> list[str]:
        if not self._directory.is_dir():
            return []
        with os.scandir(self._directory) as files:
            used = [(file.stat().st_mtime_ns, file.name) for file in files if file.name.endswith(".jsonl")]
        return [name.removesuffix(".jsonl") for _, name in sorted(used, reverse=True)]

    @contextmanager
    def _locked(self, session: str) -> Iterator[LockFile]:
        check_session_id(session)
        if not self._file(session).exists():
            raise errors.unknown_session(session)
        with lock(self._lock_file(session)) as lock_file:
            if not self._file(session).exists():
                raise errors.unknown_session(session)
            yield lock_file

    @contextmanager
    def _held(self, lease: Lease) -> Iterator[tuple[LockFile, Claim]]:
        if not self._file(lease.session).exists():
            raise errors.fenced(lease.session)
        with self._locked(lease.session) as lock_file:
            if lock_file.claim is None or not lease.is_current(lock_file.epoch, lock_file.claim):
                raise errors.fenced(lease.session)
            yield lock_file, lock_file.claim

    def _file(self, session: str) -> Path:
        return self._directory / f"{session}.jsonl"

    def _lock_file(self, session: str) -> Path:
        return self._directory / f"{session}.lock"


def _known(line: JournalLine) -> Entry | None:
    """The entry in a line; None if it is damaged or only a newer segue knows its kind: the session is listed all the
    same."""
    try:
        return decode_entry(bytes(line.entry))
    except JournalError:
        return None


def _first_entry(file: Path) -> SessionStarted | None:
    try:
        with file.open("rb") as stream:
            line = next(iter(read_lines(file, stream.readline()).lines), None)
    except OSError:
        return None
    entry = _known(line) if isinstance(line, JournalLine) else None
    return entry if isinstance(entry, SessionStarted) else None


def _end_last_line(file: Path, size: int) -> None:
    """Another byte stands where the last line ends; what is written next must begin a new one."""
    descriptor = os.open(file, os.O_WRONLY)
    try:
        os.pwrite(descriptor, b"\n", size - 1)
    finally:
        os.close(descriptor)


def _write_all(descriptor: int, data: bytes, at: int) -> None:
    """Write and wait until the disk has it; on failure the file is as it was."""
    try:
        done = 0
        while done < len(data):
            done += os.pwrite(descriptor, data[done:], at + done)
        _SYNC(descriptor)
    except BaseException:
        os.ftruncate(descriptor, at)
        raise


def _sync_directory(directory: Path) -> None:
    """A new name is durable only when its directory is."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

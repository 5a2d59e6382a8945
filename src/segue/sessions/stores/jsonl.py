"""Sessions that people can read: one file of lines each, and beside it a lock file with who may write.

Every operation holds the lock of its session, so the check of the epoch and the write that follows are one. All who
share the files are on one machine, so leases are measured by its clock. Lines written together hold how many more belong
to them: what a crash tore off at the end of a file was never acknowledged, and is dropped as a whole.
"""

from __future__ import annotations

import os
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, ParamSpec, TypeVar, cast, final

import msgspec
from msgspec import Struct

from segue.errors import JournalError, UsageError
from segue.sessions import errors
from segue.sessions.entries import DamagedEntry, Entry, Record, SessionStarted
from segue.sessions.entry_codec import EncodedEntry, decode_entry, decode_stored
from segue.sessions.leases import LEASE_SECONDS, Claim, Lease, active_owner, refuse_busy
from segue.sessions.listing import fold_text, is_shown, listing_change, mentions, update_info
from segue.sessions.stores.jsonl_lines import (
    JournalLine,
    JournalLines,
    encode_lines,
    read_end,
    read_lines,
    read_records,
    report_torn,
    report_unreadable,
)
from segue.sessions.stores.store import SessionInfo, check_session_id, intact
from segue.system.worker_threads import Worker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from segue.sessions.leases import Owner


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


_DECODER = msgspec.json.Decoder(_Content)


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
        return _DECODER.decode(os.pread(descriptor, _SIZE, 0))
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

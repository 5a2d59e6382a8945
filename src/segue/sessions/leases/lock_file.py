"""The file that says who may write to a session, under a lock that ends with its process."""

from __future__ import annotations

import os
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, final

import msgspec
from msgspec import Struct

from segue.errors import UsageError
from segue.sessions.leases.claims import Hold

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from segue.sessions.stores.store import Lease

_SIZE: Final = 1024
"""The file is written in one piece of this size, so that no crash leaves half of it."""


@final
class _Written(Struct, frozen=True, omit_defaults=True):
    epoch: int = 0
    hold: Hold | None = None


_DECODER = msgspec.json.Decoder(_Written)


class Fence:
    """What the file says, and the way to say something else. Only to be used under the lock."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        told = _read(descriptor)
        self.epoch = told.epoch
        self.hold = told.hold

    def belongs_to(self, lease: Lease) -> bool:
        return self.hold is not None and (self.epoch, self.hold.owner.token) == (
            lease.epoch,
            lease.owner.token,
        )

    def clock(self) -> float:
        """All who share the file are on one machine, and so is this clock."""
        return time.time()

    def put(self, epoch: int, hold: Hold | None, *, durably: bool) -> None:
        self.epoch, self.hold = epoch, hold
        os.pwrite(self._descriptor, msgspec.json.encode(_Written(epoch, hold)).ljust(_SIZE - 1) + b"\n", 0)
        if durably:
            os.fsync(self._descriptor)


@contextmanager
def locked(file: Path) -> Iterator[Fence]:
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
            yield Fence(descriptor)
            return
        finally:
            os.close(descriptor)


def _is_at(file: Path, descriptor: int) -> bool:
    try:
        return file.stat().st_ino == os.fstat(descriptor).st_ino
    except FileNotFoundError:
        return False


def _read(descriptor: int) -> _Written:
    try:
        return _DECODER.decode(os.pread(descriptor, _SIZE, 0))
    except msgspec.DecodeError:
        return _Written()  # new, or lost in a power cut

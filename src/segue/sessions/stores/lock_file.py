"""The file that holds who may write to a session, under a lock that ends with its process."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, final

import msgspec
from msgspec import Struct

from segue.errors import UsageError
from segue.sessions.leases import Claim

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


_SIZE: Final = 1024
"""The file is written in one piece of this size, so that no crash leaves half of it."""


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

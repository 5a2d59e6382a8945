"""Who may write to a session: the lease of its writer, the claim that a store keeps of it, and the process that owns it.

All stores decide alike whether a session is free, each in its own transaction.
"""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path
from typing import Final, final
from uuid import uuid4

from msgspec import Struct

from segue.sessions import errors

LEASE_SECONDS: Final = 30.0
RENEW_SECONDS: Final = 10.0
_PROC: Final = Path("/proc")


@final
class Owner(Struct, frozen=True, omit_defaults=True):
    """Who holds a session: enough for people to find it, and for us to see that it is gone."""

    host: str
    pid: int
    token: str
    """Different for every opening of a session."""
    born: str = ""
    """Boot, process space and start of the process, where the system has it: pids are used again."""


@final
class Lease(Struct, frozen=True):
    """The right to write to a session, until another writer claims it."""

    session: str
    owner: Owner
    epoch: int

    def is_current(self, epoch: int, claim: Claim | None) -> bool:
        """Whether a session with this epoch and claim is still leased to us."""
        return claim is not None and (epoch, claim.owner.token) == (self.epoch, self.owner.token)


@final
class Claim(Struct, frozen=True):
    """Who has a session open, as its store has it written down. Times are of the store's clock."""

    owner: Owner
    since: float
    until: float

    def is_active(self, now: float) -> bool:
        """Whether the owner renewed its lease in time and is not known to have ended."""
        return self.until > now and not is_gone(self.owner)


def stored_claim(host: str, pid: int, token: str, born: str, since: float, until: float) -> Claim | None:
    """The claim in the columns of a database; None where nobody has the session."""
    return Claim(Owner(host, pid, token, born), since, until) if token else None


def active_owner(claim: Claim | None, now: float) -> Owner | None:
    """The owner that has a session open now; None if there is none."""
    return claim.owner if claim is not None and claim.is_active(now) else None


def refuse_busy(session: str, claim: Claim | None, now: float, *, claimant: Owner | None = None) -> None:
    """Raises JournalError `session_busy` while another writer has the session open."""
    if claim is None or not claim.is_active(now):
        return
    if claimant is None or claimant.token != claim.owner.token:
        raise errors.busy(session, claim.owner, claim.since)


def this_process() -> Owner:
    pid = os.getpid()
    here, start = _boot_and_namespace(), _start(pid)
    born = f"{here[0]}:{here[1]}:{start}" if here and start else ""
    return Owner(socket.gethostname(), pid, uuid4().hex, born)


def is_gone(owner: Owner) -> bool:
    """Whether the owner's process has certainly ended. A process on another host is never known to."""
    if owner.host != socket.gethostname():
        return False
    if owner.pid == os.getpid() and not owner.born:
        return False
    if owner.born:
        return _has_ended(owner)
    if sys.platform == "win32":  # there, signal 0 is Ctrl-C
        return False
    return not _answers(owner.pid)


def _has_ended(owner: Owner) -> bool:
    boot, _, process = owner.born.partition(":")
    space, _, start = process.partition(":")
    here = _boot_and_namespace()
    if not here or (boot == here[0] and space != here[1]):
        return False  # a pid of another container means nothing here
    return boot != here[0] or start != _start(owner.pid)


def _boot_and_namespace() -> tuple[str, str] | None:
    """This boot and this space of pids."""
    try:
        boot = (_PROC / "sys/kernel/random/boot_id").read_text().strip()
        return boot, str((_PROC / "self/ns/pid").stat().st_ino)
    except OSError:
        return None


def _start(pid: int) -> str:
    """When a process began, in ticks since the boot. Empty if it has ended, zombies included."""
    try:
        # The name before the last bracket may hold anything, brackets and spaces included.
        fields = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in "ZX" else fields[19]


def _answers(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True

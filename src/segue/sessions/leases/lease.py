"""The right to write to a session, and the one decision about it that all stores make alike, each in its own transaction."""

from __future__ import annotations

from typing import Final, final

from msgspec import Struct

from segue.sessions import errors
from segue.sessions.leases.owners import Owner, is_gone

LEASE_SECONDS: Final = 30.0
RENEW_SECONDS: Final = 10.0


@final
class Lease(Struct, frozen=True):
    """The right to write to a session until somebody else claims it."""

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


def active_owner(claim: Claim | None, now: float) -> Owner | None:
    """Who has a session open now, if anybody."""
    return claim.owner if claim is not None and claim.is_active(now) else None


def refuse_busy(session: str, claim: Claim | None, now: float, *, claimant: Owner | None = None) -> None:
    """Raises JournalError `session_busy` while somebody else has the session open."""
    if claim is None or not claim.is_active(now):
        return
    if claimant is None or claimant.token != claim.owner.token:
        raise errors.busy(session, claim.owner, claim.since)

"""Who may write to a session: the one decision that all stores make alike, inside their own transaction."""

from __future__ import annotations

import re
from typing import final

from msgspec import Struct

from segue.sessions import errors
from segue.sessions.leases.owners import Owner, is_gone

_SESSION_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


@final
class Hold(Struct, frozen=True):
    """A session in somebody's hands, as its store has it written down. Times are of the store's clock."""

    owner: Owner
    since: float
    until: float

    def lasts(self, now: float) -> bool:
        """Whether the owner has said lately that it is there, and is not known to be gone."""
        return self.until > now and not is_gone(self.owner)


def refuse_busy(session: str, hold: Hold | None, now: float, *, claimant: Owner | None = None) -> None:
    """Raises JournalError `session_busy` while somebody else has the session open."""
    if hold is None or not hold.lasts(now):
        return
    if claimant is None or claimant.token != hold.owner.token:
        raise errors.busy(session, hold.owner, hold.since)


def check_session_id(session: str) -> None:
    """Ids become names of files, and words on command lines."""
    if not _SESSION_ID.fullmatch(session):
        raise errors.bad_session_id(session)

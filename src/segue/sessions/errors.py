"""The errors of stores and journals: what, where, why, and what to do."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from segue.errors import JournalError, UsageError

if TYPE_CHECKING:
    from segue.sessions.entries import ApprovalGiven, DamagedEntry
    from segue.sessions.leases import Owner


def busy(session: str, holder: Owner, since: float) -> JournalError:
    when = datetime.fromtimestamp(since).astimezone().isoformat(" ", "seconds")
    return JournalError(
        f'Session "{session}" is open in process {holder.pid} on {holder.host or "an unknown host"}, since {when}.',
        code="session_busy",
        path=session,
        hint="Close it there, take it over with --take-over, or continue in a copy with --fork.",
    )


def fenced(session: str) -> JournalError:
    """Somebody else has taken the session over: what this owner appends is refused."""
    return JournalError(
        f'Session "{session}" was taken over by another process; nothing more is written from here.',
        code="fenced",
        path=session,
        hint="Resume it again with --take-over, or continue in a copy with --fork.",
    )


def no_such_approval(call_id: str) -> UsageError:
    return UsageError(
        f'No call "{call_id}" waits for an answer.',
        code="unknown_approval",
        hint="Its turn is over, or was replaced. Look at those that wait.",
    )


class AnsweredError(UsageError):
    """Somebody else was first."""

    default_code = "answered"

    def __init__(self, call_id: str, given: ApprovalGiven, at: float) -> None:
        when = datetime.fromtimestamp(at).astimezone().isoformat(" ", "seconds")
        did = "allowed" if given.allowed else "denied"
        super().__init__(
            f'{given.by or "Somebody"} {did} call "{call_id}" already, at {when}.',
            hint="The first answer holds.",
        )
        self.given = given
        self.at = at


def unknown_session(session: str) -> JournalError:
    """No session has this id."""
    return JournalError(
        f'There is no session "{session}".',
        code="unknown_session",
        path=session,
        hint="List the sessions: segue sessions list.",
    )


def session_exists(session: str) -> JournalError:
    """A session with this id is there already."""
    return JournalError(
        f'There is a session "{session}" already.',
        code="session_exists",
        path=session,
        hint="Resume it, or choose another id.",
    )


def bad_session_id(session: str) -> UsageError:
    return UsageError(
        f"{session!r} cannot be the id of a session.",
        code="bad_session_id",
        path="session",
        hint="Up to 100 letters, digits, dots, dashes and underscores; a letter or digit comes first.",
    )


def newer_store(place: str, version: int, known: int) -> JournalError:
    return JournalError(
        f"The sessions in {place} are kept in form {version}; this segue knows forms up to {known}.",
        code="newer_store",
        path=place,
        hint="Nothing was changed. Open them with a newer segue.",
    )


def newer_entry(kind: str) -> JournalError:
    return JournalError(
        f'The session holds an entry of the kind "{kind}", which this segue does not know.',
        code="newer_entry",
        path=kind,
        hint="Nothing was changed. Open it with a newer segue.",
    )


def damaged(place: str, why: str) -> JournalError:
    return JournalError(
        f"This is not a journal entry: {why}.",
        code="damaged",
        path=place,
        hint="Nothing was changed. Restore it from a copy, or export what can be read.",
    )


def damaged_entry(session: str, entry: DamagedEntry) -> JournalError:
    return JournalError(
        f'Entry {entry.seq} of session "{session}" is damaged ({entry.place}): {entry.why}.',
        code="damaged",
        path=entry.place,
        hint="Nothing was changed. Restore it from a copy, or export everything before and after it, and import that: "
        f"segue sessions export {session} -o FILE; segue sessions import FILE",
    )


def damaged_store(place: str, why: str) -> JournalError:
    return JournalError(
        f"The file of the sessions is damaged: {why}.",
        code="damaged",
        path=place,
        hint="Nothing was changed. Restore it from a copy, or export what can be read: segue sessions export ID",
    )


def store_failed(place: str, why: str) -> JournalError:
    return JournalError(
        f"The sessions cannot be read or written: {why}.",
        code="store_failed",
        path=place,
        hint="Check the disk's free space and the file's permissions.",
    )


def misfit(what: str, code: str = "misfit") -> JournalError:
    return JournalError(what, code=code, hint="Nothing was written. Please report it with the journal.")

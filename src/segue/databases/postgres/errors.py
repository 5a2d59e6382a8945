"""What can go wrong with a database, with what would help. Nothing here ever repeats a password."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import psycopg

from segue.errors import JournalError, StoreRefusedError, StoreUnreachableError
from segue.text.redaction import REDACTED

if TYPE_CHECKING:
    from segue.databases.postgres.address import DatabaseAddress

OLDEST: Final = 14
"""The oldest major version that its makers still support."""

_LOST: Final = frozenset(
    {
        *("57P01", "57P02", "57P03"),  # shut down, crashed, starting up
        *("08000", "08001", "08003", "08004", "08006", "08P01"),
        *("53300", "25006"),  # too many connections; a server that was primary until now
    }
)
_AGAIN: Final = frozenset({"40001", "40P01", "55P03"})
"""Nothing was done: a deadlock, or a lock that was not free."""
_REFUSED: Final = frozenset({"28000", "28P01", "3D000", "42501", "0A000"})
_CORRUPT: Final = frozenset({"XX001", "XX002"})


def is_lost(error: psycopg.Error) -> bool:
    """Whether the connection is gone, so that we cannot know what became of the last statement."""
    if error.sqlstate is None:
        return isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
    return error.sqlstate in _LOST


def is_worth_repeating(error: psycopg.Error) -> bool:
    """Whether nothing was done and the same may succeed at once."""
    return error.sqlstate in _AGAIN


def is_corrupt(error: psycopg.Error) -> bool:
    """Whether the server found damage in its own files."""
    return error.sqlstate in _CORRUPT


def is_starting(error: psycopg.Error) -> bool:
    """Whether the server is there, but not yet for us."""
    return error.sqlstate == "57P03" or "starting up" in str(error) or "recovery" in str(error)


def failure(error: psycopg.Error, address: DatabaseAddress) -> JournalError:
    """The error of a statement, or of a connection that was not made."""
    text = _text(error, address)
    if is_lost(error):
        refusal = None if error.sqlstate else _refusal(error, text, address)
        return refusal or _unreachable(text, address)
    if error.sqlstate in _REFUSED:
        return StoreRefusedError(
            f"The database refuses: {text}",
            path=address.shown,
            hint=f'Give the user all rights on the schema "{address.schema}", and to create it the first time.',
        )
    if is_corrupt(error):
        return JournalError(
            f"The database is damaged: {text}",
            code="damaged",
            path=address.shown,
            hint="Restore it from a backup, or export what can be read: segue sessions export ID",
        )
    return JournalError(
        f"The database cannot be read or written: {text}",
        code="store_failed",
        path=address.shown,
        hint="See the log of the database.",
    )


def silent(seconds: float, address: DatabaseAddress) -> StoreUnreachableError:
    return _unreachable(f"nothing came for {seconds:.2g} s.", address)


def _unreachable(why: str, address: DatabaseAddress) -> StoreUnreachableError:
    return StoreUnreachableError(
        f"The database does not answer: {why}",
        path=address.shown,
        hint="Check that it runs and that this machine reaches it. What was written before is safe.",
    )


def _refusal(error: psycopg.Error, text: str, address: DatabaseAddress) -> StoreRefusedError | None:
    """None if we were not refused. The driver knows no code for that: only whether a password was wanted, and words."""
    handle = error.pgconn
    wanted = handle is not None and (handle.needs_password or handle.used_password)
    if "authentication failed" in text or "no pg_hba.conf entry" in text or (wanted and "password" in text):
        hint = "Check user, password and pg_hba.conf. The password may also be in PGPASSWORD or ~/.pgpass."
    elif "does not exist" in text:
        hint = "Create it: createuser NAME, createdb NAME"
    else:
        return None
    return StoreRefusedError(f"The database does not let us in: {text}", path=address.shown, hint=hint)


def old_server(version: int, address: DatabaseAddress) -> StoreRefusedError:
    return StoreRefusedError(
        f"The database is PostgreSQL {version // 10_000}; {OLDEST} is the oldest that can be used.",
        code="store_version",
        path=address.shown,
        hint="Upgrade it, or name another in store.",
    )


def wrong_encoding(encoding: str, address: DatabaseAddress) -> StoreRefusedError:
    return StoreRefusedError(
        f"The database is encoded in {encoding}; texts of conversations need UTF8.",
        code="store_encoding",
        path=address.shown,
        hint="Create another: createdb --encoding UTF8 --template template0 NAME",
    )


def newer_form(part: str, version: int, known: int, address: DatabaseAddress) -> JournalError:
    return JournalError(
        f"The tables for {part} have form {version}; this segue knows forms up to {known}.",
        code="newer_store",
        path=address.shown,
        hint="Nothing was changed. Use a newer segue.",
    )


def _text(error: psycopg.Error, address: DatabaseAddress) -> str:
    primary = error.diag.message_primary or str(error)
    text = " ".join(primary.split())
    if address.password:
        text = text.replace(address.password, REDACTED)
    return text if text.endswith(".") else f"{text}."

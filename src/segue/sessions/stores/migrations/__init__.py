"""The forms the SQLite file has had, as numbered steps. A step once released never changes; a new one follows it."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from segue.sessions import errors
from segue.sqlite_connections import writing

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Step: TypeAlias = tuple[int, str]
"""A number, and the statements that lead to the form of that number."""


def known_steps() -> list[Step]:
    files = sorted(Path(__file__).parent.glob("[0-9]*.sql"))
    return [(int(file.name.partition("_")[0]), file.read_text("utf-8")) for file in files]


def migrate(connection: sqlite3.Connection, place: str, steps: Sequence[Step] | None = None) -> None:
    """Bring a file up to date, each step whole or not at all. Raises JournalError `newer_store`."""
    steps = known_steps() if steps is None else steps
    newest = max(number for number, _ in steps)
    version = _version(connection)
    for number, script in steps if version < newest else ():
        with writing(connection):
            version = _version(connection)
            if version < number:  # another process may have taken it meanwhile
                for statement in _statements(script):
                    connection.execute(statement)
                connection.execute(
                    """CREATE TABLE IF NOT EXISTS migrations (
                        number INTEGER PRIMARY KEY, taken TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP
                    )"""
                )
                connection.execute("INSERT INTO migrations (number) VALUES (?)", (number,))
    if version > newest:
        raise errors.newer_store(place, version, newest)


def _version(connection: sqlite3.Connection) -> int:
    known = connection.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'migrations'")
    if not known.fetchall():
        return 0
    (version,) = connection.execute("SELECT coalesce(max(number), 0) FROM migrations").fetchone()
    return int(version)


def _statements(script: str) -> Iterator[str]:
    # `executescript` would commit what the transaction has done so far.
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""

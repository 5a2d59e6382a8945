"""A connection to the SQLite file of sessions: durable, private to its owner, and migrated to the newest form."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from segue.sessions.listing import fold_text
from segue.sessions.stores.migrations import migrate
from segue.sqlite_connections import connect

if TYPE_CHECKING:
    import sqlite3
    from pathlib import Path

PATIENCE: Final = 20.0
"""Seconds to wait for another process's transaction; each takes milliseconds."""


def open_database(path: Path, patience: float = PATIENCE) -> sqlite3.Connection:
    connection = connect(
        path,
        patience=patience,
        settings=("synchronous = FULL", "fullfsync = ON", "foreign_keys = ON", "secure_delete = ON"),
    )
    try:
        # A list that shows a damaged letter is better than none.
        connection.text_factory = _as_text
        connection.create_function("fold", 1, _fold, deterministic=True)
        migrate(connection, str(path))
    except BaseException:
        connection.close()
        raise
    return connection


def _as_text(stored: bytes) -> str:
    return stored.decode("utf-8", "replace")


def _fold(stored: bytes | None) -> str:
    return fold_text(_as_text(stored or b""))

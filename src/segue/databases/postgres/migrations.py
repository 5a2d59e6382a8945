"""The forms our tables have had, as numbered steps per part: sessions, the gateway's memory. A step once released never
changes. Nodes may start at the same time: the first takes the missing steps, the others wait for it and find them taken."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from segue.databases.postgres import errors

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from segue.databases.postgres.address import DatabaseAddress
    from segue.databases.postgres.connection import DatabaseConnection

Migration: TypeAlias = tuple[int, str]
"""A number, and the statements that lead to the form of that number."""


def read_steps(directory: Path) -> list[Migration]:
    files = sorted(directory.glob("[0-9]*.sql"))
    return [(int(file.name.partition("_")[0]), file.read_text("utf-8")) for file in files]


def migrate(
    connection: DatabaseConnection, address: DatabaseAddress, part: str, steps: Sequence[Migration]
) -> None:
    """Bring the tables of a part up to date, all missing steps or none. Raises JournalError `newer_store`."""
    newest = max(number for number, _ in steps)
    if _version(connection, part) < newest:
        with connection.transaction():
            # Ends with the transaction, so that any pooler may pass it on.
            connection.fetch("SELECT pg_advisory_xact_lock(hashtext('segue.migrations'))")
            _create_schema(connection)
            version = _version(connection, part)  # another node may have taken steps meanwhile
            for number, script in steps:
                if number > version:
                    connection.run_script(script)
                    connection.execute(
                        "INSERT INTO {schema}.migrations (part, number) VALUES (%s, %s)", part, number
                    )
    version = _version(connection, part)
    if version > newest:
        raise errors.newer_form(part, version, newest, address)


def _create_schema(connection: DatabaseConnection) -> None:
    # The right to create a schema is needed only where there is none yet.
    if connection.fetch("SELECT to_regnamespace(%s)", connection.schema) == [(None,)]:
        connection.run_script("CREATE SCHEMA {schema}")
    if connection.fetch("SELECT to_regclass(%s)", f"{connection.schema}.migrations") == [(None,)]:
        connection.run_script(
            """CREATE TABLE {schema}.migrations (
                part text NOT NULL, number integer NOT NULL, taken timestamptz NOT NULL DEFAULT now(),
                PRIMARY KEY (part, number)
            )"""
        )


def _version(connection: DatabaseConnection, part: str) -> int:
    if connection.fetch("SELECT to_regclass(%s)", f"{connection.schema}.migrations") == [(None,)]:
        return 0
    ((version,),) = connection.fetch(
        "SELECT coalesce(max(number), 0)::int8 FROM {schema}.migrations WHERE part = %s", part
    )
    return int(version)

"""The store of sessions that the settings describe. Commands that list something load this, and none of what providers need."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import structs

from segue.config.paths import sessions_directory
from segue.databases.postgres.address import is_database_url
from segue.errors import UsageError

if TYPE_CHECKING:
    from segue.config.schema import Config
    from segue.sessions.stores.store import Store


def open_store(config: Config) -> Store:
    """Where sessions are kept. Nothing is opened before it is used."""
    settings = config.sessions
    if config.store and settings.keep == "sqlite":
        return _open_postgres(config)
    if settings.days is not None:
        raise UsageError(
            "sessions.days is for sessions in PostgreSQL; others are kept until they are removed.",
            code="config",
            hint="Set store, or remove sessions: segue sessions rm ID",
        )
    directory = sessions_directory(settings.directory)
    match settings.keep:
        case "memory":
            from segue.sessions.stores.memory import MemoryStore  # noqa: PLC0415

            return MemoryStore()
        case "jsonl":
            from segue.sessions.stores.jsonl import JsonlStore  # noqa: PLC0415

            return JsonlStore(directory)
        case "sqlite":
            from segue.sessions.stores.sqlite import SQLiteStore  # noqa: PLC0415

            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            return SQLiteStore(directory / "sessions.db")


def open_store_at(place: str, config: Config) -> Store:
    """A store by what people call it: `sqlite`, `jsonl` and `store` are those of the settings; else a URL, a SQLite file, or
    a folder of JSON lines."""
    if place in ("sqlite", "jsonl"):
        sessions = structs.replace(config.sessions, keep=place, days=None)
        return open_store(structs.replace(config, store="", sessions=sessions))
    if place == "store" and not config.store:
        raise UsageError(
            "The settings name no store.", code="no_store", path="store", hint="Set store, or name a URL."
        )
    if place == "store" or is_database_url(place):
        named = config.store if place == "store" else place
        return _open_postgres(structs.replace(config, store=named))
    path = Path(place)
    if path.is_dir() or place.endswith("/"):
        from segue.sessions.stores.jsonl import JsonlStore  # noqa: PLC0415

        return JsonlStore(path)
    from segue.sessions.stores.sqlite import SQLiteStore  # noqa: PLC0415

    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    return SQLiteStore(path)


def _open_postgres(config: Config) -> Store:
    try:
        from segue.sessions.stores.postgres import PostgresStore  # noqa: PLC0415
    except ImportError as error:
        raise postgres_missing() from error
    return PostgresStore(config.store, days=config.sessions.days)


def postgres_missing() -> UsageError:
    return UsageError(
        "PostgreSQL needs the package psycopg.",
        code="postgres_missing",
        path="store",
        hint="In the clone of segue run: python -m pip install '.[postgres]'",
    )

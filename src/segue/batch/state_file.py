"""What is known of a batch, in a SQLite file of its own: written before and after each step, so that a kill loses nothing.

A request is `waiting` until it is part of a hand-over, `asked` from the moment it may be at the provider, and then has an
outcome that no longer changes. A part is one hand-over: `begun` from before anything is sent until its id is known, then
`running`, then `ended`.
"""

from __future__ import annotations

import sqlite3
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias, final

import msgspec
from msgspec import Struct

from segue.databases.sqlite import connect, writing
from segue.errors import UsageError
from segue.providers.batches.wire_batch import ReplyReading, WireBatch

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

VERSION: Final = 1
_PATIENCE: Final = 10.0
RequestState: TypeAlias = Literal["waiting", "asked", "succeeded", "failed", "expired", "cancelled"]
PartState: TypeAlias = Literal["begun", "running", "ended"]
Mode: TypeAlias = Literal["", "batch", "single"]
"""How it is asked: by a batch endpoint, or one by one; empty before that is known."""
_TABLES: Final = """
CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS requests (
    place INTEGER PRIMARY KEY, name TEXT NOT NULL, line INTEGER NOT NULL, document BLOB NOT NULL,
    state TEXT NOT NULL DEFAULT 'waiting', part INTEGER, attempts INTEGER NOT NULL DEFAULT 0,
    reading BLOB, result BLOB, cost REAL, session TEXT NOT NULL DEFAULT ''
);
CREATE INDEX IF NOT EXISTS by_state ON requests (state);
CREATE TABLE IF NOT EXISTS parts (
    number INTEGER PRIMARY KEY, token TEXT NOT NULL UNIQUE, state TEXT NOT NULL, began REAL NOT NULL,
    mark TEXT NOT NULL, batch TEXT NOT NULL DEFAULT '', proven INTEGER NOT NULL DEFAULT 0,
    others TEXT NOT NULL DEFAULT '[]', cancelled INTEGER NOT NULL DEFAULT 0
);
"""
_SETTLE: Final = (
    "UPDATE requests SET state = ?, result = ?, cost = ?, part = NULL WHERE place = ? AND state = 'asked'"
)


@final
class BatchFacts(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What holds for the whole batch."""

    id: str
    model: str
    """provider/model"""
    source: str = ""
    """The name of the file that it was read from."""
    created: float = 0.0
    retries: int = 2
    """How often a request is asked again after it expired or failed for a reason that passes."""
    version: int = VERSION


@final
class StoredRequest(Struct, frozen=True):
    """A row of the table of requests."""

    place: int
    name: str
    line: int
    document: bytes
    state: RequestState
    part: int | None
    attempts: int
    reading: bytes | None
    result: bytes | None
    cost: float | None
    session: str

    @property
    def how_to_read(self) -> ReplyReading:
        return msgspec.json.decode(self.reading or b"{}", type=ReplyReading)


@final
class Settled(NamedTuple):
    """A request has an outcome, or waits again."""

    place: int
    state: RequestState
    result: bytes = b""
    cost: float | None = None
    """Dollars. None: nobody knows the price."""


@final
class Part(Struct, frozen=True):
    """One hand-over."""

    number: int
    token: str
    state: PartState
    began: float
    mark: str
    batch: WireBatch | None
    proven: bool
    """Whether it is certain that the batch is ours."""
    others: frozenset[str]
    """Batches that turned out not to be."""
    cancelled: bool


@final
class StateFile:
    """The state of one batch. One process works on it at a time; others may read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._connection = connect(path, patience=_PATIENCE, settings=("synchronous = FULL",))

    @classmethod
    def create(cls, path: Path, facts: BatchFacts, requests: Iterable[tuple[str, int, bytes]]) -> StateFile:
        """A new file with all requests in it: name, line and document each. One that is there already is opened as it is."""
        state = cls(path)
        with writing(state._connection) as connection:
            for statement in _TABLES.split(";"):
                connection.execute(statement)
            known = connection.execute("SELECT 1 FROM facts").fetchone()
            if known is None:
                connection.execute(
                    "INSERT INTO facts VALUES ('batch', ?)", (msgspec.json.encode(facts).decode(),)
                )
                connection.executemany(
                    "INSERT INTO requests (place, name, line, document) VALUES (?, ?, ?, ?)",
                    ((place, *request) for place, request in enumerate(requests)),
                )
        return state

    @classmethod
    def open(cls, path: Path) -> StateFile:
        if not path.is_file():
            raise UsageError(
                f'There is no batch "{path.stem}".',
                code="unknown_batch",
                hint="List all batches: segue batch status",
            )
        return cls(path)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Be the one process that works on the batch. The system takes the lock back from a process that dies."""
        lock = sqlite3.connect(self.path.with_suffix(".lock"), timeout=0.0, isolation_level=None)
        try:
            lock.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError as error:
            lock.close()
            raise UsageError(
                "Another process works on this batch.",
                code="batch_in_use",
                hint="Wait for it, or end it. To look at the batch: segue batch status",
            ) from error
        try:
            yield
        finally:
            lock.close()

    def close(self) -> None:
        self._connection.close()

    # BatchFacts

    @property
    def facts(self) -> BatchFacts:
        row = self._connection.execute("SELECT value FROM facts WHERE name = 'batch'").fetchone()
        return msgspec.json.decode(row[0], type=BatchFacts)

    @property
    def mode(self) -> Mode:
        return self._fact("mode")  # type: ignore[return-value]  # of the three

    @mode.setter
    def mode(self, mode: Mode) -> None:
        self._set_fact("mode", mode)

    @property
    def cancelled(self) -> bool:
        """Whether the user wants no more of it."""
        return self._fact("cancelled") == "yes"

    def cancel(self) -> None:
        """From now on nothing more is handed over; what waits is cancelled."""
        with writing(self._connection) as connection:
            connection.execute("INSERT OR REPLACE INTO facts VALUES ('cancelled', 'yes')")
            connection.execute("UPDATE requests SET state = 'cancelled' WHERE state = 'waiting'")

    def _fact(self, name: str) -> str:
        row = self._connection.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
        return row[0] if row is not None else ""

    def _set_fact(self, name: str, value: str) -> None:
        self._connection.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (name, value))

    # Requests

    def counts(self) -> dict[str, int]:
        """Requests by their state."""
        return dict(
            self._connection.execute("SELECT state, count(*) FROM requests GROUP BY state").fetchall()
        )

    def requests(self, state: RequestState | None = None, part: int | None = None) -> Iterator[StoredRequest]:
        """In the order of their lines."""
        query, values = "SELECT * FROM requests WHERE 1", list[Any]()
        for field, value in (("state", state), ("part", part)):
            if value is not None:
                query += f" AND {field} = ?"
                values.append(value)
        for row in self._connection.execute(f"{query} ORDER BY place", values).fetchall():
            yield StoredRequest(*row)

    def ask(self, place: int) -> None:
        """A request is about to be sent by itself."""
        self._connection.execute(
            "UPDATE requests SET state = 'asked', attempts = attempts + 1 WHERE place = ?", (place,)
        )

    def note_reading(self, place: int, reading: ReplyReading) -> None:
        self._connection.execute(
            "UPDATE requests SET reading = ? WHERE place = ?", (msgspec.json.encode(reading), place)
        )

    def settle(self, settled: Sequence[Settled], *, part: Part | None = None) -> None:
        """Only of requests that are asked: what has an outcome keeps it. `part`: it has ended with these."""
        with writing(self._connection) as connection:
            connection.executemany(_SETTLE, [(one.state, one.result, one.cost, one.place) for one in settled])
            if part is not None:
                connection.execute("UPDATE parts SET state = 'ended' WHERE number = ?", (part.number,))

    def cost(self) -> float | None:
        """Dollars for all replies. None: the price of one is unknown."""
        replies, priced, dollars = self._connection.execute(
            "SELECT count(*), count(cost), total(cost) FROM requests WHERE state = 'succeeded'"
        ).fetchone()
        return dollars if replies == priced else None

    def wait_again(self, places: Sequence[int]) -> None:
        """Requests that were certainly not answered."""
        with writing(self._connection) as connection:
            connection.executemany(
                "UPDATE requests SET state = 'waiting', part = NULL WHERE place = ? AND state = 'asked'",
                [(place,) for place in places],
            )

    def save_session(self, place: int, session: str) -> None:
        self._connection.execute("UPDATE requests SET session = ? WHERE place = ?", (session, place))

    # Parts

    def begin_part(
        self, token: str, mark: str, now: float, readings: Sequence[tuple[int, ReplyReading]]
    ) -> Part:
        """Before anything is handed over: from here on it may be at the provider."""
        with writing(self._connection) as connection:
            number = connection.execute(
                "INSERT INTO parts (token, state, began, mark) VALUES (?, 'begun', ?, ?) RETURNING number",
                (token, now, mark),
            ).fetchone()[0]
            connection.executemany(
                "UPDATE requests SET state = 'asked', attempts = attempts + 1, part = ?, reading = ? WHERE place = ?",
                [(number, msgspec.json.encode(reading), place) for place, reading in readings],
            )
        return self.part(number)

    def part(self, number: int) -> Part:
        return next(part for part in self.parts() if part.number == number)

    def parts(self) -> list[Part]:
        rows = self._connection.execute("SELECT * FROM parts ORDER BY number").fetchall()
        return [
            Part(
                number,
                token,
                state,
                began,
                mark,
                msgspec.json.decode(batch, type=WireBatch) if batch else None,
                bool(proven),
                frozenset(msgspec.json.decode(others)),
                bool(cancelled),
            )
            for number, token, state, began, mark, batch, proven, others, cancelled in rows
        ]

    def update_part(self, part: Part, batch: WireBatch, *, proven: bool = True) -> Part:
        """What the provider reports of it now."""
        self._connection.execute(
            "UPDATE parts SET state = 'running', batch = ?, proven = proven OR ? WHERE number = ?",
            (msgspec.json.encode(batch).decode(), proven, part.number),
        )
        return self.part(part.number)

    def disprove_part(self, part: Part, batch: WireBatch) -> None:
        """The batch that was found is not ours: look again."""
        others = msgspec.json.encode(sorted({*part.others, batch.id})).decode()
        self._connection.execute(
            "UPDATE parts SET state = 'begun', batch = '', others = ? WHERE number = ?", (others, part.number)
        )

    def abandon_part(self, part: Part, *, also: Sequence[Settled] = ()) -> None:
        """The provider has certainly done nothing of it: its requests wait again, and this was no attempt of theirs."""
        with writing(self._connection) as connection:
            connection.executemany(_SETTLE, [(one.state, one.result, one.cost, one.place) for one in also])
            connection.execute(
                "UPDATE requests SET state = 'waiting', attempts = attempts - 1, part = NULL"
                " WHERE part = ? AND state = 'asked'",
                (part.number,),
            )
            connection.execute("UPDATE parts SET state = 'ended' WHERE number = ?", (part.number,))

    def cancel_part(self, part: Part) -> None:
        self._connection.execute("UPDATE parts SET cancelled = 1 WHERE number = ?", (part.number,))

"""One connection: statements and transactions that any pooler in front of the database may pass on.

Nothing outlives a transaction: no prepared statements, no settings, no temporary tables, no session locks, no LISTEN. What has
to be fast is a function in the database, called in one round trip through the driver's lowest layer: its plans are
kept by the server, and a call costs the client a third of what a cursor does.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, TypeAlias, final

import psycopg
from psycopg import generators, pq
from psycopg.errors import lookup

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence
    from contextlib import AbstractContextManager

    from psycopg.abc import RV, PQGen

Value: TypeAlias = str | bytes | int | float | bool | None
Row: TypeAlias = tuple[Any, ...]
Fields: TypeAlias = list[tuple[bytes | None, ...]]

_TEXT_OID: Final = 25
_BYTES_OID: Final = 17
_ARRAY_HEAD: Final = struct.Struct("!iiIii")
_LENGTH: Final = struct.Struct("!i")
_LOOK_SECONDS: Final = 0.1
"""How often a silent server's silence is measured."""


@final
class PackedArray:
    """An array as the server reads it, without quotes and escapes."""

    __slots__ = ("data",)

    def __init__(self, items: Sequence[bytes], oid: int) -> None:
        head = _ARRAY_HEAD.pack(1, 0, oid, len(items), 1) if items else struct.pack("!iiI", 0, 0, oid)
        self.data = head + b"".join([_LENGTH.pack(len(item)) + item for item in items])


def bytes_array(items: Sequence[bytes]) -> PackedArray:
    return PackedArray(items, _BYTES_OID)


def text_array(items: Sequence[str]) -> PackedArray:
    return PackedArray([item.encode() for item in items], _TEXT_OID)


def number_array(items: Sequence[int]) -> str:
    return f"{{{','.join(map(str, items))}}}"


class SilenceError(psycopg.OperationalError):
    """The server said nothing for too long. It may hang, and it may still do what it was asked for."""


class DriverConnection(psycopg.Connection[Row]):
    """The driver's, which waits for a silent server for `silence` seconds at most. The driver itself would wait for ever: to the
    operating system a process that hangs is a connection in good health."""

    silence = float("inf")

    def wait(self, gen: PQGen[RV], interval: float = _LOOK_SECONDS, timeout: float | None = None) -> RV:
        more = () if timeout is None else (timeout,)
        return super().wait(_until_silent(gen, self.silence), interval, *more)


def _until_silent(waiting: PQGen[RV], seconds: float) -> Generator[Any, Any, RV]:
    """The same, ended by an error when nothing came for so many seconds."""
    heard = monotonic()
    try:
        wanted = next(waiting)
        while True:
            ready = yield wanted
            if ready:
                heard = monotonic()
            elif monotonic() - heard > seconds:
                raise SilenceError(f"it was silent for {seconds:g} s")
            wanted = waiting.send(ready)
    except StopIteration as done:
        result: RV = done.value
        return result


class DatabaseConnection:
    """What stores do with a connection. `retried`: the statements may have been carried out before, by a connection
    that was lost before it could report it."""

    def __init__(self, driver: DriverConnection, schema: str) -> None:
        self.driver = driver
        self.schema = schema
        self.retried = False

    def call(self, function: str, *values: Value | PackedArray) -> Fields:
        """The rows that a function of our schema returns, each field in its binary form."""
        self.send_call(function, values)
        return read_rows(self.driver.wait(generators.execute(self.driver.pgconn))[-1])

    def send_call(self, function: str, values: tuple[Value | PackedArray, ...]) -> None:
        """The same, without waiting for its result."""
        self.driver.pgconn.send_query_params(*self._call_of(function, values))

    def _call_of(
        self, function: str, values: tuple[Value | PackedArray, ...]
    ) -> tuple[bytes, list[bytes | None], None, list[int], int]:
        statement = _statement(self.schema, function, len(values))
        formats = [1 if isinstance(value, bytes | PackedArray) else 0 for value in values]
        return statement, [_encoded(value) for value in values], None, formats, 1

    def fetch(self, statement: str, *values: object) -> list[Row]:
        """The rows of any statement. `{schema}` stands for ours, %s for a value."""
        return self._execute(statement, values).fetchall()

    def execute(self, statement: str, *values: object) -> int:
        """How many rows a statement changed."""
        return self._execute(statement, values).rowcount

    def run_script(self, script: str) -> None:
        """Several statements without values."""
        self.driver.execute(script.replace("{schema}", self.schema).encode())

    def transaction(self) -> AbstractContextManager[object]:
        return self.driver.transaction()

    def _execute(self, statement: str, values: tuple[object, ...]) -> psycopg.Cursor[Row]:
        query = statement.replace("{schema}", self.schema).encode()
        return self.driver.execute(query, values, binary=True)


@lru_cache(100)
def _statement(schema: str, function: str, values: int) -> bytes:
    places = ",".join([f"${number}" for number in range(1, values + 1)])
    return f"SELECT * FROM {schema}.{function}({places})".encode()  # noqa: S608 - names of ours


def read_rows(result: pq.abc.PGresult) -> Fields:
    if result.status != pq.ExecStatus.TUPLES_OK:
        raise _error_of(result)
    columns = range(result.nfields)
    return [tuple([result.get_value(row, column) for column in columns]) for row in range(result.ntuples)]


def read_number(data: bytes | None) -> int | None:
    """An integer in its binary form."""
    return None if data is None else int.from_bytes(data, "big", signed=True)


def _encoded(value: Value | PackedArray) -> bytes | None:
    match value:
        case None:
            return None
        case bytes():
            return value
        case str():
            return value.encode()
        case PackedArray():
            return value.data
        case bool():
            return b"t" if value else b"f"
        case _:
            return repr(value).encode()


def _error_of(result: pq.abc.PGresult) -> psycopg.Error:
    code = result.error_field(pq.DiagnosticField.SQLSTATE)
    words = result.error_field(pq.DiagnosticField.MESSAGE_PRIMARY) or result.error_message
    text = words.decode("utf-8", "replace")
    if code is None:
        return psycopg.OperationalError(text)
    try:
        return lookup(code.decode())(text)
    except KeyError:
        unknown = psycopg.DatabaseError(text)
        unknown.sqlstate = code.decode()
        return unknown

"""Calls of functions in the database without a thread: many at once, cancelled ones, lost connections, several loops."""

from __future__ import annotations

import asyncio
from pathlib import Path

import psycopg
import pytest

from postgres_server import schema_url
from segue.errors import JournalError
from segue.postgres.connection import read_number
from segue.postgres.database import Database

STEPS = [
    (
        1,
        """CREATE TABLE {schema}.counted (number int8);
        CREATE FUNCTION {schema}.add(number int8, seconds float8) RETURNS int8 LANGUAGE plpgsql AS $$
        BEGIN
            INSERT INTO {schema}.counted VALUES (number);
            PERFORM pg_sleep(seconds);
            RETURN number;
        END $$;
        CREATE FUNCTION {schema}.size_of(given bytea) RETURNS int8 LANGUAGE sql AS 'SELECT length(given)';
        CREATE FUNCTION {schema}.sum() RETURNS numeric LANGUAGE sql AS 'SELECT sum(number) FROM {schema}.counted';
        CREATE FUNCTION {schema}.fail() RETURNS int8 LANGUAGE sql AS 'SELECT 1 / 0';
        CREATE FUNCTION {schema}.pid() RETURNS int8 LANGUAGE sql AS 'SELECT pg_backend_pid()::int8';""",
    )
]


def opened(url: str) -> Database:
    return Database(url, part="test", steps=STEPS, patience=5.0, in_loop=True)


async def number_of(database: Database, function: str, *values: int | float | bytes) -> int:
    ((data,),) = await database.call(function, *values)
    return read_number(data) or 0


def test_more_calls_than_connections_are_all_answered(tmp_path: Path) -> None:
    async def story() -> None:
        database = opened(f"{schema_url(tmp_path)}&connections=4")
        assert await number_of(database, "add", 0, 0.0) == 0
        answers = await asyncio.gather(*(number_of(database, "add", number, 0.002) for number in range(40)))
        assert answers == list(range(40))
        used = await asyncio.gather(*(number_of(database, "pid") for _ in range(20)))
        assert len(set(used)) <= 2, "the other two are for threads"
        await database.close()

    asyncio.run(story())


def test_what_is_larger_than_a_sockets_buffer_is_sent_whole(tmp_path: Path) -> None:
    async def story() -> None:
        database = opened(schema_url(tmp_path))
        await number_of(database, "pid")
        sizes = [8_000_000, 10]
        assert await asyncio.gather(*(number_of(database, "size_of", b"x" * size) for size in sizes)) == sizes
        await database.close()

    asyncio.run(story())


def test_a_cancelled_call_is_carried_out_and_its_connection_used_again(tmp_path: Path) -> None:
    async def story() -> None:
        database = opened(f"{schema_url(tmp_path)}&connections=3")
        await number_of(database, "add", 1, 0.0)
        pid = await number_of(database, "pid")
        calls = [asyncio.ensure_future(number_of(database, "add", 10, 0.05)) for _ in range(3)]
        await asyncio.sleep(0.02)
        for call in calls:
            call.cancel()
        assert await number_of(database, "pid") == pid
        await database.close()
        again = opened(schema_url(tmp_path))
        ((total,),) = await again.run(lambda connection: connection.fetch("SELECT {schema}.sum()"))
        assert total == 11, "one had begun"
        await again.close()

    asyncio.run(story())


@pytest.mark.parametrize("moment", ["idle", "in a call"])
def test_a_call_whose_connection_breaks_is_made_again(tmp_path: Path, moment: str) -> None:
    async def story() -> None:
        url = schema_url(tmp_path)
        database = opened(url)
        await number_of(database, "add", 0, 0.0)
        pid = await number_of(database, "pid")
        with psycopg.connect(database.address.url, autocommit=True) as other:
            if moment == "idle":
                other.execute(b"SELECT pg_terminate_backend(%s)", (pid,))
                assert await number_of(database, "add", 5, 0.0) == 5
            else:
                call = asyncio.ensure_future(number_of(database, "add", 5, 0.1))
                await asyncio.sleep(0.05)
                other.execute(b"SELECT pg_terminate_backend(%s)", (pid,))
                assert await call == 5
        assert await number_of(database, "pid") != pid
        await database.close()

    asyncio.run(story())


def test_what_the_database_refuses_is_an_error_of_the_store(tmp_path: Path) -> None:
    async def story() -> None:
        database = opened(schema_url(tmp_path))
        await number_of(database, "pid")
        with pytest.raises(JournalError, match="division"):
            await database.call("fail")
        assert await number_of(database, "pid")
        await database.close()

    asyncio.run(story())


def test_another_loop_is_served_after_the_first_has_ended(tmp_path: Path) -> None:
    database = opened(schema_url(tmp_path))
    for number in range(3):
        with asyncio.Runner() as runner:
            assert runner.run(number_of(database, "add", number, 0.0)) == number
            assert runner.run(number_of(database, "add", number, 0.0)) == number
    asyncio.run(database.close())

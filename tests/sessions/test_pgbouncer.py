"""Sessions and the gateway's memory through a real pooler in transaction mode: `SEGUE_PGBOUNCER=1 pytest tests/sessions/test_pgbouncer.py`.

Needs the program pgbouncer in PATH, for example of Debian's package.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gateway.nodes import Plan, spread_at_random
from postgres_server import USER, PostgresServer, account, own_server
from segue.gateway.memory.postgres_store import PostgresMemoryStore
from segue.gateway.memory.store import ConversationInfo, MemoryRecord
from segue.sessions.stores.postgres import PostgresStore
from segue.sessions.stores.store import Store
from segue.testing import check_store

pytestmark = pytest.mark.skipif(
    not os.environ.get("SEGUE_PGBOUNCER") or shutil.which("pgbouncer") is None,
    reason="set SEGUE_PGBOUNCER=1 and have pgbouncer in PATH",
)


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with own_server() as server:
        yield server


@contextmanager
def _pooled(server: PostgresServer, schema: str) -> Iterator[str]:
    """A URL that leads through a pooler with two connections, which belong to a client for one transaction only."""
    program = shutil.which("pgbouncer")
    assert program is not None
    with tempfile.TemporaryDirectory(prefix="segue-pool-", dir="/tmp") as folder:
        Path(folder).chmod(0o777)
        settings = Path(folder) / "pgbouncer.ini"
        settings.write_text(
            f"""[databases]
postgres = host={server.data.parent} user={USER}
[pgbouncer]
pool_mode = transaction
default_pool_size = 2
max_client_conn = 200
listen_addr =
unix_socket_dir = {folder}
listen_port = 6432
auth_type = any
logfile = {folder}/log
"""
        )
        process = subprocess.Popen([program, "-q", str(settings)], **account())  # noqa: S603 - the user's own program
        try:
            while not (Path(folder) / ".s.PGSQL.6432").exists():
                assert process.poll() is None, (Path(folder) / "log").read_text()
                time.sleep(0.05)
            yield f"postgresql:///postgres?host={folder}&port=6432&user={USER}&schema={schema}"
        finally:
            process.terminate()
            process.wait(10)


def test_sessions_keep_their_promises(server: PostgresServer) -> None:
    with _pooled(server, "sessions") as url:

        async def make_store() -> Store:
            return PostgresStore(url)

        asyncio.run(check_store(make_store))


def test_the_memory_is_shared(server: PostgresServer) -> None:
    async def story(url: str) -> None:
        stores = [PostgresMemoryStore(url, key_check=b"k") for _ in range(4)]
        keys = [b"%d" % number for number in range(100)]
        writes = [stores[number % 4].write([MemoryRecord((key,), key)]) for number, key in enumerate(keys)]
        await asyncio.gather(*writes, *(store.note(ConversationInfo(id="c")) for store in stores))
        assert await stores[0].read(keys) == {key: key for key in keys}
        seen = await stores[1].conversation("c")
        assert seen is not None
        assert seen.requests == 4
        await asyncio.gather(*(store.close() for store in stores))

    with _pooled(server, "memory") as url:
        asyncio.run(story(url))


def test_gateways_behind_a_pooler_are_one_gateway(server: PostgresServer, tmp_path: Path) -> None:
    with _pooled(server, "nodes") as url:
        found = spread_at_random(tmp_path, url, Plan(nodes=2, conversations=4, turns=3, kills=2, seed=4))
    assert found.signatures > 0

"""DBOS as an engine whose workers are killed, on SQLite and on PostgreSQL."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from dbos import DBOSClient, EnqueueOptions

from integrations.engine_kills import SECONDS, WORKERS, Engine, Worker
from postgres_server import PostgresServer, own_server

T = TypeVar("T")


class DBOSEngine:
    """Its client sends the messages; a worker resumes what it had begun when it starts again."""

    def __init__(
        self, folder: Path, server: PostgresServer | None, seconds: float = SECONDS, workers: int = WORKERS
    ) -> None:
        self._server = server
        self._client: DBOSClient | None = None
        self._sent = 0
        self._url = (
            f"sqlite:///{folder}/dbos.db" if server is None else server.url().replace("&schema=segue", "")
        )
        self.database = "" if server is None else server.url()
        words = (str(folder), self._url, self.database, str(seconds))
        self.workers = [
            Worker(folder, number, "integrations.dbos_worker", f"worker-{number}", *words)
            for number in range(workers)
        ]

    def send(self, session: str, text: str) -> str:
        self._sent += 1
        turn = f"{session}-turn-{self._sent}"
        options: EnqueueOptions = {
            "workflow_name": "segue.agents.turn",
            "queue_name": "segue.agents.turns",
            "workflow_id": turn,
            "queue_partition_key": session,
            "app_version": "1",
        }
        self._patiently(lambda client: client.enqueue(options, session, text))
        return turn

    def unfinished(self, turns: Collection[str]) -> set[str]:
        if not turns:
            return set()
        listed = self._patiently(lambda client: client.list_workflows(workflow_ids=list(turns)))
        status = {one.workflow_id: one.status for one in listed}
        failed = [turn for turn, word in status.items() if word not in {"SUCCESS", "PENDING", "ENQUEUED"}]
        assert not failed, [(turn, status[turn]) for turn in failed]
        return {turn for turn in turns if status.get(turn) != "SUCCESS"}

    def described(self, turns: Collection[str]) -> str:
        listed = self._patiently(lambda client: client.list_workflows(workflow_ids=list(turns)))
        return "\n".join(
            f"{one.workflow_id}: {one.status} at {one.executor_id} in {one.queue_name}" for one in listed
        )

    def fail(self, chance: random.Random) -> bool:
        if (server := self._server) is None:
            return False
        match chance.choice(("kill", "stop", "freeze")):
            case "kill":
                server.kill()
            case "stop":
                server.stop()
            case _:
                with server.frozen():
                    time.sleep(chance.uniform(0.5, 4.0))
                return True
        time.sleep(chance.uniform(0.0, 8.0))
        server.start()
        return True

    def close(self) -> None:
        if self._client is not None:
            self._client.destroy()

    def _patiently(self, do: Callable[[DBOSClient], T]) -> T:
        """Try again while the database is away; a message that was sent already is not sent again."""
        deadline = time.monotonic() + 60
        while True:
            try:
                if self._client is None:
                    self._client = DBOSClient(system_database_url=self._url)
                return do(self._client)
            except Exception:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.5)


@contextmanager
def dbos_engine(
    folder: Path, database: str, seconds: float = SECONDS, workers: int = WORKERS
) -> Iterator[Engine]:
    """`database`: "sqlite" or "postgres", with a server that nobody else uses."""
    if database == "sqlite":
        engine = DBOSEngine(folder, None, seconds, workers)
        try:
            yield engine
        finally:
            engine.close()
        return
    with own_server() as server:
        engine = DBOSEngine(folder, server, seconds, workers)
        try:
            yield engine
        finally:
            engine.close()

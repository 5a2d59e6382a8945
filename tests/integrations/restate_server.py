"""A Restate server of the npm registry (`make restate-server`) with workers beside it, for tests."""

from __future__ import annotations

import os
import random
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import msgspec

from integrations.engine_kills import SECONDS, WORKERS, Worker

INSTALLED = Path.home() / ".cache" / "segue-restate" / "node_modules" / "@restatedev"


def program() -> str | None:
    """Where the server is: named by SEGUE_RESTATE_SERVER, in PATH, or where `make restate-server` puts it."""
    installed = next(INSTALLED.glob("restate-server-*/bin/restate-server"), None)
    named = os.environ.get("SEGUE_RESTATE_SERVER") or shutil.which("restate-server")
    return named or (None if installed is None else str(installed))


def free_port() -> int:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return int(held.getsockname()[1])


class RestateEngine:
    """The server, and workers at one address that can be killed and started again."""

    database = ""

    def __init__(self, folder: Path, seconds: float, workers: int, *words: str) -> None:
        self._folder = folder
        self._ingress, self._admin, self._node, self._port = (free_port() for _ in range(4))
        self._server: subprocess.Popen[bytes] | None = None
        self._sent = 0
        given = (str(folder), str(self._port), str(seconds), *words)
        self.workers = [
            Worker(folder, number, "integrations.restate_worker", *given) for number in range(workers)
        ]

    def start(self) -> None:
        settings = {
            "RESTATE_BASE_DIR": str(self._folder / "restate"),
            "RESTATE_BIND_ADDRESS": f"127.0.0.1:{self._node}",
            "RESTATE_ADVERTISED_ADDRESS": f"http://127.0.0.1:{self._node}",
            "RESTATE_INGRESS__BIND_ADDRESS": f"127.0.0.1:{self._ingress}",
            "RESTATE_ADMIN__BIND_ADDRESS": f"127.0.0.1:{self._admin}",
            "RESTATE_DISABLE_TELEMETRY": "true",
            "RESTATE_DEFAULT_NUM_PARTITIONS": "2",
        }
        with (self._folder / "server.log").open("ab") as log:
            self._server = subprocess.Popen(  # noqa: S603 - named by whoever runs the tests
                [str(program()), "--node-name", "one"],
                stdout=log,
                stderr=log,
                cwd=self._folder,
                env={**os.environ, **settings},
            )

    def stop(self, number: int = signal.SIGTERM) -> None:
        server = self._server
        if server is None:
            return
        server.send_signal(number)
        try:
            server.wait(20)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait(20)

    def register(self) -> None:
        """Say where the workers are. One must run."""
        body = {"uri": f"http://127.0.0.1:{self._port}", "use_http_11": True}
        self.ask("/deployments", body, port=self._admin)

    def ask(
        self, path: str, body: Any = None, *, port: int = 0, headers: Mapping[str, str] | None = None
    ) -> Any:
        """Asks again while the server is away, and while it has not yet heard of what it is asked for."""
        data = None if body is None else msgspec.json.encode(body)
        named = {"content-type": "application/json"} if body is not None else {}
        request = Request(
            f"http://127.0.0.1:{port or self._ingress}{path}", data, {**named, **(headers or {})}
        )
        deadline = time.monotonic() + 60
        while True:
            try:
                with urlopen(request, timeout=30) as answer:  # noqa: S310 - loopback
                    received = answer.read()
                return msgspec.json.decode(received) if received else None
            except OSError as error:
                refused = isinstance(error, HTTPError) and 400 <= error.code < 500 and error.code != 404
                if refused or time.monotonic() > deadline:
                    raise
                time.sleep(0.3)

    def cancel(self, turn: str) -> None:
        url = f"http://127.0.0.1:{self._admin}/invocations/{turn}/cancel"
        with urlopen(Request(url, method="PATCH"), timeout=30):
            pass

    def eventually(self, find: Callable[[], Any], seconds: float = 60) -> Any:
        """The first thing that it finds."""
        deadline = time.monotonic() + seconds
        while not (found := find()):
            assert time.monotonic() < deadline, self._last_words()
            time.sleep(0.1)
        return found

    def send(self, session: str, text: str) -> str:
        self._sent += 1
        sent = self.ask(
            f"/Agent/{session}/send/send", text, headers={"idempotency-key": f"{session}-{self._sent}"}
        )
        return str(sent["invocationId"])

    def unfinished(self, turns: Collection[str]) -> set[str]:
        if not turns:
            return set()
        listed = ", ".join(f"'{turn}'" for turn in turns)
        query = f"SELECT id, status, completion_result FROM sys_invocation WHERE id IN ({listed})"  # noqa: S608
        answer = self.ask(
            "/query", {"query": query}, port=self._admin, headers={"accept": "application/json"}
        )
        ended = {row["id"]: row for row in answer["rows"] if row["status"] == "completed"}
        failed = [row for row in ended.values() if row["completion_result"] != "success"]
        assert not failed, failed
        return set(turns) - ended.keys()

    def described(self, turns: Collection[str]) -> str:
        listed = ", ".join(f"'{turn}'" for turn in turns)
        query = f"SELECT id, status, retry_count, last_failure FROM sys_invocation WHERE id IN ({listed})"  # noqa: S608
        answer = self.ask(
            "/query", {"query": query}, port=self._admin, headers={"accept": "application/json"}
        )
        return "\n".join(map(str, answer["rows"]))

    def fail(self, chance: random.Random) -> bool:
        self.stop(chance.choice((signal.SIGKILL, signal.SIGTERM)))
        time.sleep(chance.uniform(0.0, 3.0))
        self.start()
        return True

    def _last_words(self) -> str:
        return (self._folder / "server.log").read_text()[-3000:]


@contextmanager
def restate_engine(
    folder: Path, *words: str, seconds: float = SECONDS, workers: int = WORKERS
) -> Iterator[RestateEngine]:
    """`words`: more for the workers."""
    engine = RestateEngine(folder, seconds, workers, *words)
    engine.start()
    try:
        engine.workers[0].start()
        engine.workers[0].await_ready()
        engine.register()
        engine.workers[0].kill()
        yield engine
    finally:
        for worker in engine.workers:
            worker.close()
        engine.stop()

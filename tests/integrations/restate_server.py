"""A Restate server of the npm registry (`npm install @restatedev/restate-server`) with a worker beside it, for tests."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

import msgspec

TESTS = Path(__file__).parent.parent


def program() -> str | None:
    """Where the server is: named by SEGUE_RESTATE_SERVER, or in PATH."""
    return os.environ.get("SEGUE_RESTATE_SERVER") or shutil.which("restate-server")


def free_port() -> int:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return int(held.getsockname()[1])


class RestateWorld:
    """The server, and a worker that can be killed and started again."""

    def __init__(self, folder: Path, *words: str) -> None:
        self.folder = folder
        self.ingress, self.admin, self.node, self.worker_port = (free_port() for _ in range(4))
        self._words = words
        self._worker: subprocess.Popen[bytes] | None = None
        self._log = (folder / "worker.log").open("ab")

    def start_worker(self) -> None:
        self._worker = subprocess.Popen(  # noqa: S603 - our own module
            [
                sys.executable,
                "-m",
                "integrations.restate_worker",
                str(self.folder),
                str(self.worker_port),
                *self._words,
            ],
            stdout=self._log,
            stderr=self._log,
            env={**os.environ, "PYTHONPATH": str(TESTS)},
        )

    def kill_worker(self) -> None:
        if self._worker is not None:
            self._worker.send_signal(signal.SIGKILL)
            self._worker.wait(30)

    def close(self) -> None:
        self._log.close()

    def ask(self, path: str, body: Any = None, *, port: int | None = None, headers: Any = None) -> Any:
        data = None if body is None else msgspec.json.encode(body)
        request = Request(
            f"http://127.0.0.1:{port or self.ingress}{path}",
            data,
            {**({} if body is None else {"content-type": "application/json"}), **(headers or {})},
        )
        with urlopen(request, timeout=120) as answer:  # noqa: S310 - loopback
            received = answer.read()
        return msgspec.json.decode(received) if received else None

    def until(self, what: Any, seconds: float = 60) -> Any:
        deadline = time.monotonic() + seconds
        while True:
            try:
                if found := what():
                    return found
            except (HTTPError, URLError, OSError):
                pass
            assert time.monotonic() < deadline, (self.folder / "server.log").read_text()[-3000:]
            time.sleep(0.1)

    def register(self) -> None:
        body = {"uri": f"http://127.0.0.1:{self.worker_port}", "use_http_11": True}
        self.until(lambda: self.ask("/deployments", body, port=self.admin))


@contextmanager
def restate_world(folder: Path, *words: str) -> Iterator[RestateWorld]:
    world = RestateWorld(folder, *words)
    settings = {
        "RESTATE_BASE_DIR": str(folder / "restate"),
        "RESTATE_BIND_ADDRESS": f"127.0.0.1:{world.node}",
        "RESTATE_ADVERTISED_ADDRESS": f"http://127.0.0.1:{world.node}",
        "RESTATE_INGRESS__BIND_ADDRESS": f"127.0.0.1:{world.ingress}",
        "RESTATE_ADMIN__BIND_ADDRESS": f"127.0.0.1:{world.admin}",
        "RESTATE_DISABLE_TELEMETRY": "true",
        "RESTATE_DEFAULT_NUM_PARTITIONS": "2",
    }
    with (folder / "server.log").open("ab") as log:
        server = subprocess.Popen(  # noqa: S603 - named by whoever runs the tests
            [str(program()), "--node-name", "one"],
            stdout=log,
            stderr=log,
            cwd=folder,
            env={**os.environ, **settings},
        )
    try:
        world.start_worker()
        world.register()
        yield world
    finally:
        world.kill_worker()
        world.close()
        server.terminate()
        try:
            server.wait(20)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait(20)

"""`segue serve` as a process of its own, to be attacked over real sockets; and how much memory that takes."""

from __future__ import annotations

import http.client
import json
import resource
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from cli.cli_runs import Home
from gateway.limited_callers import caller_settings, key_of
from segue.emulators.server import Served, serve

MIB: Final = 1 << 20
CALLER: Final = "ann"
OTHER: Final = "bob"
MODEL: Final = "openai/gpt-4.1"


class AttackedGateway:
    """One process. `settings`: of `[gateway]` and below it."""

    def __init__(
        self,
        home: Home,
        url: str,
        settings: str = "",
        *,
        callers: Mapping[str, str] | None = None,
        provider: str = "",
        files: int | None = None,
        log: str = "off",
    ) -> None:
        """`provider`: settings of the provider. `files`: how many the process may open. `log`: the form of the access log."""
        given = {CALLER: "", OTHER: ""} if callers is None else callers
        home.configure(
            f'[gateway]\nport = 0\nlog = "{log}"\nmodel = "{MODEL}"\n'
            + settings
            + f'\n[providers.openai]\nbase_url = "{url}"\napi_key = "sk-emulated"\n{provider}\n'
            + "".join(caller_settings(name, limits) for name, limits in given.items())
        )

        def limit() -> None:
            if files is not None:
                resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))

        self.home = home
        self.process = subprocess.Popen(
            [sys.executable, "-m", "segue", "serve"],
            stderr=subprocess.PIPE,
            env=home.full(),
            cwd=home.project,
            preexec_fn=limit,  # noqa: PLW1509 - nothing runs beside this test yet
        )
        assert self.process.stderr is not None
        first = self.process.stderr.readline().decode()
        assert first.startswith("Serving at"), first + self.process.stderr.read().decode()
        self.port = int(first.split()[2].rstrip(".").rpartition(":")[2])
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read_log, args=(self.process.stderr,), daemon=True)
        self._reader.start()

    def _read_log(self, stream: Any) -> None:
        for line in stream:
            self.lines.append(line.decode())

    def take_lines(self) -> list[str]:
        """What it has written since the last time."""
        taken = self.lines[:]
        del self.lines[: len(taken)]
        return taken

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(15)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._reader.join(5)
        if self.process.stderr is not None:
            self.process.stderr.close()

    # What it takes

    @property
    def memory(self) -> int:
        """Bytes of the process now."""
        return self._status("VmRSS")

    @property
    def peak(self) -> int:
        """The most that it took since `forget_peak`."""
        return self._status("VmHWM")

    def forget_peak(self) -> int:
        """What it takes now, from where the peak counts anew."""
        Path(f"/proc/{self.process.pid}/clear_refs").write_text("5")
        return self.memory

    def _status(self, name: str) -> int:
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith(name + ":"):
                return int(line.split()[1]) << 10
        raise AssertionError(name)

    @property
    def open_files(self) -> int:
        return len(list(Path(f"/proc/{self.process.pid}/fd").iterdir()))

    # How it is asked

    def connect(self, timeout: float = 5.0) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=timeout)

    def ask(
        self,
        body: object,
        path: str = "/v1/chat/completions",
        *,
        caller: str = CALLER,
        timeout: float = 30.0,
        **headers: str,
    ) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            sent = body if isinstance(body, bytes) else json.dumps(body).encode()
            given = {
                "content-type": "application/json",
                "authorization": f"Bearer {key_of(caller)}",
                **headers,
            }
            connection.request("POST", path, sent, given)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()


@contextmanager
def attacked(place: Path, settings: str = "", **options: Any) -> Iterator[tuple[AttackedGateway, Served]]:
    with serve() as api:
        gateway = AttackedGateway(Home(place / "home"), f"{api.url('openai')}/v1", settings, **options)
        try:
            yield gateway, api
        finally:
            gateway.stop()


def read_answer(connection: socket.socket) -> bytes:
    """All that comes until the gateway closes the connection, or resets it."""
    received = b""
    try:
        while portion := connection.recv(65536):
            received += portion
    except ConnectionError:
        pass
    return received

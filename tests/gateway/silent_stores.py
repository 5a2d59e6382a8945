"""A gateway with callers in a process of its own, on a store that falls silent: PostgreSQL, or SQLite files."""

from __future__ import annotations

import base64
import http.client
import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from cli.cli_runs import Home
from gateway.limited_callers import caller_settings, key_of
from segue.emulators.emulator import Emulator
from segue.emulators.model.model_reply import Call, Piece, Prompt, Reply, Say, Think
from segue.emulators.server import serve

MODEL: Final = "anthropic/claude-sonnet-4-6"
"""Signs its thoughts, which a client of the Chat wire cannot hold."""
FREE: Final = "free"
"""A caller without limits."""
SPENDER: Final = "spender"
"""One with a budget."""
BUDGET: Final = 5.0
WAIT: Final = 1.0
"""The gateway's limit for a store."""
LATEST: Final = WAIT + 2.0
"""By which a request has its answer, on a busy machine."""
HANG_SECONDS: Final = 60.0
TOOL: Final = {"name": "look", "description": "Look.", "parameters": {"type": "object", "properties": {}}}


class Looker:
    """Looks once in each turn."""

    delay = 0.0

    def reply(self, prompt: Prompt) -> Reply:
        thought: list[Piece] = [Think("Let me look at it first.")] if prompt.thinking else []
        if prompt.results or not prompt.tools:
            return Reply(pieces=(*thought, Say("I know it now.")), delay=self.delay)
        return Reply(pieces=(*thought, Say("I will look."), Call("look", {})))

    def reset(self) -> None:
        """Nothing is remembered."""


class Answer(Struct):
    status: int
    seconds: float
    body: bytes
    headers: Mapping[str, str]

    def json(self) -> Any:
        return json.loads(self.body)


class StoredGateway:
    """`segue serve` on one port."""

    def __init__(self, home: Home, emulator: Emulator, api: str, settings: str, **environment: str) -> None:
        self.home = home
        self.model = Looker()
        emulator.responder = self.model
        self.emulator = emulator
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = int(free.getsockname()[1])
        home.configure(
            f'[gateway]\nport = {self.port}\nlog = "off"\n[gateway.limits]\nstore_timeout = {WAIT}\nlag = 20\n'
            f'[providers.anthropic]\nbase_url = "{api}"\napi_key = "sk-emulated"\n'
            + caller_settings(FREE, "")
            + caller_settings(SPENDER, f"dollars_per_day = {BUDGET}")
            + settings
        )
        key = base64.b64encode(b"s" * 32).decode()
        self._environment = home.full(SEGUE_INSTALLATION_KEY=key, **environment)
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "segue", "serve"],
            stderr=subprocess.PIPE,
            env=self._environment,
            cwd=self.home.project,
        )
        assert self.process.stderr is not None
        assert self.process.stderr.readline().startswith(b"Serving"), self.process.stderr.read()

    def stop(self, number: int = signal.SIGKILL) -> None:
        if self.process is not None:
            self.process.send_signal(number)
            self.process.wait(60)
            assert self.process.stderr is not None
            self.process.stderr.close()
            self.process = None

    def get(self, path: str, caller: str = "") -> Answer:
        return self._send("GET", path, None, caller)

    def post(self, path: str, body: Any, caller: str = FREE) -> Answer:
        return self._send("POST", path, json.dumps(body).encode(), caller)

    def chat(self, messages: list[dict[str, Any]] | None = None, caller: str = FREE, **fields: Any) -> Answer:
        body = {"model": MODEL, "messages": messages or HISTORY, **fields}
        return self.post("/v1/chat/completions", body, caller)

    def respond(self, caller: str = FREE, **fields: Any) -> Answer:
        return self.post("/v1/responses", {"model": MODEL, "input": "Hello.", **fields}, caller)

    def asked(self) -> int:
        """How many requests the provider got."""
        return sum(entry.body is not None for entry in self.emulator.log)

    def _send(self, method: str, path: str, body: bytes | None, caller: str) -> Answer:
        began = time.monotonic()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=HANG_SECONDS)
        headers = {"content-type": "application/json"}
        if caller:
            headers["authorization"] = f"Bearer {key_of(caller)}"
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            data = answer.read()
        finally:
            connection.close()
        shown = {name.lower(): value for name, value in answer.getheaders()}
        return Answer(answer.status, time.monotonic() - began, data, shown)


HISTORY: Final[list[dict[str, Any]]] = [
    {"role": "user", "content": "Hello."},
    {"role": "assistant", "content": "Hello to you."},
    {"role": "user", "content": "How are you?"},
]
"""With a reply to be recalled, so that the memory is read."""


@contextmanager
def open_gateway(place: Path, settings: str = "", **environment: str) -> Iterator[StoredGateway]:
    emulator = Emulator(strict=True, log_size=10_000)
    with serve(emulator=emulator) as api:
        gateway = StoredGateway(Home(place), emulator, api.url("anthropic"), settings, **environment)
        gateway.start()
        try:
            yield gateway
        finally:
            gateway.stop()


def until(condition: Callable[[], object], seconds: float = 20.0) -> float:
    """How long it took."""
    began = time.monotonic()
    while not condition():
        assert time.monotonic() - began < seconds, "it did not happen"
        time.sleep(0.05)
    return time.monotonic() - began

"""The same conversation gives the same requests on every engine and in a plain chat, to the byte."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from integrations.restate_server import program, restate_engine
from integrations.same_conversation import MESSAGES, MODELS
from segue.emulators import App
from segue.emulators.emulator import Emulator
from segue.emulators.server import serve

_TESTS: Final = Path(__file__).parent.parent


class _Recorded(App):
    """Emulated providers that keep the bytes of each request."""

    def __init__(self) -> None:
        super().__init__(Emulator(strict=True))
        self.requests: list[tuple[str, bytes]] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        body = bytearray()

        async def heard() -> Any:
            message = await receive()
            body.extend(message.get("body", b""))
            if message["type"] == "http.request" and not message.get("more_body"):
                self.requests.append((scope["path"], bytes(body)))
            return message

        await super().__call__(scope, heard, send)


@contextmanager
def _recorded() -> Iterator[tuple[_Recorded, str]]:
    app = _Recorded()
    with serve(app=app) as served:
        yield app, served.base_url


def _in_a_process(how: str, folder: Path) -> list[tuple[str, bytes]]:
    folder.mkdir()
    with _recorded() as (app, url):
        words = [sys.executable, "-m", "integrations.same_conversation", how, str(folder), url]
        environment = {**os.environ, "PYTHONPATH": str(_TESTS)}
        done = subprocess.run(words, capture_output=True, check=False, text=True, env=environment)  # noqa: S603
    assert done.returncode == 0, done.stderr[-3000:]
    return app.requests


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, bytes]]:
    requests = _in_a_process("plain", tmp_path_factory.mktemp("plain") / "chat")
    assert len(requests) > len(MESSAGES) * len(MODELS), "no tool was called"
    return requests


@pytest.mark.timeout(240)
@pytest.mark.parametrize("engine", ["plain", "steps", "dbos"])
def test_an_engine_sends_what_a_chat_sends(
    tmp_path: Path, plain: list[tuple[str, bytes]], engine: str
) -> None:
    if engine == "dbos":
        pytest.importorskip("dbos")
    assert _in_a_process(engine, tmp_path / engine) == plain


@pytest.mark.timeout(240)
@pytest.mark.skipif(program() is None, reason="needs a Restate server: `make restate-server`")
def test_restate_sends_what_a_chat_sends(tmp_path: Path, plain: list[tuple[str, bytes]]) -> None:
    pytest.importorskip("restate")
    with _recorded() as (app, url), restate_engine(tmp_path, url, seconds=0, workers=1) as engine:
        engine.workers[0].start()
        engine.workers[0].await_ready()
        for session in MODELS:
            for message in MESSAGES:
                assert engine.ask(f"/Agent/{session}/send", message)["finish"] == "complete"
    assert app.requests == plain

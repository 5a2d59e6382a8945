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
from integrations.same_conversation import HALFWAY, TALES, UNLUCKY, is_allowed
from segue.emulators import App
from segue.emulators.emulator import Emulator
from segue.emulators.faults import Fault
from segue.emulators.server import serve

_TESTS: Final = Path(__file__).parent.parent


class _Recorded(App):
    """Emulated providers that keep the bytes of each request. One fails twice: at the beginning of a turn, and in its middle."""

    def __init__(self) -> None:
        super().__init__(Emulator(strict=True))
        self.requests: list[tuple[str, bytes]] = []
        self._failing = [(UNLUCKY.encode(), b""), (HALFWAY.encode(), b'"tool_result"')]

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        body = bytearray()

        async def heard() -> Any:
            message = await receive()
            body.extend(message.get("body", b""))
            if message["type"] == "http.request" and not message.get("more_body"):
                self._keep(scope["path"], bytes(body))
            return message

        await super().__call__(scope, heard, send)

    def _keep(self, path: str, body: bytes) -> None:
        self.requests.append((path, body))
        for message, behind in self._failing:
            if path.startswith("/anthropic") and behind in body.partition(message)[2] and message in body:
                self._failing.remove((message, behind))
                self.emulator.faults.append(Fault(status=529, retry_after=None))
                break


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
    bodies = [body for _, body in requests]
    turns = sum(map(len, TALES.values()))
    assert len(requests) > turns + 4, "no tool was called"
    assert any(b"Denied: " in body for body in bodies), "nothing was refused"
    for message in (UNLUCKY, HALFWAY):
        assert {path.split("/")[1] for path, body in requests if message.encode() in body} == {
            "anthropic",
            "openai",
        }
    assert any(b"left out here to save space" in body for body in bodies), "nothing was compacted"
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
        for session, messages in TALES.items():
            answered = list[str]()
            for message in messages:
                turn = engine.send(session, message)
                while engine.unfinished([turn]):
                    for call in engine.ask(f"/Agent/{session}/approvals") if session == "approvals" else ():
                        if call["id"] not in answered:
                            answer = {"call_id": call["id"], "by": "ann", "allow": is_allowed(len(answered))}
                            engine.ask(f"/Agent/{session}/approve", answer)
                            answered.append(call["id"])
    assert app.requests == plain

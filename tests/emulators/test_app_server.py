from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import msgspec
import pytest

from segue.emulators.emulator import Emulator
from segue.emulators.model.model_reply import Reply, Say
from segue.emulators.model.responder import ScriptedResponder
from segue.emulators.script import ScriptError
from segue.emulators.server import Served, run, serve

HI: dict[str, Any] = {"model": "gpt-4.1", "messages": [{"role": "user", "content": "hi"}]}
FOREGROUND = """
from pathlib import Path
from segue.emulators.server import run
run(port=0, provider="openai", script_file=Path({script!r}), announce=lambda url: print(url, flush=True))
"""


def post(url: str, body: dict[str, Any]) -> tuple[int, bytes]:
    request = urllib.request.Request(  # noqa: S310 - our own server
        url, msgspec.json.encode(body), {"authorization": "Bearer sk-x", "content-type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=5) as answer:  # noqa: S310
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


def test_the_emulators_listen_on_a_port(segue_emulator_server: Served) -> None:
    url = segue_emulator_server.url("openai") + "/v1/chat/completions"
    status, body = post(url, HI)
    assert (status, msgspec.json.decode(body)["choices"][0]["message"]["content"]) == (200, "You said: hi")
    status, body = post(url, {**HI, "stream": True})
    assert (status, body.endswith(b"data: [DONE]\n\n")) == (200, True)
    assert post(url, {})[0] == 400
    assert len(segue_emulator_server.emulator.log) == 3


def test_a_server_ends_although_a_stream_is_still_running() -> None:
    reply = Reply(pieces=(Say("x" * 1000),), chunk_size=1, delay=0.2)
    started = time.monotonic()
    with serve(emulator=Emulator(responder=ScriptedResponder([reply]))) as served:
        request = urllib.request.Request(  # noqa: S310
            served.url("openai") + "/v1/chat/completions",
            msgspec.json.encode({**HI, "stream": True}),
            {"authorization": "Bearer sk-x"},
        )
        answer = urllib.request.urlopen(request, timeout=5)  # noqa: S310
        answer.read(10)
    answer.close()
    assert time.monotonic() - started < 8


def test_a_client_that_hangs_up_on_the_wire_ends_the_stream() -> None:
    reply = Reply(pieces=(Say("x" * 1000),), chunk_size=1, delay=0.02)
    responder = ScriptedResponder([reply])
    with serve(emulator=Emulator(responder=responder)) as served:
        host, _, port = served.base_url.removeprefix("http://").partition(":")
        body = msgspec.json.encode({"model": "gpt-4.1", "input": "hi", "stream": True})
        with socket.create_connection((host, int(port)), timeout=5) as client:
            head = (
                "POST /openai/v1/responses HTTP/1.1\r\nhost: x\r\nauthorization: Bearer k\r\ncontent-length: "
            )
            client.sendall(f"{head}{len(body)}\r\n\r\n".encode() + body)
            assert client.recv(100).startswith(b"HTTP/1.1 200")
        time.sleep(0.3)
    # The last event is what stores a response: it was never reached.
    assert served.emulator.memory("openai")["responses"] == {}


def test_the_foreground_server_follows_its_script_and_ends_when_interrupted(tmp_path: Path) -> None:
    script = tmp_path / "script.toml"
    script.write_text('[[replies]]\npieces = [{type = "say", text = "scripted"}]\n')
    command = [sys.executable, "-c", FOREGROUND.format(script=str(script))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603 - our own words
        assert process.stdout is not None
        try:
            url = process.stdout.readline().strip()
            status, body = post(url + "/v1/chat/completions", HI)
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(10)
    assert (status, msgspec.json.decode(body)["choices"][0]["message"]["content"]) == (200, "scripted")


@pytest.mark.parametrize(
    ("name", "text"), [("a.json", "{"), ("a.toml", "x ="), ("a.toml", "y = 1"), ("b.json", None)]
)
def test_a_script_that_cannot_be_read_is_said_before_the_port_opens(
    tmp_path: Path, name: str, text: str | None
) -> None:
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(ScriptError):
        run(port=0, script_file=tmp_path / name)

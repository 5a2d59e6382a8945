"""A gateway that is killed again and again while an agent works through it."""

from __future__ import annotations

import http.client
import json
import random
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from msgspec import Struct

from cli.cli_runs import Home
from segue.emulators.emulator import Emulator
from segue.emulators.model.model_reply import Call, Piece, Prompt, Reply, Say, Think
from segue.emulators.server import Served, serve

MODEL = "anthropic/claude-sonnet-4-6"
"""Signs its thoughts, which a client of the Chat wire cannot hold."""
TOOL = {"name": "look", "description": "Look.", "parameters": {"type": "object", "properties": {}}}
REPLY_SECONDS = 180.0
"""However busy the machine is: a reply that takes longer never comes."""


class Killed(Struct):
    """What happened."""

    kills: int = 0
    during_replies: int = 0
    """Kills after which the client had only a part of a reply, or none."""
    turns: int = 0
    signatures: int = 0
    """In the last request: of replies that the client had seen to their end."""


class SlowModel:
    """Looks once in each turn, slowly enough to be killed in between."""

    def __init__(self, delay: float = 0.01) -> None:
        self._delay = delay

    def reply(self, prompt: Prompt) -> Reply:
        thought: list[Piece] = [Think("Let me look at it first.")] if prompt.thinking else []
        if prompt.results:
            return Reply(pieces=(*thought, Say(f"I saw {prompt.results[-1]}.")), delay=self._delay)
        return Reply(pieces=(*thought, Say("I will look."), Call("look", {})), delay=self._delay)

    def reset(self) -> None:
        """Nothing is remembered."""


class MortalGateway:
    """`segue serve` on one port, however often it is killed."""

    def __init__(self, home: Home, api: Served, *, workers: int = 1) -> None:
        self._home = home
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = int(free.getsockname()[1])
        home.configure(
            f'[gateway]\nport = {self.port}\nworkers = {workers}\nlog = "off"\n'
            f'[providers.anthropic]\nbase_url = "{api.url("anthropic")}"\napi_key = "sk-emulated"\n'
        )
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "segue", "serve"],
            stderr=subprocess.PIPE,
            env=self._home.full(),
            cwd=self._home.project,
        )
        assert self._process.stderr is not None
        assert self._process.stderr.readline().startswith(b"Serving"), self._process.stderr.read()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(30)
            self.kill()

    def kill(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait(10)
            assert self._process.stderr is not None
            self._process.stderr.close()
            self._process = None


def ask(port: int, messages: list[dict[str, Any]]) -> dict[str, Any] | None:
    """The reply of a streaming client of the Chat wire; None if it did not come to its end."""
    body = {
        "model": MODEL,
        "messages": messages,
        "stream": True,
        "reasoning_effort": "high",
        "tools": [{"type": "function", "function": TOOL}],
    }
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=REPLY_SECONDS)
    try:
        connection.request(
            "POST", "/v1/chat/completions", json.dumps(body), {"content-type": "application/json"}
        )
        answer = connection.getresponse()
        data = answer.read()
        assert answer.status == 200, data
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()
    return folded_reply(data) if data.rstrip().endswith(b"data: [DONE]") else None


def folded_reply(data: bytes) -> dict[str, Any]:
    text = ""
    calls: dict[int, dict[str, Any]] = {}
    for line in data.split(b"\n"):
        if not line.startswith(b"data: {"):
            continue
        chunk = json.loads(line[6:])
        assert "error" not in chunk, chunk
        for choice in chunk["choices"]:
            delta = choice["delta"]
            text += delta.get("content") or ""
            for call in delta.get("tool_calls") or ():
                held = calls.setdefault(
                    call["index"], {"type": "function", "function": {"name": "", "arguments": ""}}
                )
                held["id"] = call.get("id") or held.get("id")
                held["function"]["name"] += call["function"].get("name") or ""
                held["function"]["arguments"] += call["function"].get("arguments") or ""
    return {
        "role": "assistant",
        "content": text or None,
        **({"tool_calls": list(calls.values())} if calls else {}),
    }


def kill_again_and_again(place: Path, kills: int, seed: int) -> Killed:
    """Each request is killed at a random moment, then sent again; the agent ends every turn. Nothing may be refused, and
    every reply that the client has seen to its end keeps its signature."""
    chance = random.Random(seed)
    found = Killed()
    emulator = Emulator(strict=True, responder=SlowModel(), log_size=10_000)
    with serve(emulator=emulator) as api:
        gateway = MortalGateway(Home(place), api)
        gateway.start()
        messages: list[dict[str, Any]] = []
        try:
            while found.kills < kills:
                found.turns += 1
                messages.append({"role": "user", "content": f"Look at number {found.turns}."})
                while messages[-1]["role"] != "assistant" or messages[-1].get("tool_calls"):
                    if messages[-1].get("tool_calls"):
                        messages += [
                            {"role": "tool", "tool_call_id": call["id"], "content": f"number {found.turns}"}
                            for call in messages[-1]["tool_calls"]
                        ]
                    messages.append(_survived(gateway, messages, chance, found, kills))
        finally:
            gateway.kill()
        refused = [entry for entry in emulator.log if entry.verdict == "refused"]
        assert not refused, refused[0].message
        whole = [entry for entry in emulator.log if entry.body]
        found.signatures = signatures_in(whole[-1].body)
        # The last reply is in no request yet; every other one was seen to its end.
        assert found.signatures == sum(message["role"] == "assistant" for message in messages) - 1
    return found


def _survived(
    gateway: MortalGateway, messages: list[dict[str, Any]], chance: random.Random, found: Killed, kills: int
) -> dict[str, Any]:
    """The reply to a request, during which the gateway was killed once."""
    if found.kills < kills and chance.random() < 0.7:
        timer = threading.Timer(chance.uniform(0.0, 0.5), gateway.kill)
        timer.start()
        reply = ask(gateway.port, messages)
        timer.join()
        found.kills += 1
        gateway.start()
        if reply is not None:
            return reply
        found.during_replies += 1
    reply = ask(gateway.port, messages)
    assert reply is not None, "the request after a kill must succeed"
    return reply


def signatures_in(body: Any) -> int:
    return sum(
        block.get("type") == "thinking" and bool(block.get("signature"))
        for message in body["messages"]
        for block in (message["content"] if isinstance(message["content"], list) else ())
    )

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from segue.emulators.app import App
from segue.emulators.emulator import Emulator
from segue.emulators.http import find_route
from segue.emulators.in_process import ask, ask_now
from segue.emulators.model.model_reply import Reply, Say
from segue.emulators.model.responder import ScriptedResponder

CHAT = "/openai/v1/chat/completions"
HI: dict[str, Any] = {"model": "gpt-4.1", "messages": [{"role": "user", "content": "hi"}]}


def test_every_request_is_in_the_log_with_its_verdict(segue_emulator: App) -> None:
    ask_now(segue_emulator, "POST", CHAT, json=HI)
    ask_now(segue_emulator, "POST", CHAT, json={**HI, "messages": []})
    entries = ask_now(segue_emulator, "GET", "/_emulator/log").json()["entries"]
    assert [(entry["verdict"], entry["rule"], entry["status"]) for entry in entries] == [
        ("accepted", None, 200),
        ("refused", "CHAT-02", 400),
    ]
    assert entries[0]["body"] == HI


def test_a_script_can_be_posted_and_forgotten(segue_emulator: App) -> None:
    script = {
        "replies": [{"pieces": [{"type": "say", "text": "first"}]}],
        "rules": [{"pattern": "^hi$", "reply": {"pieces": [{"type": "say", "text": "by rule"}]}}],
        "faults": [{"kind": "status", "status": 500}],
    }
    assert ask_now(segue_emulator, "POST", "/_emulator/script", json=script).status == 200

    def said() -> Any:
        return ask_now(segue_emulator, "POST", CHAT, json=HI).json()["choices"][0]["message"]["content"]

    assert ask_now(segue_emulator, "POST", CHAT, json=HI).status == 500
    assert [said(), said()] == ["first", "by rule"]
    assert ask_now(segue_emulator, "POST", "/_emulator/reset").status == 200
    assert said() == "You said: hi"
    assert len(segue_emulator.emulator.log) == 1


@pytest.mark.parametrize(
    "script",
    [{"replies": [{"pieces": 3}]}, {"answers": []}, {"rules": [{"pattern": "(", "reply": {}}]}, "x"],
)
def test_a_script_with_a_mistake_is_refused(segue_emulator: App, script: object) -> None:
    answer = ask_now(segue_emulator, "POST", "/_emulator/script", json=script)
    assert answer.status == 400
    assert "error" in answer.json()


@pytest.mark.parametrize(
    ("method", "url", "status"),
    [
        ("POST", "/openai/v1/nothing", 404),
        ("GET", CHAT, 405),
        ("GET", "/nobody/v1/models", 404),
        ("GET", "/", 404),
        ("GET", "/_emulator/nothing", 404),
    ],
)
def test_what_is_not_there_is_not_found(segue_emulator: App, method: str, url: str, status: int) -> None:
    answer = ask_now(segue_emulator, method, url)
    assert answer.status == status
    assert "error" in answer.json()


def test_one_provider_may_also_live_at_the_root() -> None:
    app = App(root="openai")
    assert ask_now(app, "POST", "/v1/chat/completions", json=HI).status == 200
    assert ask_now(app, "POST", CHAT, json=HI).status == 200
    assert ask_now(App(), "POST", "/v1/chat/completions", json=HI).status == 404


def test_patterns_catch_names_and_paths() -> None:
    def handler(*_: Any) -> Any:
        raise AssertionError

    routes = [("POST", "/v1/models/{model}:go", handler), ("GET", "/m/{name:path}", handler)]
    found = find_route(routes, "POST", "/v1/models/a.b:go")
    assert not isinstance(found, int)
    assert found[1] == {"model": "a.b"}
    found = find_route(routes, "GET", "/m/library/x:7b")
    assert not isinstance(found, int)
    assert found[1] == {"name": "library/x:7b"}
    assert find_route(routes, "GET", "/v1/models/a:go") == 405
    assert find_route(routes, "GET", "/v1/models/a/b:go") == 404


def test_a_client_that_hangs_up_ends_the_stream_at_once() -> None:
    reply = Reply(pieces=(Say("x" * 1000),), chunk_size=1, delay=0.05)
    app = App(Emulator(responder=ScriptedResponder([reply])))
    started = time.monotonic()
    answer = asyncio.run(ask(app, "POST", CHAT, json={**HI, "stream": True}, hang_up_after=2))
    assert time.monotonic() - started < 2
    assert (len(answer.portions), answer.complete) == (2, False)


def test_an_account_sees_only_its_own_cache_and_ids_never_repeat() -> None:
    emulator = Emulator()
    ids = {emulator.new_id("x_") for _ in range(100)}
    assert len(ids) == 100
    assert Emulator().new_id() == Emulator().new_id()

"""Cached contents: made once, built upon by requests of the same model, never read back."""

from __future__ import annotations

from typing import Any

import pytest

from segue.emulators.app import App
from segue.emulators.emulator import Emulator
from segue.emulators.in_process import EmulatorResponse, ask_now
from segue.emulators.model_reply import Prompt, Reply, Say

MODEL = "gemini-3.5-flash"
CACHED = {
    "model": f"models/{MODEL}",
    "contents": [{"role": "user", "parts": [{"text": "A long document."}]}],
    "systemInstruction": {"parts": [{"text": "Be brief."}]},
    "tools": [{"functionDeclarations": [{"name": "weather"}]}],
}
ASKED = {"contents": [{"role": "user", "parts": [{"text": "What is it?"}]}]}


class Tools:
    """A model that says how many tools it has."""

    def reply(self, prompt: Prompt) -> Reply:
        return Reply(pieces=(Say(f"{len(prompt.tools)} tools"),))

    def reset(self) -> None:
        """Nothing is remembered."""


def app() -> App:
    return App(Emulator(responder=Tools()))


def ask(app: App, path: str, body: Any = None, method: str = "POST") -> EmulatorResponse:
    headers = {"x-goog-api-key": "k", "content-type": "application/json"}
    return ask_now(app, method, f"/gemini/v1beta/{path}", json=body, headers=headers)


@pytest.mark.rule("CCH-01", "CCH-02")
def test_a_request_builds_on_cached_content() -> None:
    server = app()
    made = ask(server, "cachedContents", CACHED).json()
    assert made["name"].startswith("cachedContents/")
    body = {**ASKED, "cachedContent": made["name"]}
    answer = ask(server, f"models/{MODEL}:generateContent", body)
    assert answer.json()["candidates"][0]["content"]["parts"][-1]["text"] == "1 tools"
    shown = ask(server, made["name"], method="GET").json()
    assert "contents" not in shown
    assert ask(server, made["name"], method="DELETE").json() == {}


@pytest.mark.rule("CCH-02")
@pytest.mark.parametrize(
    ("fields", "model", "status"),
    [
        ({"tools": CACHED["tools"]}, MODEL, 400),
        ({}, "gemini-3.6-flash", 400),
        ({"cachedContent": "cachedContents/other"}, MODEL, 403),
    ],
)
def test_what_does_not_fit_the_cached_content_is_refused(
    fields: dict[str, Any], model: str, status: int
) -> None:
    server = app()
    made = ask(server, "cachedContents", CACHED).json()
    answer = ask(
        server, f"models/{model}:generateContent", {**ASKED, "cachedContent": made["name"], **fields}
    )
    assert answer.status == status, answer.body


@pytest.mark.rule("CCH-01")
def test_cached_content_names_its_model() -> None:
    assert ask(app(), "cachedContents", ASKED).status == 400

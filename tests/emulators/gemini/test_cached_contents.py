"""Cached contents: made once, built upon by requests of the same model, never read back."""

from __future__ import annotations

from typing import Any

import pytest

from segue.emulators.app import App
from segue.emulators.emulator import Emulator
from segue.emulators.in_process import EmulatorResponse, ask_now
from segue.emulators.model.model_reply import Prompt, Reply, Say

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


@pytest.mark.rule("CCH-01")
def test_cached_contents_are_listed_and_live_as_long_as_they_are_told_to() -> None:
    now = [1_000_000]
    server = App(Emulator(responder=Tools(), clock=lambda: now[0]))
    first = ask(server, "cachedContents", {**CACHED, "ttl": "60s", "displayName": "papers"}).json()
    second = ask(server, "cachedContents", {**CACHED, "expireTime": "1970-01-12T14:00:00Z"}).json()
    assert first["displayName"] == "papers"
    listed = ask(server, "cachedContents?pageSize=1", method="GET").json()
    assert [one["name"] for one in listed["cachedContents"]] == [first["name"]]
    rest = ask(server, f"cachedContents?pageToken={listed['nextPageToken']}", method="GET").json()
    assert [one["name"] for one in rest["cachedContents"]] == [second["name"]]
    longer = ask(server, first["name"], {"ttl": "7200s"}, method="PATCH").json()
    assert longer["expireTime"] > first["expireTime"]
    now[0] += 61
    assert ask(server, first["name"], method="GET").status == 200
    now[0] += 7200
    assert ask(server, first["name"], method="GET").status == 403
    body = {**ASKED, "cachedContent": first["name"]}
    assert ask(server, f"models/{MODEL}:generateContent", body).status == 403


@pytest.mark.rule("CCH-01")
@pytest.mark.parametrize(
    "fields",
    [
        {"ttl": "soon"},
        {"ttl": "0s"},
        {"ttl": "60s", "expireTime": "2030-01-01T00:00:00Z"},
        {"expireTime": "yesterday"},
        {"contents": [{"role": "user", "words": []}]},
        {"colour": "red"},
    ],
)
def test_what_is_wrong_with_cached_content_is_refused(fields: dict[str, Any]) -> None:
    assert ask(app(), "cachedContents", {**CACHED, **fields}).status == 400


@pytest.mark.rule("CCH-02")
def test_what_is_cached_counts_and_belongs_to_one_account() -> None:
    server = app()
    made = ask(server, "cachedContents", CACHED).json()
    body = {**ASKED, "cachedContent": made["name"]}
    usage = ask(server, f"models/{MODEL}:generateContent", body).json()["usageMetadata"]
    assert usage["cachedContentTokenCount"] == made["usageMetadata"]["totalTokenCount"]
    assert usage["promptTokenCount"] > usage["cachedContentTokenCount"]
    asked = {"generateContentRequest": {**body, "model": f"models/{MODEL}"}}
    counted = ask(server, f"models/{MODEL}:countTokens", asked).json()["totalTokens"]
    assert counted == usage["promptTokenCount"]
    other = ask_now(server, "GET", f"/gemini/v1beta/{made['name']}", headers={"x-goog-api-key": "another"})
    assert other.status == 403

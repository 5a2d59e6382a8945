"""Conversations that the server holds: made, added to by every turn, read, deleted."""

from __future__ import annotations

from typing import Any

import pytest

from segue.emulators.app import App
from segue.emulators.emulator import Emulator
from segue.emulators.in_process import EmulatorResponse, ask_now
from segue.emulators.model.model_reply import Call, Reply, Say
from segue.emulators.model.responder import ScriptedResponder

TOOL = {"type": "function", "name": "weather", "parameters": {"type": "object"}, "strict": False}
CALLING = Reply(pieces=(Call("weather", {}),))


def app(*replies: Reply) -> App:
    return App(Emulator(responder=ScriptedResponder(list(replies))))


def ask(app: App, method: str, path: str, body: Any = None) -> EmulatorResponse:
    headers = {"authorization": "Bearer sk", "content-type": "application/json"}
    return ask_now(app, method, f"/openai/v1{path}", json=body, headers=headers)


@pytest.mark.rule("CNV-01", "CNV-02")
@pytest.mark.parametrize("form", ["name", "object"])
def test_a_turn_reads_the_conversation_and_adds_to_it(form: str) -> None:
    server = app(CALLING, Reply(pieces=(Say("Rain."),)))
    items = [{"type": "message", "role": "user", "content": "Hello."}]
    made = ask(server, "POST", "/conversations", {"items": items}).json()
    assert made["object"] == "conversation"
    name = made["id"] if form == "name" else {"id": made["id"]}
    body = {"model": "gpt-5.5", "tools": [TOOL], "conversation": name, "reasoning": {"effort": "none"}}
    first = ask(server, "POST", "/responses", {**body, "input": "Weather?"}).json()
    assert first["conversation"] == {"id": made["id"]}
    call = first["output"][-1]["call_id"]
    output = {"type": "function_call_output", "call_id": call, "output": "rain"}
    second = ask(server, "POST", "/responses", {**body, "input": [output]})
    assert second.status == 200, second.body
    held = ask(server, "GET", f"/conversations/{made['id']}/items?order=asc").json()["data"]
    assert [item.get("type") for item in held] == [
        "message",
        "message",
        "function_call",
        "function_call_output",
        "message",
    ]
    assert ask(server, "DELETE", f"/conversations/{made['id']}").json()["deleted"] is True


@pytest.mark.rule("CNV-04")
def test_an_unknown_conversation_is_not_found() -> None:
    server = app()
    answer = ask(server, "POST", "/responses", {"model": "gpt-5.5", "input": "?", "conversation": "conv_1"})
    assert (answer.status, answer.json()["error"]["param"]) == (404, "conversation")
    assert ask(server, "GET", "/conversations/conv_1").status == 404


@pytest.mark.rule("CNV-01")
def test_a_conversation_begins_with_twenty_items_at_most() -> None:
    items = [{"type": "message", "role": "user", "content": "Hello."}] * 21
    assert ask(app(), "POST", "/conversations", {"items": items}).status == 400


def texts(answer: EmulatorResponse) -> list[str]:
    return [item["content"][0]["text"] for item in answer.json()["data"]]


@pytest.mark.rule("CNV-01")
def test_items_are_added_paged_shown_and_deleted() -> None:
    server = app()
    items = [{"role": "user", "content": f"{number}"} for number in range(5)]
    place = f"/conversations/{ask(server, 'POST', '/conversations', {'items': items}).json()['id']}"
    added = ask(server, "POST", f"{place}/items", {"items": [{"role": "user", "content": "new"}]})
    assert texts(added) == ["new"]
    page = ask(server, "GET", f"{place}/items?limit=2")
    assert texts(page) == ["new", "4"]
    assert page.json()["has_more"] is True
    assert texts(ask(server, "GET", f"{place}/items?limit=2&after={page.json()['last_id']}")) == ["3", "2"]
    name = page.json()["last_id"]
    assert ask(server, "GET", f"{place}/items/{name}").json()["id"] == name
    assert ask(server, "DELETE", f"{place}/items/{name}").json()["object"] == "conversation"
    assert ask(server, "GET", f"{place}/items/{name}").status == 404
    assert ask(server, "GET", f"{place}/items?limit=101").status == 400
    assert ask(server, "POST", place, {"metadata": {"a": "b"}}).json()["metadata"] == {"a": "b"}
    assert ask(server, "POST", place, {"metadata": {"a": 1}}).status == 400


@pytest.mark.rule("CNV-03")
def test_nobody_adds_to_a_conversation_while_a_turn_is_made() -> None:
    server = app(Reply(pieces=(Say("Rain."),)), Reply(pieces=(Say("Sun."),)))
    name = ask(server, "POST", "/conversations", {}).json()["id"]
    server.emulator.memory("openai")["conversations"][name]["in_flight"] = True
    body = {"model": "gpt-5.5", "input": "Weather?", "conversation": name, "stream": True}
    refused = ask(server, "POST", "/responses", body)
    assert (refused.status, refused.json()["error"]["code"]) == (400, "conversation_locked")
    item = {"role": "user", "content": "new"}
    assert ask(server, "POST", f"/conversations/{name}/items", {"items": [item]}).status == 400
    server.emulator.memory("openai")["conversations"][name]["in_flight"] = False
    assert ask(server, "POST", "/responses", body).status == 200
    assert ask(server, "POST", "/responses", body).status == 200, "a stream that ended holds nothing"

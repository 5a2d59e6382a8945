"""Compaction, at a trigger and by its endpoint, and Responses over a WebSocket."""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from typing import Any

import msgspec
import pytest

from segue.emulators.app import App
from segue.emulators.emulator import Emulator
from segue.emulators.in_process import KEY, ask_now
from segue.emulators.model.model_reply import Reply, Say
from segue.emulators.model.responder import ScriptedResponder

HISTORY = [
    {"type": "message", "role": "user", "content": "Weather?"},
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Rain."}]},
]
TRIGGER = {"type": "compaction_trigger"}


@pytest.fixture
def app() -> App:
    return App(Emulator(responder=ScriptedResponder([Reply(pieces=(Say("Still rain."),))])))


def post(app: App, path: str, **body: Any) -> Any:
    return ask_now(app, "POST", f"/openai{path}", json={"model": "gpt-5.2", "store": False, **body})


@pytest.mark.rule("RESP-52")
def test_a_trigger_is_answered_with_one_sealed_item_that_the_next_request_may_hold(app: App) -> None:
    (item,) = post(app, "/v1/responses", input=[*HISTORY, TRIGGER]).json()["output"]
    assert item["type"] == "compaction"
    assert "Weather" not in item["encrypted_content"]
    answer = post(app, "/v1/responses", input=[item, HISTORY[0]])
    assert answer.json()["output"][0]["content"][0]["text"] == "Still rain."


@pytest.mark.rule("RESP-52")
def test_a_streamed_compaction_is_one_item_added_and_done(app: App) -> None:
    body = post(app, "/v1/responses", input=[*HISTORY, TRIGGER], stream=True).body.decode()
    kinds = [line.removeprefix("event: ") for line in body.splitlines() if line.startswith("event: ")]
    assert kinds == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.output_item.done",
        "response.completed",
    ]


@pytest.mark.rule("RESP-52")
def test_the_endpoint_keeps_what_the_user_wrote(app: App) -> None:
    answer = post(app, "/v1/responses/compact", input=HISTORY).json()
    assert answer["object"] == "response.compaction"
    assert answer["output"][0] == HISTORY[0]
    assert [item["type"] for item in answer["output"]] == ["message", "compaction"]


@pytest.mark.rule("RESP-46")
def test_a_foreign_compaction_is_refused(app: App) -> None:
    foreign = {"type": "compaction", "id": "cmp_1", "encrypted_content": "gAAAAABnope"}
    answer = post(app, "/v1/responses", input=[foreign, HISTORY[0]])
    assert (answer.status, answer.json()["error"]["code"]) == (400, "invalid_encrypted_content")


def over_a_socket(app: App, *messages: str) -> list[Any]:
    incoming = [
        {"type": "websocket.connect"},
        *({"type": "websocket.receive", "text": text} for text in messages),
        {"type": "websocket.disconnect"},
    ]
    sent: list[MutableMapping[str, Any]] = []

    async def receive() -> MutableMapping[str, Any]:
        return incoming.pop(0)

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    scope = {
        "type": "websocket",
        "path": "/openai/v1/responses",
        "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in KEY.items()],
    }
    asyncio.run(app(scope, receive, send))
    assert sent[0]["type"] == "websocket.accept"
    return [msgspec.json.decode(message["text"]) for message in sent[1:]]


def test_a_socket_carries_the_events_of_a_stream(app: App) -> None:
    asked = {"type": "response.create", "model": "gpt-5.2", "store": False, "input": HISTORY[:1]}
    events = over_a_socket(app, msgspec.json.encode(asked).decode())
    assert (events[0]["type"], events[-1]["type"]) == ("response.created", "response.completed")
    assert (
        "".join(event["delta"] for event in events if "output_text.delta" in event["type"]) == "Still rain."
    )


def test_a_socket_reports_what_it_refuses_and_stays_open(app: App) -> None:
    asked = {"type": "response.create", "model": "gpt-5.2", "input": 7}
    events = over_a_socket(app, "nonsense", msgspec.json.encode(asked).decode())
    assert [event["type"] for event in events] == ["error", "error"]
    assert events[1]["status"] == 400

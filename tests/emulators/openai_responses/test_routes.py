from __future__ import annotations

from typing import Any

import msgspec
import pytest

from segue.emulators.app import App
from segue.emulators.emulator import Emulator
from segue.emulators.in_process import EmulatorResponse, ask_now
from segue.emulators.model.model_reply import Call, Reply, Say, Think
from segue.emulators.model.responder import ScriptedResponder

URL = "/openai/v1/responses"
THOUGHT = Reply(
    pieces=(
        Think("Need two lookups."),
        Call("get_weather", {"city": "Paris"}),
        Call("get_weather", {"city": "Rome"}),
    )
)
DONE = Reply(pieces=(Say("Paris 18C."),))
TOOLS = [{"type": "function", "name": "get_weather", "parameters": {"type": "object", "properties": {}}}]
ASKED: dict[str, Any] = {
    "model": "gpt-5.5",
    "input": "Weather?",
    "tools": TOOLS,
    "reasoning": {"summary": "auto"},
}


@pytest.fixture
def app() -> App:
    return App(Emulator(responder=ScriptedResponder([THOUGHT, DONE, DONE])))


def ask(app: App, **changes: Any) -> EmulatorResponse:
    return ask_now(app, "POST", URL, json={**ASKED, **changes})


def outputs(response: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"type": "function_call_output", "call_id": item["call_id"], "output": "18"}
        for item in response["output"]
        if item["type"] == "function_call"
    ]


def message(answer: EmulatorResponse) -> str:
    found: str = answer.json()["error"]["message"]
    return found


def events(answer: EmulatorResponse) -> list[dict[str, Any]]:
    found = []
    for frame in answer.body.decode().strip().split("\n\n"):
        kind, data = frame.split("\n")
        found.append(msgspec.json.decode(data.removeprefix("data: ")))
        assert kind == f"event: {found[-1]['type']}"
    return found


@pytest.mark.rule("RESP-60", "RESP-61", "RESP-62", "RESP-65")
def test_a_stream_builds_what_the_last_event_holds(app: App) -> None:
    told = events(ask(app, stream=True))
    assert [event["sequence_number"] for event in told] == list(range(len(told)))
    assert [event["type"] for event in told[:2]] == ["response.created", "response.in_progress"]
    last = told[-1]
    assert last["type"] == "response.completed"
    assert [event["item"] for event in told if event["type"] == "response.output_item.done"] == last[
        "response"
    ]["output"]
    arguments = [event["arguments"] for event in told if event["type"].endswith("arguments.done")]
    assert arguments == ['{"city":"Paris"}', '{"city":"Rome"}']
    for index, whole in ((1, arguments[0]), (2, arguments[1])):
        deltas = [
            e["delta"] for e in told if e["type"].endswith("arguments.delta") and e["output_index"] == index
        ]
        assert "".join(deltas) == whole
    assert [event["response"]["usage"] for event in told if "response" in event][:2] == [None, None]
    assert last["response"]["usage"]["output_tokens_details"]["reasoning_tokens"] > 0


@pytest.mark.rule("RESP-40")
def test_the_seal_in_the_first_event_is_not_yet_whole(app: App) -> None:
    told = events(ask(app, stream=True))
    added, done = (
        next(e["item"] for e in told if e["type"] == f"response.output_item.{name}")
        for name in ("added", "done")
    )
    assert done["encrypted_content"].startswith(added["encrypted_content"])
    assert added["encrypted_content"] != done["encrypted_content"]


@pytest.mark.rule("RESP-46")
def test_what_was_issued_is_taken_back_without_storage(app: App) -> None:
    first = ask(app, store=False).json()
    user = {"role": "user", "content": "Weather?"}
    again = ask(app, store=False, input=[user, *first["output"], *outputs(first)])
    assert again.status == 200
    stranger = ask_now(
        app,
        "POST",
        URL,
        json={**ASKED, "store": False, "input": [user, *first["output"], *outputs(first)]},
        headers={"authorization": "Bearer sk-of-somebody-else"},
    )
    assert (stranger.status, stranger.json()["error"]["code"]) == (400, "invalid_encrypted_content")


@pytest.mark.rule("RESP-10", "RESP-11")
def test_a_stored_response_is_continued_by_its_outputs_alone(app: App) -> None:
    first = ask(app).json()
    missing = ask(app, previous_response_id=first["id"], input="And?")
    assert message(missing) == f"No tool output found for function call {outputs(first)[0]['call_id']}."
    answer = ask(app, previous_response_id=first["id"], input=outputs(first))
    assert answer.json()["output"][0]["content"][0]["text"] == "Paris 18C."


@pytest.mark.rule("RESP-50")
def test_an_unknown_or_unstored_response_is_not_continued(app: App) -> None:
    first = ask(app, store=False).json()
    answer = ask(app, previous_response_id=first["id"], input=outputs(first))
    assert message(answer) == f"Previous response with id '{first['id']}' not found."
    assert answer.json()["error"]["code"] == "previous_response_not_found"


@pytest.mark.rule("RESP-24")
def test_what_the_chain_holds_is_not_sent_again(app: App) -> None:
    first = ask(app).json()
    answer = ask(app, previous_response_id=first["id"], input=[first["output"][1], *outputs(first)])
    assert message(answer).startswith(f"Duplicate item found with id {first['output'][1]['id']}.")


@pytest.mark.rule("RESP-43")
def test_stored_reasoning_is_followed_by_what_followed_it(app: App) -> None:
    first = ask(app).json()
    thought = first["output"][0]
    answer = ask(app, input=[{"role": "user", "content": "Weather?"}, thought])
    assert message(answer) == (
        f"Item '{thought['id']}' of type 'reasoning' was provided without its required following item."
    )


@pytest.mark.rule("RESP-44")
def test_a_stored_call_brings_its_reasoning_or_drops_its_id(app: App) -> None:
    first = ask(app).json()
    user = {"role": "user", "content": "Weather?"}
    thought, *calls = first["output"]
    answer = ask(app, input=[user, *calls, *outputs(first)])
    assert message(answer) == (
        f"Item '{calls[0]['id']}' of type 'function_call' was provided without its required 'reasoning' item: "
        f"'{thought['id']}'."
    )
    without_ids = [{key: value for key, value in item.items() if key != "id"} for item in calls]
    assert ask(app, input=[user, *without_ids, *outputs(first)]).status == 200


@pytest.mark.rule("RESP-45")
def test_a_stored_item_may_be_referred_to(app: App) -> None:
    first = ask(app).json()
    user = {"role": "user", "content": "Weather?"}
    reference = {"type": "item_reference", "id": first["output"][0]["id"]}
    calls = first["output"][1:]
    assert ask(app, input=[user, reference, *calls, *outputs(first)]).status == 200
    unknown = ask(app, input=[user, {"type": "item_reference", "id": "rs_9"}])
    assert (unknown.status, message(unknown)) == (404, "Item with id 'rs_9' not found.")


@pytest.mark.rule("RESP-62")
def test_a_reply_that_does_not_fit_is_incomplete(app: App) -> None:
    app.emulator.responder = ScriptedResponder([Reply(pieces=(Say("x" * 400),))])
    response = ask(app, max_output_tokens=16).json()
    assert (response["status"], response["incomplete_details"]) == (
        "incomplete",
        {"reason": "max_output_tokens"},
    )


@pytest.mark.rule("OAI-06")
def test_input_tokens_are_those_the_response_reports(app: App) -> None:
    counted = ask_now(app, "POST", URL + "/input_tokens", json=ASKED).json()
    assert counted["object"] == "response.input_tokens"
    assert counted["input_tokens"] == ask(app).json()["usage"]["input_tokens"]


def test_a_stored_response_is_read_back_and_deleted(app: App) -> None:
    first = ask(app).json()
    assert ask_now(app, "GET", f"{URL}/{first['id']}").json() == first
    assert ask_now(app, "GET", f"{URL}/{first['id']}/input_items").json()["data"][0]["role"] == "user"
    assert ask_now(app, "DELETE", f"{URL}/{first['id']}").json()["deleted"] is True
    assert ask_now(app, "GET", f"{URL}/{first['id']}").status == 404

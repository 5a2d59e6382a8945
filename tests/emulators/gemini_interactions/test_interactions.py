"""The emulator of Interactions: what it refuses, how signatures bind, what it keeps, and how long."""

from __future__ import annotations

import json
from typing import Any

import pytest

from segue.emulators.app import App
from segue.emulators.emulator import Emulator
from segue.emulators.in_process import EmulatorResponse, ask_now
from segue.emulators.model.model_reply import Call, Prompt, Reply, Say, Think

MODEL = "gemini-3.5-flash"
TOOLS = [{"type": "function", "name": "weather", "parameters": {"type": "object", "properties": {}}}]
HELLO = {"type": "user_input", "content": [{"type": "text", "text": "Hello."}]}
LOOK = {"type": "user_input", "content": [{"type": "text", "text": "Look."}]}


class Model:
    """It looks when it may, else it speaks."""

    delay = 0.0

    def reply(self, prompt: Prompt) -> Reply:
        if prompt.tools and not prompt.results and "Look" in prompt.text:
            return Reply(pieces=(Think("Hm."), Call("weather", {"city": "Rome"})), delay=self.delay)
        return Reply(pieces=(Think("Hm."), Say(f"{len(prompt.results)} results")), delay=self.delay)

    def reset(self) -> None:
        """Nothing is remembered."""


class World:
    """An emulator whose clock is ours."""

    def __init__(self, **settings: Any) -> None:
        self.now = 1_800_000_000.0
        self.model = Model()
        self.app = App(Emulator(responder=self.model, clock=lambda: self.now, **settings))

    def ask(
        self, path: str = "", body: Any = None, *, method: str = "POST", key: str = "k"
    ) -> EmulatorResponse:
        headers = {"x-goog-api-key": key, "content-type": "application/json"}
        return ask_now(self.app, method, f"/gemini/v1/interactions{path}", json=body, headers=headers)

    def create(self, given: Any = "Hello.", **fields: Any) -> EmulatorResponse:
        return self.ask(body={"model": MODEL, "input": given, **fields})


def events_of(answer: EmulatorResponse) -> list[dict[str, Any]]:
    lines = [line[6:] for line in answer.body.decode().split("\n") if line.startswith("data: ")]
    return [json.loads(line) for line in lines if line != "[DONE]"]


def code(answer: EmulatorResponse) -> tuple[int, str]:
    error = answer.json()["error"]
    assert set(error) == {"code", "message"}
    return answer.status, error["code"]


def called(world: World, **fields: Any) -> dict[str, Any]:
    first: dict[str, Any] = world.create([LOOK], tools=TOOLS, **fields).json()
    assert first["status"] == "requires_action"
    return first


def result_of(interaction: dict[str, Any]) -> dict[str, Any]:
    call = interaction["steps"][-1]
    return {"type": "function_result", "call_id": call["id"], "name": call["name"], "result": "rain"}


@pytest.mark.rule("INT-02", "INT-05", "INT-06")
def test_a_tool_turn_goes_on_by_its_parent() -> None:
    world = World(strict=True)
    first = called(world)
    assert [step["type"] for step in first["steps"]] == ["thought", "function_call"]
    second = world.create([result_of(first)], previous_interaction_id=first["id"], tools=TOOLS).json()
    assert second["steps"][-1]["content"] == [{"type": "text", "text": "1 results"}]
    assert second["previous_interaction_id"] == first["id"]
    assert second["usage"]["total_input_tokens"] > first["usage"]["total_input_tokens"]
    shown = world.ask(f"/{second['id']}?include_input=true", method="GET").json()
    assert shown["input"] == [result_of(first)]
    assert world.ask(f"/{second['id']}", method="DELETE").json() == {}
    assert code(world.ask(f"/{second['id']}", method="GET")) == (404, "not_found")
    fork = world.create([result_of(first)], previous_interaction_id=first["id"])
    assert fork.status == 200  # any number of children


@pytest.mark.rule("INT-06")
@pytest.mark.parametrize(
    "steps",
    [
        [HELLO],
        [{"type": "function_result", "call_id": "other", "result": "rain"}],
    ],
)
def test_a_call_wants_its_own_result(steps: list[Any]) -> None:
    world = World()
    first = called(world)
    assert code(world.create(steps, previous_interaction_id=first["id"])) == (400, "invalid_request")


@pytest.mark.rule("INT-04", "INT-07")
def test_signatures_bind_to_the_call_behind_them() -> None:
    world = World(strict=True)
    first = called(world, store=False)
    thought, call = first["steps"]
    steps = [LOOK, thought, call, result_of(first)]
    assert world.create(steps, store=False).status == 200
    assert code(world.create([HELLO], previous_interaction_id=first["id"])) == (404, "not_found")
    moved = [LOOK, thought, {**call, "arguments": {"city": "Oslo"}}, result_of(first)]
    forged = [LOOK, {**thought, "signature": "AAAA"}, call, result_of(first)]
    for broken in (moved, forged):
        assert code(world.create(broken, store=False)) == (400, "invalid_request")
    stranger = World(secret=b"another").create(steps, store=False)
    assert "Corrupted thought signature" in stranger.json()["error"]["message"]


@pytest.mark.rule("INT-04")
def test_a_signature_of_generate_content_is_taken_before_its_call() -> None:
    world = World()
    body = {
        "contents": [{"role": "user", "parts": [{"text": "Look."}]}],
        "tools": [{"functionDeclarations": [{"name": "weather"}]}],
    }
    headers = {"x-goog-api-key": "k", "content-type": "application/json"}
    path = f"/gemini/v1beta/models/{MODEL}:generateContent"
    parts = ask_now(world.app, "POST", path, json=body, headers=headers).json()["candidates"][0]["content"][
        "parts"
    ]
    (part,) = [part for part in parts if "functionCall" in part]
    call = {"type": "function_call", "id": "c", "name": "weather", "arguments": part["functionCall"]["args"]}
    thought = {"type": "thought", "signature": part["thoughtSignature"]}
    result = {"type": "function_result", "call_id": "c", "result": "rain"}
    assert world.create([LOOK, thought, call, result]).status == 200


@pytest.mark.rule("INT-03", "INT-04", "INT-10")
@pytest.mark.parametrize(
    "fields",
    [
        {"input": None},
        {"input": []},
        {"input": 7},
        {"input": ["a"]},
        {"input": [{"type": "message", "role": "user", "content": "Hi."}]},
        {"input": [{"type": "user_input", "content": "Hi."}]},
        {"input": [{"type": "user_input", "content": [{"type": "text"}]}]},
        {"input": [{"type": "user_input", "content": [{"type": "image"}]}]},
        {
            "input": [
                {"type": "user_input", "content": [{"type": "image", "data": "?", "mime_type": "image/png"}]}
            ]
        },
        {"input": [{"type": "thought", "signature": 7}, HELLO]},
        {"input": [HELLO, {"type": "function_call", "id": "c", "name": "f", "arguments": "{}"}]},
        {"input": [HELLO, {"type": "function_result", "call_id": "c"}]},
        {"model": None},
        {"agent": "deep-research-1"},
        {"temperature": 1},
        {"store": "no"},
        {"generation_config": {"top_k": 3}},
        {"generation_config": {"thinking_level": "most"}},
        {"generation_config": {"thinking_summaries": "all"}},
        {"generation_config": {"max_output_tokens": "many"}},
        {"generation_config": {"tool_choice": "required"}},
        {"tools": [{"type": "function", "name": "1 2"}]},
        {"tools": [{"functionDeclarations": []}]},
        {"tools": [{"type": "function", "name": "f", "parameters": []}]},
    ],
    ids=str,
)
def test_what_is_no_such_request_is_refused(fields: dict[str, Any]) -> None:
    body = {"model": MODEL, "input": "Hello.", **fields}
    answer = World().ask(body={name: value for name, value in body.items() if value is not None})
    assert code(answer) == (400, "invalid_request")


@pytest.mark.rule("INT-03", "INT-11")
def test_unknown_models_and_agents_are_not_found() -> None:
    world = World()
    assert code(world.ask(body={"model": "gpt-5", "input": "Hi."})) == (404, "not_found")
    assert code(world.ask(body={"agent": "nobody", "input": "Hi."})) == (404, "not_found")
    assert world.ask(body={"agent": "deep-research-1", "input": "Hi."}).json()["agent"] == "deep-research-1"


@pytest.mark.rule("INT-03")
@pytest.mark.parametrize(
    "given",
    ["Hello.", {"type": "text", "text": "Hello."}, [{"type": "text", "text": "Hello."}], [HELLO]],
    ids=["text", "content", "contents", "steps"],
)
def test_every_form_of_an_input_means_the_same(given: Any) -> None:
    world = World()
    name = world.create(given).json()["id"]
    assert world.ask(f"/{name}?include_input=true", method="GET").json()["input"] == [HELLO]


@pytest.mark.rule("INT-09")
def test_a_stream_holds_what_the_whole_holds() -> None:
    whole = called(World())
    events = events_of(World().create([LOOK], tools=TOOLS, stream=True))
    kinds = [event["event_type"] for event in events]
    assert kinds[:2] == ["interaction.created", "interaction.status_update"]
    assert kinds[-1] == "interaction.completed"
    assert events[-1]["interaction"]["usage"] == whole["usage"]
    deltas = [event["delta"] for event in events if event["event_type"] == "step.delta"]
    assert whole["steps"][0]["signature"] in [delta.get("signature") for delta in deltas]
    ids = [event["event_id"] for event in events]
    assert len(set(ids)) == len(ids)


@pytest.mark.rule("INT-07", "INT-10")
def test_an_interaction_is_kept_for_55_days_and_for_its_account() -> None:
    world = World()
    name = world.create().json()["id"]
    assert code(world.ask(f"/{name}", method="GET", key="another")) == (404, "not_found")
    world.now += 54 * 86_400
    assert world.ask(f"/{name}", method="GET").status == 200
    world.now += 2 * 86_400
    assert code(world.ask(f"/{name}", method="GET")) == (404, "not_found")
    assert code(world.create(previous_interaction_id=name)) == (404, "not_found")


@pytest.mark.rule("INT-11")
def test_an_interaction_in_the_background_is_polled_resumed_and_cancelled() -> None:
    world = World(strict=True)
    world.model.delay = 1.0
    begun, other = (world.create(background=True).json() for _ in range(2))
    assert begun["status"] == "in_progress"
    assert "steps" not in begun
    assert code(world.create(previous_interaction_id=begun["id"]))[0] == 400
    assert world.ask(f"/{other['id']}/cancel", {}).json()["status"] == "cancelled"
    assert code(world.ask(f"/{other['id']}/cancel", {}))[0] == 400
    assert code(world.create(previous_interaction_id=other["id"]))[0] == 400
    world.now += 60
    done = world.ask(f"/{begun['id']}", method="GET").json()
    assert done["steps"][-1]["content"][0]["text"] == "0 results"
    events = events_of(world.ask(f"/{begun['id']}?stream=true", method="GET"))
    seen = events[2]["event_id"]
    rest = events_of(world.ask(f"/{begun['id']}?stream=true&last_event_id={seen}", method="GET"))
    assert rest == events[3:]
    assert code(world.ask(f"/{begun['id']}?stream=true&last_event_id=no", method="GET"))[0] == 400
    assert code(world.create(background=True, store=False))[0] == 400


@pytest.mark.rule("INT-08")
def test_a_token_that_nobody_gave_is_refused() -> None:
    world = World()
    first = world.create().json()
    token = {"continuation_token": "t"}
    for parent in ({"previous_interaction_id": first["id"]}, {}):
        assert code(world.create(**parent, **token)) == (400, "invalid_request")

"""Interactions at the door: every model behind it, parents from our memory, background, and what only Gemini holds."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from gateway.clients import SCHEMA
from gateway.world import INTERACTIONS, ROUTES, AgentModel, GatewayWorld
from segue.config.schema import CallerSettings
from segue.emulators.model.model_reply import Prompt, Reply, Say
from segue.gateway.accounts.account import digest_of

PATH = "/v1beta/interactions"
TOOLS = [{"type": "function", "name": "weather", "parameters": SCHEMA}]
FAMILIES = (*ROUTES.values(), INTERACTIONS)


def last_of(body: bytes) -> dict[str, Any]:
    events = events_of(body)
    assert events[-1]["event_type"] == "interaction.completed"
    steps: dict[int, dict[str, Any]] = {}
    for event in events:
        if event["event_type"] == "step.start":
            steps[event["index"]] = {**event["step"]}
        elif event["event_type"] == "step.delta":
            _grow(steps[event["index"]], event["delta"])
    for step in steps.values():
        if step["type"] == "function_call" and "text" in step:
            step["arguments"] = json.loads(step.pop("text"))
    final: dict[str, Any] = {**events[-1]["interaction"], "steps": [steps[index] for index in sorted(steps)]}
    return final


def _grow(step: dict[str, Any], delta: dict[str, Any]) -> None:
    """As the SDK puts a step together."""
    match delta["type"]:
        case "text":
            said = step.setdefault("content", [{"type": "text", "text": ""}])
            said[-1]["text"] += delta["text"]
        case "thought_summary":
            step.setdefault("summary", []).append(delta["content"])
        case "thought_signature":
            step["signature"] = delta["signature"]
        case "arguments_delta":
            step["text"] = step.get("text", "") + delta["arguments"]


def events_of(body: bytes) -> list[dict[str, Any]]:
    lines = [line[6:] for line in body.decode().split("\n") if line.startswith("data: ")]
    return [json.loads(line) for line in lines if line != "[DONE]"]


def text_of(interaction: dict[str, Any]) -> str:
    steps = [step for step in interaction["steps"] if step["type"] == "model_output"]
    return "".join(content.get("text", "") for step in steps for content in step["content"])


def results_of(interaction: dict[str, Any], result: Any = "rain") -> list[dict[str, Any]]:
    return [
        {"type": "function_result", "call_id": step["id"], "name": step["name"], "result": result}
        for step in interaction["steps"]
        if step["type"] == "function_call"
    ]


class InteractionsAgent:
    """A client that sends only what is new, or, without storage, all steps each time."""

    def __init__(self, world: GatewayWorld, *, stream: bool, stored: bool = True, key: str = "") -> None:
        self.world, self.stream, self.stored = world, stream, stored
        self.headers = {"x-goog-api-key": key} if key else {}
        self.last = ""
        self.steps: list[Any] = []

    async def send(self, model: str, given: Any, *, tools: Any = TOOLS, **fields: Any) -> dict[str, Any]:
        body: dict[str, Any] = {"model": model, "input": given, "stream": self.stream, **fields}
        if tools:
            body["tools"] = tools
        steps = (
            [{"type": "user_input", "content": [{"type": "text", "text": given}]}]
            if isinstance(given, str)
            else given
        )
        if self.stored and self.last:
            body.setdefault("previous_interaction_id", self.last)
        elif not self.stored:
            body |= {"store": False, "input": [*self.steps, *steps]}
        answer = await self.world.ask(PATH, body, headers=self.headers)
        assert answer.status == 200, answer.body
        reply = last_of(answer.body) if self.stream else answer.json()
        self.steps += [*steps, *reply["steps"]]
        self.last = reply["id"]
        return dict(reply)


@pytest.mark.parametrize("stored", [True, False], ids=["stored", "whole steps"])
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("route", FAMILIES)
def test_a_tool_turn_goes_on_by_the_id_of_its_interaction(route: str, stream: bool, stored: bool) -> None:
    async def main() -> None:
        world = GatewayWorld()
        agent = InteractionsAgent(world, stream=stream, stored=stored)
        first = await agent.send(route, "Please look at two cities.")
        assert first["status"] == "requires_action"
        assert first["object"] == "interaction"
        results = results_of(first)
        assert results
        second = await agent.send(route, results)
        assert second["status"] == "completed"
        assert text_of(second) == f"I know: {len(results)} results."
        third = await agent.send(route, "And thanks.")
        assert third["status"] == "completed"
        assert third["usage"]["total_tokens"] > second["usage"]["total_input_tokens"]
        assert world.refusals() == []
        if not stored:
            assert (await world.ask(f"{PATH}/{third['id']}", method="GET")).status == 404
            return
        got = (await world.ask(f"{PATH}/{second['id']}?include_input=true", method="GET")).json()
        assert (got["id"], got["status"], got["input"]) == (second["id"], "completed", results)
        assert text_of(got) == text_of(second)
        assert (await world.ask(f"{PATH}/{second['id']}/cancel", {})).status == 400
        assert (await world.ask(f"{PATH}/{second['id']}", method="DELETE")).json() == {}
        gone = await world.ask(f"{PATH}/{second['id']}", method="GET")
        assert (gone.status, gone.json()["error"]["code"]) == (404, "not_found")
        body = {"model": ROUTES["anthropic"], "input": "Hi.", "previous_interaction_id": third["id"]}
        lost = await world.ask(PATH, body)
        assert (lost.status, lost.json()["error"]["code"]) == (404, "not_found")

    asyncio.run(main())


@pytest.mark.parametrize("stored", [True, False], ids=["stored", "whole steps"])
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("other", [route for route in FAMILIES if route != INTERACTIONS])
def test_a_signature_stands_before_its_call_again_after_another_model(
    other: str, stream: bool, stored: bool
) -> None:
    """The ninth of the sequences: Gemini, its result, another model, Gemini."""

    async def main() -> None:
        world = GatewayWorld()
        agent = InteractionsAgent(world, stream=stream, stored=stored)
        first = await agent.send(INTERACTIONS, "Please look at two cities.")
        signed = [step["signature"] for step in first["steps"] if step.get("signature")]
        assert signed
        await agent.send(INTERACTIONS, results_of(first))
        assert world.emulator.log[-1].path.endswith("/interactions")
        await agent.send(other, "And thanks.")
        seen = str(world.asked(other)[-1].body)
        assert "Rome" in seen
        assert "rain" in seen
        assert signed[0] not in seen
        await agent.send(INTERACTIONS, "Go on.", tools=None)
        assert world.emulator.log[-1].path.endswith("/interactions")
        sent = world.emulator.log[-1].body
        assert "tools" not in sent
        place = next(index for index, step in enumerate(sent["input"]) if step.get("signature") == signed[0])
        following = [step["type"] for step in sent["input"][place + 1 :]]
        assert following[0] == "function_call" or following[:2] == ["model_output", "function_call"]
        assert world.refusals() == []

    asyncio.run(main())


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("route", FAMILIES)
def test_two_requests_that_continue_one_interaction_do_not_see_each_other(route: str, stream: bool) -> None:
    async def main() -> None:
        world = GatewayWorld()
        agent = InteractionsAgent(world, stream=stream)
        first = await agent.send(route, "The first word.", tools=None)
        forks = [InteractionsAgent(world, stream=stream) for _ in range(2)]
        for fork in forks:
            fork.last = first["id"]
        await asyncio.gather(
            forks[0].send(route, "Word alpha.", tools=None), forks[1].send(route, "Word beta.", tools=None)
        )
        # From another model, so that all of it is sent.
        other = ROUTES["anthropic"] if route != ROUTES["anthropic"] else ROUTES["chat"]
        for fork, own, strange in zip(forks, ("alpha", "beta"), ("beta", "alpha"), strict=True):
            await fork.send(other, "What did I say?", tools=None)
            seen = str(world.asked(other)[-1].body)
            assert own in seen
            assert strange not in seen
        assert world.refusals() == []

    asyncio.run(main())


ANN, BOB = "sk-ann-000000000000", "sk-bob-000000000000"


def test_an_interaction_of_another_caller_is_unknown() -> None:
    async def main() -> None:
        keys = {name: CallerSettings(key_sha256=digest_of(key)) for name, key in (("ann", ANN), ("bob", BOB))}
        world = GatewayWorld(callers=keys)
        agent = InteractionsAgent(world, stream=False, key=ANN)
        first = await agent.send(ROUTES["chat"], "Hello.")
        body = {"model": ROUTES["chat"], "input": "Hi.", "previous_interaction_id": first["id"]}
        refused = await world.ask(PATH, body, headers={"x-goog-api-key": BOB})
        assert (refused.status, refused.json()["error"]["code"]) == (404, "not_found")
        assert first["id"] in refused.json()["error"]["message"]

    asyncio.run(main())


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"previous_interaction_id": "v1_nobody"}, 404),
        ({"continuation_token": "t"}, 400),
        ({"environment": "env_1"}, 400),
        ({"environment": {"type": "remote", "environment_id": "env_1"}}, 400),
        ({"webhook_config": {"uris": ["https://example.org"]}}, 400),
        ({"cached_content": "cachedContents/1"}, 400),
        ({"agent": "deep-research-pro-preview-12-2025"}, 400),
        ({"tools": [{"type": "mcp_server", "name": "s", "url": "https://example.org"}]}, 400),
        ({"input": [{"type": "document", "uri": "files/abc", "mime_type": "application/pdf"}]}, 400),
    ],
)
def test_what_only_gemini_holds_is_refused_elsewhere(
    fields: dict[str, Any], status: int, strict: bool
) -> None:
    async def main() -> None:
        world = GatewayWorld()
        body = {"model": ROUTES["anthropic"], "input": "Hello.", **fields}
        headers = {"x-segue-strict": "true"} if strict else {}
        refused = await world.ask(PATH, body, headers=headers)
        assert refused.status == status, refused.body
        error = refused.json()["error"]
        assert error["code"] == ("not_found" if status == 404 else "invalid_request")
        assert world.asked(ROUTES["anthropic"]) == []

    asyncio.run(main())


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("background", [False, True])
@pytest.mark.parametrize("name", ["interactions/deep-research-1", "gemini/deep-research-1"])
def test_an_agent_works_at_gemini_itself(name: str, background: bool, stream: bool) -> None:
    async def main() -> None:
        world = GatewayWorld()
        body: dict[str, Any] = {"agent": name, "input": "Hello.", "stream": stream}
        if background:
            body["background"] = True
        answer = await world.ask(PATH, body)
        assert answer.status == 200, answer.body
        reply = last_of(answer.body) if stream else answer.json()
        if background:
            reply = await completed(world, reply["id"])
        assert (reply["status"], text_of(reply)) == ("completed", "I know: 0 results.")
        sent = world.emulator.log[-1].body
        assert (sent["agent"], "model" in sent) == ("deep-research-1", False)
        assert sent.get("background", False) is background
        assert world.refusals() == []
        more = {"model": ROUTES["chat"], "input": "And?", "previous_interaction_id": reply["id"]}
        assert (await world.ask(PATH, more)).status == 200
        assert "I know: 0 results." in str(world.emulator.log[-1].body)

    asyncio.run(main())


# In the background


class SlowModel(AgentModel):
    """Takes its time."""

    def reply(self, prompt: Prompt) -> Reply:
        del prompt
        return Reply(pieces=(Say("one two three four five six seven"),), delay=0.2)


async def completed(world: GatewayWorld, name: str) -> dict[str, Any]:
    for _ in range(200):
        reply: dict[str, Any] = (await world.ask(f"{PATH}/{name}", method="GET")).json()
        if reply["status"] != "in_progress":
            return reply
        await asyncio.sleep(0.02)
    raise AssertionError("the interaction does not end")


@pytest.mark.parametrize("route", FAMILIES)
def test_an_interaction_in_the_background_is_polled_and_continued(route: str) -> None:
    async def main() -> None:
        world = GatewayWorld()
        body: dict[str, Any] = {"model": route, "input": "Hello.", "background": True}
        begun = (await world.ask(PATH, body)).json()
        assert begun["status"] == "in_progress"
        reply = await completed(world, begun["id"])
        assert (reply["status"], text_of(reply)) == ("completed", "I know: 0 results.")
        await world.gateway.settle()
        world.restart()
        body = {"model": ROUTES["chat"], "input": "And?", "previous_interaction_id": begun["id"]}
        assert (await world.ask(PATH, body)).status == 200
        assert "I know: 0 results." in str(world.emulator.log[-1].body)
        assert world.refusals() == []

    asyncio.run(main())


@pytest.mark.parametrize("route", [ROUTES["anthropic"], INTERACTIONS])
def test_a_stream_is_resumed_behind_the_event_that_a_client_saw_last(route: str) -> None:
    async def main() -> None:
        world = GatewayWorld()
        body = {"model": route, "input": "Hi.", "background": True, "stream": True}
        events = events_of((await world.ask(PATH, body)).body)
        name = events[0]["interaction"]["id"]
        kinds = [event["event_type"] for event in events]
        assert kinds[:2] == ["interaction.created", "interaction.status_update"]
        assert kinds.count("interaction.created") == 1
        assert kinds[-1] == "interaction.completed"
        ids = [event["event_id"] for event in events]
        assert len(set(ids)) == len(ids)
        rest = await world.ask(f"{PATH}/{name}?stream=true&last_event_id={ids[3]}", method="GET")
        assert events_of(rest.body) == events[4:]
        await world.gateway.settle()
        world.restart()
        late = await world.ask(f"{PATH}/{name}?stream=true&last_event_id={ids[3]}", method="GET")
        (only,) = events_of(late.body)
        assert text_of(only["interaction"]) == "I know: 0 results."

    asyncio.run(main())


def test_an_interaction_is_cancelled() -> None:
    async def main() -> None:
        world = GatewayWorld(responder=SlowModel())
        body = {"model": ROUTES["anthropic"], "input": "Hello.", "background": True}
        begun = (await world.ask(PATH, body)).json()
        await asyncio.sleep(0.3)
        cancelled = await world.ask(f"{PATH}/{begun['id']}/cancel", {})
        assert (cancelled.status, cancelled.json()["status"]) == (200, "cancelled")
        again = {"model": ROUTES["chat"], "input": "And?", "previous_interaction_id": begun["id"]}
        refused = await world.ask(PATH, again)
        assert (refused.status, refused.json()["error"]["code"]) == (404, "not_found")

    asyncio.run(main())


def test_what_nobody_keeps_cannot_be_made_in_the_background() -> None:
    async def main() -> None:
        world = GatewayWorld()
        body = {"model": ROUTES["chat"], "input": "Hello.", "background": True, "store": False}
        refused = await world.ask(PATH, body)
        assert (refused.status, refused.json()["error"]["code"]) == (400, "invalid_request")

    asyncio.run(main())


@pytest.mark.parametrize("version", ["v1", "v1beta", "v1beta2"])
def test_every_version_of_the_path_is_served(version: str) -> None:
    async def main() -> None:
        world = GatewayWorld()
        body = {"model": ROUTES["chat"], "input": "Hello."}
        assert (await world.ask(f"/{version}/interactions", body)).status == 200

    asyncio.run(main())

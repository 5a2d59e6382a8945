"""google-genai's interactions over real HTTP: whole and streamed, tools, background, and a journey from model to model and back."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
import uvicorn

from gateway.clients import SCHEMA
from gateway.test_sdks import imported
from gateway.world import INTERACTIONS, ROUTES, GatewayWorld

ANSWER = "I know: 0 results."
FAMILIES = (*ROUTES.values(), INTERACTIONS)
TOOL = {"type": "function", "name": "weather", "description": "The weather.", "parameters": SCHEMA}


class Served:
    """A gateway on a port of its own, and what is behind it."""

    def __init__(self) -> None:
        self.world = GatewayWorld()
        config = uvicorn.Config(
            self.world.gateway, host="127.0.0.1", port=0, log_level="error", ws="none", lifespan="off"
        )
        self.server = uvicorn.Server(config)
        self.thread = threading.Thread(target=self.server.run, daemon=True)
        self.thread.start()
        deadline = time.monotonic() + 10
        while not self.server.started and time.monotonic() < deadline:
            time.sleep(0.01)
        host, port = self.server.servers[0].sockets[0].getsockname()[:2]
        self.address = f"http://{host}:{port}"

    def client(self) -> Any:
        genai, types = imported("google.genai"), imported("google.genai.types")
        return genai.Client(api_key="any", http_options=types.HttpOptions(base_url=self.address))


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    made = Served()
    yield made
    made.server.should_exit = True
    made.thread.join(5)


@pytest.fixture
def interactions(served: Served) -> Iterator[Any]:
    before = len(served.world.refusals())
    with served.client() as client:
        yield client.interactions
    assert served.world.refusals()[before:] == []


def calls_in(interaction: Any) -> list[Any]:
    return [step for step in interaction.steps if step.type == "function_call"]


def results_of(calls: list[Any]) -> list[dict[str, Any]]:
    return [
        {"type": "function_result", "call_id": call.id, "name": call.name, "result": "rain"} for call in calls
    ]


def said(interaction: Any) -> str:
    outputs = [step for step in interaction.steps if step.type == "model_output"]
    return "".join(content.text for step in outputs for content in step.content)


@pytest.mark.parametrize("route", FAMILIES)
def test_tools(interactions: Any, route: str) -> None:
    first = interactions.create(model=route, input="Please look.", tools=[TOOL])
    assert first.status == "requires_action"
    calls = calls_in(first)
    assert calls[0].arguments == {"city": "Rome"}
    second = interactions.create(
        model=route, input=results_of(calls), tools=[TOOL], previous_interaction_id=first.id
    )
    assert (second.status, said(second)) == ("completed", f"I know: {len(calls)} results.")
    assert second.usage.total_tokens > 0
    assert said(interactions.get(second.id)) == said(second)
    interactions.delete(second.id)
    with pytest.raises(Exception, match="not found"):
        interactions.get(second.id)


@pytest.mark.parametrize("route", FAMILIES)
def test_a_stream(interactions: Any, route: str) -> None:
    events = list(interactions.create(model=route, input="Please look.", tools=[TOOL], stream=True))
    kinds = [event.event_type for event in events]
    assert kinds[0] == "interaction.created"
    assert kinds[-1] == "interaction.completed"
    assert events[-1].interaction.status == "requires_action"
    name = events[0].interaction.id
    calls = [
        event.step
        for event in events
        if event.event_type == "step.start" and event.step.type == "function_call"
    ]
    arguments = "".join(
        event.delta.arguments
        for event in events
        if event.event_type == "step.delta" and event.delta.type == "arguments_delta"
    )
    assert '"Rome"' in arguments
    rest = interactions.create(
        model=route, input=results_of(calls), tools=[TOOL], previous_interaction_id=name, stream=True
    )
    texts = [
        event.delta.text for event in rest if event.event_type == "step.delta" and event.delta.type == "text"
    ]
    assert "".join(texts) == f"I know: {len(calls)} results."


@pytest.mark.parametrize("route", FAMILIES)
def test_the_background(interactions: Any, route: str) -> None:
    begun = interactions.create(model=route, input="Hello.", background=True)
    deadline = time.monotonic() + 10
    while (found := interactions.get(begun.id)).status == "in_progress" and time.monotonic() < deadline:
        time.sleep(0.02)
    assert (found.status, said(found)) == ("completed", ANSWER)
    resumed = list(interactions.get(begun.id, stream=True))
    assert resumed[-1].event_type == "interaction.completed"


def test_a_journey(interactions: Any, served: Served) -> None:
    """Gemini, another model, Gemini: the steps of a client that stores nothing, and the parents of one that does."""
    steps: list[Any] = [{"type": "user_input", "content": [{"type": "text", "text": "Please look."}]}]
    first = interactions.create(model=INTERACTIONS, input=steps, tools=[TOOL], store=False)
    signed = next(step.signature for step in first.steps if step.type == "thought")
    steps += [step.model_dump(exclude_none=True) for step in first.steps] + results_of(calls_in(first))
    for route in (INTERACTIONS, ROUTES["anthropic"], INTERACTIONS):
        reply = interactions.create(model=route, input=steps, tools=[TOOL], store=False)
        assert reply.status == "completed"
        steps += [step.model_dump(exclude_none=True) for step in reply.steps]
        steps.append({"type": "user_input", "content": [{"type": "text", "text": "Go on."}]})
    sent = served.world.emulator.log[-1].body["input"]
    assert signed in [step.get("signature") for step in sent]


def test_structured_output_and_an_image(interactions: Any) -> None:
    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    form = {"type": "text", "mime_type": "application/json", "schema": schema}
    image = {"type": "image", "data": "iVBORw0KGgo=", "mime_type": "image/png"}
    for route in (ROUTES["anthropic"], INTERACTIONS):
        shown = interactions.create(
            model=route, input=[{"type": "text", "text": "What is it?"}, image], response_format=form
        )
        assert shown.status == "completed"


def test_errors_are_raised_by_their_status(served: Served) -> None:
    with served.client() as client:
        for fields, words in (
            ({"previous_interaction_id": "v1_nobody"}, "v1_nobody"),
            ({"agent": "nobody/deep-research-pro-preview-12-2025"}, "deep-research"),
            ({"agent": "anthropic/claude-sonnet-4-6"}, "agent"),
        ):
            with pytest.raises(Exception, match=words):
                client.interactions.create(
                    **({} if "agent" in fields else {"model": ROUTES["anthropic"]}), input="Hi.", **fields
                )

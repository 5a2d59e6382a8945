"""The model provider for the OpenAI Agents SDK: runs that move between models, with tools, handoffs, streams, typed answers and
errors."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("agents", reason="openai-agents is not installed: make frameworks")

from agents import (
    Agent,
    ModelSettings,
    RunConfig,
    Runner,
    SQLiteSession,
    UserError,
    WebSearchTool,
    function_tool,
    set_tracing_disabled,
)
from agents.testing import ScriptedModel, assistant_message, function_call
from openai import APIStatusError, NotFoundError
from pydantic import BaseModel

from gateway.in_process_world import SEALING, InProcessWorld, no_sockets
from gateway.world import ROUTES
from integrations.obedient_model import ObedientModel
from segue.emulators import Fault
from segue.integrations.openai_agents import SegueModelProvider

OTHER = ROUTES["anthropic"]
set_tracing_disabled(disabled=True)


@pytest.fixture
def world() -> Iterator[InProcessWorld]:
    with InProcessWorld() as world:
        yield world


@function_tool
def weather(city: str) -> str:
    """The weather of a city."""
    return f"rain in {city}"


def config(world: InProcessWorld, model: str | None = None) -> RunConfig:
    return RunConfig(model_provider=SegueModelProvider(world.app), model=model)


@pytest.mark.parametrize("kept", ["input list", "JSON", "session"])
@pytest.mark.parametrize("home", SEALING.values(), ids=SEALING)
def test_an_agent_goes_to_another_model_and_back_with_all_seals(
    world: InProcessWorld, home: str, kept: str
) -> None:
    agent = Agent(name="guide", tools=[weather])
    session = SQLiteSession("one")
    items: list[Any] = []
    sealed = 0
    with no_sockets():
        for model, words, results in (
            (home, "Please look.", 2),
            (OTHER, "Please look again.", 2),
            (home, "Thank you.", 0),
        ):
            if kept == "session":
                run = Runner.run_sync(agent, words, run_config=config(world, model), session=session)
            else:
                asked = [*items, {"role": "user", "content": words}]
                run = Runner.run_sync(agent, asked, run_config=config(world, model))
                items = run.to_input_list()
                items = json.loads(json.dumps(items)) if kept == "JSON" else items
            assert run.final_output == f"I know: {results} results."
            assert run.context_wrapper.usage.input_tokens > 0
            sealed = sealed or world.thoughts_of(home)
    session.close()
    world.check_return(home, before=sealed)


def test_a_run_streams(world: InProcessWorld) -> None:
    async def main() -> list[str]:
        run = Runner.run_streamed(
            Agent(name="guide", tools=[weather]), "Please look.", run_config=config(world, OTHER)
        )
        pieces = [
            event.data.delta
            async for event in run.stream_events()
            if event.type == "raw_response_event" and event.data.type == "response.output_text.delta"
        ]
        assert run.final_output == "I know: 2 results."
        return pieces

    assert "".join(asyncio.run(main())).endswith("I know: 2 results.")


def test_agents_of_different_models_hand_over(world: InProcessWorld) -> None:
    """The first one is scripted by the framework's own test model; the second one answers by the gateway."""
    expert = Agent(name="expert", model=OTHER)
    model = ScriptedModel([[function_call("transfer_to_expert", {}, call_id="call_1")]])
    first = Agent(name="first", model=model, handoffs=[expert])
    run = Runner.run_sync(first, "Hello.", run_config=config(world))
    assert run.last_agent is expert
    assert run.final_output.startswith("I know: ")
    assert world.refusals() == []


class City(BaseModel):
    """A city."""

    name: str
    people: int


@pytest.mark.parametrize("route", ["anthropic", "chat", "gemini", "mistral", "ollama"])
def test_an_answer_is_of_the_type_that_was_asked_for(route: str) -> None:
    with InProcessWorld(responder=ObedientModel()) as world:
        agent = Agent(name="guide", output_type=City, model=ROUTES[route])
        run = Runner.run_sync(agent, "Which city has 700 people?", run_config=config(world))
        assert run.final_output.people == 700
        assert world.refusals() == []


def test_errors_are_those_of_the_sdk(world: InProcessWorld) -> None:
    with pytest.raises(NotFoundError):
        Runner.run_sync(Agent(name="guide"), "Hello.", run_config=config(world, "nobody"))
    with pytest.raises(UserError, match="names no model"):
        SegueModelProvider(world.app).get_model(None)
    assert SegueModelProvider(world.app, default=OTHER).get_model(None) is not None
    world.emulator.faults += [Fault(kind="status", status=503, provider="anthropic")] * 20
    with pytest.raises(APIStatusError):
        Runner.run_sync(Agent(name="guide"), "Hello.", run_config=config(world, OTHER))


def test_a_cancelled_run_ends_the_reply(world: InProcessWorld) -> None:
    async def main() -> None:
        world.emulator.faults.append(Fault(kind="silence", seconds=30, provider="anthropic"))
        run = Runner.run(Agent(name="guide"), "Hello.", run_config=config(world, OTHER))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(run, 0.5)

    asyncio.run(main())
    assert world.idle_soon()


def test_replies_that_the_gateway_keeps_are_continued_by_id(world: InProcessWorld) -> None:
    agent = Agent(name="guide", model_settings=ModelSettings(store=True), tools=[weather])
    first = Runner.run_sync(agent, "Please look.", run_config=config(world, OTHER))
    second = Runner.run_sync(
        agent,
        "Thank you.",
        run_config=config(world, ROUTES["gemini"]),
        previous_response_id=first.last_response_id,
    )
    assert second.final_output == "I know: 0 results."
    assert len(world.requests_to(ROUTES["gemini"])[-1].body["contents"]) > 2


def test_a_scripted_model_of_the_framework_works_beside_it() -> None:
    model = ScriptedModel([[assistant_message("Scripted.")]])
    assert Runner.run_sync(Agent(name="guide", model=model), "Hello.").final_output == "Scripted."


def test_a_tool_of_openai_is_refused_elsewhere(world: InProcessWorld) -> None:
    agent = Agent(name="guide", tools=[WebSearchTool()])
    with pytest.raises(APIStatusError, match="tool_not_offered"):
        Runner.run_sync(agent, "Hello.", run_config=config(world, ROUTES["mistral"]))

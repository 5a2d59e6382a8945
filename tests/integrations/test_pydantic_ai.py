"""The model for pydantic-ai: an agent that moves between models, with tools, streams, typed answers, counts and errors."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any, Literal

import pytest

pytest.importorskip("pydantic_ai", reason="pydantic-ai is not installed: make frameworks")

from pydantic import BaseModel, Field
from pydantic_ai import (
    Agent,
    ModelHTTPError,
    ModelMessagesTypeAdapter,
    NativeOutput,
    ToolOutput,
    capture_run_messages,
)
from pydantic_ai.capabilities import NativeTool
from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import ModelRequest, ThinkingPart, ToolCallPart, UserPromptPart
from pydantic_ai.native_tools import WebSearchTool

from gateway.in_process_world import SEALING, InProcessWorld, no_sockets
from gateway.world import ROUTES
from integrations.obedient_model import ObedientModel
from segue.emulators import Fault
from segue.integrations.pydantic_ai import SegueModel

OTHER = ROUTES["anthropic"]


@pytest.fixture
def world() -> Iterator[InProcessWorld]:
    with InProcessWorld() as world:
        yield world


def weather(city: str) -> str:
    """The weather of a city."""
    return f"rain in {city}"


@pytest.mark.parametrize("stored", [False, True], ids=["in memory", "as JSON"])
@pytest.mark.parametrize("home", SEALING.values(), ids=SEALING)
def test_an_agent_goes_to_another_model_and_back_with_all_seals(
    world: InProcessWorld, home: str, stored: bool
) -> None:
    agent = Agent(tools=[weather])
    history: list[Any] = []
    sealed = 0
    with no_sockets():
        for model, words, results in (
            (home, "Please look.", 2),
            (OTHER, "Please look again.", 2),
            (home, "Thank you.", 0),
        ):
            run = agent.run_sync(words, model=SegueModel(model, app=world.app), message_history=history)
            assert run.output == f"I know: {results} results."
            assert run.usage.input_tokens > 0
            sealed = sealed or world.thoughts_of(home)
            history = run.all_messages()
            if stored:
                history = ModelMessagesTypeAdapter.validate_json(run.all_messages_json())
    world.check_return(home, before=sealed)


@pytest.mark.parametrize("settings", [{}, {"thinking": "high"}], ids=["as usual", "with thoughts"])
def test_the_temperature_reaches_a_model_that_takes_one(
    world: InProcessWorld, settings: dict[str, Any]
) -> None:
    agent = Agent(SegueModel("gemini/gemini-3.5-flash", app=world.app))
    agent.run_sync("Hello.", model_settings={"temperature": 0.25, **settings})
    (request,) = world.requests_to("gemini/gemini-3.5-flash")
    assert request.body["generationConfig"]["temperature"] == 0.25


def test_calls_keep_their_ids_and_thoughts_are_parts(world: InProcessWorld) -> None:
    agent = Agent(SegueModel(SEALING["responses"], app=world.app), tools=[weather])
    with capture_run_messages() as messages:
        agent.run_sync("Please look.")
    parts = [part for message in messages for part in message.parts]
    calls = [part for part in parts if isinstance(part, ToolCallPart)]
    assert [call.tool_name for call in calls] == ["weather", "weather"]
    assert len({call.tool_call_id for call in calls}) == 2
    assert any(isinstance(part, ThinkingPart) for part in parts)


def test_a_reply_streams(world: InProcessWorld) -> None:
    async def main() -> list[str]:
        agent = Agent(SegueModel(OTHER, app=world.app), tools=[weather])
        async with agent.run_stream("Hello.") as stream:
            pieces = [piece async for piece in stream.stream_text(delta=True, debounce_by=None)]
            assert stream.usage.output_tokens > 0
        return pieces

    pieces = asyncio.run(main())
    assert "".join(pieces) == "I know: 0 results."
    assert len(pieces) > 1


class City(BaseModel):
    """A city."""

    name: str
    people: int


@pytest.mark.parametrize("route", ["anthropic", "chat", "gemini", "mistral"])
@pytest.mark.parametrize("output", [City, NativeOutput(City)], ids=["tool", "native"])
def test_an_answer_is_of_the_type_that_was_asked_for(route: str, output: Any) -> None:
    with InProcessWorld(responder=ObedientModel()) as world:
        agent = Agent(SegueModel(ROUTES[route], app=world.app), output_type=output)
        answer = agent.run_sync("Which city has 700 people?").output
        assert answer.people == 700
        assert world.refusals() == []


class Trip(BaseModel):
    """Fields as builders write them."""

    city: City = Field(description="Where to.")
    sights: list[City] = []
    how: Literal["train", "car"] = "train"


@pytest.mark.parametrize(
    "output", [NativeOutput(Trip), ToolOutput(Trip, strict=True)], ids=["native", "strict tool"]
)
def test_a_model_of_openai_is_asked_for_descriptions_and_defaults_in_a_form_that_it_takes(
    output: Any,
) -> None:
    with InProcessWorld(responder=ObedientModel()) as world:
        agent = Agent(SegueModel(SEALING["responses"], app=world.app), output_type=output)
        assert isinstance(agent.run_sync("A trip.").output, Trip)
        assert world.refusals() == []


def test_a_call_that_was_never_answered_is_no_error(world: InProcessWorld) -> None:
    agent = Agent(SegueModel(OTHER, app=world.app), tools=[weather])
    with capture_run_messages() as messages:
        agent.run_sync("Please look.")
    cut = [messages[0], messages[1], ModelRequest(parts=[UserPromptPart("Never mind.")])]
    assert agent.run_sync(message_history=cut).output
    assert world.refusals() == []


def test_errors_are_those_of_pydantic_ai(world: InProcessWorld) -> None:
    with pytest.raises(ModelHTTPError) as unknown:
        Agent(SegueModel("nobody", app=world.app)).run_sync("Hello.")
    assert unknown.value.status_code == 404
    world.emulator.faults += [Fault(kind="status", status=503, provider="anthropic")] * 20
    with pytest.raises(ModelHTTPError) as away:
        Agent(SegueModel(OTHER, app=world.app)).run_sync("Hello.")
    assert away.value.status_code in (503, 529)


def test_a_cancelled_run_ends_the_reply(world: InProcessWorld) -> None:
    async def main() -> None:
        world.emulator.faults.append(Fault(kind="silence", seconds=30, provider="anthropic"))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(Agent(SegueModel(OTHER, app=world.app)).run("Hello."), 0.5)

    asyncio.run(main())
    assert world.idle_soon()


def test_a_tool_of_openai_is_refused_elsewhere(world: InProcessWorld) -> None:
    agent = Agent(SegueModel(ROUTES["mistral"], app=world.app), capabilities=[NativeTool(WebSearchTool())])
    with pytest.raises((ModelHTTPError, UserError)):
        agent.run_sync("Hello.")


def test_batches_are_not_offered(world: InProcessWorld) -> None:
    assert SegueModel(OTHER, app=world.app).batch_max_requests is None

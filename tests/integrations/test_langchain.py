"""The chat model for LangChain: LangChain's own standard tests, a graph that moves between models, and its checkpoints."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

REASON = "LangChain is not installed: make frameworks"
langchain_tests = pytest.importorskip("langchain_tests", reason=REASON)
pytest.importorskip("langchain_openai", reason=REASON)
pytest.importorskip("langgraph", reason=REASON)

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_tests.integration_tests import ChatModelIntegrationTests
from langchain_tests.unit_tests import ChatModelUnitTests
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from openai import APIStatusError, APITimeoutError, NotFoundError, RateLimitError
from pydantic import BaseModel, Field, RootModel

from gateway.in_process_world import SEALING, InProcessWorld, no_sockets
from gateway.world import ROUTES
from integrations.obedient_model import ObedientModel
from segue.emulators import Fault
from segue.integrations.langchain import ChatSegue

OTHER = ROUTES["anthropic"]
_obedient = InProcessWorld(responder=ObedientModel())


class TestUnit(ChatModelUnitTests):
    @property
    def chat_model_class(self) -> type[ChatSegue]:
        return ChatSegue

    @property
    def chat_model_params(self) -> dict[str, Any]:
        return {"model": OTHER, "app": _obedient.app}


class TestIntegration(ChatModelIntegrationTests):
    """Tests of images and documents fetch them from the web, so they are not asked for here."""

    @property
    def supports_json_mode(self) -> bool:
        return True

    @property
    def model_override_value(self) -> str:
        return ROUTES["chat"]

    @property
    def chat_model_class(self) -> type[ChatSegue]:
        return ChatSegue

    @property
    def chat_model_params(self) -> dict[str, Any]:
        return {"model": OTHER, "app": _obedient.app}


@pytest.fixture
def world() -> Iterator[InProcessWorld]:
    with InProcessWorld() as world:
        yield world


@tool
def weather(city: str) -> str:
    """The weather of a city."""
    return f"rain in {city}"


def graph(world: InProcessWorld, checkpointer: Any) -> Callable[[str, str], str]:
    """An agent whose state names the model, as a program would switch it."""
    using = {"model": ""}

    def ask(state: MessagesState) -> dict[str, Any]:
        model = ChatSegue(model=using["model"], app=world.app).bind_tools([weather])
        return {"messages": [model.invoke(state["messages"])]}

    built = StateGraph(MessagesState)
    built.add_node("ask", ask)
    built.add_node("tools", ToolNode([weather]))
    built.add_edge(START, "ask")
    built.add_conditional_edges("ask", tools_condition)
    built.add_edge("tools", "ask")
    compiled = built.compile(checkpointer=checkpointer)

    def turn(model: str, words: str) -> str:
        using["model"] = model
        state = compiled.invoke({"messages": [HumanMessage(words)]}, {"configurable": {"thread_id": "one"}})
        return str(state["messages"][-1].text)

    return turn


@pytest.mark.parametrize("home", SEALING.values(), ids=SEALING)
def test_a_graph_goes_to_another_model_and_back_with_all_seals(world: InProcessWorld, home: str) -> None:
    turn = graph(world, InMemorySaver())
    with no_sockets():
        assert turn(home, "Please look.") == "I know: 2 results."
        sealed = world.thoughts_of(home)
        assert turn(OTHER, "Please look again.") == "I know: 2 results."
        assert turn(home, "Thank you.") == "I know: 0 results."
    world.check_return(home, before=sealed)


@pytest.mark.parametrize("home", SEALING.values(), ids=SEALING)
def test_a_checkpoint_of_a_graph_resumes_in_another_program(tmp_path: Path, home: str) -> None:
    """Thoughts are in the checkpoint; who made them is in the memory of the gateway."""
    world = InProcessWorld(memory=tmp_path / "memory")
    sealed = 0
    for model, words in ((home, "Please look."), (OTHER, "Please look again."), (home, "Thank you.")):
        with SqliteSaver.from_conn_string(str(tmp_path / "graph.db")) as saver, world:
            assert graph(world, saver)(model, words).startswith("I know: ")
            sealed = sealed or world.thoughts_of(home)
        world.restart()
    world.check_return(home, before=sealed)


def test_a_call_that_was_never_answered_is_no_error(world: InProcessWorld) -> None:
    model = ChatSegue(model=OTHER, app=world.app).bind_tools([weather])
    asked = model.invoke("Please look.")
    assert isinstance(asked, AIMessage)
    first = ToolMessage("rain", tool_call_id=asked.tool_calls[0]["id"])
    later = model.invoke([HumanMessage("Please look."), asked, first, HumanMessage("Never mind.")])
    assert later.text
    assert world.refusals() == []


def test_errors_are_those_that_langchain_retries(world: InProcessWorld) -> None:
    model = ChatSegue(model=OTHER, app=world.app, max_retries=0)
    with pytest.raises(NotFoundError, match="There is no model"):
        ChatSegue(model="nobody", app=world.app, max_retries=0).invoke("Hello.")
    world.emulator.faults += [Fault(kind="status", status=429, provider="anthropic", retry_after=60.0)] * 9
    with pytest.raises(RateLimitError):
        model.invoke("Hello.")
    world.emulator.faults.clear()
    world.emulator.faults.append(Fault(kind="silence", seconds=30, provider="anthropic"))
    with pytest.raises(APITimeoutError):
        ChatSegue(model=OTHER, app=world.app, max_retries=0, timeout=0.3).invoke("Hello.")


def test_a_cancelled_stream_ends_the_reply(world: InProcessWorld) -> None:
    async def main() -> None:
        model = ChatSegue(model=OTHER, app=world.app)
        world.emulator.faults.append(Fault(kind="silence", seconds=30, provider="anthropic"))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(anext(model.astream("Hello.")), 0.3)

    asyncio.run(main())
    assert world.idle_soon()


def test_a_structured_answer_with_the_raw_one_beside_it() -> None:
    class City(BaseModel):
        """A city."""

        name: str

    model = ChatSegue(model=OTHER, app=_obedient.app).with_structured_output(City, include_raw=True)
    answer = model.invoke("Which city?")
    assert isinstance(answer["parsed"], City)
    assert answer["raw"].usage_metadata["total_tokens"] > 0


class City(BaseModel):
    name: str
    people: int = 0


class Trip(BaseModel):
    """Fields as builders write them."""

    city: City = Field(description="Where to.")
    sights: list[City] = []


class Names(RootModel[list[str]]):
    """No object."""


@pytest.mark.parametrize("kind", [Trip, Names])
def test_a_model_of_openai_is_held_strictly_to_a_class_of_pydantic(kind: type[BaseModel]) -> None:
    with InProcessWorld(responder=ObedientModel()) as world:
        model = ChatSegue(model=SEALING["responses"], app=world.app).with_structured_output(kind)
        assert isinstance(model.invoke("A trip."), kind)
        (request,) = world.requests_to(SEALING["responses"])
        assert request.body["text"]["format"]["strict"] is True
        assert world.refusals() == []


def test_a_tool_of_openai_is_refused_elsewhere(world: InProcessWorld) -> None:
    model = ChatSegue(model=ROUTES["mistral"], app=world.app).bind_tools([{"type": "web_search"}])
    with pytest.raises(APIStatusError, match="tool_not_offered"):
        model.invoke("Hello.")


def test_another_thing_in_place_of_the_gateway_is_refused() -> None:
    with pytest.raises(ValueError, match="gateway_app"):
        ChatSegue(model=OTHER, app="http://localhost")

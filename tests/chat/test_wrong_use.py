"""What people write who know other libraries: it works, or the error says at once what is meant."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from typing import Any

import pytest

from segue import Agent, Chat, Context, Message, ScriptedProvider, Text
from segue.errors import UsageError
from segue.providers import says
from segue.tools import as_tool


def answered(text: str = "Fine.") -> dict[str, ScriptedProvider]:
    return {"scripted": ScriptedProvider([says(text)])}


def agent(**given: Any) -> Agent[Any, Any]:
    return Agent("scripted/any", providers=given.pop("providers", answered()), **given)


def look(city: str) -> str:
    """Look at a city."""
    return city


def another() -> Callable[..., Any]:
    def look(place: str) -> str:
        return place

    return look


def count(upto: int) -> Iterator[int]:
    yield from range(upto)


async def count_later(upto: int) -> AsyncIterator[int]:
    yield upto


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [
        (
            lambda: agent(system_prompt="Be brief."),
            'Agent() got an unexpected keyword argument|"instructions"',
        ),
        (lambda: agent(deps_type=int), '"deps"'),
        (lambda: agent(result_type=int), '"output"'),
        (lambda: Chat("scripted/any", instructions="Be brief."), '"system"'),  # type: ignore[call-arg]
        (lambda: Chat("scripted/any", messages=[]), '"history"'),  # type: ignore[call-arg]
        (lambda: agent(functions=[]), '"tools"'),
        (lambda: agent(temperature=1), "options=Options(temperature=…)"),
        (lambda: agent(max_cost=1), "budget=Budget(max_cost=…)"),
        (lambda: Chat("scripted/any", temprature=1), "options=Options(temperature=…)"),  # type: ignore[call-arg]
        (lambda: Chat("scripted/any", max_tokens=1), "options=Options(max_tokens=…)"),  # type: ignore[call-arg]
        (lambda: agent().chat(sesion="a"), 'Agent.chat() got an unexpected keyword argument|"session"'),  # type: ignore[call-arg]
        (lambda: asyncio.run(agent().run("Hello.", dep=1)), 'Agent.run() got an unexpected|"deps"'),  # type: ignore[call-arg]
    ],
)
def test_a_keyword_of_another_library_is_answered_with_ours(wrong: Callable[[], Any], meant: str) -> None:
    with pytest.raises(TypeError) as raised:
        wrong()
    assert all(words in str(raised.value) for words in meant.split("|"))


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (lambda: agent(tools=[look, another()]), "Two tools are called"),
        (lambda: agent(tools=look), r"Write tools=\[…\]"),
        (lambda: agent(tools=[count]), "generator"),
        (lambda: agent(tools=[count_later]), "generator"),
        (lambda: agent(output="int"), "a text, not a type"),
        (lambda: agent(output=Text("x")), "cannot be the type of an answer"),
        (lambda: agent(check=lambda answer: answer), "check: .* function of the answer and a Context"),
        (lambda: agent(instructions=lambda: "Be brief."), "instructions: .* function of a Context"),
        (lambda: Chat("scripted/any", system=3), "system: Expected a function"),  # type: ignore[arg-type]
        (lambda: agent(store="postgresql://me:hunter2@db").chat(), "store: str cannot be given here"),
        (lambda: agent(providers=[ScriptedProvider([])]).chat(), "providers: list cannot be given here"),
        (lambda: Agent(3), "model: int cannot be given here"),  # type: ignore[call-overload]
        (lambda: Chat(3), "model: int cannot be given here"),  # type: ignore[arg-type]
        (lambda: agent(options={"temperature": 1}), r"options: dict .* options=Options\(…\)"),
        (lambda: agent(budget=3), r"budget: int .* budget=Budget\(…\)"),
        (lambda: agent(deps="a value"), "deps: Expected a type, not a str"),
        (lambda: asyncio.run(agent().run({"role": "user"})), "dict cannot be sent"),  # type: ignore[arg-type]
        (lambda: asyncio.run(agent().run(None)), "NoneType cannot be sent"),  # type: ignore[arg-type]
    ],
)
def test_what_cannot_be_meant_is_refused_with_what_to_write(wrong: Callable[[], Any], why: str) -> None:
    with pytest.raises(UsageError, match=why) as raised:
        wrong()
    assert "hunter2" not in str(raised.value)


@pytest.mark.parametrize(
    ("history", "before"),
    [
        ([], 0),
        ((row for row in [{"role": "user", "content": "Hello."}]), 1),
        ([Message("user", (Text("Hello."),))], 1),
    ],
)
def test_a_history_may_be_empty_an_iterator_or_our_own_messages(history: Any, before: int) -> None:
    with Chat("scripted/any", history=history, providers=answered()).blocking() as chat:
        chat.send("And now?")
        assert len(chat.chat.conversation.messages) == before + 2


def test_an_answer_of_type_str_may_be_plain_or_in_json() -> None:
    for text in ("Fine.", '{"answer": "Fine."}'):
        answer = asyncio.run(agent(output=str, providers=answered(text)).run("How?"))
        assert answer.output == "Fine."


def test_a_tool_is_named_and_described_by_what_is_called() -> None:
    class Lookup:
        def __call__(self, city: str, context: Context) -> str:
            """Look it up."""
            return city

    spec = as_tool(Lookup()).spec
    assert (spec.name, spec.description) == ("Lookup", "Look it up.")
    spec = as_tool(partial(look, city="Oslo")).spec
    assert (spec.name, spec.description) == ("look", "Look at a city.")

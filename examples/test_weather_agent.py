"""Tests of an agent, with a strict emulator in the place of the API. Run: pytest examples/test_weather_agent.py

The emulator refuses what the real API refuses, so these tests see requests that would have failed in production.
"""

from __future__ import annotations

from segue import Answer, Chat, default_registry, tool
from segue.emulators import Call, Fault, Reply, Say, ScriptedResponder, Served

pytest_plugins = ["segue.emulators.pytest_plugin"]


@tool(effect="read")
def weather(city: str) -> str:
    """The weather of a city."""
    return {"Oslo": "rain"}[city]


def ask_agent(question: str, api: Served) -> Answer:
    """The agent under test."""
    environment = {"OPENAI_API_KEY": "any", "OPENAI_BASE_URL": api.url("openai") + "/v1"}
    registry = default_registry(environ=environment, keyring=False)
    with Chat("openai/gpt-4.1", tools=[weather], providers=registry).blocking() as chat:
        return chat.send(question)


def calls_weather(city: str) -> Reply:
    return Reply(pieces=(Call("weather", {"city": city}),))


def says(text: str) -> Reply:
    return Reply(pieces=(Say(text),))


def test_the_agent_looks_the_weather_up(segue_emulator_server: Served) -> None:
    emulator = segue_emulator_server.emulator
    emulator.responder = ScriptedResponder([calls_weather("Oslo"), says("Take an umbrella.")])
    answer = ask_agent("Oslo?", segue_emulator_server)
    assert answer.text == "Take an umbrella."
    assert answer.exchanges == 2
    assert [entry.verdict for entry in emulator.log] == ["accepted", "accepted"]


def test_the_agent_survives_a_failing_tool(segue_emulator_server: Served) -> None:
    replies = [calls_weather("Atlantis"), says("I do not know that city.")]
    segue_emulator_server.emulator.responder = ScriptedResponder(replies)
    assert ask_agent("Atlantis?", segue_emulator_server).text == "I do not know that city."


def test_the_agent_waits_when_the_api_is_busy(segue_emulator_server: Served) -> None:
    emulator = segue_emulator_server.emulator
    emulator.faults.append(Fault(kind="status", status=429, retry_after=0.01))
    emulator.responder = ScriptedResponder([says("Hello.")])
    assert ask_agent("Hello?", segue_emulator_server).text == "Hello."

"""What a server tells of its own models before the first chat: asked once, in time, and never in the way."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from segue.chat.chat import Chat
from segue.conversation.events import Failed, Finished
from segue.conversation.message import Conversation, user
from segue.conversation.options import Options
from segue.dialects.card import UNKNOWN, ModelCard
from segue.emulators.faults import Fault
from segue.emulators.model.model_reply import Reply, Say
from segue.emulators.server import Served
from segue.providers.adapter import ChatRequest
from segue.providers.capabilities import ModelInfo
from segue.providers.config import ProviderConfig
from segue.providers.factory import connect
from segue.providers.models import listing
from segue.providers.models.listing import fitted
from segue.providers.provider import Provider
from strategies.endpoints import saying
from strategies.provider_places import KEY, PLACES, WEATHER, asking, events_of, failure_of, provider_at, say

OLLAMA = next(place for place in PLACES if place.name == "ollama")
SMALL = "phi3:mini"
"""A model that the catalog does not know and that takes no tools."""


@pytest.fixture
def ollama(segue_emulator_server: Served) -> Provider:
    provider = provider_at(segue_emulator_server, OLLAMA)
    pull: Any = provider.capabilities.pull_model
    asyncio.run(pull(SMALL))
    segue_emulator_server.emulator.log.clear()
    return provider


def request(text: str = "Hello.", **fields: Any) -> ChatRequest:
    return ChatRequest(model=SMALL, conversation=Conversation().append(user(text)), **fields)


def paths(served: Served) -> list[str]:
    return [entry.path for entry in served.emulator.log]


def test_what_a_model_can_do_is_asked_once_and_known_from_then_on(
    segue_emulator_server: Served, ollama: Provider
) -> None:
    assert ollama.card(SMALL) == UNKNOWN
    for _ in range(2):
        assert isinstance(events_of(ollama, request())[-1], Finished)
    assert paths(segue_emulator_server) == ["/api/show", "/api/chat", "/api/chat"]
    card = ollama.card(SMALL)
    assert (card.context, card.tools, card.images, card.thinking) == (131_072, False, False, "none")


def test_a_model_that_the_catalog_knows_is_not_asked_about(segue_emulator_server: Served) -> None:
    events_of(provider_at(segue_emulator_server, OLLAMA), asking(OLLAMA))
    assert paths(segue_emulator_server) == ["/api/chat"]


def test_tools_for_a_model_without_tools_are_refused_before_it_is_loaded(
    segue_emulator_server: Served, ollama: Provider
) -> None:
    error = failure_of(ollama, request(tools=(WEATHER,)))
    assert error.code == "tools_unsupported"
    assert SMALL in error.message
    assert paths(segue_emulator_server) == ["/api/show"]


def test_a_chat_with_such_a_model_goes_to_calls_in_words_at_once(
    segue_emulator_server: Served, ollama: Provider
) -> None:
    def weather(city: str) -> str:
        """The weather of a city."""
        return f"rain in {city}"

    say(
        segue_emulator_server,
        Reply(pieces=(Say('Thought: look\nAction: weather\nAction Input: {"city": "Rome"}'),)),
        Reply(pieces=(Say("Thought: done\nFinal Answer: It rains."),)),
    )

    async def main() -> str:
        async with Chat(f"ollama/{SMALL}", tools=[weather], providers={"ollama": ollama}) as chat:
            answer = await chat.send("Rome?")
            assert answer.error is None, answer.error
            return answer.text.strip()

    assert asyncio.run(main()) == "It rains."
    log = segue_emulator_server.emulator.log
    assert [(entry.path, entry.status) for entry in log] == [
        ("/api/show", 200),
        ("/api/chat", 200),
        ("/api/chat", 200),
    ]
    assert all("tools" not in entry.body for entry in log)


def test_the_window_that_the_server_tells_bounds_the_one_that_is_asked_for(
    segue_emulator_server: Served, ollama: Provider
) -> None:
    long = request("And so on and so forth. " * 40_000, options=Options(max_tokens=100))
    events_of(ollama, long)
    assert segue_emulator_server.emulator.log[-1].body["options"]["num_ctx"] == 131_072


@pytest.mark.parametrize("fault", [Fault(status=500), Fault(kind="malformed"), Fault(kind="cut", at_byte=9)])
def test_a_server_that_cannot_tell_is_asked_for_the_chat_nevertheless(
    segue_emulator_server: Served, ollama: Provider, fault: Fault
) -> None:
    segue_emulator_server.emulator.faults.append(fault)
    assert isinstance(events_of(ollama, request())[-1], Finished)
    assert ollama.card(SMALL) == UNKNOWN
    events_of(ollama, request())
    assert ollama.card(SMALL).context


def test_a_server_that_takes_its_time_to_tell_is_not_waited_for_again(
    segue_emulator_server: Served, ollama: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "LEARNING_SECONDS", 0.05)
    segue_emulator_server.emulator.faults.append(Fault(kind="silence", seconds=1.0))
    for _ in range(2):
        assert isinstance(events_of(ollama, request())[-1], Finished)
    assert paths(segue_emulator_server).count("/api/chat") == 2
    assert paths(segue_emulator_server).count("/api/show") <= 1


def test_an_old_server_tells_the_window_and_leaves_the_rest_open() -> None:
    listed = ModelCard(tools=True, images=None, thinking="")
    told = fitted(listed, ModelInfo(id="m", context=8192))
    assert (told.context, told.tools, told.images, told.thinking) == (8192, True, None, "")
    able = ModelInfo(id="m", capabilities=("reasoning", "tools"), details={"capabilities": ["thinking"]})
    assert (fitted(listed, able).thinking, fitted(listed, able).tools) == ("switch", True)
    by_effort = ModelCard(thinking="level")
    assert fitted(by_effort, able).thinking == "level"


# A server that has what it has


@pytest.mark.parametrize("name", ["vllm", "llama.cpp", "lm-studio", "openai-compatible"])
@pytest.mark.parametrize("model", ["", "default"])
def test_no_model_means_the_first_that_the_server_has(
    segue_emulator_server: Served, name: str, model: str
) -> None:
    config = ProviderConfig(base_url=segue_emulator_server.url("mistral") + "/v1", api_key=KEY)
    provider = connect(name, config, environ={}, keyring=False)
    unnamed = ChatRequest(model=model, conversation=Conversation().append(user("Hi.")))
    for _ in range(2):
        events_of(provider, unnamed)
    assert paths(segue_emulator_server)[:2] == ["/v1/models", "/v1/chat/completions"]
    assert paths(segue_emulator_server).count("/v1/models") == 1
    asked = segue_emulator_server.emulator.log[-1].body["model"]
    assert asked not in ("", "default")
    assert provider.preview(unnamed).origin.model == asked


def test_a_server_that_does_not_say_what_it_has_is_told_with_its_address() -> None:
    config = ProviderConfig(base_url="http://127.0.0.1:9/v1")
    error = failure_of(
        connect("vllm", config, environ={}, keyring=False),
        ChatRequest(model="", conversation=Conversation().append(user("Hi."))),
    )
    assert error.code == "CONNECTION_FAILED"
    assert "No model is named" in error.message
    assert "http://127.0.0.1:9/v1/models" in error.message


def test_a_server_without_models_says_so() -> None:
    config = ProviderConfig(base_url="http://local.test/v1")
    body = msgspec.json.encode({"data": []})
    provider = connect("vllm", config, environ={}, transport=saying(body), keyring=False)
    events = events_of(provider, ChatRequest(model="", conversation=Conversation().append(user("Hi."))))
    assert len(events) == 1
    assert isinstance(events[0], Failed)
    assert events[0].error.code == "no_model"
    assert "providers.vllm.model" in events[0].error.hint

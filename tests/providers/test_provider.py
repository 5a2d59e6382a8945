from __future__ import annotations

import asyncio

import msgspec
import pytest
from msgspec import structs

from segue.conversation.blocks import ToolResult
from segue.conversation.events import CallStarted, Finished, TextDelta
from segue.conversation.message import Conversation, tool, user
from segue.conversation.options import Options
from segue.emulators.model.model_reply import Call, Reply, Say
from segue.emulators.server import Served
from segue.providers.adapter import ChatRequest, fold_stream
from segue.providers.config import ProviderConfig
from segue.providers.credentials.keys import Secret
from segue.providers.factory import connect
from segue.providers.hosts.addresses import addresses
from segue.providers.provider import Provider
from segue.providers.registry import default_registry
from strategies.provider_places import (
    CLOUDS,
    KEY,
    PLACES,
    WEATHER,
    Place,
    asking,
    events_of,
    provider_at,
    say,
    sent_in,
)

every_place = pytest.mark.parametrize("place", PLACES, ids=str)
OPENAI, RESPONSES, ANTHROPIC, GEMINI, MISTRAL, KIMI, DEEPSEEK, OLLAMA, BEDROCK = PLACES


@every_place
@pytest.mark.requirement("Property 10", "Scenario: Chat Completion")
def test_a_reply_arrives_as_events_and_says_whose_words_it_is(
    segue_emulator_server: Served, place: Place
) -> None:
    say(segue_emulator_server, Reply(pieces=(Say("Good day to you, and welcome."),)))
    events = events_of(provider_at(segue_emulator_server, place), asking(place))
    reply, origin = fold_stream(events), sent_in(events).origin
    assert reply.message.text == "Good day to you, and welcome."
    assert reply.finish == "stop"
    assert len([event for event in events if isinstance(event, TextDelta)]) > 1
    assert origin.provider == place.name
    assert origin.model == place.model
    assert reply.message.origin == origin
    assert reply.usage.output_tokens
    assert [entry.verdict for entry in segue_emulator_server.emulator.log] == ["accepted"]


@every_place
@pytest.mark.requirement("Scenario: Chat Completion with Tools", "Scenario: Tool Call Response Format")
def test_a_tool_turn_comes_to_its_end(segue_emulator_server: Served, place: Place) -> None:
    say(
        segue_emulator_server,
        Reply(pieces=(Call("get_weather", {"city": "Rome"}), Call("get_weather", {"city": "Oslo"}))),
        Reply(pieces=(Say("Sun in Rome, snow in Oslo."),)),
    )
    provider = provider_at(segue_emulator_server, place)

    async def main() -> str:
        conversation = Conversation(system="Be brief.").append(user("Rome? Oslo?"))
        for _ in range(2):
            request = asking(place, conversation=conversation, tools=(WEATHER,), session="s")
            events = [event async for event in provider.chat_stream(request)]
            sent_in(events)
            reply = fold_stream(events)
            assert reply.error is None, reply.error
            conversation = conversation.append(reply.message)
            calls = conversation.messages[-1].calls
            if calls:
                assert [call.arguments for call in calls] == [{"city": "Rome"}, {"city": "Oslo"}]
                results = (ToolResult(call.id, call.name, output="fair") for call in calls)
                conversation = conversation.append(tool(*results))
        return reply.message.text

    assert asyncio.run(main()) == "Sun in Rome, snow in Oslo."
    assert [entry.verdict for entry in segue_emulator_server.emulator.log] == ["accepted", "accepted"]


@every_place
def test_a_tool_whose_name_must_be_respelled_is_called_by_its_own_name(
    segue_emulator_server: Served, place: Place
) -> None:
    odd = structs.replace(WEATHER, name="wetter: heute & morgen")
    provider = provider_at(segue_emulator_server, place)
    request = asking(place, "What is the weather in Rome?", tools=(odd,))
    told = provider.preview(request)
    events = events_of(provider, request)
    names = [event.name for event in events if isinstance(event, CallStarted)]
    assert names
    assert set(names) == {odd.name}
    assert odd.name.encode() not in told.body or place is OLLAMA


def test_a_model_is_asked_on_the_wire_that_the_catalog_says_it_needs(segue_emulator_server: Served) -> None:
    for place in (OPENAI, RESPONSES):
        events_of(provider_at(segue_emulator_server, place), asking(place))
    paths = [entry.path for entry in segue_emulator_server.emulator.log]
    assert paths == ["/v1/chat/completions", "/v1/responses"]


def test_a_dialect_that_was_asked_for_holds_for_every_model(segue_emulator_server: Served) -> None:
    config = ProviderConfig(base_url=segue_emulator_server.url("openai") + "/v1", dialect="openai_responses")
    provider = connect("openai", config, api_key=KEY, environ={}, keyring=False)
    events_of(provider, asking(OPENAI))
    assert segue_emulator_server.emulator.log[-1].path == "/v1/responses"


@pytest.mark.parametrize("name", sorted(addresses().providers))
def test_every_known_provider_chats_by_configuration_alone(segue_emulator_server: Served, name: str) -> None:
    address = addresses().providers[name]
    like = {"bedrock-invoke": "bedrock"}.get(name, name)
    spoken = next(
        (place for one in (like, address.dialects[0]) for place in PLACES if place.name == one), OPENAI
    )
    emulator, path = CLOUDS.get(name, (spoken.name, spoken.path))
    at = segue_emulator_server.url(emulator) + path
    config = ProviderConfig(
        # Where each dialect has a place of its own, it is the emulator's.
        base_url=segue_emulator_server.base_url if name == "bedrock-mantle" else at,
        api_key=Secret(KEY),
        # The emulator of OpenAI does not know the header of another gateway.
        auth="bearer" if address.auth == "cf-aig-authorization" else None,
        workspace="wrkspc_01",
    )
    provider = default_registry({name: config}, {}, keyring=False).get(name)
    assert isinstance(provider, Provider)
    events = events_of(provider, asking(spoken))
    assert isinstance(events[-1], Finished), events[-1]
    assert segue_emulator_server.emulator.log[-1].verdict == "accepted"


@pytest.mark.parametrize("model", ["", "default"])
def test_no_model_means_the_configured_one_else_the_usual_one(model: str) -> None:
    request = ChatRequest(model=model, conversation=Conversation().append(user("Hi.")))
    mine = connect("openai", ProviderConfig(model="gpt-4o"), environ={}, keyring=False)
    assert mine.preview(request).origin.model == "gpt-4o"
    assert connect("openai", environ={}, keyring=False).preview(request).origin.model


@pytest.mark.requirement("Property 14")
def test_the_limit_and_zero_reach_a_local_server_under_their_own_names(
    segue_emulator_server: Served,
) -> None:
    options = Options(temperature=0.0, max_tokens=64, top_k=3, repeat_penalty=1.1, seed=0)
    events_of(provider_at(segue_emulator_server, OLLAMA), asking(OLLAMA, options=options))
    entry = segue_emulator_server.emulator.log[-1]
    assert entry.verdict == "accepted"
    assert entry.path == "/api/chat"
    assert entry.body["stream"] is True
    sent = entry.body["options"]
    assert (sent["temperature"], sent["num_predict"], sent["top_k"], sent["seed"]) == (0.0, 64, 3, 0)
    assert sent["repeat_penalty"] == 1.1


def test_two_hundred_replies_arrive_side_by_side_each_its_own(segue_emulator_server: Served) -> None:
    provider = provider_at(segue_emulator_server, OPENAI)
    say(segue_emulator_server, *(Reply(pieces=(Say(f"This is number {n}."),)) for n in range(200)))

    async def main() -> list[str]:
        async def one(number: int) -> str:
            events = provider.chat_stream(asking(OPENAI, session=f"s{number}"))
            return "".join([event.text async for event in events if isinstance(event, TextDelta)])

        return list(await asyncio.gather(*(one(number) for number in range(200))))

    assert sorted(asyncio.run(main())) == sorted(f"This is number {n}." for n in range(200))


@every_place
def test_the_next_turn_says_the_same_bytes_as_a_fresh_start_would(place: Place) -> None:
    conversation = Conversation(system="Be brief.").append(user("One."))
    kept = connect(place.name, environ={"AWS_REGION": "us-east-1"}, keyring=False)
    for number in range(4):
        request = asking(place, conversation=conversation, tools=(WEATHER,), session="s")
        fresh = connect(place.name, environ={"AWS_REGION": "us-east-1"}, keyring=False)
        assert msgspec.json.decode(kept.preview(request).body) == msgspec.json.decode(
            fresh.preview(request).body
        )
        conversation = conversation.append(user(f"And {number}?"))


def test_a_session_asks_for_the_cache_where_nothing_is_cached_unasked(segue_emulator_server: Served) -> None:
    """A prefix that will be sent again is worth keeping; a single request is not worth the price of writing it."""
    provider = provider_at(segue_emulator_server, ANTHROPIC)
    sent = []
    for session in ("a-session", ""):
        events = events_of(provider, asking(ANTHROPIC, session=session))
        assert isinstance(events[-1], Finished)
        sent.append(sent_in(events))
    lasting, single = (msgspec.json.decode(one.body) for one in sent)
    assert lasting["cache_control"] == {"type": "ephemeral"}
    assert "cache_control" not in single

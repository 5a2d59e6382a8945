"""Laws over the clouds that serve the wires of others: what their emulators accept, and whose seals they are sent."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from functools import cache
from itertools import permutations
from typing import Any, NamedTuple

import pytest
from hypothesis import given, note
from hypothesis import strategies as st
from msgspec import structs

from laws.test_dialect_laws import TOOLS, _unsealed
from segue.conversation.blocks import Origin, Reasoning, ToolResult
from segue.conversation.message import Conversation, tool, user
from segue.conversation.options import Options
from segue.dialects.card import fit_rules
from segue.dialects.gemini.vertex import vertex_body
from segue.emulators.app import App
from segue.emulators.emulator import Emulator
from segue.emulators.in_process import ask_now
from segue.emulators.model.model_reply import Call, Reply, Say, Think
from segue.emulators.model.responder import ScriptedResponder
from segue.providers.adapter import ChatRequest, fold_stream
from segue.providers.config import ProviderConfig
from segue.providers.factory import connect
from segue.providers.provider import Provider
from segue.transports.asgi import AsgiTransport
from strategies.histories import conversations
from strategies.provider_places import CLOUDS

MODELS = {
    "azure-openai": ("gpt-4.1", "gpt-5.5"),
    "azure-anthropic": ("claude-sonnet-4-6", "claude-opus-5-5"),
    "vertex": ("gemini-3.5-flash", "gemini-2.5-flash"),
    "vertex-anthropic": ("claude-sonnet-4-6", "claude-opus-5-5"),
    "bedrock": (
        "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
        "us.anthropic.claude-opus-4-7",
        "openai.gpt-oss-120b-1:0",
        "openai.gpt-5.5",
    ),
    "bedrock-invoke": ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", "global.anthropic.claude-opus-4-8"),
    "bedrock-mantle": ("anthropic.claude-opus-4-8", "openai.gpt-oss-120b", "openai.gpt-5.5"),
    "claude-aws": ("claude-sonnet-4-6", "claude-opus-5-5"),
}
THINKING = Options(effort="high", max_tokens=8000)
PLACES = {**CLOUDS, "bedrock": ("bedrock", "")}


@cache
def host(name: str) -> Provider:
    cloud, path = PLACES[name]
    base_url = f"http://emulator/{cloud}{path}"
    config = ProviderConfig(base_url=base_url, api_key="sk-emulated", workspace="wrkspc_01")
    return connect(name, config, environ={}, keyring=False)


@pytest.mark.parametrize("name", PLACES)
@given(data=st.data())
def test_no_history_makes_a_cloud_complain(name: str, data: st.DataObject) -> None:
    model = data.draw(st.sampled_from(MODELS[name]))
    provider = host(name)
    target = provider.target(model)
    rules = fit_rules(provider.endpoint_for(model)[0].dialect.rules, provider.card(model))
    conversation = data.draw(conversations(structs.replace(rules, target=target)))
    # A seal that nobody made cannot be opened by anybody: here only the shape of the request is judged.
    bare = tuple(_unsealed(message) for message in conversation.messages)
    request = ChatRequest(model=model, conversation=structs.replace(conversation, messages=bare), tools=TOOLS)
    sent = provider.preview(request)
    note(sent.body.decode()[:4000])
    headers = {"content-type": "application/json", **provider.endpoint.headers()}
    app = App(Emulator(strict=True))
    answer = ask_now(app, "POST", sent.url, body=sent.body, headers=headers)
    assert (answer.status, app.emulator.log[-1].message) == (200, None)


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)  # what JSON has
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
named = st.fixed_dictionaries(
    {"name": st.just("f"), "args": st.dictionaries(st.text(max_size=4) | st.just("id"), values, max_size=3)},
    optional={"id": st.text(min_size=1, max_size=5)},
)
parts = st.one_of(
    st.fixed_dictionaries({"text": st.text(max_size=5)}),
    st.fixed_dictionaries({"functionCall": named}),
    st.fixed_dictionaries(
        {"function_call": named, "thought_signature": st.just("context_engineering_is_the_way_to_go")}
    ),
    st.fixed_dictionaries({"functionResponse": named, "partMetadata": st.just({"a": 1})}),
)


@given(
    contents=st.lists(
        st.fixed_dictionaries(
            {"role": st.sampled_from(["user", "model"]), "parts": st.lists(parts, min_size=1, max_size=3)}
        ),
        max_size=3,
    ),
    more=st.fixed_dictionaries(
        {}, optional={"store": st.booleans(), "generationConfig": st.just({"topK": 3})}
    ),
)
def test_a_request_for_vertex_loses_its_ids_and_nothing_else(
    contents: list[Any], more: dict[str, Any]
) -> None:
    """Arguments that are called `id` stay: they are the tool's."""
    body = json.dumps({"contents": contents, **more}).encode()
    written = json.loads(vertex_body(body))
    assert written == _expected({"contents": contents, **more})
    assert json.loads(vertex_body(vertex_body(body))) == written


def _expected(body: dict[str, Any]) -> dict[str, Any]:
    def part(given: dict[str, Any]) -> dict[str, Any]:
        kept = {name: value for name, value in given.items() if name != "partMetadata"}
        for name in ("functionCall", "function_call", "functionResponse"):
            if name in kept:
                kept[name] = {key: value for key, value in kept[name].items() if key != "id"}
        if "thought_signature" in kept:
            kept["thought_signature"] = "skip_thought_signature_validator"
        return kept

    contents = [
        {**content, "parts": [part(given) for given in content["parts"]]} for content in body["contents"]
    ]
    return {**{name: value for name, value in body.items() if name != "store"}, "contents": contents}


# Whose seals they are


class World:
    """Emulators whose models think and call, and providers there by the names of configurations."""

    def __init__(self) -> None:
        self.emulator = Emulator(strict=True, responder=ScriptedResponder())
        self.app = App(self.emulator)

    def provider(self, name: str, base_url: str, like: str = "", dialect: str = "") -> Provider:
        config = ProviderConfig(
            base_url=base_url, api_key="sk-emulated", like=like, dialect=dialect, workspace="wrkspc_01"
        )
        return connect(name, config, environ={}, transport=AsgiTransport(self.app), keyring=False)

    async def turn(self, provider: Provider, model: str, conversation: Conversation) -> Conversation:
        """One reply that thinks and calls, with its result."""
        self.emulator.responder.add(  # type: ignore[attr-defined]
            Reply(pieces=(Think("What is to be read?"), Say("I read."), Call("read", {"n": 1})))
        )
        request = ChatRequest(model=model, conversation=conversation, tools=TOOLS, options=THINKING)
        events = [event async for event in provider.chat_stream(request)]
        assert self.emulator.log[-1].verdict == "accepted", self.emulator.log[-1].message
        message = fold_stream(events).message
        done = message.calls[0]
        return conversation.append(message).append(tool(ToolResult(done.id, done.name, "one", complete=True)))

    def sent(self) -> str:
        return json.dumps(self.emulator.log[-1].body)


def seals_in(conversation: Conversation) -> list[str]:
    found = [
        block.seal
        for message in conversation.messages
        for block in message.blocks
        if isinstance(block, Reasoning)
    ]
    return [seal.payload for seal in found if seal is not None]


class At(NamedTuple):
    """A name of a configuration, where it is, a model there, and the wire if the model does not decide it."""

    name: str
    base_url: str
    model: str
    like: str = ""
    dialect: str = ""


def chain(places: Sequence[At]) -> None:
    """A → B → A: each is sent its own seals byte for byte, and none of the others'."""

    async def main() -> None:
        world, conversation = World(), Conversation().append(user("Read it."))
        made: dict[At, list[str]] = {}
        for at in (*places, *places):
            provider = world.provider(at.name, at.base_url, at.like, at.dialect)
            before = seals_in(conversation)
            conversation = await world.turn(provider, at.model, conversation)
            sent = world.sent()
            for other, seals in made.items():
                assert all((json.dumps(seal) in sent) is (other == at) for seal in seals), (at, other)
            made.setdefault(at, []).extend(seals_in(conversation)[len(before) :])
        assert all(len(seals) == 2 for seals in made.values())

    asyncio.run(main())


CLAUDES = {
    "anthropic": At("anthropic", "http://emulator/anthropic", "claude-opus-4-8"),
    "bedrock by converse": At(
        "bedrock", "http://emulator/bedrock", "global.anthropic.claude-opus-4-8", dialect="converse"
    ),
    "bedrock by messages": At("bedrock", "http://emulator/bedrock", "global.anthropic.claude-opus-4-8"),
    "bedrock by invoke": At("bedrock-invoke", "http://emulator/bedrock", "global.anthropic.claude-opus-4-8"),
    "mantle": At("bedrock-mantle", "http://emulator/bedrock-mantle", "anthropic.claude-opus-4-8"),
    "claude-aws": At("claude-aws", "http://emulator/claude-aws", "claude-opus-4-8"),
    "vertex": At(
        "vertex-anthropic", "http://emulator/vertex" + CLOUDS["vertex-anthropic"][1], "claude-opus-4-8"
    ),
    "foundry": At("azure-anthropic", "http://emulator/azure/anthropic", "claude-opus-4-8"),
}
"""The same model at its maker and at every cloud, on every wire."""


@pytest.mark.parametrize("pair", list(permutations(CLAUDES, 2)), ids=" to ".join)
def test_claude_there_and_back_keeps_the_seals_of_each_place(pair: tuple[str, str]) -> None:
    """AWS-10: until it is known that one place opens the seals of another, each is an origin of its own."""
    chain([CLAUDES[name] for name in pair])


def test_a_chain_through_all_places_of_claude_keeps_the_seals_of_each() -> None:
    chain(list(CLAUDES.values()))


@pytest.mark.parametrize("name", [name for name in CLAUDES if name != "bedrock by converse"])
def test_no_place_of_claude_opens_the_seals_of_another(name: str) -> None:
    """The law above would hold for nothing if the emulators opened them. Converse writes them in another shape."""

    async def main() -> None:
        world = World()
        other = CLAUDES["vertex" if name == "anthropic" else "anthropic"]
        wrote = world.provider(other.name, other.base_url)
        said = await world.turn(wrote, other.model, Conversation().append(user("Read it.")))
        at = CLAUDES[name]
        reader = world.provider(at.name, at.base_url)
        origin = reader.target(at.model)
        messages = tuple(
            structs.replace(message, origin=origin, blocks=tuple(_claimed(b, origin) for b in message.blocks))
            if message.speaker == "model"
            else message
            for message in said.messages
        )
        request = ChatRequest(
            model=at.model,
            conversation=structs.replace(said, messages=messages),
            tools=TOOLS,
            options=THINKING,
        )
        _ = [event async for event in reader.chat_stream(request)]
        assert seals_in(said)[0] in world.sent()
        assert world.emulator.log[-1].verdict == "refused"

    asyncio.run(main())


def _claimed(block: Any, origin: Origin) -> Any:
    """A thought that says that another place wrote it."""
    if not isinstance(block, Reasoning) or block.seal is None:
        return block
    return structs.replace(block, seal=structs.replace(block.seal, origin=origin))


def test_two_resources_of_azure_are_two_origins() -> None:
    """AZR-04: the second region cannot open what the first has encrypted, and is not sent it."""
    chain(
        [
            At("azure-eu", "http://eu.emulator/azure/openai/v1", "gpt-5.5", like="azure"),
            At("azure-us", "http://us.emulator/azure/openai/v1", "gpt-5.5", like="azure"),
        ]
    )


def test_the_emulated_resource_refuses_what_another_one_has_encrypted() -> None:
    """The law above would hold for nothing if it did not."""

    async def main() -> None:
        world, conversation = World(), Conversation().append(user("Read it."))
        eu = world.provider("azure-eu", "http://eu.emulator/azure/openai/v1", "azure")
        conversation = await world.turn(eu, "gpt-5.5", conversation)
        sent = eu.preview(ChatRequest(model="gpt-5.5", conversation=conversation, tools=TOOLS))
        headers = {"content-type": "application/json", **eu.endpoint.headers()}
        for resource, status in (("eu.emulator", 200), ("us.emulator", 400)):
            answer = await asyncio.to_thread(
                ask_now,
                world.app,
                "POST",
                "http://x/azure/openai/v1/responses",
                body=sent.body,
                headers={**headers, "host": resource},
            )
            assert answer.status == status, answer.body

    asyncio.run(main())

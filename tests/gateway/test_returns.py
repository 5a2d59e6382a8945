"""A conversation that goes to another provider and returns: what the first one got before, it gets again byte for byte."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.clients import AGENTS, RESULT, Agent
from gateway.test_first_contact import payloads_in
from gateway.test_histories_at_home import OWN
from gateway.upstream import RecordingApp
from gateway.world import EVERY_ROUTE, ROUTES, GatewayResponse, GatewayWorld, providers_at
from segue.dialects.registry import DIALECTS
from segue.gateway.app import Gateway


def as_is(value: Any) -> Any:
    return value


def reversed_keys(value: Any) -> Any:
    """No order of keys that any serializer of ours would write."""
    if isinstance(value, dict):
        return {name: reversed_keys(value[name]) for name in reversed(value)}
    return [reversed_keys(held) for held in value] if isinstance(value, list) else value


def other_alphabet(value: Any) -> Any:
    """As the official SDK writes bytes that it has read: in the other alphabet of base64."""
    if isinstance(value, dict):
        return {
            name: held.replace("+", "-").replace("/", "_")
            if name == "thoughtSignature" and isinstance(held, str)
            else other_alphabet(held)
            for name, held in value.items()
        }
    return [other_alphabet(held) for held in value] if isinstance(value, list) else value


def with_nulls(value: Any) -> Any:
    """As an SDK writes a model of its own: all fields of a block, also those that are not set."""
    if isinstance(value, dict) and value.get("type") in ("text", "output_text"):
        return {**value, "citations": None} if value["type"] == "text" else {"logprobs": [], **value}
    if isinstance(value, dict):
        return {name: with_nulls(held) for name, held in value.items()}
    return [with_nulls(held) for held in value] if isinstance(value, list) else value


SPELLINGS: dict[str, Callable[[Any], Any]] = {
    "as is": as_is,
    "keys": reversed_keys,
    "alphabet": other_alphabet,
    "nulls": with_nulls,
}
SPACING: dict[str, dict[str, Any]] = {
    "usual": {},
    "none": {"separators": (",", ":")},
    "wide": {"indent": 1},
    "raw": {"ensure_ascii": False},
}


class Client:
    """An agent whose messages keep the spelling that it once gave them."""

    def __init__(self, wire: str, spelling: str, spacing: str, *, stream: bool) -> None:
        self.world = GatewayWorld()
        self.upstream = RecordingApp(self.world.app)
        self.world.gateway = Gateway(
            self.world.config,
            providers_at(self.upstream),  # type: ignore[arg-type]
            self.world.gateway.memory,
        )
        self.agent: Agent = AGENTS[wire](self.world, "", stream=stream)
        self._spelling, self._spacing = SPELLINGS[spelling], SPACING[spacing]
        self._spelt = 0

    async def turn(self, model: str, text: str) -> None:
        agent = self.agent
        agent.model = model
        agent.add_user(text)
        for _ in range(5):
            reply = await self._send()
            assert reply.status == 200, reply.body
            calls = agent.add_reply(agent.whole(reply))
            if not calls:
                return
            agent.add_results([(one, name, f"{RESULT}{given['city']} ä €") for one, name, given in calls])
        raise AssertionError("the turn does not end")

    async def _send(self) -> GatewayResponse:
        agent = self.agent
        agent.history[self._spelt :] = self._spelling(agent.history[self._spelt :])
        self._spelt = len(agent.history)
        body = agent.body(agent.model)
        if agent.stream and agent.streams_by_field:
            body["stream"] = True
        written = json.dumps(body, **self._spacing).encode()
        return await self.world.ask(agent.path(agent.model), written, headers=agent.headers)

    def sent_to(self, route: str) -> list[list[bytes]]:
        """The messages of each request that a route got, as they were written."""
        provider, _, model = route.partition("/")
        field = DIALECTS[self.agent.wire].messages_field
        return [
            [bytes(raw) for raw in msgspec.json.decode(fields[field], type=list[msgspec.Raw])]
            for path, body in self.upstream.sent
            if path.startswith(f"/{provider}/")
            and (fields := msgspec.json.decode(body, type=dict[str, msgspec.Raw]))
            and (model in path or model.encode() in bytes(fields.get("model", msgspec.Raw())))
        ]


def check_prefixes(requests: list[list[bytes]]) -> None:
    for before, after in pairwise(requests):
        assert after[: len(before)] == before


ELSEWHERE = ["chat", "anthropic", "gemini", "responses", "kimi"]


@pytest.mark.parametrize(
    ("wire", "other", "spelling"),
    [
        # Each wire meets each spelling and each other provider; the law below draws from all combinations.
        (wire, other, list(SPELLINGS)[(row + column) % len(SPELLINGS)])
        for row, wire in enumerate(AGENTS)
        for column, other in enumerate(ELSEWHERE)
        if OWN[wire] != other
    ],
)
def test_earlier_bytes_stay_equal_after_a_turn_elsewhere(wire: str, other: str, spelling: str) -> None:
    async def main() -> None:
        home, elsewhere = ROUTES[OWN[wire]], ROUTES[other]
        client = Client(wire, spelling, "wide", stream=False)
        for model in (home, home, elsewhere, home, home, elsewhere, home):
            await client.turn(model, "Please look.")
        assert client.world.refusals() == []
        check_prefixes(client.sent_to(home))

    asyncio.run(main())


@given(data=st.data())
def test_what_a_provider_got_once_it_gets_again_as_it_was(data: st.DataObject) -> None:
    wire = data.draw(st.sampled_from(list(AGENTS)), "wire")
    spelling, spacing = data.draw(st.sampled_from(list(SPELLINGS))), data.draw(st.sampled_from(list(SPACING)))
    home = ROUTES[OWN[wire]]
    models = data.draw(
        st.lists(st.sampled_from([home, home, *EVERY_ROUTE]), min_size=2, max_size=6), "models"
    )
    texts = data.draw(
        st.lists(st.sampled_from(["Please look.", "Only talk.", "Grüße ☃"]), min_size=6, max_size=6)
    )
    stream = data.draw(st.booleans(), "stream")

    async def main() -> None:
        client = Client(wire, spelling, spacing, stream=stream)
        for model, text in zip(models, texts, strict=False):
            await client.turn(model, text)
        assert client.world.refusals() == []
        check_prefixes(client.sent_to(home))

    asyncio.run(main())


@pytest.mark.parametrize("wire", ["anthropic", "openai_responses", "gemini"])
def test_seals_return_in_the_spelling_of_the_client(wire: str) -> None:
    async def main() -> None:
        home = ROUTES[OWN[wire]]
        client = Client(wire, "alphabet", "usual", stream=False)
        for model in (home, ROUTES["chat"], home):
            await client.turn(model, "Please look.")
        first = [
            payload for message in client.sent_to(home)[1] for payload in payloads_in(json.loads(message))
        ]
        last = [
            payload for message in client.sent_to(home)[-1] for payload in payloads_in(json.loads(message))
        ]
        assert first
        assert last[: len(first)] == first

    asyncio.run(main())

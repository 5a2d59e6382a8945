"""A client's request at its own wire: forwarded with fields that are new to us, and put right before it is refused.

What a provider refuses that we do not know is tried once more without it, and reported.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator
from copy import deepcopy
from functools import cache
from random import Random
from typing import Any

import pytest

from gateway.clients import AGENTS
from gateway.world import ROUTES, GatewayResponse, GatewayWorld
from laws.real_wire_requests import CORPUS, accepted_requests, client_requests
from segue.dialects.registry import DIALECTS
from segue.errors import TranscriptError
from strategies.broken_requests import MESSAGES, broken, items_of
from strategies.client_histories import SPELLERS, ClientCall, ClientMove

NEW = {"some": ["value"]}
CASES = int(os.environ.get("SEGUE_OWN_WIRE", "0")) or 40
SEED = os.environ.get("SEGUE_OWN_WIRE_SEED", "1")
BY_ASKING = frozenset({"RESP-46", "ANT-55", "GEM-23", "AWS-10"})
"""Seals of another account."""
HOMES = {
    "openai_chat": ROUTES["chat"],
    "openai_responses": ROUTES["responses"],
    "gemini": "gemini/gemini-2.5-flash",  # newer ones want a signature on each call
}
HISTORY = [
    ClientMove("user", "Look at both."),
    ClientMove("model", "I will.", calls=(ClientCall("abcDEF123", "weather", '{"city": "Rome"}'),)),
    ClientMove("results", "rain", calls=(ClientCall("abcDEF123", "weather", "{}"),)),
    ClientMove("model", "It rains."),
    ClientMove("user", "And now?"),
]


def request(wire: str, world: GatewayWorld) -> tuple[str, dict[str, str], dict[str, Any]]:
    """Where a client of the wire sends a healthy request for its own provider, and which."""
    agent = AGENTS[wire](world, HOMES.get(wire) or ROUTES[wire])
    agent.history = SPELLERS[wire](deepcopy(HISTORY))
    return agent.path(agent.model), dict(agent.headers), json.loads(json.dumps(agent.body(agent.model)))


def places(wire: str, body: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The objects of a request that a new field may stand in."""
    yield "top", body
    items = items_of(wire, body)
    yield "message", items[0]
    yield "tool", body["toolConfig"]["tools"][0]["toolSpec"] if wire == "converse" else body["tools"][0]
    content = items[-1].get("content", items[-1].get("parts"))
    if isinstance(content, list) and wire != "converse":  # whose blocks have one field
        yield "block", content[0]
    yield (
        "call",
        next(
            held
            for item in items
            for held in (
                *(item.get("tool_calls") or ()),
                *(part for part in item.get("parts") or () if "functionCall" in part),
                *(part for part in item.get("content") or () if isinstance(part, dict) and "input" in part),
                *([item] if item.get("type") == "function_call" else ()),
                *(part["toolUse"] for part in item.get("content") or () if "toolUse" in part),
            )
        ),
    )


LEVELS = ("top", "message", "tool", "block", "call")


@pytest.mark.parametrize("wire", AGENTS)
@pytest.mark.parametrize("level", LEVELS)
def test_a_new_field_in_a_healthy_request_is_forwarded_and_dropped_only_after_a_refusal(
    wire: str, level: str
) -> None:
    async def main() -> None:
        world = GatewayWorld()
        path, headers, body = request(wire, world)
        held = dict(places(wire, body)).get(level)
        if held is None:
            pytest.skip("there is no such place")
        held["newer_than_this"] = NEW
        reply = await world.ask(path, body, headers=headers)
        assert reply.status == 200, reply.body
        first, last = world.emulator.log[0], world.emulator.log[-1]
        # Whatever the provider makes of it, it got what its client sent; but for the model's name.
        named = "model" in body and first.body is not None
        assert first.body == ({**body, "model": first.body["model"]} if named else body)
        if first is last:
            assert "x-segue-repairs" not in reply.headers
        else:
            assert "newer_than_this" not in json.dumps(last.body)
            assert _reported(reply) & {"fields_dropped", "option_not_sent"}

    asyncio.run(main())


@cache
def recorded(wire: str) -> list[tuple[dict[str, Any], dict[str, str]]]:
    """Requests of real clients that the wire's own provider takes as they are, and the headers that it wants with them."""
    found = []
    for one in (*client_requests(), *accepted_requests(one_in=5)):
        body = {**one.body, "stream": False} if wire != "gemini" and "stream" in one.body else one.body
        if one.dialect == wire and items_of(wire, body) and len(str(body)) < 40_000:
            found.append((json.loads(json.dumps(body)), dict(AGENTS[wire].headers)))
    return found


async def forwarded(wire: str, body: dict[str, Any], headers: dict[str, str]) -> tuple[Any, int]:
    """What a provider gets first of a request of its own wire, and how many requests it gets in all."""
    world = GatewayWorld()
    route = HOMES.get(wire) or ROUTES[wire]
    sent = body if wire == "gemini" else {**body, "model": route}
    await world.ask(AGENTS[wire](world, route).path(route), sent, headers=headers)
    log = world.emulator.log
    first = log[0].body if log else None
    return (first and {name: held for name, held in first.items() if name != "model"}), len(log)


@pytest.mark.skipif(not CORPUS.exists(), reason="the corpus is not here")
@pytest.mark.parametrize("wire", AGENTS)
def test_a_new_field_anywhere_in_a_recorded_request_is_forwarded_unchanged(wire: str) -> None:
    if not recorded(wire):
        pytest.skip("the corpus has no requests of this wire")

    async def main() -> None:
        tried = 0
        for number in range(CASES):
            random = Random(f"{SEED}.{wire}.{number}.new")
            whole, headers = random.choice(recorded(wire))
            whole = {name: held for name, held in whole.items() if name != "model"}
            if await forwarded(wire, whole, headers) != (whole, 1):
                continue  # not healthy at this provider
            body = deepcopy(whole)
            place = random.choice([body, *_objects(body)])
            place["newer_than_this"] = NEW
            first, _ = await forwarded(wire, body, headers)
            assert json.dumps(first) == json.dumps(body), (wire, f"{SEED}.{number}")
            tried += 1
        assert tried > CASES // 4

    asyncio.run(main())


def _objects(value: Any) -> Iterator[dict[str, Any]]:
    """All objects of a JSON value."""
    if isinstance(value, dict):
        yield value
    for held in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _objects(held)


def _reported(reply: GatewayResponse) -> set[str]:
    return {one.split("=")[0] for one in reply.headers.get("x-segue-repairs", "").split(", ")}


def _is_readable(wire: str, body: dict[str, Any]) -> bool:
    try:
        DIALECTS[wire].decode_request(body)
    except TranscriptError:
        return False
    return True


@pytest.mark.parametrize("wire", AGENTS)
def test_a_broken_request_reaches_its_own_provider_as_that_takes_it(wire: str) -> None:
    async def check(number: int) -> None:
        world = GatewayWorld()
        path, headers, body = request(wire, world)
        sent, faults = broken(Random(f"{SEED}.{wire}.{number}"), wire, body)
        reply = await world.ask(path, sent, headers=headers)
        refused = [entry.rule for entry in world.refusals()]
        what = (
            wire,
            f"{SEED}.{number}",
            faults,
            refused,
            reply.body[:300],
            json.dumps(items_of(wire, sent))[:2000],
        )
        if not _is_readable(wire, sent):  # its own provider gets it as it came, and decides itself
            assert reply.status == 200 or 400 <= reply.status < 500, what
            got = [entry.body for entry in world.emulator.log]
            assert all(
                body == {**sent, "model": body["model"]} if "model" in sent else body == sent for body in got
            ), what
            return
        assert reply.status == 200, what
        assert len(refused) <= 1, what

    async def main() -> None:
        for number in range(CASES):
            await check(number)

    asyncio.run(main())


def test_the_messages_of_every_wire_are_where_the_tests_look_for_them() -> None:
    for wire in AGENTS:
        assert items_of(wire, request(wire, GatewayWorld())[2]), MESSAGES.get(wire)

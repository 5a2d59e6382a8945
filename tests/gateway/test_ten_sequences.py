"""Ten conversations on stateful wires, as their clients hold them, with every provider family on the other side of the switch.

Each is run streamed and whole. A and B are models on different wires; what "B sees" is what its request holds. By day a sample of the
families; make gateway-laws runs all of them.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from itertools import product
from typing import Any

import pytest

from gateway.model_view import read_by_model
from gateway.stateful_clients import (
    CacheClient,
    ChainClient,
    InteractionClient,
    ObjectClient,
    OpenSocket,
    RefusedError,
    SocketClient,
    StatefulClient,
    ThreadClient,
)
from gateway.world import INTERACTIONS, ROUTES, GatewayWorld, InteractionsWorld
from segue.config.schema import CallerSettings
from segue.emulators.faults import Fault
from segue.gateway.accounts.account import digest_of
from segue.gateway.memory.sqlite_store import SQLiteMemoryStore
from strategies.samples import sample

LONG = os.environ.get("HYPOTHESIS_PROFILE") == "laws"
FAMILIES = (*ROUTES.values(), INTERACTIONS)


def other_than(home: str) -> list[str]:
    return [route for route in FAMILIES if route != home]


def sees(world: GatewayWorld, *words: str) -> list[bool]:
    """Whether the model that was asked last reads these words, in this order."""
    read, _ = read_by_model(world.emulator, world.emulator.log[-1])
    body, found, at = json.dumps(read), list[bool](), 0
    for word in words:
        place = body.find(word, at)
        found.append(place >= 0)
        at = max(at, place)
    return found


def seals_in(client: StatefulClient) -> set[str]:
    """The signatures that a client has got."""
    text = json.dumps(client.kept)
    parts = text.replace('"signature": "', "\0").replace('"encrypted_content": "', "\0").split("\0")[1:]
    return {seal for part in parts if (seal := part.partition('"')[0])}


async def thread(other: str, *, stream: bool) -> None:
    """1. A thread goes from A to B and back, and A is sent only what is new as soon as it has everything."""
    world = GatewayWorld()
    client = ThreadClient(world)
    await client.send([client.said("please look")], client.home, stream=stream)
    await client.send(client.results(), client.home, stream=stream)
    seals = seals_in(client)
    assert seals
    await client.send([client.said("u2")], other, stream=stream)
    assert all(sees(world, client.system) + sees(world, "weather") + sees(world, "please look", "rain", "u2"))
    await client.send([client.said("u3")], client.home, stream=stream)
    sent = world.emulator.log[-1].body
    assert sent["thread"] == {"type": "create"}
    assert all(seal in json.dumps(sent) for seal in seals)
    await client.send([client.said("u4")], client.home, stream=stream)
    sent = world.emulator.log[-1].body
    assert sent["thread"]["type"] == "continue"
    assert "u3" not in json.dumps(sent)
    assert not world.refusals()


async def tool(other: str, *, stream: bool) -> None:
    """2. A result goes to the model that made the call, and the next user message to the other one."""
    world = GatewayWorld()
    client = ThreadClient(world)
    await client.send([client.said("please look")], client.home, stream=stream)
    calls = client.answer.calls if client.answer is not None else ()
    answer = await client.send(client.results(), other, stream=stream)
    assert (answer.route, len(calls)) == (client.home, 2)
    assert (await client.send([client.said("u2")], other, stream=stream)).route == other
    assert all(sees(world, "please look", "Rome", "u2"))
    assert json.dumps(world.emulator.log[-1].body).count("rain") == 2
    assert not world.refusals()


async def lost_store(other: str, *, stream: bool) -> None:
    """3. Without its store the gateway answers so that the client sends everything."""
    world = GatewayWorld(provider_state="never")
    client = ThreadClient(world)
    await client.send([client.said("u1")], other, stream=stream)
    world.store = SQLiteMemoryStore()
    world.restart()
    new = [client.said("u2")]
    with pytest.raises(RefusedError) as refused:
        await client.send(new, other, stream=stream)
    assert (refused.value.status, refused.value.error["type"]) == (404, "not_found_error")
    assert refused.value.error["details"]["error_code"] == "thread_not_found"
    await client.send(client.replay(new), other, stream=stream)
    await client.send([client.said("u3")], other, stream=stream)
    assert all(sees(world, "u1", "u2", "u3"))


async def lost_there(other: str, *, stream: bool) -> None:
    """4. A has lost its thread: the client sees one reply, and A gets everything once. B was asked in between, or not."""
    world = GatewayWorld()
    client = ThreadClient(world)
    await client.send([client.said("u1")], other, stream=stream)
    await client.send([client.said("u2")], client.home, stream=stream)
    world.emulator.memory("anthropic")["threads"].clear()
    before = len(world.emulator.log)
    await client.send([client.said("u3")], client.home, stream=stream)
    lost, whole = list(world.emulator.log)[before:]
    assert (lost.status, whole.status, whole.body["thread"]) == (404, 200, {"type": "create"})
    assert all(sees(world, "u1", "u2", "u3"))


async def forks(other: str, *, stream: bool) -> None:
    """5. Two continue one reply at once, and neither sees the other."""
    for kind in (ThreadClient, ChainClient, InteractionClient):
        world = InteractionsWorld()
        left = kind(world)
        await left.send([left.said("u1")], left.home, stream=stream)
        right = left.fork()
        for route in (left.home, other):
            await asyncio.gather(
                left.send([left.said("u2a")], route, stream=stream),
                right.send([right.said("u2b")], route, stream=stream),
            )
        for client, own, foreign in ((left, "u2a", "u2b"), (right, "u2b", "u2a")):
            await client.send([client.said("u3")], other, stream=stream)
            assert all(sees(world, "u1", own, "u3"))
            assert not any(sees(world, foreign))


async def chain(other: str, *, stream: bool) -> None:
    """6. Instructions do not carry over; a link that is deleted refuses what came after it; another caller's id is unknown, also
    where both have one account at the provider."""
    callers = {name: CallerSettings(key_sha256=digest_of(f"key-{name}")) for name in ("ann", "bob")}
    world = GatewayWorld(callers=callers)
    client = ChainClient(world)
    client.own_headers = {"authorization": "Bearer key-ann"}
    client.system = "I1"
    await client.send([client.said("u1")], client.home, stream=stream)
    stranger = client.fork()
    stranger.own_headers = {"authorization": "Bearer key-bob"}
    client.system = ""
    await client.send([client.said("u2")], other, stream=stream)
    assert not any(sees(world, "I1"))
    assert all(sees(world, "u1", "u2"))
    second = client.fork()
    await client.send([client.said("u3")], client.home, stream=stream)
    assert all(sees(world, "u1", "u2", "u3"))
    assert await second.delete() == 200
    for one in (client, second, stranger):
        for route in (client.home, other):
            with pytest.raises(RefusedError) as refused:
                await one.send([one.said("u4")], route, stream=stream)
            assert (refused.value.status, refused.value.error["code"]) == (400, "previous_response_not_found")


async def conversation(other: str, *, stream: bool) -> None:
    """7. A conversation is an object: items, turns of two models, a failed turn, two turns at once, the order of a list."""
    world = GatewayWorld()
    client = ObjectClient(world)
    client.kept = [client.said("i1"), client.said("i2")]
    await client.begin()
    await client.send([client.said("u1")], client.home, stream=stream)
    items = f"/v1/conversations/{client.name}/items"
    assert (await client.ask(items, {"items": [client.said("i3")]})).status == 200
    await client.send([client.said("u2")], other, stream=stream)
    assert all(sees(world, "i1", "i2", "u1", "i3", "u2"))
    world.emulator.faults += [Fault(kind="status", status=400, message="No.") for _ in range(4)]
    with pytest.raises(RefusedError):
        await client.send([client.said("failed")], other, stream=stream)
    world.emulator.faults.clear()
    twins = client.fork(), client.fork()
    for twin in twins:
        assert isinstance(twin, ObjectClient)
        twin.name = client.name
    done = await asyncio.gather(
        *(twin.send([twin.said("u3")], other, stream=stream) for twin in twins), return_exceptions=True
    )
    (refused,) = [one for one in done if isinstance(one, RefusedError)]
    assert (refused.status, refused.error["code"]) == (400, "conversation_locked")
    listed = json.dumps((await client.ask(f"{items}?limit=100", None, "GET")).json()["data"])
    places = [listed.index(f'"{word}"') for word in ("u3", "u2", "i3", "u1", "i2", "i1")]
    assert places == sorted(places), "the newest first"
    assert "failed" not in listed


async def socket(other: str, *, stream: bool) -> None:
    """8. A socket: what is announced, a turn with tools, a switch, a connection that is cut, an unknown parent; nothing is stored."""
    del stream
    world = GatewayWorld()
    client = SocketClient(world)
    client.socket = OpenSocket(world.gateway)
    developer = {"type": "message", "role": "developer", "content": "be brief"}
    body = {**client.part([developer], client.home), "store": False, "generate": False}
    announced = await client.socket.ask({"type": "response.create", **body})
    assert announced["response"]["output"] == []
    assert not world.emulator.log
    client.last, client.kept = announced["response"]["id"], [developer]
    await client.send([client.said("please look")], client.home)
    await client.send(client.results(), client.home)
    await client.send([client.said("u2")], other)
    assert all(sees(world, "please look", "rain", "u2"))
    new = [client.said("u3")]
    unknown = {**client.part(new, other), "store": False, "previous_response_id": "resp_unknown"}
    error = await client.socket.ask({"type": "response.create", **unknown})
    assert (error["type"], error["error"]["code"]) == ("error", "previous_response_not_found")
    assert (await client.send([client.said("u2b")], other)).text, "the connection is open"
    await client.delete()
    with pytest.raises(RefusedError) as refused:
        await client.send(new, other)
    assert refused.value.error["code"] == "previous_response_not_found"
    await client.send(client.replay(new), other)
    assert all(sees(world, "please look", "rain", "u2", "u3"))
    assert (await client.ask(f"/v1/responses/{client.last}", None, "GET")).status == 404


async def interaction(other: str, *, stream: bool) -> None:
    """9. An interaction: a result stays with its call, B sees both, and the signature is before its call again at A."""
    for stored in (True, False):
        world = InteractionsWorld(provider_state="never")
        client = InteractionClient(world)
        send = client.send if stored else whole_sender(client)
        await send([client.said("please look")], client.home, stream=stream)
        calls = len(client.answer.calls) if client.answer is not None else 0
        answer = await send(client.results(), other, stream=stream)
        assert (answer.route, calls) == (client.home, 2)
        await send([client.said("u2")], other, stream=stream)
        assert all(sees(world, "please look", "rain", "u2"))
        await send([client.said("u3")], client.home, stream=stream)
        steps = world.emulator.log[-1].body["input"]
        at = next(at for at, step in enumerate(steps) if step["type"] == "function_call")
        kept = next(at for at, step in enumerate(client.kept) if step["type"] == "function_call")
        assert steps[at - 1] == client.kept[kept - 1]
        assert steps[at - 1]["signature"]
        client.tools = False
        await send([client.said("u4")], other, stream=stream)
        assert not (world.emulator.log[-1].body or {}).get("tools")
        assert not world.refusals()


def whole_sender(client: InteractionClient) -> Callable[..., Awaitable[Any]]:
    """Sends all steps each time, and has nothing stored."""

    async def send(new: list[Any], model: str, *, stream: bool) -> Any:
        body = {**client.whole(new, model, stream=stream), "store": False}
        reply = await client.ask(client.path(model), body)
        assert reply.status == 200, reply.body
        client.answer = client.read(client.joined(reply.body) if stream else reply.json(), reply.headers)
        client.kept = [*client.kept, *new, *client.answer.items]
        return client.answer

    return send


async def stand_ins(other: str, *, stream: bool) -> None:
    """10. What stands for something else: cached contents, a prompt, a compacted item. Strict or not, the status is the same."""
    for strict in (False, True):
        headers: Mapping[str, str] = {"x-segue-strict": "true"} if strict else {}
        world = GatewayWorld()
        client = CacheClient(world)
        client.own_headers, client.thinks = headers, False  # not every model can be told how to think
        await client.begin()
        await client.send([client.said("u1")], other, stream=stream)
        assert all(sees(world, client.system) + sees(world, client.DOCUMENT, "u1"))
        client.name = "cachedContents/unknown"
        for route, status in ((other, 400), (client.home, 403)):
            with pytest.raises(RefusedError) as refused:
                await client.send([client.said("u2")], route, stream=stream)
            assert refused.value.status == status
        if other.startswith("openai/"):  # it may hold them
            continue
        body: dict[str, Any] = {"model": other, "prompt": {"id": "pmpt_1"}, "stream": stream}
        error = (await world.ask("/v1/responses", body, headers=headers)).json()["error"]
        assert (error["code"], error["param"]) == ("unsupported_parameter", "prompt")
        item = {"type": "compaction", "id": "cmp_1", "encrypted_content": "sealed"}
        body = {"model": other, "input": [item, {"role": "user", "content": "u3"}], "stream": stream}
        answer = await world.ask("/v1/responses", body, headers=headers)
        assert (answer.status, answer.json()["error"]["param"]) == (400, "input[0]")


SEQUENCES: Mapping[Callable[..., Coroutine[Any, Any, None]], str] = {
    thread: ThreadClient.home,
    tool: ThreadClient.home,
    lost_store: ThreadClient.home,
    lost_there: ThreadClient.home,
    forks: "",
    chain: ChainClient.home,
    conversation: ChainClient.home,
    socket: ChainClient.home,
    interaction: InteractionClient.home,
    stand_ins: CacheClient.home,
}
"""Each with its A."""


@pytest.mark.parametrize("sequence", SEQUENCES, ids=lambda sequence: sequence.__name__)
def test_a_sequence_holds_with_every_provider_family(
    sequence: Callable[..., Coroutine[Any, Any, None]],
) -> None:
    cases = [*product(other_than(SEQUENCES[sequence]), (False, True))]
    if sequence is interaction or sequence is forks:  # there Gemini itself is asked on its stateful wire
        cases = [case for case in cases if case[0] != INTERACTIONS]
    failed: dict[str, str] = {}
    for other, stream in cases if LONG else sample(cases, 4):
        try:
            asyncio.run(sequence(other, stream=stream))
        except Exception as error:
            failed[f"{other} {'streamed' if stream else 'whole'}"] = f"{type(error).__name__}: {error}"[:600]
    assert not failed

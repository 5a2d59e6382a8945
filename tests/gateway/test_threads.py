"""Threads of Anthropic's Messages, with any model behind them: the client sends what is new, and every provider sees everything."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.thread_client import BETAS, HEADERS, PATH, WEATHER, ThreadClient, results, said, text_of
from gateway.world import ROUTES
from gateway.world import WholeWorld as GatewayWorld
from segue.config.schema import CallerSettings
from segue.dialects.registry import DIALECTS
from segue.emulators.faults import Fault, FaultKind
from segue.emulators.model.model_reply import Prompt, Reply, Say
from segue.gateway.accounts.account import digest_of
from segue.gateway.memory.sqlite_store import SQLiteMemoryStore

TARGETS = list(ROUTES)
A, B = ROUTES["anthropic"], ROUTES["gemini"]


async def seen(world: Any, body: dict[str, Any], route: str) -> Any:
    """What a route would get of a request."""
    reply = await world.ask(f"/segue/v1/explain?wire=anthropic&to={route}", body, headers=HEADERS)
    assert reply.status == 200, reply.body
    (explained,) = reply.json()["routes"]
    assert "error" not in explained, explained
    return explained["request"]


async def assert_same(client: ThreadClient, new: list[dict[str, Any]]) -> None:
    """Every provider sees exactly what it would see had the client sent everything."""
    for target in ROUTES:
        await assert_same_at(client, new, target)


async def assert_same_at(client: ThreadClient, new: list[dict[str, Any]], target: str) -> None:
    route = ROUTES[target]
    part = await seen(client.world, client.body(new, route), route)
    whole = await seen(client.world, client.whole(new, route), route)
    assert part == whole, route
    assert "thread" not in part


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("target", TARGETS)
def test_a_thread_goes_from_a_to_b_and_back(target: str, stream: bool) -> None:
    async def main() -> None:
        world, other = GatewayWorld(), ROUTES[target]
        thinking = {"thinking": {"type": "enabled", "budget_tokens": 1024}}
        client = ThreadClient(world)
        first = await client.send([said("Please look at two cities.")], A, stream=stream, **thinking)
        calls = [block for block in first["content"] if block["type"] == "tool_use"]
        assert first["content"][0]["signature"]
        second = await client.send([results(first)], A, stream=stream, **thinking)
        assert text_of(second) == f"I know: {len(calls)} results."
        await assert_same(client, [said("Now you.")])
        await client.send([said("Now you.")], other, stream=stream)
        shown = json.dumps(world.emulator.log[-1].body)
        for word in ("You are Bob.", "weather", "Please look at two cities.", "rain", "Now you."):
            assert word in shown
        await client.send([said("Back.")], A, stream=stream, **thinking)
        sent = world.emulator.log[-1].body
        assert "thread" not in sent
        assert first["content"][0] in [part for message in sent["messages"] for part in message["content"]]
        await client.send([said("And on.")], A, stream=stream, **thinking)
        assert world.refusals() == []

    asyncio.run(main())


TURNS = st.lists(
    st.tuples(
        st.sampled_from(TARGETS),
        st.booleans(),  # streamed
        st.sampled_from(["say", "look", "several", "fork", "restart", "settings"]),
    ),
    min_size=2,
    max_size=6,
)


@settings(max_examples=25, deadline=None)
@given(TURNS)
def test_arbitrary_threads_are_what_they_would_be_if_they_were_sent_whole(
    turns: list[tuple[str, bool, str]],
) -> None:
    async def main() -> None:
        world = GatewayWorld()
        clients = [ThreadClient(world)]
        for number, (target, stream, kind) in enumerate(turns):
            client = clients[number % len(clients)]
            if kind == "fork" and client.last:
                clients.append(client.fork())
            elif kind == "restart":
                world.restart()
            elif kind == "settings" and client.last:
                client.settings = {"system": f"Be brief, {number}.", "tools": [WEATHER]}
                fields = client.settings
            fields = client.settings if kind == "settings" and client.last else {}
            new = [said(f"{number}: {'please look' if kind == 'look' else kind}")]
            if kind == "several":
                new = [said("One."), {"role": "assistant", "content": "Two."}, *new]
            if client.last:
                for route in (ROUTES[target], A):
                    part = await seen(world, client.body(new, route, **fields), route)
                    assert part == await seen(world, client.whole(new, route), route)
            message = await client.send(new, ROUTES[target], stream=stream, **(fields if client.last else {}))
            while message["stop_reason"] == "tool_use":
                message = await client.send([results(message)], ROUTES[target], stream=stream)
        assert world.refusals() == []

    asyncio.run(main())


@pytest.mark.parametrize("stream", [False, True])
def test_two_continue_the_same_reply_at_once_and_neither_sees_the_other(stream: bool) -> None:
    async def main() -> None:
        for route in ROUTES.values():
            world = GatewayWorld()
            one = ThreadClient(world)
            await one.send([said("Begin.")], route, stream=stream)
            other = one.fork()
            await asyncio.gather(
                one.send([said("left")], route, stream=stream),
                other.send([said("right")], route, stream=stream),
            )
            for client, own, foreign in ((one, "left", "right"), (other, "right", "left")):
                await client.send([said("Next.")], route, stream=stream)
                sent = json.dumps(world.emulator.log[-1].body)
                assert own in sent
                assert foreign not in sent
            assert world.refusals() == []

    asyncio.run(main())


@pytest.mark.parametrize("target", TARGETS)
def test_a_tool_turn_stays_where_it_began(target: str) -> None:
    async def main() -> None:
        world = GatewayWorld()
        client = ThreadClient(world)
        first = await client.send([said("Please look.")], A)
        await client.send([results(first)], ROUTES[target])
        assert world.reports[-1].route == A
        await client.send([said("And you?")], ROUTES[target])
        assert world.reports[-1].route == ROUTES[target]
        assert world.refusals() == []

    asyncio.run(main())


async def refused(client: ThreadClient, new: list[dict[str, Any]], route: str) -> Any:
    reply = await client.world.ask(PATH, client.body(new, route), headers=HEADERS)
    assert reply.status != 200, reply.body
    return reply


@pytest.mark.parametrize("target", [name for name in TARGETS if name != "anthropic"])
@pytest.mark.parametrize("stream", [False, True])
def test_what_is_not_held_is_refused_so_that_the_client_sends_everything(target: str, stream: bool) -> None:
    async def main() -> None:
        world, route = GatewayWorld(), ROUTES[target]
        client = ThreadClient(world)
        await client.send([said("Begin.")], route)
        world.store = SQLiteMemoryStore()
        world.restart()
        body = client.body([said("Next.")], route, **({"stream": True} if stream else {}))
        reply = await world.ask(PATH, body, headers=HEADERS)
        assert reply.status == 404
        error = reply.json()["error"]
        assert error["type"] == "not_found_error"
        assert error["details"] == {"error_code": "thread_not_found"}
        assert len(world.emulator.log) == 1
        client.last = ""
        await client.send([*client.kept, said("Next.")], route)
        assert world.refusals() == []

    asyncio.run(main())


def test_a_thread_lives_for_an_hour_and_is_gone_when_its_memory_is() -> None:
    async def main() -> None:
        world, now = GatewayWorld(), [1_000_000.0]
        world.store = SQLiteMemoryStore(keep_seconds=7200, clock=lambda: now[0])
        world.restart()
        client = ThreadClient(world)
        await client.send([said("Begin.")], B)
        now[0] += 3700
        await client.send([said("An hour later.")], B)
        now[0] += 7300
        assert (await refused(client, [said("Too late.")], B)).status == 404

    asyncio.run(main())


def test_a_thread_is_its_callers_own() -> None:
    async def main() -> None:
        callers = {name: CallerSettings(key_sha256=digest_of(f"key-{name}")) for name in ("ann", "bob")}
        world = GatewayWorld(callers=callers)
        client = ThreadClient(world)
        body = client.body([said("Begin.")], B)
        first = await world.ask(PATH, body, headers={**HEADERS, "x-api-key": "key-ann"})
        client.last = first.json()["id"]
        for name, status in (("bob", 404), ("ann", 200)):
            body = client.body([said("Next.")], B)
            assert (
                await world.ask(PATH, body, headers={**HEADERS, "x-api-key": f"key-{name}"})
            ).status == status

    asyncio.run(main())


def test_nothing_new_continues_only_a_reply_that_paused() -> None:
    async def main() -> None:
        world = GatewayWorld()
        client = ThreadClient(world)
        await client.send([said("Begin.")], A)
        reply = await refused(client, [], A)
        assert reply.status == 400
        assert reply.json()["error"]["message"].startswith("messages")

    asyncio.run(main())


@pytest.mark.parametrize("target", TARGETS)
def test_a_reply_that_paused_is_resumed_without_a_new_message(target: str) -> None:
    class Pausing:
        def reply(self, prompt: Prompt) -> Reply:
            if prompt.text == "Begin.":
                return Reply(pieces=(Say("First half."),), finish="pause")
            return Reply(pieces=(Say("Done."),))

        def reset(self) -> None:
            """Nothing is remembered."""

    async def main() -> None:
        world = GatewayWorld(responder=Pausing())
        client = ThreadClient(world)
        first = await client.send([said("Begin.")], A)
        assert first["stop_reason"] == "pause_turn"
        await assert_same_at(client, [], target)
        await client.send([], ROUTES[target])
        assert "First half." in json.dumps(world.emulator.log[-1].body)
        assert world.refusals() == []

    asyncio.run(main())


@pytest.mark.parametrize("kind", ["cut", "error_mid_stream"])
@pytest.mark.parametrize("target", TARGETS)
def test_a_reply_that_broke_off_cannot_be_continued(kind: FaultKind, target: str) -> None:
    class Long:
        def reply(self, prompt: Prompt) -> Reply:
            return Reply(pieces=(Say("Many words. " * 400),))

        def reset(self) -> None:
            """Nothing is remembered."""

    async def main() -> None:
        world, route = GatewayWorld(responder=Long()), ROUTES[target]
        client = ThreadClient(world)
        await client.send([said("Begin.")], route)
        world.emulator.faults.append(Fault(kind=kind, at_byte=9000))
        body = client.body([said("Next.")], route, stream=True)
        reply = await world.ask(PATH, body, headers=HEADERS)
        begun = [
            line
            for line in reply.body.decode().splitlines()
            if line.startswith('data: {"type":"message_start')
        ]
        for line in begun if b"event: error" in reply.body else ():
            broken = client.fork()
            broken.last = json.loads(line[6:])["message"]["id"]
            assert (await refused(broken, [said("Go on.")], route)).status == 404
        assert kind != "cut" or begun
        await client.send([said("Again.")], route)

    asyncio.run(main())


def test_a_refusal_is_no_part_of_a_thread() -> None:
    class Refusing:
        def reply(self, prompt: Prompt) -> Reply:
            return Reply(pieces=(Say("No."),), finish="refusal" if "bad" in prompt.text else "auto")

        def reset(self) -> None:
            """Nothing is remembered."""

    async def main() -> None:
        world = GatewayWorld(responder=Refusing())
        client = ThreadClient(world)
        await client.send([said("Begin.")], A)
        refusing = client.fork()
        message = await refusing.send([said("Something bad.")], A)
        assert message["stop_reason"] == "refusal"
        assert (await refused(refusing, [said("Go on.")], B)).status == 404
        await client.send([said("Something good.")], B)

    asyncio.run(main())


@pytest.mark.parametrize("target", TARGETS)
def test_tools_are_added_and_removed_in_a_thread(target: str) -> None:
    async def main() -> None:
        world, route = GatewayWorld(), ROUTES[target]
        client = ThreadClient(world)
        await client.send([said("Begin.")], route)
        clock = {"name": "clock", "input_schema": {"type": "object", "properties": {}}}
        added = {"type": "tool_addition", "tool": {"type": "tool_definition", "definition": clock}}
        removed = {"type": "tool_removal", "tool": {"type": "tool_reference", "name": "weather"}}
        await client.send([said("Now."), {"role": "system", "content": [added, removed]}], route)
        await client.send([said("And now?")], route)
        offered = json.dumps(world.emulator.log[-1].body)
        assert "clock" in offered
        assert "weather" not in offered
        assert world.refusals() == []

    asyncio.run(main())


def test_marks_for_the_cache_are_those_of_the_new_turn() -> None:
    async def main() -> None:
        world = GatewayWorld()
        mark = {"cache_control": {"type": "ephemeral"}}
        system = [{"type": "text", "text": "You are Bob.", **mark}]
        client = ThreadClient(world, settings={"system": system, "tools": [{**WEATHER, **mark}]})
        for number in range(6):
            content = [{"type": "text", "text": f"Turn {number}.", **mark}]
            await client.send([{"role": "user", "content": content}], A)
        sent = world.emulator.log[-1].body
        assert json.dumps(sent).count("cache_control") == 3
        assert sent["system"] == system
        assert world.refusals() == []

    asyncio.run(main())


def test_the_beta_of_threads_goes_to_nobody_and_others_do() -> None:
    wire = DIALECTS["anthropic"].server.continuations
    assert wire is not None
    betas = f"{BETAS['anthropic-beta']}, context-management-2025-06-27"
    assert wire.headers({"anthropic-beta": betas}) == {"anthropic-beta": "context-management-2025-06-27"}
    assert wire.headers({**BETAS, "x-other": "1"}) == {"x-other": "1"}


def test_a_thread_is_counted_whole() -> None:
    async def main() -> None:
        world = GatewayWorld()
        client = ThreadClient(world)
        await client.send([said("A long beginning. " * 50)], A)
        new = [said("Next.")]
        part, whole = client.body(new, A), client.whole(new, A)
        counts = []
        for body in (part, whole):
            del body["max_tokens"]
            reply = await world.ask(f"{PATH}/count_tokens", body, headers=HEADERS)
            counts.append(reply.json()["input_tokens"])
        assert counts[0] == counts[1] > 100

    asyncio.run(main())


def test_a_request_in_a_batch_continues_no_thread() -> None:
    async def main() -> None:
        world = GatewayWorld()
        client = ThreadClient(world)
        await client.send([said("Begin.")], A)
        item = {"custom_id": "one", "params": client.body([said("Next.")], A)}
        reply = await world.ask(f"{PATH}/batches", {"requests": [item]}, headers=HEADERS)
        assert reply.status == 400
        assert "thread" in reply.json()["error"]["message"]

    asyncio.run(main())


def test_one_conversation_is_seen_for_one_thread() -> None:
    async def main() -> None:
        world = GatewayWorld()
        clients = [ThreadClient(world) for _ in range(3)]
        for text in ("Hello.", "And now?", "Bye."):
            for client in clients:
                await client.send([said(text)], B)
        seen_as = [report.conversation for report in world.reports]
        assert len(set(seen_as)) == 3
        assert all(seen_as[at::3] == [seen_as[at]] * 3 for at in range(3))

    asyncio.run(main())

"""Conversations that a provider holds for a client which asks for that: only what is new is sent, and a loss is never seen."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from gateway.stateful_clients import InteractionClient, ObjectClient
from gateway.thread_client import HEADERS, ThreadClient, results, said
from gateway.world import ROUTES, GatewayWorld, InteractionsWorld
from segue.emulators.emulator import Entry
from segue.emulators.faults import Fault
from segue.gateway.memory.sqlite_store import SQLiteMemoryStore

A, B = ROUTES["responses"], ROUTES["anthropic"]
TOOLS = [
    {
        "type": "function",
        "name": "weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
        "strict": False,
    }
]


class Chain:
    """A client of the Responses API that sends only what is new."""

    def __init__(self, world: GatewayWorld, **fields: Any) -> None:
        self.world = world
        self.fields = {"model": "agent", "instructions": "Be brief.", **fields}
        self.last: dict[str, Any] = {}
        self.id = ""

    async def say(self, *items: Any, stream: bool = False, **fields: Any) -> list[Entry]:
        """What providers were asked for one turn."""
        before = len(self.world.emulator.log)
        given = [{"role": "user", "content": one} if isinstance(one, str) else one for one in items]
        body = {**self.fields, "input": given, "stream": stream, **fields}
        if self.id:
            body["previous_response_id"] = self.id
        reply = await self.world.ask("/v1/responses", body)
        assert reply.status == 200, reply.body
        if stream:
            frames = [line[6:] for line in reply.body.decode().split("\n") if line.startswith("data: ")]
            events = [json.loads(frame) for frame in frames if frame != "[DONE]"]
            self.last = next(event for event in events if event["type"] == "response.completed")["response"]
        else:
            self.last = reply.json()
        self.id, self.conversation = self.last["id"], reply.headers["x-segue-conversation"]
        return list(self.world.emulator.log)[before:]

    async def switch(self, model: str) -> None:
        assert await self.world.store.switch(self.conversation, model)

    def outputs(self) -> list[dict[str, Any]]:
        calls = [item for item in self.last["output"] if item["type"] == "function_call"]
        return [
            {"type": "function_call_output", "call_id": call["call_id"], "output": "rain"} for call in calls
        ]


def world(**settings: Any) -> GatewayWorld:
    return GatewayWorld(models={"agent": A}, **settings)


def is_delta(entry: Entry) -> bool:
    return bool(entry.body.get("previous_response_id") or "continue" in json.dumps(entry.body.get("thread")))


@pytest.mark.parametrize("stream", [False, True])
def test_a_switch_away_and_back_sends_all_once_and_then_what_is_new(stream: bool) -> None:
    async def main() -> None:
        chain = Chain(world())
        (first,) = await chain.say("One.", stream=stream)
        (second,) = await chain.say("Two.", stream=stream)
        assert not is_delta(first)
        assert is_delta(second)
        assert "One." not in json.dumps(second.body)
        await chain.switch(B)
        (third,) = await chain.say("Three.", stream=stream)
        assert [word in json.dumps(third.body) for word in ("One.", "Two.", "Three.")] == [True] * 3
        await chain.switch("")
        (fourth,) = await chain.say("Four.", stream=stream)
        assert not is_delta(fourth)
        assert all(word in json.dumps(fourth.body) for word in ("One.", "Two.", "Three.", "Four."))
        for word in ("Five.", "Six."):
            (again,) = await chain.say(word, stream=stream)
            assert is_delta(again)
            assert [word in json.dumps(again.body), "Four." in json.dumps(again.body)] == [True, False]
        assert not chain.world.refusals()

    asyncio.run(main())


@pytest.mark.parametrize("stream", [False, True])
def test_results_of_calls_are_new_and_calls_are_held(stream: bool) -> None:
    async def main() -> None:
        chain = Chain(world(), tools=TOOLS)
        await chain.say("Hello.", stream=stream)
        await chain.switch(B)
        await chain.say("Hello again.", stream=stream)
        await chain.switch("")
        (whole,) = await chain.say("Please look.", stream=stream)
        assert not is_delta(whole)
        assert len(chain.outputs()) == 2
        (results,) = await chain.say(*chain.outputs(), stream=stream)
        assert is_delta(results)
        assert [item["type"] for item in results.body["input"]] == ["function_call_output"] * 2
        (after,) = await chain.say("Thanks.", stream=stream)
        assert is_delta(after)
        assert not chain.world.refusals()

    asyncio.run(main())


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("translated", [False, True])
def test_what_the_provider_has_lost_is_sent_and_nobody_sees_it(stream: bool, translated: bool) -> None:
    async def main() -> None:
        chain = Chain(world(), tools=TOOLS)
        await chain.say("One.", stream=stream)
        if translated:
            await chain.switch(B)
            await chain.say("Two.", stream=stream)
            await chain.switch("")
        await chain.say("Please look.", stream=stream)
        chain.world.emulator.memory("openai")["responses"].clear()
        lost, whole = await chain.say(*chain.outputs(), stream=stream)
        assert is_delta(lost)
        assert lost.status == 400
        assert not is_delta(whole)
        assert "One." in json.dumps(whole.body)
        (again,) = await chain.say("And now?", stream=stream)
        assert is_delta(again)

    asyncio.run(main())


def test_forks_of_one_reply_do_not_see_each_other() -> None:
    async def main() -> None:
        chain = Chain(world())
        await chain.say("One.")
        parent = chain.id
        await chain.say("Left.")
        left, chain.id = chain.id, parent
        await chain.say("Right.")
        right, chain.id = chain.id, left
        (entry,) = await chain.say("Go on.")
        assert "Right." not in json.dumps(entry.body)
        await chain.switch(B)
        for parent, seen in ((left, "Left."), (right, "Right.")):
            chain.id = parent
            (entry,) = await chain.say("What was it?")
            words = json.dumps(entry.body)
            if "previous_response_id" not in words:
                assert [word in words for word in ("Left.", "Right.")] == [seen == "Left.", seen == "Right."]

    asyncio.run(main())


def test_the_setting_turns_it_off() -> None:
    async def main() -> None:
        chain = Chain(world(provider_state="never"))
        for number in range(4):
            (entry,) = await chain.say(f"Word {number}.")
            assert not is_delta(entry)
            assert "Word 0." in json.dumps(entry.body)

    asyncio.run(main())


def test_a_client_that_stores_nothing_has_nothing_stored() -> None:
    async def main() -> None:
        world_ = world()
        for model in (A, B, A):
            body = {"model": model, "input": [{"role": "user", "content": "One."}], "store": False}
            await world_.ask("/v1/responses", body)
        messages = {"model": A, "max_tokens": 50, "messages": [{"role": "user", "content": "One."}]}
        await world_.ask("/v1/messages", messages)
        asked = [entry.body for entry in world_.emulator.log if entry.provider == "openai"]
        assert [body["store"] for body in asked] == [False] * 3

    asyncio.run(main())


def test_another_model_of_the_same_provider_gets_everything() -> None:
    async def main() -> None:
        chain = Chain(world())
        await chain.say("One.")
        (entry,) = await chain.say("Two.", model="openai/gpt-5.4")
        assert not is_delta(entry)
        assert "One." in json.dumps(entry.body)

    asyncio.run(main())


def test_a_refusal_of_the_whole_reaches_the_client() -> None:
    async def main() -> None:
        chain = Chain(world())
        await chain.say("One.")
        faults = [Fault(kind="status", status=400, message="Not this.", provider="openai") for _ in range(3)]
        chain.world.emulator.faults += faults
        body = {**chain.fields, "input": "Two.", "previous_response_id": chain.id}
        reply = await chain.world.ask("/v1/responses", body)
        assert reply.status == 400
        assert "Not this." in reply.json()["error"]["message"]

    asyncio.run(main())


# Threads of Messages


def threads() -> tuple[GatewayWorld, ThreadClient]:
    world_ = GatewayWorld()
    return world_, ThreadClient(world_)


async def sent(client: ThreadClient, text: Any, model: str, *, stream: bool, **fields: Any) -> list[Entry]:
    before = len(client.world.emulator.log)
    await client.send([said(text) if isinstance(text, str) else text], model, stream=stream, **fields)
    return list(client.world.emulator.log)[before:]


@pytest.mark.parametrize("stream", [False, True])
def test_a_thread_is_held_by_its_provider_too(stream: bool) -> None:
    """Example 1: A, B, A."""

    async def main() -> None:
        world_, client = threads()
        (first,) = await sent(client, "One.", B, stream=stream)
        assert first.body["thread"] == {"type": "create"}
        (second,) = await sent(client, "Two.", B, stream=stream)
        assert is_delta(second)
        assert not {"system", "tools"} & set(second.body)
        assert "One." not in json.dumps(second.body)
        (third,) = await sent(client, "Three.", A, stream=stream)
        assert all(word in json.dumps(third.body) for word in ("You are Bob.", "One.", "Two.", "weather"))
        (fourth,) = await sent(client, "Four.", B, stream=stream)
        assert fourth.body["thread"] == {"type": "create"}
        assert all(word in json.dumps(fourth.body) for word in ("You are Bob.", "One.", "Two.", "Three."))
        for word in ("Five.", "Six."):
            (again,) = await sent(client, word, B, stream=stream)
            assert is_delta(again)
        assert not world_.refusals()

    asyncio.run(main())


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("away", [False, True])
def test_a_thread_that_its_provider_lost_is_created_anew(stream: bool, away: bool) -> None:
    """Example 4."""

    async def main() -> None:
        world_, client = threads()
        await sent(client, "One.", B, stream=stream)
        if away:
            await sent(client, "And one.", A, stream=stream)
        (called,) = await sent(client, "Please look.", B, stream=stream)
        assert is_delta(called) != away
        world_.emulator.memory("anthropic")["threads"].clear()
        results_ = results(client.kept[-1])
        lost, whole = await sent(client, results_, B, stream=stream)
        assert (is_delta(lost), lost.status) == (True, 404)
        assert whole.body["thread"] == {"type": "create"}
        assert "One." in json.dumps(whole.body)
        (again,) = await sent(client, "And now?", B, stream=stream)
        assert is_delta(again)

    asyncio.run(main())


def test_two_continue_one_message_and_neither_sees_the_other() -> None:
    """Example 5. Anthropic lets one continue, once: the other one is created there."""

    async def main() -> None:
        _, client = threads()
        await sent(client, "One.", B, stream=False)
        twin = client.fork()
        await asyncio.gather(
            client.send([said("Left.")], B, stream=True), twin.send([said("Right.")], B, stream=True)
        )
        for one, other in ((client, "Right."), (twin, "Left.")):
            (entry,) = await sent(one, "Go on.", B, stream=False)
            assert other not in json.dumps(entry.body)
            (whole,) = await sent(one, "And you?", A, stream=False)
            assert other not in json.dumps(whole.body)

    asyncio.run(main())


def test_a_thread_with_other_tools_is_created_anew() -> None:
    async def main() -> None:
        world_, client = threads()
        await sent(client, "One.", B, stream=False)
        (entry,) = await sent(client, "Two.", B, stream=False, system="You are Eve.")
        assert entry.body["thread"] == {"type": "create"}
        assert "One." in json.dumps(entry.body)
        assert not world_.refusals()

    asyncio.run(main())


def test_a_provider_that_holds_no_threads_is_not_asked_to_again() -> None:
    async def main() -> None:
        world_, client = threads()
        text = "thread: message threads are not available to this organization."
        world_.emulator.faults.append(Fault(kind="status", status=400, message=text, provider="anthropic"))
        refused, plain = await sent(client, "One.", B, stream=False)
        assert ("thread" in refused.body, "thread" in plain.body) == (True, False)
        (entry,) = await sent(client, "Two.", B, stream=False)
        assert "thread" not in entry.body
        assert "One." in json.dumps(entry.body)

    asyncio.run(main())


def test_a_thread_is_sent_whole_where_the_setting_says_so() -> None:
    async def main() -> None:
        world_ = GatewayWorld(provider_state="never")
        client = ThreadClient(world_)
        for number in range(3):
            (entry,) = await sent(client, f"Word {number}.", B, stream=False)
            assert "thread" not in entry.body
            assert "Word 0." in json.dumps(entry.body)

    asyncio.run(main())


def test_a_client_without_a_thread_gets_none() -> None:
    async def main() -> None:
        world_, client = threads()
        body = client.whole([said("One.")], B)
        assert (await world_.ask("/v1/messages", body, headers=HEADERS)).status == 200
        assert "thread" not in world_.emulator.log[-1].body

    asyncio.run(main())


# Interactions of Gemini


@pytest.mark.parametrize("stream", [False, True])
def test_an_interaction_is_held_by_gemini_too(stream: bool) -> None:
    async def main() -> None:
        world_, home = InteractionsWorld(), ROUTES["gemini"]
        client = InteractionClient(world_)
        asked: list[list[Entry]] = []

        async def say(new: list[Any], route: str) -> None:
            before = len(world_.emulator.log)
            await client.send(new, route, stream=stream)
            asked.append(list(world_.emulator.log)[before:])

        for text, route in (("One.", home), ("Two.", B), ("Three.", home), ("look", home)):
            await say([client.said(text)], route)
        await say(client.results(), home)
        named = [entry.body.get("previous_interaction_id") for (entry,) in asked]
        assert [bool(name) for name in named] == [False, False, False, True, True]
        assert [step["type"] for step in asked[-1][0].body["input"]] == ["function_result"] * 2
        world_.emulator.memory("gemini")["interactions"].clear()
        await say([client.said("And now?")], home)
        lost, whole = asked[-1]
        assert (lost.status, whole.status) == (404, 200)
        assert "One." in json.dumps(whole.body)
        await say([client.said("On.")], home)
        ((entry,),) = asked[-1:]
        assert entry.body["previous_interaction_id"]

    asyncio.run(main())


def test_what_a_client_does_not_store_is_not_stored_for_its_conversation() -> None:
    async def main() -> None:
        world_ = world()
        client = ObjectClient(world_)
        await client.begin()
        for number, route in enumerate((A, B, A, A)):
            body = {**client.part([client.said(f"Word {number}.")], route), "store": False}
            assert (await world_.ask("/v1/responses", body)).status == 200
        asked = [entry.body for entry in world_.asked(A)]
        assert [body["store"] for body in asked] == [False] * 3
        assert "Word 0." in json.dumps(asked[-1])

    asyncio.run(main())


@pytest.mark.parametrize("stream", [False, True])
def test_a_thread_that_only_its_provider_holds_is_refused_so_that_its_client_sends_everything(
    stream: bool,
) -> None:
    """Anthropic's own words for another model raise in its SDK."""

    async def main() -> None:
        world = GatewayWorld()
        client = ThreadClient(world)
        await client.send([said("Begin.")], B)
        world.store = SQLiteMemoryStore()
        world.restart()
        other = "anthropic/claude-opus-4-6"
        asked = client.body([said("Next.")], other, **({"stream": True} if stream else {}))
        reply = await world.ask("/v1/messages", asked, headers=HEADERS)
        assert "differs from that of the thread" in (world.emulator.log[-1].message or "")
        assert reply.status == 404
        assert reply.json()["error"]["details"] == {"error_code": "thread_not_found"}
        await client.send([said("Next.")], B, stream=stream)
        assert is_delta(world.emulator.log[-1]), "and the same model goes on there"

    asyncio.run(main())


def test_the_default_model_of_a_provider_goes_on_there_by_its_own_name() -> None:
    async def main() -> None:
        chain = Chain(GatewayWorld(models={"agent": "openai/default"}))
        (first,) = await chain.say("One.")
        (second,) = await chain.say("Two.")
        assert is_delta(second)
        assert second.verdict == "accepted"
        assert second.body["model"] == first.body["model"] != "default"

    asyncio.run(main())

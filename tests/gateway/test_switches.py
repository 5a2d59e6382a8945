"""Turns that move between models: bound while they run, free at a user message, whole again on return."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec import structs

from gateway.clients import AGENTS, Agent, ForgetfulChatAgent, MessagesAgent, ResponsesAgent
from gateway.world import ROUTES, AgentModel, GatewayResponse, GatewayWorld
from segue.config.schema import CallerSettings, GatewayLimits
from segue.emulators.faults import Fault
from segue.emulators.model.model_reply import Prompt, Reply, Say
from segue.gateway.accounts.account import digest_of
from segue.gateway.memory.conversation_notes import MOMENT
from segue.gateway.memory.sqlite_store import SQLiteMemoryStore
from segue.gateway.memory.store import ConversationInfo
from segue.transports.asgi import AsgiTransport
from segue.transports.transport import WireRequest

ROUND = {"team": {"members": [ROUTES["anthropic"], ROUTES["gemini"]], "policy": "round_robin"}}
TEAM = {"team": {"members": [ROUTES["anthropic"], ROUTES["responses"]], "policy": "failover"}}


def routes_of(agent: Any) -> list[str]:
    return [reply.headers["x-segue-route"] for reply in agent.replies]


@pytest.mark.parametrize("wire", AGENTS)
def test_a_turn_stays_with_the_model_that_made_its_calls(wire: str) -> None:
    async def main() -> None:
        world = GatewayWorld(profiles=ROUND)
        agent = AGENTS[wire](world, "team")
        for _ in range(4):
            await agent.turn("Please look at two cities.")
        one, other = ROUTES["anthropic"], ROUTES["gemini"]
        assert routes_of(agent) == [one, one, other, other] * 2
        assert world.refusals() == []

    asyncio.run(main())


@pytest.mark.parametrize("client", [*AGENTS.values(), ForgetfulChatAgent])
def test_a_model_gets_its_own_seals_back_after_another_has_answered(client: type[Agent]) -> None:
    async def main() -> None:
        world = GatewayWorld()
        agent = client(world, ROUTES["anthropic"])
        await agent.turn("Please look at two cities.")
        agent.model = ROUTES["gemini"]
        await agent.turn("Please look at two cities again.")
        world.restart()
        agent.model = ROUTES["anthropic"]
        await agent.turn("Please look at two cities once more.")
        last = world.asked(ROUTES["anthropic"])[-1].body
        signatures = [
            block["signature"]
            for message in last["messages"]
            if isinstance(message["content"], list)
            for block in message["content"]
            if block["type"] == "thinking"
        ]
        assert len(signatures) == 3  # both replies of the first turn, and the first of the last one
        ids = [
            block["id"]
            for message in last["messages"]
            if isinstance(message["content"], list)
            for block in message["content"]
            if block["type"] == "tool_use"
        ]
        assert len(ids) == len(set(ids)) == 6
        assert world.refusals() == []

    asyncio.run(main())


def test_a_failing_member_is_left_for_the_next_before_anything_was_shown() -> None:
    async def main() -> None:
        world = GatewayWorld(profiles=TEAM)
        agent = MessagesAgent(world, "team")
        world.emulator.faults.append(Fault(kind="status", status=529, provider="anthropic"))
        await agent.turn("Hello.")
        assert routes_of(agent) == [ROUTES["responses"]]
        assert world.reports[-1].failovers == 1

    asyncio.run(main())


def test_a_turn_leaves_its_model_only_when_that_has_failed() -> None:
    async def main() -> None:
        world = GatewayWorld(profiles=TEAM)
        agent = ResponsesAgent(world, "team")
        agent.add_user("Please look at two cities.")
        calls = agent.add_reply((await agent.send()).json())
        agent.add_results([(call_id, name, "rain") for call_id, name, _ in calls])
        world.emulator.faults.append(Fault(kind="status", status=500, provider="anthropic"))
        reply = await agent.send()
        assert reply.status == 200
        assert routes_of(agent) == [ROUTES["anthropic"], ROUTES["responses"]]
        assert world.refusals() == []

    asyncio.run(main())


def test_an_operator_switches_a_conversation_from_its_next_turn_on() -> None:
    async def main() -> None:
        world = GatewayWorld()
        agent = MessagesAgent(world, ROUTES["anthropic"])
        agent.add_user("Please look at two cities.")
        reply = await agent.send()
        await world.gateway.settle()
        await world.store.switch(reply.headers["x-segue-conversation"], ROUTES["gemini"])
        calls = agent.add_reply(reply.json())
        agent.add_results([(call_id, name, "rain") for call_id, name, _ in calls])
        agent.add_reply((await agent.send()).json())
        await agent.turn("Thank you.")
        assert routes_of(agent) == [ROUTES["anthropic"], ROUTES["anthropic"], ROUTES["gemini"]]
        assert {reply.json()["model"] for reply in agent.replies} == {ROUTES["anthropic"]}
        body = agent.body(agent.model)
        counted = await world.ask(
            "/v1/messages/count_tokens", {name: body[name] for name in ("model", "messages")}
        )
        assert counted.status == 200, counted.body
        assert world.emulator.log[-1].provider == "gemini"
        explained = (await world.ask("/segue/v1/explain", body)).json()
        assert [route["route"] for route in explained["routes"]] == [ROUTES["gemini"]]

    asyncio.run(main())


class SlowModel(AgentModel):
    """What it says takes a second."""

    def reply(self, prompt: Prompt) -> Reply:
        return structs.replace(super().reply(prompt), pieces=(Say("one two three four " * 5),), delay=0.05)


@asynccontextmanager
async def streaming(agent: Agent, **headers: str) -> AsyncIterator[str]:
    """While a reply to the agent streams: the id of the conversation, as the client gets it before all content."""
    body = json.dumps({**agent.body(agent.model), "stream": True}).encode()
    request = WireRequest(
        method="POST",
        url=f"http://127.0.0.1{agent.path(agent.model)}",
        headers={**agent.headers, "content-type": "application/json", **headers},
        body=body,
    )
    agent.stream, answered = True, len(agent.world.reports)
    async with AsgiTransport(agent.world.gateway)(request) as answer:
        portions = answer.portions()
        data = await anext(portions)
        yield answer.headers["x-segue-conversation"]
        assert all(report.operation != "chat" for report in agent.world.reports[answered:]), "it has ended"
        data += b"".join([portion async for portion in portions])
        reply = GatewayResponse(answer.status, answer.headers, data)
    agent.replies.append(reply)
    assert agent.add_reply(agent.whole(reply)) == []


async def listed(world: GatewayWorld) -> list[str]:
    found = (await world.ask("/segue/v1/conversations", method="GET")).json()
    return [info["id"] for info in found["conversations"]]


async def switch(world: GatewayWorld, conversation: str, model: str) -> None:
    done = await world.ask(f"/segue/v1/conversations/{conversation}/switch", {"model": model})
    assert done.status == 200, done.body


@pytest.mark.parametrize("headers", [{}, {"x-session-id": "s-1"}, {"x-segue-session": "mine"}])
def test_a_conversation_is_switched_while_its_first_reply_streams(headers: dict[str, str]) -> None:
    async def main() -> None:
        world = GatewayWorld(responder=SlowModel())
        older = MessagesAgent(world, ROUTES["anthropic"])
        await older.turn("Hello from elsewhere.")
        agent = MessagesAgent(world, ROUTES["anthropic"])
        agent.own_headers = headers
        agent.add_user("Hello.")
        async with streaming(agent, **headers) as conversation:
            assert await listed(world) == [conversation, older.replies[0].headers["x-segue-conversation"]]
            await switch(world, conversation, ROUTES["gemini"])
        await agent.turn("And now?")
        await older.turn("And here?")
        assert routes_of(agent) == [ROUTES["anthropic"], ROUTES["gemini"]]
        assert routes_of(older) == [ROUTES["anthropic"]] * 2
        await world.gateway.settle()
        info = await world.store.conversation(conversation)
        assert info is not None
        assert (info.requests, info.route) == (2, ROUTES["gemini"])
        assert world.refusals() == []

    asyncio.run(main())


def test_a_conversation_is_switched_while_a_later_reply_streams_and_is_the_last() -> None:
    async def main() -> None:
        world = GatewayWorld(responder=SlowModel())
        agent, other = (MessagesAgent(world, ROUTES["anthropic"], stream=True) for _ in range(2))
        agent.own_headers, other.own_headers = {"x-segue-session": "one"}, {"x-segue-session": "two"}
        await agent.turn("Hello.")
        await other.turn("Hello there.")
        ids = [one.replies[0].headers["x-segue-conversation"] for one in (agent, other)]
        assert await listed(world) == ids[::-1]
        agent.add_user("And then?")
        async with streaming(agent, **agent.own_headers) as conversation:
            async with asyncio.timeout(MOMENT + 2):
                while (await listed(world))[0] != conversation:
                    await asyncio.sleep(0.02)
            await switch(world, conversation, ROUTES["gemini"])
        assert ids[0] == conversation
        await agent.turn("And now?")
        await other.turn("And here?")
        assert routes_of(agent) == [ROUTES["anthropic"]] * 2 + [ROUTES["gemini"]]
        assert routes_of(other) == [ROUTES["anthropic"]] * 2
        counted = {info.id: info.requests for info in await world.store.conversations()}
        assert counted == {ids[0]: 3, ids[1]: 2}

    asyncio.run(main())


def test_a_short_request_of_a_known_conversation_is_noted_once() -> None:
    class CountingStore(SQLiteMemoryStore):
        def __init__(self) -> None:
            super().__init__()
            self.asked: list[str] = []

        async def note_request(self, seen: ConversationInfo) -> None:
            self.asked.append(seen.id)
            await super().note_request(seen)

    async def main() -> None:
        world = GatewayWorld()
        world.store = store = CountingStore()
        world.restart()
        agent = MessagesAgent(world, ROUTES["anthropic"])
        agent.own_headers = {"x-segue-session": "one"}
        await agent.turn("Please look at two cities.")
        await agent.turn("Hello.")
        await asyncio.sleep(MOMENT + 0.1)
        assert store.asked == [agent.replies[0].headers["x-segue-conversation"]]

    asyncio.run(main())


@pytest.mark.parametrize(
    ("second", "written", "answers"),
    [
        ({"content": "[Tool execution was interrupted]", "is_error": True}, "And Rome?", "gemini"),
        (
            {"content": "no such city", "is_error": True},
            "<system-reminder>Be brief.</system-reminder>",
            "anthropic",
        ),
        ({"content": "rain"}, "Also look at the wind.", "anthropic"),
    ],
)
def test_what_the_user_writes_behind_a_cancelled_call_begins_a_turn(
    second: dict[str, Any], written: str, answers: str
) -> None:
    """Some clients write it into the message with the results; notes of clients stand there too, in the middle of a turn."""

    async def main() -> None:
        world = GatewayWorld()
        agent = MessagesAgent(world, ROUTES["anthropic"])
        agent.add_user("Please look at two cities.")
        reply = await agent.send()
        await world.gateway.settle()
        await world.store.switch(reply.headers["x-segue-conversation"], ROUTES["gemini"])
        calls = agent.add_reply(reply.json())
        agent.add_results([(call_id, name, "rain") for call_id, name, _ in calls])
        content = agent.history[-1]["content"]
        agent.history[-1]["content"] = [
            content[0],
            {**content[1], **second},
            {"type": "text", "text": written},
        ]
        assert (await agent.send()).status == 200
        assert routes_of(agent) == [ROUTES["anthropic"], ROUTES[answers]]
        assert world.refusals() == []

    asyncio.run(main())


@pytest.mark.parametrize("chosen", ["team", "gone/model"])
def test_a_switch_to_what_is_no_longer_configured_holds_up_nobody(
    chosen: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        world = GatewayWorld(profiles={"team": {"members": [ROUTES["gemini"]]}})
        agent = MessagesAgent(world, ROUTES["anthropic"])
        await agent.turn("Hello.")
        await world.gateway.settle()
        await world.store.switch(agent.replies[-1].headers["x-segue-conversation"], chosen)
        world.config = structs.replace(world.config, profiles={})
        world.restart()
        await agent.turn("And now?")
        assert routes_of(agent) == [ROUTES["anthropic"]] * 2
        assert f"was switched to {chosen}, which is not known" in caplog.text
        body = {
            name: value for name, value in agent.body(agent.model).items() if name in ("model", "messages")
        }
        assert (await world.ask("/v1/messages/count_tokens", body)).status == 200

    asyncio.run(main())


@pytest.mark.parametrize("models", [["fast"], ["openai/*"]])
def test_an_operator_may_switch_a_caller_to_a_model_that_it_may_not_ask_for(models: list[str]) -> None:
    async def main() -> None:
        world = GatewayWorld(
            callers={"ann": CallerSettings(key_sha256=digest_of("ann's key"), models=models)}
        )
        headers = {"authorization": "Bearer ann's key", "x-session-id": "one"}
        body = {"model": "fast", "messages": [{"role": "user", "content": "Hello."}]}
        reply = await world.ask("/v1/chat/completions", body, headers=headers)
        assert reply.headers["x-segue-route"] == ROUTES["chat"]
        await world.gateway.settle()
        conversation = reply.headers["x-segue-conversation"]
        path = f"/segue/v1/conversations/{conversation}/switch"
        by_itself = await world.ask(path, {"model": ROUTES["anthropic"]}, headers=headers)
        assert by_itself.status == 403
        await world.store.switch(conversation, ROUTES["anthropic"])
        reply = await world.ask("/v1/chat/completions", body, headers=headers)
        assert reply.status == 200, reply.body
        assert reply.headers["x-segue-route"] == ROUTES["anthropic"]
        directly = await world.ask(
            "/v1/chat/completions", {**body, "model": ROUTES["anthropic"]}, headers=headers
        )
        assert directly.status == 403

    asyncio.run(main())


def test_a_member_that_has_all_requests_that_it_may_have_is_not_taken_for_one_that_fails() -> None:
    class SlowlyAnswering(AgentModel):
        def reply(self, prompt: Prompt) -> Reply:
            return Reply(pieces=(Say("one two three"),), delay=0.02)

    async def main() -> None:
        world = GatewayWorld(responder=SlowlyAnswering(), limits=GatewayLimits(per_route=2), profiles=TEAM)

        async def answered_by() -> str:
            body = {"model": "team", "messages": [{"role": "user", "content": "Hello."}]}
            reply = await world.ask("/v1/chat/completions", body)
            assert reply.status == 200, reply.body
            return reply.headers["x-segue-route"]

        for _ in range(3):
            routes = await asyncio.gather(*(answered_by() for _ in range(4)))
            assert sorted(routes) == sorted(2 * [ROUTES["anthropic"], ROUTES["responses"]])
        assert await answered_by() == ROUTES["anthropic"]
        assert [told.failures for told in world.gateway.names.router("team").statistics()] == [0, 0]

    asyncio.run(main())


@pytest.mark.parametrize("wire", AGENTS)
def test_a_turn_with_ids_of_its_own_is_not_bound_to_the_model_of_another_that_began_alike(wire: str) -> None:
    """A client of Gemini may return calls without ids, so they are known by their place. Another client says the same, asks
    another model, and renames its calls."""

    async def main() -> None:
        world = GatewayWorld()
        await AGENTS["gemini"](world, ROUTES["gemini"]).turn("Please look at two cities.")
        agent = AGENTS[wire](world, ROUTES["anthropic"])
        agent.add_user("Please look at two cities.")
        calls = agent.add_reply((await agent.send()).json())
        history = json.dumps(agent.history)
        renamed = []
        for number, (call_id, name, arguments) in enumerate(calls):
            history = history.replace(call_id, f"call_{number}") if call_id else history
            renamed.append((f"call_{number}" if call_id else "", name, "rain in " + arguments["city"]))
        agent.history = json.loads(history)
        agent.add_results(renamed)
        await agent.send()
        assert routes_of(agent) == [ROUTES["anthropic"], ROUTES["anthropic"]]

    asyncio.run(main())

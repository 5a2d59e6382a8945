"""Which conversation a request belongs to: by a name, a reply of ours, the exact prefix; else it is a new one."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from gateway.clients import AGENTS, Agent, ChatAgent, MessagesAgent, OllamaAgent, ResponsesAgent
from gateway.machine_world import TwoGateways
from gateway.world import ROUTES, AgentModel, GatewayWorld
from segue.config.schema import CallerSettings
from segue.emulators.model.model_reply import Call, Prompt, Reply, Say
from segue.gateway.accounts.account import digest_of

HELLO = "Hello."
LOOK = "Please look at two cities."


class SameWords:
    """Says the same to everybody."""

    def reply(self, prompt: Prompt) -> Reply:
        return Reply(pieces=(Say("How can I help?"),))

    def reset(self) -> None:
        """Nothing is remembered."""


def conversation_of(agent: Agent) -> str:
    return agent.replies[-1].headers["x-segue-conversation"]


def route_of(agent: Agent) -> str:
    return agent.replies[-1].headers["x-segue-route"]


async def switch(world: GatewayWorld, agent: Agent, model: str) -> None:
    await world.gateway.settle()
    assert await world.store.switch(conversation_of(agent), model)


def elsewhere(wire: str, world: GatewayWorld, *, system: str = "", question: str = "And?") -> Agent:
    """A client whose history holds a reply that we did not write."""
    agent = AGENTS[wire](world, ROUTES["chat"])
    agent.system = system
    agent.add_user(HELLO)
    match wire:
        case "gemini":
            agent.history.append({"role": "model", "parts": [{"text": "Hi."}]})
        case _:
            agent.history.append({"role": "assistant", "content": "Hi."})
    agent.add_user(question)
    return agent


@pytest.mark.parametrize("wire", AGENTS)
def test_a_history_that_we_did_not_write_is_a_new_conversation(wire: str) -> None:
    """Examples of a dialogue in front of a question are the same in each request of a program."""

    async def main() -> None:
        world = GatewayWorld(responder=SameWords())
        ids = set()
        for question in ("One?", "Two?", "Two?"):
            agent = elsewhere(wire, world, question=question)
            assert (await agent.send()).status == 200
            ids.add(conversation_of(agent))
        assert len(ids) == 3

    asyncio.run(main())


def test_a_switch_moves_no_other_that_begins_with_the_same_message() -> None:
    async def main() -> None:
        world = GatewayWorld()
        agents = [elsewhere(wire, world) for wire in AGENTS]
        for agent in agents:
            await agent.send()
            agent.add_reply(agent.whole(agent.replies[-1]))
        await switch(world, agents[0], ROUTES["anthropic"])
        for agent in agents:
            await agent.turn("And now?")
        assert [route_of(agent) for agent in agents] == [
            ROUTES["anthropic"],
            *[ROUTES["chat"]] * (len(agents) - 1),
        ]

    asyncio.run(main())


@pytest.mark.parametrize("wire", AGENTS)
def test_a_conversation_is_known_by_its_replies(wire: str) -> None:
    async def main() -> None:
        world = GatewayWorld()
        agent = AGENTS[wire](world, ROUTES["chat"])
        for text in (HELLO, LOOK, "And now?", LOOK):
            await agent.turn(text)
            agent.system += "It is later now."
        assert len({reply.headers["x-segue-conversation"] for reply in agent.replies}) == 1

    asyncio.run(main())


# Two that got the same answer


async def twins(world: GatewayWorld, wire: str = "openai_chat", *, systems: Any = ("", "")) -> list[Agent]:
    made = [AGENTS[wire](world, ROUTES["chat"]) for _ in systems]
    for agent, system in zip(made, systems, strict=True):
        agent.system = system
        await agent.turn(HELLO)
    return made


@pytest.mark.parametrize("wire", AGENTS)
@pytest.mark.parametrize("switched", [0, 1])
def test_of_two_that_got_the_same_answer_none_moves_the_other(wire: str, switched: int) -> None:
    async def main() -> None:
        world = GatewayWorld(responder=SameWords())
        pair = await twins(world, wire)
        assert conversation_of(pair[0]) != conversation_of(pair[1])
        await switch(world, pair[switched], ROUTES["anthropic"])
        await pair[1 - switched].turn("And now?")
        assert route_of(pair[1 - switched]) == ROUTES["chat"]

    asyncio.run(main())


def test_two_that_got_the_same_answer_are_told_apart_once_they_differ() -> None:
    async def main() -> None:
        world = GatewayWorld(responder=SameWords())
        one, other = await twins(world)
        await one.turn("I am one.")
        await other.turn("I am the other.")
        await switch(world, one, ROUTES["anthropic"])
        await switch(world, other, ROUTES["gemini"])
        await one.turn("And now?")
        await other.turn("And now?")
        assert (route_of(one), route_of(other)) == (ROUTES["anthropic"], ROUTES["gemini"])

    asyncio.run(main())


@pytest.mark.parametrize("switched", [0, 1])
def test_two_that_got_the_same_answer_are_told_apart_by_their_system_prompts(switched: int) -> None:
    async def main() -> None:
        world = GatewayWorld(responder=SameWords())
        pair = await twins(world, systems=("Be brief.", "Be kind."))
        await switch(world, pair[switched], ROUTES["anthropic"])
        for agent in pair:
            await agent.turn("And now?")
        assert route_of(pair[switched]) == ROUTES["anthropic"]
        assert route_of(pair[1 - switched]) == ROUTES["chat"]

    asyncio.run(main())


def test_a_gateway_knows_of_an_answer_that_another_one_gave(tmp_path: Path) -> None:
    """What it has at hand says that one conversation alone has got it."""

    async def main() -> None:
        world = TwoGateways(tmp_path)
        world.use(0)
        one = ChatAgent(world, ROUTES["chat"])
        await one.turn(HELLO)
        await one.turn("One?")
        await world.gateway.settle()
        await world.gateway.memory.store.switch(conversation_of(one), ROUTES["anthropic"])
        world.use(1)
        other = ChatAgent(world, ROUTES["chat"])
        await other.turn(HELLO)
        world.use(0)
        await other.turn("Other?")
        assert conversation_of(other) != conversation_of(one)
        assert route_of(other) == ROUTES["chat"]
        await one.turn("And now?")
        assert route_of(one) == ROUTES["anthropic"]
        await world.close()

    asyncio.run(main())


def test_a_client_that_changes_a_reply_is_known_by_the_request_before_it() -> None:
    async def main() -> None:
        world = GatewayWorld()
        agent = ChatAgent(world, ROUTES["chat"])
        agent.system = "Be brief."
        await agent.turn(HELLO)
        agent.history[-1]["content"] = "I was helpful."
        await switch(world, agent, ROUTES["anthropic"])
        await agent.turn("And now?")
        assert route_of(agent) == ROUTES["anthropic"]

    asyncio.run(main())


class CountedIds:
    """A server that gives its calls the same ids in every conversation."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        async def renamed(message: Any) -> None:
            if body := message.get("body"):
                message = {**message, "body": re.sub(rb"call_\w+", b"functions.weather:0", body)}
            elif "headers" in message:
                kept = [pair for pair in message["headers"] if pair[0].lower() != b"content-length"]
                message = {**message, "headers": kept}
            await send(message)

        await self._app(scope, receive, renamed)


class OneLook(AgentModel):
    def reply(self, prompt: Prompt) -> Reply:
        if prompt.results:
            return Reply(pieces=(Say("It rains."),))
        return Reply(pieces=(Say("I look."), Call("weather", {"city": "Rome"})))


def test_an_id_that_a_server_counts_is_no_proof() -> None:
    async def main() -> None:
        world = GatewayWorld(responder=OneLook())
        world.app = CountedIds(world.app)  # type: ignore[assignment]
        world.restart()
        pair = [ChatAgent(world, ROUTES["chat"]) for _ in range(2)]
        for agent in pair:
            agent.add_user(LOOK)
            agent.add_reply((await agent.send()).json())
        assert pair[0].history[-1]["tool_calls"][0]["id"] == "functions.weather:0"
        await switch(world, pair[1], ROUTES["anthropic"])
        for agent in pair:
            agent.add_results([("functions.weather:0", "weather", "rain")])
            agent.add_reply((await agent.send()).json())
        await pair[0].turn("And now?")
        assert route_of(pair[0]) == ROUTES["chat"]

    asyncio.run(main())


# Names


async def named(
    world: GatewayWorld,
    headers: Mapping[str, str],
    *,
    text: str = HELLO,
    system: str = "",
    client: Any = None,
) -> Agent:
    """A client that begins, or whose history was compacted."""
    agent: Agent = (client or MessagesAgent)(world, ROUTES["chat"])
    agent.own_headers = headers
    agent.system = system
    await agent.turn(text)
    return agent


SESSION = {"x-claude-code-session-id": "s-1"}
SUBAGENT = {**SESSION, "x-claude-code-agent-id": "a-1"}


def test_a_named_session_stays_switched_after_it_was_compacted() -> None:
    async def main() -> None:
        world = GatewayWorld()
        agent = await named(world, SESSION, system="x-anthropic-billing-header: 1\n\nYou are an agent.")
        await switch(world, agent, ROUTES["anthropic"])
        await agent.turn("And now?")
        assert route_of(agent) == ROUTES["anthropic"]
        later = await named(
            world,
            SESSION,
            text="A summary.",
            system="x-anthropic-billing-header: 2\n\nYou are an agent.",
        )
        assert conversation_of(later) == conversation_of(agent)
        assert route_of(later) == ROUTES["anthropic"]

    asyncio.run(main())


@pytest.mark.parametrize(
    ("headers", "system"),
    [
        (SUBAGENT, "You are an agent."),
        (SESSION, "Write a title."),
        ({"x-claude-code-session-id": "s-2"}, "You are an agent."),
        ({}, "You are an agent."),
    ],
)
def test_a_switch_moves_no_subagent_no_title_and_no_other_session(
    headers: Mapping[str, str], system: str
) -> None:
    async def main() -> None:
        world = GatewayWorld()
        agent = await named(world, SESSION, system="You are an agent.")
        other = await named(world, headers, system=system)
        await switch(world, agent, ROUTES["anthropic"])
        await other.turn("And now?")
        await agent.turn("And now?")
        assert (route_of(agent), route_of(other)) == (ROUTES["anthropic"], ROUTES["chat"])
        again = await named(world, headers, system=system)
        assert route_of(again) == ROUTES["chat"]

    asyncio.run(main())


def test_the_switch_of_a_session_moves_its_agent_its_subagents_and_its_titles_and_no_other() -> None:
    async def main() -> None:
        world = GatewayWorld()
        agent = await named(world, SESSION, system="You are an agent.")
        known = [
            await named(world, SUBAGENT, system="You are an agent."),
            await named(world, SESSION, system="Write a title."),
        ]
        others = [await named(world, {"x-claude-code-session-id": "s-2"}, system="You are an agent.")]
        others.append(await named(world, {}, system="You are an agent."))
        await world.gateway.settle()
        path = f"/segue/v1/conversations/{conversation_of(agent)}/switch"
        moved = await world.ask(path, {"model": ROUTES["anthropic"], "session": True})
        assert moved.json()["switched"] == ROUTES["anthropic"]
        later = await named(world, {**SESSION, "x-claude-code-agent-id": "a-2"}, system="You are an agent.")
        assert route_of(later) == ROUTES["anthropic"]
        for one in (agent, *known, *others):
            await one.turn("And now?")
        assert [route_of(one) for one in (agent, *known)] == [ROUTES["anthropic"]] * 3
        assert [route_of(one) for one in others] == [ROUTES["chat"]] * 2
        await world.gateway.settle()
        listed = await world.store.conversations()
        assert len({info.id for info in listed}) == len(listed) == 6
        path = f"/segue/v1/conversations/{conversation_of(others[1])}/switch"
        refused = await world.ask(path, {"model": ROUTES["anthropic"], "session": True})
        assert (refused.status, refused.json()["error"]["code"]) == (400, "no_session")

    asyncio.run(main())


def test_a_session_that_goes_on_with_a_copy_of_another_is_a_conversation_of_its_own() -> None:
    async def main() -> None:
        world = GatewayWorld()
        agent = await named(world, SESSION, text=LOOK)
        await switch(world, agent, ROUTES["anthropic"])
        agent.own_headers = {"x-claude-code-session-id": "s-2"}
        await agent.turn("And now?")
        assert route_of(agent) == ROUTES["chat"]

    asyncio.run(main())


@pytest.mark.parametrize(
    "name", [{"x-segue-session": "mine"}, {"session-id": "s", "thread-id": "t-1"}, {"conversation_id": "c"}]
)
def test_a_name_of_one_conversation_is_enough(name: Mapping[str, str]) -> None:
    async def main() -> None:
        world = GatewayWorld()
        agent = await named(world, name, system="You are an agent.", client=ResponsesAgent)
        await switch(world, agent, ROUTES["anthropic"])
        compacted = await named(world, name, system="You are another.", client=ResponsesAgent)
        assert route_of(compacted) == ROUTES["anthropic"]
        other = {key: value + "-other" for key, value in name.items()}
        assert route_of(await named(world, other, client=ResponsesAgent)) == ROUTES["chat"]

    asyncio.run(main())


def test_a_thread_of_a_subagent_is_not_its_parent_s() -> None:
    async def main() -> None:
        world = GatewayWorld()
        headers = {"session-id": "s", "thread-id": "t-1"}
        agent = await named(world, headers, client=ResponsesAgent)
        child = await named(world, {**headers, "thread-id": "t-2"}, client=ResponsesAgent)
        await switch(world, agent, ROUTES["anthropic"])
        await child.turn("And now?")
        assert route_of(child) == ROUTES["chat"]

    asyncio.run(main())


def test_what_only_keeps_requests_near_a_cache_names_no_conversation() -> None:
    class CachedAgent(ChatAgent):
        def body(self, model: str) -> Any:
            return {**super().body(model), "prompt_cache_key": "all of them"}

    async def main() -> None:
        world = GatewayWorld()
        affinity = {"x-session-affinity": "all of them", "x-affinity": "all of them"}
        one, other = [await named(world, affinity, client=CachedAgent) for _ in range(2)]
        assert conversation_of(one) != conversation_of(other)

    asyncio.run(main())


def test_a_name_belongs_to_one_caller() -> None:
    async def main() -> None:
        callers = {name: CallerSettings(key_sha256=digest_of(f"{name}'s key")) for name in ("ann", "bob")}
        world = GatewayWorld(callers=callers)
        ids = {
            conversation_of(await named(world, {**SESSION, "x-api-key": f"{name}'s key"})) for name in callers
        }
        assert len(ids) == 2

    asyncio.run(main())


# Turns


@pytest.mark.parametrize("wire", ["anthropic", "openai_chat"])
def test_a_switch_never_takes_part_in_a_turn_whose_calls_we_did_not_see(wire: str) -> None:
    """The session went on without us for a while, or the memory was away: who made the calls is not known."""

    async def main() -> None:
        world = GatewayWorld()
        agent = AGENTS[wire](world, ROUTES["chat"])
        agent.own_headers = {"x-segue-session": "mine"}
        await agent.turn(HELLO)
        await switch(world, agent, ROUTES["anthropic"])
        agent.add_user(LOOK)
        call = ("toolu_01aaaaaaaaaaaaaaaaaaaaaa", "weather", {"city": "Rome"})
        if wire == "anthropic":
            block = {"type": "tool_use", "id": call[0], "name": call[1], "input": call[2]}
            agent.history.append({"role": "assistant", "content": [block]})
        else:
            function = {"name": call[1], "arguments": '{"city": "Rome"}'}
            made = {"id": call[0], "type": "function", "function": function}
            agent.history.append({"role": "assistant", "content": None, "tool_calls": [made]})
        agent.add_results([(call[0], call[1], "rain")])
        agent.add_reply((await agent.send()).json())
        assert route_of(agent) == ROUTES["chat"]
        await agent.turn("And now?")
        assert route_of(agent) == ROUTES["anthropic"]

    asyncio.run(main())


class WithoutIds(OllamaAgent):
    """A client that drops the ids of calls, as Ollama's SDK does."""

    def add_reply(self, reply: Any) -> list[tuple[str, str, Any]]:
        calls = super().add_reply(reply)
        for call in self.history[-1].get("tool_calls") or ():
            call.pop("id", None)
        return [("", name, arguments) for _, name, arguments in calls]


def test_calls_without_ids_are_told_apart_by_their_arguments() -> None:
    """Agents that work in several folders are asked the same in each."""

    class InFolders:
        folder = 0

        def reply(self, prompt: Prompt) -> Reply:
            if prompt.results:
                return Reply(pieces=(Say("Done."),))
            self.folder += 1
            return Reply(pieces=(Call("weather", {"city": f"/work/{self.folder}"}),))

        def reset(self) -> None:
            """Nothing else is remembered."""

    async def main() -> None:
        world = GatewayWorld(responder=InFolders())
        agents = [WithoutIds(world, ROUTES["chat"]) for _ in range(3)]
        for agent in agents:
            agent.add_user(LOOK)
            agent.add_reply((await agent.send()).json())
        for agent in agents:
            agent.add_results([("", "weather", "rain")])
            agent.add_reply((await agent.send()).json())
            known = {reply.headers["x-segue-conversation"] for reply in agent.replies}
            assert len(known) == 1
        await switch(world, agents[0], ROUTES["gemini"])
        for agent in agents:
            await agent.turn("And now?")
        assert [agent.replies[2].headers["x-segue-route"] for agent in agents] == [
            ROUTES["gemini"],
            *[ROUTES["chat"]] * 2,
        ]

    asyncio.run(main())


def test_calls_without_ids_stay_with_their_model() -> None:
    async def main() -> None:
        world = GatewayWorld(responder=AgentModel())
        agents = [WithoutIds(world, ROUTES[name]) for name in ("anthropic", "chat")]
        for agent in agents:
            agent.system = f"You are {agent.model}."
            agent.add_user(LOOK)
            agent.add_reply((await agent.send()).json())
        for agent in agents:
            await switch(world, agent, ROUTES["gemini"])
            agent.add_results([("", "weather", "rain"), ("", "weather", "rain")])
            agent.add_reply((await agent.send()).json())
            assert route_of(agent) == agent.model
            await agent.turn("And now?")
            assert route_of(agent) == ROUTES["gemini"]

    asyncio.run(main())

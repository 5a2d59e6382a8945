"""Ten clients that begin with the same words and get the same answers: whom a switch may move, and whom not."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from gateway.clients import AGENTS, Agent, OllamaAgent
from gateway.world import ROUTES, GatewayResponse
from segue.emulators.model.model_reply import Call, Prompt, Reply, Say

WORDS = ("Hello.", "Please look at it.", "And now?")


class SameAnswers:
    """Says the same to everybody, whichever model it is."""

    def reply(self, prompt: Prompt) -> Reply:
        if prompt.results or not prompt.tools or "look" not in prompt.text:
            return Reply(pieces=(Say("All is well."),))
        return Reply(pieces=(Say("I look."), Call("weather", {"city": "Rome"})))

    def reset(self) -> None:
        """Nothing is remembered."""


class IdLessAgent(OllamaAgent):
    """Returns its calls without ids, as the Python client of Ollama does."""

    def add_reply(self, reply: Any) -> list[tuple[str, str, Any]]:
        calls = super().add_reply(reply)
        for call in self.history[-1].get("tool_calls") or ():
            call.pop("id", None)
        return [("", name, arguments) for _, name, arguments in calls]


class Client:
    """One of them, and what it may expect."""

    def __init__(self, number: int, agent: Agent, *, named: bool = False) -> None:
        self.number = number
        self.begun = 0
        """How often it began again."""
        self.agent = agent
        self.named = named
        self.pending: list[tuple[str, str, Any]] = []
        """Calls that wait for their results."""
        self.told: tuple[Any, ...] = ()
        """All that one can see of its conversation."""
        self.conversation = ""
        self.switched = ""
        self.turn_route = ""

    @property
    def own(self) -> tuple[int, int]:
        """Its conversation, as one who knows it would call it."""
        return self.number, self.begun

    def begin_again(self) -> None:
        """A new conversation, or one that was compacted if it has a name."""
        self.agent.history, self.pending, self.told = [], [], ()
        if not self.named:
            self.begun += 1
            self.conversation = self.switched = ""


class TenClients:
    """Their requests, one after another, each checked."""

    def __init__(self, world: Any, switch: Callable[[str, str], Awaitable[bool]]) -> None:
        self._switch = switch
        self._had: dict[Any, set[tuple[int, int]]] = {}
        """What can be seen of a conversation → which had it."""
        self._owner: dict[str, tuple[int, int]] = {}
        """The gateway's id of a conversation → which it is."""
        self.moved = 0
        """Turns that a switch has moved."""
        self.lost = 0
        """Switches that had no effect, since two conversations were the same to the letter."""
        made: list[tuple[type[Agent], str, str, Mapping[str, str]]] = [
            *((agent, ROUTES["chat"], "", {}) for agent in AGENTS.values()),
            (AGENTS["openai_chat"], ROUTES["chat"], "", {}),
            (AGENTS["anthropic"], ROUTES["chat"], "Be brief.", {"x-claude-code-session-id": "one"}),
            (AGENTS["anthropic"], ROUTES["chat"], "Be brief.", {"x-claude-code-session-id": "two"}),
            (IdLessAgent, ROUTES["mistral"], "Be kind.", {}),
        ]
        self.clients: list[Client] = []
        for number, (kind, model, system, headers) in enumerate(made):
            agent = kind(world, model)
            agent.system, agent.own_headers = system, headers
            self.clients.append(Client(number, agent, named=bool(headers)))

    async def say(self, client: Client, text: str, *, stream: bool) -> None:
        """A message of the user: here a switch takes effect, on this client alone."""
        client.agent.stream = stream
        client.pending = []
        expected = {client.switched or client.agent.model}
        if twins := self._twins(client):
            expected.add(client.agent.model)
        client.agent.add_user(text)
        client.told += ("user", text)
        reply = await client.agent.send()
        route = reply.headers["x-segue-route"]
        assert route in expected, (client.number, route, expected, twins)
        self.moved += route != client.agent.model
        client.turn_route = route
        self._keep(client, reply, twins)

    async def answer(self, client: Client, *, stream: bool) -> None:
        """The results of its calls: they go to the model that made them."""
        if not client.pending:
            return
        client.agent.stream = stream
        twins = self._twins(client)
        client.agent.add_results([(call_id, name, "rain") for call_id, name, _ in client.pending])
        client.told += ("tool", *(call_id for call_id, _, _ in client.pending))
        client.pending = []
        reply = await client.agent.send()
        assert reply.headers["x-segue-route"] == client.turn_route, client.number
        self._keep(client, reply, twins)

    async def switch(self, client: Client, model: str) -> None:
        if client.conversation:
            assert await self._switch(client.conversation, model)
            client.switched = model

    def _twins(self, client: Client) -> set[tuple[int, int]]:
        """Other conversations that are the same to the letter so far."""
        return self._had.get(self._seen(client), set()) - {client.own}

    def _seen(self, client: Client) -> Any:
        agent = client.agent
        name = tuple(agent.own_headers.items())
        return (agent.wire, agent.model, agent.system, name, client.told) if client.told else client.own

    def _keep(self, client: Client, reply: GatewayResponse, twins: set[tuple[int, int]]) -> None:
        assert reply.status == 200, reply.body
        whole = client.agent.whole(reply)
        client.pending = client.agent.add_reply(whole)
        ids = [call_id for call_id, _, _ in client.pending]
        client.told += ("model", client.agent.text(whole), *ids)
        conversation = reply.headers["x-segue-conversation"]
        if client.conversation not in ("", conversation):
            assert twins, client.number
            self.lost += bool(client.switched)
            client.switched = ""
        client.conversation = conversation
        assert self._owner.setdefault(client.conversation, client.own) == client.own
        self._had.setdefault(self._seen(client), set()).add(client.own)

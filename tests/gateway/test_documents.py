"""Conversations taken out of the gateway: whole while it holds them, without thoughts, and for those who may see them."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from gateway.clients import AGENTS
from gateway.world import ROUTES, GatewayWorld
from segue.conversation.blocks import Media, Reasoning, ToolResult
from segue.conversation.message import Conversation, Message, model, user
from segue.gateway.memory.recent import RecentConversation, RecentConversations
from segue.interop.move import SourceSession, plan_move
from segue.interop.session_files import read_file
from segue.interop.session_formats import NAMES

CONVERSATIONS = "/segue/v1/conversations"
CHAT = "/v1/chat/completions"


async def taken(world: GatewayWorld, **headers: str) -> Any:
    """The document of the conversation used last."""
    listed = json.loads((await world.ask(CONVERSATIONS, method="GET", headers=headers)).body)["conversations"]
    answer = await world.ask(f"{CONVERSATIONS}/{listed[0]['id']}/document", method="GET", headers=headers)
    assert answer.status == 200, answer.body
    return json.loads(answer.body)


@pytest.mark.parametrize("wire", AGENTS)
def test_a_conversation_is_taken_out_whole_and_without_thoughts(wire: str) -> None:
    async def main() -> None:
        world = GatewayWorld()
        agent = AGENTS[wire](world, ROUTES["anthropic"])
        await agent.turn("Please look at two cities.")
        found = await taken(world)
        assert found["whole"]
        assert found["thoughts"] > 0
        data = json.dumps(found["document"]).encode()
        source, _ = read_file(data)
        assert source.conversation is not None
        messages = source.conversation.messages
        assert messages[0].text == "Please look at two cities."
        results = [block for message in messages for block in message.blocks if type(block) is ToolResult]
        assert len(results) == 2
        assert messages[-1].speaker == "model"
        assert messages[-1].text
        assert not [block for message in messages for block in message.blocks if type(block) is Reasoning]
        assert b'"seal"' not in data
        for name in NAMES:
            move = plan_move(SourceSession(program="", data=data), name)
            assert b"Please look at two cities." in move.data

    asyncio.run(main())


def test_a_caller_takes_its_own_conversations_and_an_operator_those_of_all() -> None:
    async def main() -> None:
        world = GatewayWorld()
        keys: dict[str, dict[str, str]] = {"eve": {}}
        for name in ("eve", "ann", "bob"):
            made = await world.ask(
                "/segue/v1/callers", {"name": name, "admin": name == "eve"}, headers=keys["eve"]
            )
            keys[name] = {"authorization": f"Bearer {made.json()['key']}"}
            world.gateway.accounts._keys._checked = 0.0
        body = {"model": ROUTES["chat"], "messages": [{"role": "user", "content": "A secret of Ann"}]}
        assert (await world.ask(CHAT, body, headers=keys["ann"])).status == 200
        assert "A secret of Ann" in json.dumps(await taken(world, **keys["ann"]))
        info = (await taken(world, **keys["ann"]))["conversation"]
        path = f"{CONVERSATIONS}/{info['id']}/document"
        refused = await world.ask(path, method="GET", headers=keys["bob"])
        assert refused.status == 404
        assert b"secret" not in refused.body
        assert (await world.ask(path, method="GET")).status == 401
        assert (await world.ask(path, {}, headers=keys["ann"])).status in (404, 405)
        seen = await world.ask(path, method="GET", headers=keys["eve"])
        assert b"A secret of Ann" in seen.body

    asyncio.run(main())


def test_what_the_gateway_does_not_hold_is_said() -> None:
    async def main() -> None:
        world = GatewayWorld()
        body = {"model": ROUTES["chat"], "messages": [{"role": "user", "content": "Hello"}]}
        assert (await world.ask(CHAT, body)).status == 200
        listed = json.loads((await world.ask(CONVERSATIONS, method="GET")).body)["conversations"]
        world.restart()
        gone = await world.ask(f"{CONVERSATIONS}/{listed[0]['id']}/document", method="GET")
        assert gone.status == 404
        assert b"does not hold the messages" in gone.body
        unknown = await world.ask(f"{CONVERSATIONS}/nobody/document", method="GET")
        assert b"There is no conversation" in unknown.body

    asyncio.run(main())


def _recent(text: str) -> RecentConversation:
    return RecentConversation(Conversation().append(user(text)), model("Yes."))


def test_only_so_many_bytes_are_held_and_the_longest_unused_go_first() -> None:
    recent = RecentConversations(100)
    for number in range(4):
        recent.keep_last("ann", f"c{number}", _recent(f"{number}"), 40)
    assert [recent.get(("ann", f"c{number}")) is not None for number in range(4)] == [
        False,
        False,
        True,
        True,
    ]
    assert recent.held == 2 * (40 + len("Yes."))
    recent.keep_last("ann", "c3", _recent("again"), 101)
    assert recent.get(("ann", "c3")) is None
    assert recent.get(("bob", "c2")) is None
    assert recent.held == 40 + len("Yes.")


def test_a_message_of_thoughts_alone_is_left_out() -> None:
    held = RecentConversation(Conversation().append(user("go")), Message("model", (Reasoning("Hm."),)))
    conversation, thoughts = held.shown()
    assert [message.text for message in conversation.messages] == ["go"]
    assert thoughts == 1


def test_what_a_model_made_counts_beside_the_few_words_that_asked_for_it() -> None:
    recent = RecentConversations(100)
    drawn = Message("model", (Media("image", "image/png", "aGVs" * 8),))
    asked = Conversation().append(user("draw"))
    for number in range(4):
        recent.keep_last("ann", f"c{number}", RecentConversation(asked, drawn), 10)
    assert [recent.get(("ann", f"c{number}")) is not None for number in range(4)] == [
        False,
        False,
        True,
        True,
    ]
    assert recent.held == 2 * (10 + 32)
    again = RecentConversation(asked.append(drawn, user("another one")), drawn)
    recent.keep_last("ann", "c3", again, 20)
    assert recent.get(("ann", "c2")) is None, (
        "the first drawing is held, though its client does not return it"
    )
    assert recent.held == 20 + 2 * 32

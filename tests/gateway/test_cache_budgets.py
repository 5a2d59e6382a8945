"""What is kept for the next requests of conversations takes no more memory than its budget, however many there are and whatever
they look like: long or short, few or many. Counted by tracemalloc, not by us."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from gateway.world import ROUTES, GatewayWorld
from kept_memory import kept_of
from segue.config.schema import GatewayLimits
from segue.conversation.blocks import Block, Origin, Reasoning, Seal, Text, ToolCall
from segue.conversation.message import Conversation, Message
from segue.conversation.options import Options
from segue.dialects.caches.read_cache import ReadCache
from segue.dialects.registry import DIALECTS
from segue.gateway.memory.histories import KnownHistories
from segue.gateway.memory.installation_key import InstallationKey
from segue.gateway.memory.memory import Memory
from segue.gateway.memory.originals import recall_originals
from segue.gateway.memory.replies import RememberedReply, decode_reply, encode_reply
from segue.gateway.memory.sqlite_store import SQLiteMemoryStore
from segue.gateway.memory.store import ConversationInfo, MemoryRecord
from segue.gateway.requests.byte_budget import weight_of
from segue.providers.adapter import ChatRequest
from segue.providers.models.cards import card_for_model
from segue.providers.requests.request_writer import KeptPlans, RequestWriter

BUDGET = 1 << 20
ALWAYS = 300_000
"""Bytes that are allowed for what is loaded or remembered once."""
ORIGIN = Origin("anthropic", "anthropic", "https://api.example", "m")


class NoStore(SQLiteMemoryStore):
    """Forgets at once, so that only what the memory itself holds is measured."""

    async def write(self, records: Sequence[MemoryRecord], seen: ConversationInfo | None = None) -> None:
        pass

    async def read(self, keys: Sequence[bytes]) -> Mapping[bytes, bytes]:
        return {}


def taken(fill: Callable[[int], object], count: int) -> int:
    """Bytes that stay of so many."""
    fill(2)
    return kept_of(lambda: fill(count))


def short_reply(number: int) -> list[Block]:
    return [Text(f"ok {number}")]


def long_reply(number: int) -> list[Block]:
    return [Text(f"word {number} " * 300)]


def calling_reply(number: int) -> list[Block]:
    calls = [ToolCall(f"call_{number}_{each}", "look", '{"at": 1}') for each in range(4)]
    return [Reasoning("I look.", Seal(ORIGIN, f"seal {number} " * 5)), *calls]


@pytest.mark.parametrize("blocks", [short_reply, long_reply, calling_reply])
def test_replies_at_hand_take_no_more_than_their_budget(blocks: Callable[[int], list[Block]]) -> None:
    def fill(count: int) -> Memory:
        memory = Memory(NoStore(), InstallationKey(b"k" * 32), cache_bytes=BUDGET)

        async def remember() -> None:
            for number in range(count):
                message = Message("model", tuple(blocks(number)), origin=ORIGIN)
                calls = {f"shown_{call.id}": call.id for call in message.calls}
                reply = RememberedReply(message, "anthropic/m", calls, f"c{number}")
                await memory.remember("ann", number.to_bytes(16, "big"), decode_reply(encode_reply(reply)))

        asyncio.run(remember())
        return memory

    assert taken(fill, 1_000) <= BUDGET + ALWAYS


def test_what_a_reply_takes_is_given_back_with_its_last_key() -> None:
    async def story() -> None:
        memory = Memory(NoStore(), InstallationKey(b"k" * 32), cache_bytes=BUDGET)
        for number in (1, 1, 2):
            message = Message("model", tuple(calling_reply(number)), origin=ORIGIN)
            calls = {f"shown_{call.id}": call.id for call in message.calls}
            await memory.remember("ann", b"place", RememberedReply(message, "anthropic/m", calls))
        while memory.at_hand.held:
            memory.at_hand.drop_oldest()
        assert await memory.recall(memory.call_keys("ann", ["shown_call_1_0"])) == {}

    asyncio.run(story())


def body_of(number: int, messages: int, words: int) -> bytes:
    said = [
        {
            "role": "assistant" if at % 2 else "user",
            "content": f"{number} {at} " + "word " * words,
        }
        for at in range(messages)
    ]
    return json.dumps({"model": "m", "messages": [*said, {"role": "user", "content": "next"}]}).encode()


SIZES = [(2, 1), (60, 100), (300, 1)]
"""So many messages of so many words."""


@pytest.mark.parametrize(("messages", "words"), SIZES)
def test_known_histories_take_no_more_than_their_budget(messages: int, words: int) -> None:
    def fill(count: int) -> Memory:
        memory = Memory(NoStore(), InstallationKey(b"k" * 32), cache_bytes=0)
        memory.histories = KnownHistories(BUDGET)

        async def recall() -> None:
            for number in range(count):
                body = body_of(number, messages, words)
                read = ReadCache(0).read(DIALECTS["openai_chat"], body)
                await recall_originals(memory, "ann", read.conversation.messages, size=weight_of(body))

        asyncio.run(recall())
        return memory

    assert taken(fill, 1_200 if messages < 50 else 50) <= BUDGET + ALWAYS


@pytest.mark.parametrize(("messages", "words"), SIZES)
def test_requests_that_were_read_take_no_more_than_their_budget(messages: int, words: int) -> None:
    def fill(count: int) -> ReadCache:
        cache = ReadCache(BUDGET)
        for number in range(count):
            cache.read(DIALECTS["openai_chat"], body_of(number, messages, words))
        assert cache.budget.held <= BUDGET
        return cache

    assert taken(fill, 50) <= BUDGET + ALWAYS


@pytest.mark.parametrize(("messages", "words"), SIZES)
def test_planned_requests_take_no_more_than_their_budget(messages: int, words: int) -> None:
    card = card_for_model("gpt-4.1", "openai_chat")

    def fill(count: int) -> Any:
        writer = RequestWriter("openai_chat", "openai", "https://api.example", KeptPlans(BUDGET))
        for number in range(count):
            said = tuple(
                Message("model" if at % 2 else "user", (Text(f"{number} {at} " + "word " * words),))
                for at in range(messages)
            )
            asked = ChatRequest(model="gpt-4.1", conversation=Conversation(said), session=f"s{number}")
            writer.write(asked, Options(), card)
        return writer

    # What a conversation says is held once more, by the steps of its transcript.
    assert taken(fill, 500 if messages < 50 else 50) <= 2 * BUDGET + ALWAYS


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/responses"])
def test_all_that_a_gateway_keeps_of_conversations_is_within_one_budget(path: str) -> None:
    budget = 2 << 20

    def asked(number: int, turns: int) -> dict[str, Any]:
        said: list[dict[str, Any]] = []
        for at in range(turns):
            said += [
                {"role": "user", "content": f"{number} {at} " + "word " * 1_000},
                {"role": "assistant", "content": f"Yes, {at}."},
            ]
        field = "input" if path == "/v1/responses" else "messages"
        return {"model": ROUTES["anthropic"], field: [*said, {"role": "user", "content": "next"}]}

    def fill(count: int) -> GatewayWorld:
        world = GatewayWorld(limits=GatewayLimits(warm_bytes=budget))
        world.gateway.memory.store = NoStore()

        async def ask() -> None:
            for number in range(count):
                for turns in (4, 5):
                    assert (await world.ask(path, asked(number, turns))).status == 200
                    world.emulator.log.clear()
                    held = world.reports.pop().warm_bytes
                    assert sum(held.values()) <= budget
                    assert held["requests"]

        asyncio.run(ask())
        return world

    assert taken(fill, 40) <= budget + 2 * ALWAYS

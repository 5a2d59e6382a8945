"""A process that chats until it is killed, and says on its standard output what it was told happened.

Every tool writes its call's id to a file, durably, before it answers: that is the effect which must not happen twice.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

import msgspec

from segue.chat.chat import Chat
from segue.conversation.blocks import ToolResult
from segue.conversation.options import Options
from segue.errors import UsageError
from segue.events import ChatEvent, Finish, TextChunk, ToolCallResult, ToolCallStart, TurnComplete
from segue.sessions.stores.memory import MemoryStore
from sessions.stores_under_test import open_store
from stories.machine_plans import Act, Calls, Reply, Words
from stories.machine_world import TARGETS, World

EFFECTS = "effects.txt"
ACTS: tuple[Act, ...] = (
    "ok",
    "slow",
    "slow",
    "json",
    "huge",
    "image",
    "nothing",
    "raise",
    "approved",
    "denied",
)
WORDS_OF_A_LIFE = 10_000


def digest(result: ToolResult) -> str:
    return sha256(msgspec.json.encode(result)).hexdigest()[:16]


def live(kind: str, place: Path, session: str, number: int) -> None:
    """One life: go on with the session, and take turns for ever."""
    effects = os.open(place / EFFECTS, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def leave_a_trace(of: str, call_id: str) -> None:
        os.write(effects, f"{of} {call_id}\n".encode())
        os.fsync(effects)

    async def main() -> None:
        dice = random.Random(number)
        world = World(words=number * WORDS_OF_A_LIFE, on_deed=leave_a_trace)
        store = open_store(kind, place)
        options = Options(effort="medium", max_tokens=4000)
        async with world.chat(dice.choice(TARGETS), store, session, options=options) as chat:
            tell({"opened": session})
            while True:
                await _do_something(chat, world, dice)

    asyncio.run(main())


async def _do_something(chat: Chat, world: World, dice: random.Random) -> None:
    match dice.randrange(12):
        case 0:
            await chat.switch(world.router(dice.choice(TARGETS)))
        case 1:
            with suppress(UsageError):  # a summary may be longer than what it stands for
                await chat.compact(dice.choice(("summarise", "truncate", "elide_results")))
        case 2:
            with suppress(UsageError):
                await chat.undo()
        case _:
            await _take_turn(chat, world, dice)


async def _take_turn(chat: Chat, world: World, dice: random.Random) -> None:
    world.model.plan.clear()
    world.model.plan.extend(_reply(dice) for _ in range(dice.randint(1, 2)))
    asked = world.word("asked")
    shown = ""
    async for event in chat.stream(f"{asked}?"):
        if type(event) is TextChunk:
            shown += event.text
        if (told := _acknowledged(event, asked, shown)) is not None:
            tell(told)


def _reply(dice: random.Random) -> Reply:
    if dice.random() < 0.2:
        return Words(thinks=dice.random() < 0.5)
    acts = tuple(dice.choice(ACTS) for _ in range(dice.randint(1, 5)))
    return Calls(acts, words=dice.random() < 0.5, thinks=dice.random() < 0.5)


def _acknowledged(event: ChatEvent, asked: str, shown: str) -> dict[str, str] | None:
    """What an event promises to be durable."""
    if type(event) is ToolCallStart:
        return {"call": event.call.id, "asked": asked, "shown": shown}
    if type(event) is ToolCallResult:
        return {"call": event.call.id, "result": digest(event.result)}
    if type(event) is TurnComplete or type(event) is Finish:
        return {"asked": asked, "shown": shown}
    return None


def tell(value: object) -> None:
    os.write(1, json.dumps(value).encode() + b"\n")  # whole or not at all: it is short, and stdout is a pipe


async def _load_everything() -> None:
    world = World()
    async with world.chat(TARGETS[0], MemoryStore(), "rehearsal") as chat:
        for target in TARGETS:
            await chat.switch(world.router(target))
            world.model.plan.append(Calls(ACTS[:2]))
            await chat.send("Is everything there?")


def give_birth(kind: str, place: Path) -> None:
    """Fork a life for every line that comes in. Nothing has to be loaded again, so it begins in milliseconds."""
    asyncio.run(_load_everything())
    for line in sys.stdin:
        session, number = line.split()
        child = os.fork()
        if child == 0:
            tell({"born": os.getpid()})
            live(kind, place, session, int(number))
        os.waitpid(child, 0)
        tell({"dead": child})


if __name__ == "__main__":
    give_birth(sys.argv[1], Path(sys.argv[2]))

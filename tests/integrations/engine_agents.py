"""An agent for engines that are killed: its tools have effects, all that begins and ends is written down, and its model needs no network."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from msgspec import Struct

from segue.chat.chat import Chat
from segue.providers.adapter import ChatRequest, StreamEvent
from segue.providers.scripted import Pause, Script, ScriptedProvider, calls, says
from segue.sessions.stores.postgres import PostgresStore
from segue.sessions.stores.sqlite import SQLiteStore
from segue.sessions.stores.store import Store
from segue.tools.approval import Approval
from segue.tools.definition import Context
from segue.tools.function_tools import tool

ROUNDS = 3


class Doing(Struct, frozen=True):
    """Something that a process did to the world: `send`, `look` or `ask`; where it has no end, the process died in its middle."""

    what: str
    session: str
    call_id: str
    process: int
    had_effect: bool
    ended: bool


class World:
    """What processes have done: a line each, in a file that all of them share and that outlives them."""

    def __init__(self, folder: Path, seconds: float = 0.0) -> None:
        """`seconds`: how long things take at most."""
        self._file = folder / "world"
        self._seconds = seconds

    @contextmanager
    def doing(self, what: str, session: str = "", call_id: str = "") -> Iterator[str]:
        number = uuid4().hex
        self.add(f"{number} begun {what} {session or '-'} {call_id or '-'} {os.getpid()}")
        try:
            yield number
        finally:  # also where nobody reads on; a killed process writes nothing
            self.add(f"{number} ended")

    def some_seconds(self) -> float:
        return random.uniform(0.2, 1.0) * self._seconds

    def add(self, line: str) -> None:
        with self._file.open("ab", buffering=0) as file:
            file.write(f"{line}\n".encode())

    def all(self) -> list[Doing]:
        text = self._file.read_text() if self._file.exists() else ""
        lines = [line.split(" ") for line in text.split("\n")[:-1]]
        seen = {(number, word) for number, word, *_ in lines}
        return [
            Doing(what, session, call_id, int(process), (number, "effect") in seen, (number, "ended") in seen)
            for number, word, what, session, call_id, process in (line for line in lines if len(line) == 6)
            if word == "begun"
        ]


class Model(ScriptedProvider):
    """Two calls in each of a few rounds, then the end."""

    def __init__(self, world: World) -> None:
        super().__init__(answer=self._reply, name="one")
        self._world = world

    async def chat_stream(self, request: ChatRequest) -> AsyncIterator[StreamEvent]:
        with self._world.doing("ask"):
            async for event in super().chat_stream(request):
                yield event

    def _reply(self, request: ChatRequest) -> Script:
        messages = request.conversation.messages
        said = max(place for place, message in enumerate(messages) if message.speaker == "user")
        done = sum(message.speaker == "tool" for message in messages[said:])
        begin, *rest = (
            says(f"done after {len(messages)} messages")
            if done >= ROUNDS
            else calls(("send", {"number": done}), ("look", {"number": done}), text=f"Round {done}.")
        )
        half = Pause(self._world.some_seconds() / 2)
        return [half, begin, half, *rest]


def open_store(folder: Path, database: str) -> Store:
    return PostgresStore(database, patience=60) if database else SQLiteStore(folder / "sessions.db")


class Agents:
    """Chats of any session, on one store."""

    def __init__(
        self, folder: Path, database: str = "", *, seconds: float = 0.0, approval: Approval | None = None
    ) -> None:
        self.world = World(folder, seconds)
        self.store = open_store(folder, database)
        self._provider = Model(self.world)
        self._approval = approval

    def chat(self, session: str) -> Chat:
        world = self.world

        async def send(number: int, context: Context) -> str:
            """Has an effect that must not happen twice."""
            with world.doing("send", session, context.call.id) as doing:
                half = world.some_seconds() / 2
                await asyncio.sleep(half)
                world.add(f"{doing} effect")
                await asyncio.sleep(half)
            return f"sent {number}"

        @tool(effect="read")
        async def look(number: int, context: Context) -> str:
            """Only looks."""
            with world.doing("look", session, context.call.id):
                await asyncio.sleep(world.some_seconds())
            return f"saw {number}"

        return Chat(
            "one/a",
            providers={"one": self._provider},
            store=self.store,
            session=session,
            tools=[send, look],
            approval=self._approval,
        )

"""An agent for engines that are killed: its tools have effects, which are written down, and its model needs no network."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from segue.chat.chat import Chat
from segue.providers.adapter import ChatRequest
from segue.providers.scripted import Script, ScriptedProvider, calls, says
from segue.sessions.stores.postgres import PostgresStore
from segue.sessions.stores.sqlite import SQLiteStore
from segue.sessions.stores.store import Store
from segue.tools.definition import Context
from segue.tools.function_tools import tool

ROUNDS = 3


def answer(request: ChatRequest) -> Script:
    """Two calls in each of a few rounds, then the end."""
    messages = request.conversation.messages
    said = max(place for place, message in enumerate(messages) if message.speaker == "user")
    done = sum(message.speaker == "tool" for message in messages[said:])
    if done >= ROUNDS:
        return says(f"done after {len(messages)} messages")
    return calls(("send", {"number": done}), ("look", {"number": done}))


class Effects:
    """What tools have done to the world: a line each, in a file that all processes share."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "effects"

    def add(self, line: str) -> None:
        with self._file.open("ab", buffering=0) as file:
            file.write(f"{line}\n".encode())
            os.fsync(file.fileno())

    def all(self) -> list[str]:
        return self._file.read_text().split("\n")[:-1] if self._file.exists() else []


def open_store(folder: Path, database: str) -> Store:
    return PostgresStore(database, patience=60) if database else SQLiteStore(folder / "sessions.db")


class Agents:
    """Chats of any session, on one store."""

    def __init__(self, folder: Path, database: str = "") -> None:
        self.effects = Effects(folder)
        self.store = open_store(folder, database)
        self.provider = ScriptedProvider(answer=answer, name="one")

    def chat(self, session: str) -> Chat:
        async def send(number: int, context: Context) -> str:
            """Has an effect that must not happen twice."""
            await asyncio.sleep(0.01)
            self.effects.add(f"{session} {context.call.id} {number}")
            await asyncio.sleep(0.01)
            return "sent"

        @tool(effect="read")
        async def look(number: int) -> str:
            """Only looks."""
            await asyncio.sleep(0.005 * number)
            return "seen"

        providers = {"one": self.provider}
        return Chat("one/a", providers=providers, store=self.store, session=session, tools=[send, look])

"""One conversation with emulated providers, held by a plain chat, by steps or by DBOS: `python -m integrations.same_conversation HOW FOLDER URL`."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path

from segue.chat.chat import Chat
from segue.chat.steps import Done
from segue.providers.config import ProviderConfig
from segue.providers.registry import default_registry
from segue.sessions.stores.sqlite import SQLiteStore
from segue.tools.function_tools import tool

MESSAGES = ("Look at 1 and send it.", "Once more, with 2.", "What did you do?")
MODELS = {
    "anthropic": "anthropic/claude-sonnet-4-5",
    "openai": "openai/gpt-5.4",
    "gemini": "gemini/gemini-2.5-flash",
}
"""By session. Their replies have seals and ids that must return as they came."""
_PATHS = {"anthropic": "", "openai": "/v1", "gemini": "/v1beta"}


def send(number: int) -> str:
    """Send a number."""
    return f"sent {number}"


@tool(effect="read")
def look(number: int) -> str:
    """Look at a number."""
    return f"saw {number}"


def chats(folder: Path, url: str) -> Callable[[str], Chat]:
    store = SQLiteStore(folder / "sessions.db")
    configs = {name: ProviderConfig(base_url=f"{url}/{name}{path}") for name, path in _PATHS.items()}
    keys = {f"{name.upper()}_API_KEY": "k" for name in _PATHS}
    providers = default_registry(configs, keys, keyring=False)
    return lambda session: Chat(
        MODELS[session],
        providers=providers,
        store=store,
        session=session,
        tools=[send, look],
        system="You are an agent.",
    )


async def plain(folder: Path, url: str) -> None:
    open_chat = chats(folder, url)
    for session in MODELS:
        async with open_chat(session) as chat:
            for message in MESSAGES:
                assert (await chat.send(message)).finish == "complete"


async def steps(folder: Path, url: str) -> None:
    """Each step in a chat of its own, as in a process of its own."""
    open_chat = chats(folder, url)
    for session in MODELS:
        for message in MESSAGES:
            first = open_chat(session).stepwise(message)
            step = await first.begin(message)
            await first.close()
            while not isinstance(step, Done):
                next_one = open_chat(session).stepwise(message)
                step = await next_one.perform(step)
                await next_one.close()
            assert step.finish == "complete"


async def dbos(folder: Path, url: str) -> None:
    from dbos import DBOS

    from segue.integrations.dbos import DBOSAgents

    address = f"sqlite:///{folder}/dbos.db"
    DBOS(config={"name": "same", "system_database_url": address, "log_level": "ERROR"})
    agents = DBOSAgents(chats(folder, url), polling_seconds=0.05)
    DBOS.launch()
    await agents.register_queues_async()
    for session in MODELS:
        for message in MESSAGES:
            handle = await agents.send(session, message)
            assert (await handle.get_result())["finish"] == "complete"
    DBOS.destroy()


if __name__ == "__main__":
    how = {"plain": plain, "steps": steps, "dbos": dbos}[sys.argv[1]]
    asyncio.run(how(Path(sys.argv[2]), sys.argv[3]))

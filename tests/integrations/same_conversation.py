"""Conversations with emulated providers, held by a plain chat, by steps or by DBOS: `python -m integrations.same_conversation HOW FOLDER URL`."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path

from segue.chat.chat import Chat
from segue.chat.steps import Done, Wait
from segue.providers.config import ProviderConfig
from segue.providers.registry import default_registry
from segue.routing.profiles import Profile, build_router
from segue.routing.retry import RetrySettings
from segue.routing.route import Route, facts_from
from segue.routing.router import Model
from segue.sessions.stores.sqlite import SQLiteStore
from segue.tools.approval import Approval, ask_later
from segue.tools.function_tools import tool

MESSAGES = ("Look at 1 and send it.", "Once more, with 2.", "What did you do?")
MODELS = {
    "anthropic": "anthropic/claude-sonnet-4-5",
    "openai": "openai/gpt-5.4",
    "gemini": "gemini/gemini-2.5-flash",
}
"""By session. Their replies have seals and ids that must return as they came."""
UNLUCKY, HALFWAY = "This one fails.", "This one fails behind its calls."
TALES = {
    **dict.fromkeys(MODELS, MESSAGES),
    "approvals": MESSAGES,
    "failover": (MESSAGES[0], UNLUCKY, MESSAGES[2]),
    "continued": (HALFWAY, MESSAGES[2]),
    "compaction": tuple(f"{number}: {'more words ' * 300}" for number in range(4)),
}
"""The messages of each session. `failover`, `continued`: the first provider fails at the first request of a turn, and behind calls."""
_PATHS = {"anthropic": "", "openai": "/v1", "gemini": "/v1beta"}
_WINDOW = 4000


def send(number: int) -> str:
    """Send a number."""
    return f"sent {number}"


@tool(effect="read")
def look(number: int) -> str:
    """Look at a number."""
    return f"saw {number}"


def is_allowed(answers: int) -> bool:
    """Whether a call may run, after so many answers in its session."""
    return answers % 2 == 0


def chats(folder: Path, url: str) -> Callable[[str], Chat]:
    store = SQLiteStore(folder / "sessions.db")
    configs = {name: ProviderConfig(base_url=f"{url}/{name}{path}") for name, path in _PATHS.items()}
    keys = {f"{name.upper()}_API_KEY": "k" for name in _PATHS}
    providers = default_registry(configs, keys, keyring=False)
    team = Profile(
        name="team",
        members=(MODELS["anthropic"], MODELS["openai"]),
        retry=RetrySettings(attempts=1),
    )
    facts = facts_from(providers)
    models: dict[str, Model] = {
        **MODELS,
        "approvals": MODELS["anthropic"],
        **{session: build_router(team, facts) for session in ("failover", "continued")},
        "compaction": Route(provider="openai", model="gpt-5.4", context=_WINDOW),
    }
    return lambda session: Chat(
        models[session],
        providers=providers,
        store=store,
        session=session,
        tools=[send, look],
        system="You are an agent.",
        approval=Approval("ask", ask=ask_later) if session == "approvals" else None,
    )


async def plain(folder: Path, url: str) -> None:
    open_chat = chats(folder, url)
    for session, messages in TALES.items():
        answered = 0
        async with open_chat(session) as chat:
            for message in messages:
                answer = await chat.send(message)
                while answer.finish == "waiting":
                    for call in chat.approvals:
                        await chat.approve(call.id, by="ann", allow=is_allowed(answered))
                        answered += 1
                    answer = await chat.resume()
                assert answer.finish == "complete"


async def steps(folder: Path, url: str) -> None:
    """Each step in a chat of its own, as in a process of its own."""
    open_chat = chats(folder, url)
    for session, messages in TALES.items():
        answered = 0
        for message in messages:
            chat = open_chat(session).stepwise(message)
            step = await chat.begin(message)
            while not isinstance(step, Done):
                await chat.close()
                chat = open_chat(session).stepwise(message)
                if isinstance(step, Wait):
                    step = await chat.approve(step.calls[0].id, by="ann", allow=is_allowed(answered))
                    answered += 1
                else:
                    step = await chat.perform(step)
            await chat.close()
            assert step.finish == "complete"


async def dbos(folder: Path, url: str) -> None:
    from dbos import DBOS

    from segue.integrations.dbos import DBOSAgents

    address = f"sqlite:///{folder}/dbos.db"
    DBOS(
        config={
            "name": "same",
            "system_database_url": address,
            "log_level": "ERROR",
            "notification_listener_polling_interval_sec": 0.05,
        }
    )
    agents = DBOSAgents(chats(folder, url), polling_seconds=0.05)
    DBOS.launch()
    await agents.register_queues_async()
    for session, messages in TALES.items():
        answered = list[str]()
        for number, message in enumerate(messages):
            turn = f"{session}-{number}"
            handle = await agents.send(session, message, turn=turn)
            while session == "approvals" and (await handle.get_status()).status != "SUCCESS":
                for call in await agents.approvals(turn):
                    if call["id"] not in answered:
                        await agents.approve(turn, call["id"], by="ann", allow=is_allowed(len(answered)))
                        answered.append(call["id"])
                await asyncio.sleep(0.05)
            assert (await handle.get_result())["finish"] == "complete"
    DBOS.destroy()


if __name__ == "__main__":
    how = {"plain": plain, "steps": steps, "dbos": dbos}[sys.argv[1]]
    asyncio.run(how(Path(sys.argv[2]), sys.argv[3]))

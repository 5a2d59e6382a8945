"""Short stories of one process: `python -m integrations.dbos_stories NAME FOLDER`."""

from __future__ import annotations

import asyncio
import sqlite3
import sys
from pathlib import Path
from typing import Any

import pytest
from dbos import DBOS

from integrations.approvals_worker import TOKEN
from segue.chat.chat import Chat
from segue.errors import UsageError
from segue.integrations import _dbos_recovery
from segue.integrations._turns import FIRST_LOOK
from segue.integrations.approvals import approvals_app
from segue.integrations.dbos import AskLimits, DBOSAgents
from segue.providers.scripted import ScriptedProvider, calls, says
from segue.sessions.entries import ApprovalGiven, TurnEnded
from segue.sessions.stores.sqlite import SQLiteStore
from segue.tools.approval import Approval, ask_later

done: list[str] = []


def send(to: str) -> str:
    """Has an effect."""
    done.append(to)
    return "sent"


class Story:
    """One provider, one store, one engine."""

    def __init__(self, folder: Path, *replies: Any, asks: AskLimits | None = None) -> None:
        self.store = SQLiteStore(folder / "sessions.db")
        self.provider = ScriptedProvider(replies, name="one")
        DBOS(
            config={
                "name": "stories",
                "system_database_url": f"sqlite:///{folder}/dbos.db",
                "log_level": "ERROR",
                "executor_id": "one",
            }
        )
        self.agents = DBOSAgents(self.chat, asks=asks, polling_seconds=0.05)

    async def launch(self) -> Story:
        DBOS.launch()
        await self.agents.register_queues_async()
        return self

    def chat(self, session: str) -> Chat:
        return Chat(
            "one/a",
            providers={"one": self.provider},
            store=self.store,
            session=session,
            tools=[send],
            approval=Approval("ask", ask=ask_later),
        )


ASKED = calls(("send", {"to": "ann"}))


async def approval(folder: Path) -> None:
    story = await Story(folder, ASKED, says("It is sent.")).launch()
    handle = await story.agents.send("s", "Send it.", turn="t")
    (call,) = await story.agents.approvals("t", seconds=30)
    assert (call["name"], done) == ("send", [])
    with pytest.raises(UsageError, match="No call"):
        await story.agents.approve("t", "another", by="carol")
    both = (story.agents.approve("t", call["id"], by=name) for name in ("carol", "carol"))
    outcomes = await asyncio.gather(*both, return_exceptions=True)
    assert sorted(getattr(one, "code", "") for one in outcomes) == ["", "answered"]
    result = await handle.get_result()
    assert (result["finish"], result["text"], done) == ("complete", "It is sent.", ["ann"])
    given = [one.entry for one in await story.store.read("s") if isinstance(one.entry, ApprovalGiven)]
    assert [(one.call_id, one.allowed, one.by) for one in given] == [("c0", True, "carol")]
    with pytest.raises(UsageError, match='carol allowed call "c0" already'):
        await story.agents.approve("t", "c0", by="dave", allow=False)
    assert await story.agents.approvals("t") == []
    again = await story.agents.send("s", "Send it.", turn="t")
    assert (await again.get_result())["text"] == "It is sent."
    assert len(story.provider.requests) == 2


async def refusal(folder: Path) -> None:
    story = await Story(folder, ASKED, says("Then not.")).launch()
    handle = await story.agents.send("s", "Send it.", turn="t")
    (call,) = await story.agents.approvals("t", seconds=30)
    await story.agents.approve("t", call["id"], by="carol", allow=False, why="Not today.")
    assert ((await handle.get_result())["text"], done) == ("Then not.", [])


async def over_http(folder: Path) -> None:
    """The answer wakes the turn at once, long before it would look into its journal."""
    import httpx

    story = await Story(folder, ASKED, says("It is sent.")).launch()
    handle = await story.agents.send("s", "Send it.", turn="t")
    await story.agents.approvals("t", seconds=30)
    app = approvals_app(story.store, token=TOKEN, agents=story.agents)
    headers = {"authorization": f"Bearer {TOKEN}", "idempotency-key": "k1"}
    yes = {"call_id": "c0", "allow": True, "by": "carol"}
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url="http://here", headers=headers) as client:
        (call,) = (await client.get("/approvals")).json()
        assert (call["id"], call["session"], call["turn"]) == ("c0", "s", "t")
        assert (await client.post("/s/approve", json=yes)).status_code == 200
        result = await asyncio.wait_for(handle.get_result(), FIRST_LOOK / 2)
        assert (result["text"], done) == ("It is sent.", ["ann"])
        assert (await client.post("/s/approve", json=yes)).status_code == 200  # its reply was lost, say
        late = await client.post("/s/approve", json={**yes, "by": "dave"})
        assert (late.status_code, late.json()["answer"]["by"]) == (409, "carol")
        assert (await client.get("/approvals")).json() == []
    given = [one.entry for one in await story.store.read("s") if isinstance(one.entry, ApprovalGiven)]
    assert [(one.call_id, one.by) for one in given] == [("c0", "carol")]


async def cancel(folder: Path) -> None:
    story = await Story(folder, ASKED).launch()
    await story.agents.send("s", "Send it.", turn="t")
    await story.agents.approvals("t", seconds=30)
    await story.agents.cancel("s", "t")
    ends = [one.entry.finish for one in await story.store.read("s") if isinstance(one.entry, TurnEnded)]
    assert (ends, done) == (["cancelled"], [])
    story.provider.add(says("Fine."))
    later = await story.agents.send("s", "Never mind.", turn="later")
    assert (await later.get_result())["text"] == "Fine."
    await story.agents.cancel("s", "t")
    ends = [one.entry.finish for one in await story.store.read("s") if isinstance(one.entry, TurnEnded)]
    assert ends == ["cancelled", "complete"]


async def limits(folder: Path) -> None:
    story = await Story(folder, says("a"), says("b"), asks=AskLimits(at_once=1, requests=100)).launch()
    handles = [await story.agents.send(f"s{number}", "Hello.") for number in range(2)]
    assert sorted([(await handle.get_result())["text"] for handle in handles]) == ["a", "b"]


async def one_after_another(folder: Path) -> None:
    story = await Story(folder, says("a"), says("b"), says("c")).launch()
    handles = [await story.agents.send("s", f"Message {number}.") for number in range(3)]
    results = [(await handle.get_result())["text"] for handle in handles]
    assert sorted(results) == ["a", "b", "c"]
    ends = [one.entry.finish for one in await story.store.read("s") if isinstance(one.entry, TurnEnded)]
    assert ends == ["complete"] * 3


async def lost(folder: Path) -> None:
    """A turn that this process has claimed, as the database knows, and that does not run in it."""
    _dbos_recovery.LOOK_SECONDS = 0.2
    story = await Story(folder, says("a"), says("b")).launch()
    for turn in ("t", "u"):
        await (await story.agents.send("s", "Hello.", turn=turn)).get_result()
    database = sqlite3.connect(folder / "dbos.db", timeout=30)
    with database:
        database.execute(
            "UPDATE workflow_status SET status = 'PENDING', output = NULL WHERE workflow_uuid = 'u'"
        )
    database.close()
    again: Any = await DBOS.retrieve_workflow_async("u")
    assert (await again.get_result())["text"] == "b"
    assert len(story.provider.requests) == 2


if __name__ == "__main__":
    asyncio.run(globals()[sys.argv[1]](Path(sys.argv[2])))
    DBOS.destroy()

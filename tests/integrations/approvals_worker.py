"""Processes of the tests of approvals, to be killed: `python -m integrations.approvals_worker serve FOLDER PORT`, `… work FOLDER SESSION SECONDS`."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import uvicorn

from integrations.engine_agents import Agents, open_store
from segue.integrations.approvals import approvals_app
from segue.tools.approval import Approval, ask_later

TOKEN = "a-token-of-these-tests"  # noqa: S105 - of the tests alone


def serve(folder: str, port: str) -> None:
    app = approvals_app(open_store(Path(folder), ""), token=TOKEN)
    uvicorn.run(app, host="127.0.0.1", port=int(port), log_level="error")


def work(folder: str, session: str, seconds: str) -> None:
    """One turn, from wherever it stopped to its end; calls wait for answers."""
    agents = Agents(Path(folder), seconds=float(seconds), approval=Approval("ask", ask=ask_later))

    async def take() -> None:
        async with agents.chat(session) as chat:
            begun = chat.journal.state.turns > 0
            if begun and chat.journal.state.finish == "complete":
                return
            answer = await (chat.resume() if begun else chat.send("Go."))
            while answer.finish == "waiting":
                await chat.wait_for_approvals(every=0.02)
                answer = await chat.resume()
            sys.stdout.write(f"{answer.finish}: {answer.text}\n")

    asyncio.run(take())


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(*sys.argv[2:])
    else:
        work(*sys.argv[2:])

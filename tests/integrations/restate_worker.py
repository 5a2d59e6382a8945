"""A worker that serves one virtual object until it is killed: `python -m integrations.restate_worker FOLDER PORT [wait]`."""

from __future__ import annotations

import sys
from pathlib import Path

import restate
import uvicorn

from integrations.engine_agents import Agents
from segue.chat.chat import Chat
from segue.integrations.restate import agent_object
from segue.tools.approval import Approval, ask_later

if __name__ == "__main__":
    folder, port, *waits = sys.argv[1:]
    agents = Agents(Path(folder))

    def chat(session: str) -> Chat:
        opened = agents.chat(session)
        if waits:
            opened._session.settings = opened._session.settings.__class__(
                session=session,
                store=agents.store,
                providers={"one": agents.provider},
                approval=Approval("ask", ask=ask_later),
            )
            opened._session.equip(opened._session.tools.by_name.values())
        return opened

    app = restate.app([agent_object(chat)], protocol="request_response")
    uvicorn.run(app, host="127.0.0.1", port=int(port), log_level="error")

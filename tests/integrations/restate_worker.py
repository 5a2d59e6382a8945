"""A worker that serves one virtual object until it is killed: `python -m integrations.forked_worker integrations.restate_worker FOLDER PORT SECONDS [wait|URL]`.

`wait`: calls wait for approvals. A URL: the conversation that is compared, with the providers there.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from pathlib import Path

import restate
import uvicorn

from integrations.engine_agents import Agents
from integrations.same_conversation import chats
from segue.integrations.restate import agent_object
from segue.tools.approval import Approval, ask_later


async def _serve(folder: str, port: str, seconds: str, how: str = "") -> None:
    if how.startswith("http"):
        open_chat = chats(Path(folder), how)
    else:
        approval = Approval("ask", ask=ask_later) if how else None
        open_chat = Agents(Path(folder), seconds=float(seconds), approval=approval).chat
    app = restate.app([agent_object(open_chat)], protocol="request_response")
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)  # several workers at one address
    listening.bind(("127.0.0.1", int(port)))
    server = uvicorn.Server(uvicorn.Config(app, log_level="error"))
    serving = asyncio.create_task(server.serve([listening]))
    while not server.started and not serving.done():
        await asyncio.sleep(0.01)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    await serving


def main(*words: str) -> None:
    asyncio.run(_serve(*words))

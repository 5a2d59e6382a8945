"""What a chunk of a stream costs between two sockets: from the bytes that arrive to those that are written, without the event loop.

In one process, by the CPU time of its thread in the quickest of many rounds: that differs by a thirtieth, however busy the machine is.
And how many functions of Python it calls.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from cProfile import Profile
from pstats import Stats
from time import thread_time_ns
from types import SimpleNamespace
from typing import Any

from bench.gateway import NATIVE
from bench.gateway_requests import MODEL, AgentSession
from bench.gateway_upstream import Chat, Messages
from segue.config.schema import Config, GatewaySettings
from segue.gateway.app import Gateway
from segue.gateway.memory.installation_key import InstallationKey
from segue.gateway.memory.memory import Memory
from segue.gateway.memory.sqlite_store import SQLiteMemoryStore
from segue.gateway.requests.web import RESPONSE
from segue.gateway.server.http_protocol import _Response
from segue.providers.config import ProviderConfig
from segue.providers.credentials.keys import Secret
from segue.providers.registry import default_registry
from segue.transports.deadline import WaitLimits
from segue.transports.direct_session import DirectAnswer, DirectSession, _Connection
from segue.transports.transport import WireRequest

ROUNDS, CHUNKS = 400, 50
_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


class _Socket(asyncio.Transport):
    """Takes all, and gives nothing back."""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        pass

    def is_closing(self) -> bool:
        return False

    def abort(self) -> None:
        pass

    def flush(self) -> None:
        pass


class _Provider:
    """Its end of the connections: what it writes arrives at once."""

    def __init__(self) -> None:
        self.connections: asyncio.Queue[_Connection] = asyncio.Queue()

    @asynccontextmanager
    async def __call__(self, request: WireRequest) -> AsyncIterator[DirectAnswer]:
        connection = _Connection(DirectSession(), (False, "provider", 80))
        connection.connection_made(_Socket())
        limits = WaitLimits(request)
        answer = DirectAnswer(connection, limits)
        limits.connected()
        connection.ask(answer, b"", request.body)
        self.connections.put_nowait(connection)
        await answer.begun()
        try:
            yield answer
        finally:
            answer.close()


def run() -> None:
    print(f"{'a chunk from socket to socket':<48}{'µs':>8}{'calls':>8}", flush=True)
    for name, model, reply in (("translated", MODEL, Chat()), ("forwarded", NATIVE, Messages())):
        for at_once in (1, 10):
            cost, calls = asyncio.run(_measured(model, reply, at_once))
            title = f"{name}, " + ("alone" if at_once == 1 else f"one of {at_once} that arrive together")
            print(f"{title:<48}{cost:>8.2f}{calls:>8.1f}", flush=True)


async def _measured(model: str, reply: Chat | Messages, at_once: int) -> tuple[float, float]:
    provider, there = _Provider(), ProviderConfig(base_url="http://provider", api_key=Secret("sk-upstream"))
    gateway = Gateway(
        Config(gateway=GatewaySettings(models={"claude-*": "openai/gpt-4.1"})),
        default_registry(
            {"openai": there, "anthropic": there}, environ={}, transport=provider, keyring=False
        ),
        Memory(SQLiteMemoryStore(), InstallationKey(b"k" * 32)),
    )
    replying = asyncio.ensure_future(_ask(gateway, AgentSession(size=2, model=model)))
    connection = await provider.connections.get()
    connection.data_received(_HEAD + b"".join(map(_chunked, reply.begin())))
    await asyncio.sleep(0.1)  # until the reply is listened to
    portions = [
        b"".join(_chunked(reply.text(f" word{number}x{more}")) for more in range(at_once))
        for number in range(CHUNKS)
    ]
    taken = [_round(connection, portions) for _ in range(ROUNDS)]
    profile = Profile()
    profile.enable()
    _round(connection, portions)
    profile.disable()
    calls = sum(row[1] for place, row in Stats(profile).stats.items() if place[0] != "~")  # type: ignore[attr-defined]
    connection.data_received(b"".join(map(_chunked, reply.end())) + b"0\r\n\r\n")
    await replying
    await gateway.close()
    return min(taken) / CHUNKS / at_once / 1000, calls / CHUNKS / at_once


def _round(connection: _Connection, portions: list[bytes]) -> int:
    began = thread_time_ns()
    for portion in portions:
        connection.data_received(portion)
    return thread_time_ns() - began


async def _ask(gateway: Gateway, session: AgentSession) -> None:
    """As our server does, without its connection."""
    cycle: Any = SimpleNamespace(
        response_started=False, response_complete=False, waiting_for_100_continue=False, chunked_encoding=False,
        keep_alive=True, disconnected=False, scope={"method": "POST"}, default_headers=[], transport=_Socket(),
        message_event=asyncio.Event(), flow=SimpleNamespace(write_paused=False), on_response=lambda: None,
    )  # fmt: skip
    headers = [(b"content-type", b"application/json")]
    headers += [(name.encode(), value.encode()) for name, value in session.headers.items()]
    scope: dict[str, Any] = {"type": "http", "method": "POST", "path": "/v1/messages", "headers": headers}
    scope[RESPONSE] = _Response(cycle, cycle.transport)
    body = [session.body()]

    async def receive() -> dict[str, Any]:
        if body:
            return {"type": "http.request", "body": body.pop(), "more_body": False}
        await asyncio.Event().wait()
        raise AssertionError

    async def send(message: Any) -> None:
        raise RuntimeError(f"An answer by messages: {message}")

    await gateway(scope, receive, send)


def _chunked(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)

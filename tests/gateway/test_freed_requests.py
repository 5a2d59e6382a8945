"""A request that was answered is free at once: a body of megabytes must not wait for the collector of cycles."""

from __future__ import annotations

import asyncio
import gc
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from gateway.clients import AGENTS
from gateway.world import ROUTES, GatewayWorld, providers_at
from segue.emulators.faults import Fault
from segue.exchange.attempt import Attempt
from segue.gateway.app import Gateway
from segue.gateway.conversations.turns import ClientTurn
from segue.gateway.memory.installation_key import InstallationKey
from segue.gateway.memory.memory import Memory
from segue.gateway.memory.sqlite_store import SQLiteMemoryStore
from segue.gateway.requests.web import WebRequest
from segue.gateway.telemetry.report import RequestReport

HELD = (Attempt, ClientTurn, WebRequest)
"""What holds a body, or all that was read of it."""


@pytest.fixture(autouse=True)
def no_collection() -> Iterator[None]:
    gc.collect()
    gc.freeze()  # what other tests left
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.unfreeze()


def held() -> Counter[str]:
    return Counter(type(one).__name__ for one in gc.get_objects() if isinstance(one, HELD))


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("wire", AGENTS)
def test_a_turn_with_tools_holds_nothing_when_it_is_answered(wire: str, *, stream: bool) -> None:
    async def run() -> Counter[str]:
        world = GatewayWorld()
        for route in (ROUTES["chat"], ROUTES["responses"], ROUTES["anthropic"], ROUTES["gemini"]):
            await AGENTS[wire](world, route, stream=stream).turn("look at the weather")
        await asyncio.sleep(0)
        return held()

    assert asyncio.run(run()) == {}


@pytest.mark.parametrize(
    "fault",
    [Fault(kind="status", status=400), Fault(kind="status", status=500), Fault(kind="cut", at_byte=60)],
    ids=["refused", "failed", "cut"],
)
@pytest.mark.parametrize("wire", AGENTS)
def test_a_request_that_fails_holds_nothing(wire: str, fault: Fault) -> None:
    async def run() -> Counter[str]:
        world = GatewayWorld(profiles={"team": {"members": (ROUTES["chat"], ROUTES["anthropic"])}})
        world.emulator.faults += [fault] * 10
        agent = AGENTS[wire](world, "team", stream=fault.kind == "status")
        agent.add_user("hi")
        assert (await agent.send()).status >= 400
        await asyncio.sleep(0)
        return held()

    assert asyncio.run(run()) == {}


def _chunk(text: str, reason: str | None = None) -> bytes:
    choice = {"index": 0, "delta": {"role": "assistant", "content": text}, "finish_reason": reason}
    return b"data: " + msgspec.json.encode({"id": "one", "model": "m", "choices": [choice]}) + b"\n\n"


async def _three_chunks(scope: Any, receive: Any, send: Any) -> None:
    """A provider of the Chat wire."""
    del scope
    await receive()
    headers = [(b"content-type", b"text/event-stream")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    for portion in (_chunk("first"), _chunk("second"), _chunk("last", "stop") + b"data: [DONE]\n\n"):
        await send({"type": "http.response.body", "body": portion, "more_body": True})
    await send({"type": "http.response.body", "body": b"", "more_body": False})


class _Watching:
    """An inspector, as far as a request needs one."""

    keeps_bodies = True

    def __init__(self) -> None:
        self.turns: list[ClientTurn] = []

    def attach(self, gateway: Gateway) -> None: ...

    def began(self, report: RequestReport, turn: ClientTurn, switched: str) -> None:
        self.turns.append(turn)

    def asks(self, report: RequestReport, attempt: Attempt) -> None: ...

    def ended(self, report: RequestReport) -> None: ...

    def serves(self, head: WebRequest) -> bool:
        return False

    async def serve(self, scope: Any, head: WebRequest, receive: Any, writer: Any) -> None: ...

    async def detach(self, gateway: Gateway) -> None: ...


async def _stream(path: str, body: bytes, watcher: _Watching | None = None) -> list[int]:
    """How many more hold the body while the parts of the reply come."""
    gateway = Gateway(
        GatewayWorld(model=ROUTES["chat"]).config,
        providers_at(_three_chunks),  # type: ignore[arg-type]
        Memory(SQLiteMemoryStore(), InstallationKey(b"k" * 32)),
        watcher=watcher,
    )
    sent = [{"type": "http.request", "body": body, "more_body": False}]
    before, holders = sys.getrefcount(body) - 1, list[int]()  # what is received holds it, too

    async def receive() -> dict[str, Any]:
        if sent:
            return sent.pop()
        await asyncio.Event().wait()
        raise AssertionError

    async def send(message: Any) -> None:
        if b"second" in message.get("body", b""):
            holders.append(sys.getrefcount(body) - before)

    await gateway({"type": "http", "method": "POST", "path": path, "headers": []}, receive, send)
    await gateway.close()
    return holders


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/chat/completions"], ids=["translated", "forwarded"])
def test_a_stream_that_has_begun_holds_its_clients_bytes_no_more(path: str) -> None:
    said = [{"role": "user", "content": "Tell me something. " * 100}]
    body = msgspec.json.encode({"model": "any", "max_tokens": 9, "stream": True, "messages": said})
    assert asyncio.run(_stream(path, body)) == [0]


def test_an_inspector_that_records_content_still_has_them() -> None:
    said = [{"role": "user", "content": "Tell me something."}]
    body = msgspec.json.encode({"model": "any", "max_tokens": 9, "stream": True, "messages": said})
    watcher = _Watching()
    asyncio.run(_stream("/v1/messages", body, watcher))
    assert [turn.request.body for turn in watcher.turns] == [body]

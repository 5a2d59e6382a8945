"""A gateway on a real port whose callers pay, a provider that ends its replies in every way, and clients that leave."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

from msgspec import structs

from gateway.accounts.paid_wires import ADDRESSES, PRICES, WIRES, WORD, Scripted, is_stream, vectors, wire_at
from segue.config.schema import CallerSettings, Config, GatewayLimits, GatewaySettings, ProfileSettings
from segue.gateway.accounts.account import digest_of
from segue.gateway.accounts.budget_rules import Reserved, Standing
from segue.gateway.accounts.store import UsageRow
from segue.gateway.app import Gateway
from segue.gateway.memory.installation_key import InstallationKey
from segue.gateway.memory.memory import Memory
from segue.gateway.memory.sqlite_store import SQLiteMemoryStore
from segue.gateway.server.process import _Served, http_server, open_listener
from segue.gateway.telemetry.report import RequestReport
from segue.providers.config import ProviderConfig
from segue.providers.credentials.keys import Secret
from segue.providers.registry import default_registry
from segue.routing.retry import RetrySettings
from segue.transports.http import HttpTransport
from segue.transports.transport import Timeouts

KEY: Final = "segue-key-of-ann"
SILENCE: Final = 0.25
"""Seconds after which a silent provider is given up."""
ROUTES: Final = {name: wire.route for name, wire in WIRES.items()}
__all__ = ["KEY", "ROUTES", "WORD", "PaidWorld", "Provider", "Scripted", "paid_world"]


class Provider:
    """Speaks every wire, over a socket."""

    def __init__(self) -> None:
        self.scripts: list[Scripted] = []
        """The last one is played again and again."""
        self.got: list[Mapping[str, Any]] = []
        """The bodies of all requests."""
        self.asked = asyncio.Event()
        self._tasks: set[asyncio.Task[Any]] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
                while await self._answer(reader, writer):
                    pass
        finally:
            self._tasks.discard(task)
            writer.close()

    def close(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        path = head.split(" ")[1]
        size = next(
            int(line[15:]) for line in head.lower().split("\r\n") if line.startswith("content-length")
        )
        body = json.loads(await reader.readexactly(size))
        self.got.append(body)
        self.asked.set()
        script = self.scripts.pop(0) if len(self.scripts) > 1 else self.scripts[0]
        wire = WIRES[wire_at(path.partition("?")[0], str(body.get("model", "")))]
        stream = is_stream(path, body)
        if script.status != 200:
            error = {"message": script.message, "type": "error", "code": "no"}
            frames = [json.dumps({"error": error}).encode()]
        elif "embed" in path:
            frames = vectors(script)
        else:
            frames = wire.answered(script, stream=stream)
        kind = wire.stream_type if stream and script.status == 200 else b"application/json"
        length = sum(map(len, frames))
        writer.write(
            b"HTTP/1.1 %d Said\r\ncontent-type: %s\r\ncontent-length: %d\r\n\r\n"
            % (script.status, kind, length)
        )
        sent = 0
        for frame in frames:
            part = frame if script.stop_at is None else frame[: max(0, script.stop_at - sent)]
            sent += len(part)
            writer.write(part)
            await writer.drain()
            if len(part) < len(frame):
                break
            if script.pause:
                await asyncio.sleep(script.pause)
        if sent == length:
            return True
        if script.then == "silence":
            await asyncio.sleep(3600)
        return False


class PaidWorld:
    """The gateway of the moment, and how to ask it."""

    def __init__(self, gateway: Gateway, port: int, provider: Provider, server: Any, served: Any) -> None:
        self.gateway = gateway
        self.port = port
        self.provider = provider
        self._server = server
        self._served = served
        self.reports: list[RequestReport] = []

    async def ask(
        self, wire: str, model: str, text: str, *, leave_at: int | None = None, **fields: Any
    ) -> tuple[int, bytes]:
        """The status and body of the response; a client that leaves has read so many bytes, or none."""
        stream = bool(fields.pop("stream", False))
        path, body = WIRES[wire].asked(model, text, stream=stream)
        return await self.send(path, {**body, **fields}, leave_at=leave_at, client=WIRES[wire].client)

    async def send(
        self, path: str, body: Any, *, leave_at: int | None = None, client: str = "tests"
    ) -> tuple[int, bytes]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            data = json.dumps(body).encode()
            head = (
                f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {KEY}\r\n"
                f"content-type: application/json\r\nuser-agent: {client}\r\nconnection: close\r\ncontent-length: {len(data)}\r\n\r\n"
            )
            self.provider.asked.clear()
            writer.write(head.encode() + data)
            await writer.drain()
            if leave_at == 0:
                await asyncio.wait_for(self.provider.asked.wait(), 10)
                return 0, b""
            if leave_at is not None:
                return 0, await reader.read(leave_at)
            answered = await asyncio.wait_for(reader.read(), 30)
            return int(answered[9:12] or 0), answered.partition(b"\r\n\r\n")[2]
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    async def settled(self) -> tuple[Standing, Reserved, list[UsageRow]]:
        """What ann has used when nothing runs any more."""
        for _ in range(500):
            if not self.gateway.running:
                break
            await asyncio.sleep(0.01)
        await self.gateway.settle()
        store = self.gateway.accounts.store
        standing, reserved = await store.standing("ann")
        return standing, reserved, list(await store.usage("2000-01-01", "2999-01-01"))

    async def drain(self) -> None:
        """As on SIGTERM."""
        self._served.drain()
        self._server.should_exit = True

    async def ended(self) -> None:
        while self._served._running and any(self._served._running.values()):
            await asyncio.sleep(0.01)


@asynccontextmanager
async def paid_world(
    *,
    dollars: float = 100.0,
    limits: GatewayLimits | None = None,
    members: Mapping[str, list[str]] | None = None,
    config: Mapping[str, Any] | None = None,
    accounts: Any = None,
    lost: str = "",
) -> AsyncIterator[PaidWorld]:
    """`lost`: a provider whose name nobody knows."""
    provider = Provider()
    upstream = await asyncio.start_server(provider.serve, "127.0.0.1", 0, limit=1 << 22)
    place = f"http://127.0.0.1:{upstream.sockets[0].getsockname()[1]}"
    timeouts = Timeouts(connect=5.0, first_byte=SILENCE, idle=SILENCE, whole_reply=SILENCE)
    providers = {
        name: ProviderConfig(base_url=place + path, api_key=Secret("sk-emulated"), timeouts=timeouts)
        for name, path in ADDRESSES.items()
    }
    providers["bedrock"] = structs.replace(providers["bedrock"], region="us-east-1")
    closed = "http://127.0.0.1:9/v1"  # nobody listens there
    providers["groq"] = ProviderConfig(base_url=closed, api_key=Secret("sk-emulated"), timeouts=timeouts)
    if lost:
        nowhere = "http://nowhere.invalid" + ADDRESSES[lost]  # no name server knows it
        providers[lost] = structs.replace(providers[lost], base_url=nowhere)
    once = RetrySettings(attempts=1, first_pause=0.01)
    profiles = {
        name: ProfileSettings(retry=once, policy="failover", members=list(routes))
        for name, routes in {**{name: [route] for name, route in ROUTES.items()}, **(members or {})}.items()
    }
    callers = {"ann": CallerSettings(key_sha256=digest_of(KEY), dollars_per_day=dollars)}
    gateway_settings = GatewaySettings(
        callers=callers, limits=limits or GatewayLimits(drain=0.1), **(config or {})
    )
    transport = HttpTransport()
    registry = default_registry(providers, environ={}, transport=transport, keyring=False)
    memory = Memory(
        SQLiteMemoryStore(max_bytes=1 << 26, max_records=10_000, keep_seconds=3600),
        InstallationKey(b"k" * 32),
    )
    reports: list[RequestReport] = []
    gateway = Gateway(
        Config(profiles=profiles, gateway=gateway_settings, prices=dict(PRICES)),
        registry,
        memory,
        accounts=accounts,
        on_report=reports.append,
    )
    listener = open_listener("127.0.0.1", 0)
    served = _Served(gateway)
    server = http_server(served, gateway_settings)
    serving = asyncio.ensure_future(server.serve(sockets=[listener]))
    world = PaidWorld(gateway, listener.getsockname()[1], provider, server, served)
    world.reports = reports
    try:
        yield world
    finally:
        server.should_exit = True
        await serving
        provider.close()
        upstream.close()
        await transport.close()
        await gateway.close()

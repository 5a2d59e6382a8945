"""The gateway in a program of one's own, as type checkers see it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import assert_type

import httpx
import httpx2

from segue.gateway import GatewayApplication, InProcessTransport, gateway_app, in_process_transport
from segue.providers import ScriptedProvider
from segue.testing import emulated_providers

app = gateway_app(
    {"model": "scripted/any"}, providers={"scripted": ScriptedProvider()}, memory=Path("memory")
)
assert_type(app, GatewayApplication)
gateway_app("gateway.toml", providers=emulated_providers())
transport = in_process_transport(app)
assert_type(transport, InProcessTransport)

httpx.Client(transport=transport)
httpx.AsyncClient(transport=transport)
httpx2.Client(transport=transport)
httpx2.AsyncClient(transport=transport)

with gateway_app() as opened:
    in_process_transport(opened)


async def main() -> None:
    async with gateway_app(memory="folder") as opened:
        assert_type(opened, GatewayApplication)


asyncio.run(main())

"""A gateway process with a small application in it, for the tests of everything around the application."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import msgspec

from segue.config.schema import GatewaySettings
from segue.errors import UsageError
from segue.gateway.server.process import GatewayApp, address_of, open_listener, serve


class SampleApp:
    def __init__(self, name: str, release: Path) -> None:
        self.name = name
        self.release = release
        self.draining = False

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        if scope["path"] == "/echo":
            await asyncio.sleep(0.2)  # the body arrives meanwhile, whole or in pieces
            message = {"body": b"", "more_body": True}
            while message["more_body"]:
                message = await receive()
                assert type(message["body"]) is bytes
                await send({"type": "http.response.body", "body": message["body"], "more_body": True})
        if scope["path"] == "/slow":
            for number in range(10):
                body = b"%d\n" % number
                await send({"type": "http.response.body", "body": body, "more_body": True})
                await asyncio.sleep(0.1)
        while scope["path"] == "/held" and not self.release.exists():
            await asyncio.sleep(0.02)
        text = f"{self.name}{' draining' if self.draining else ''}\n"
        await send({"type": "http.response.body", "body": text.encode()})

    async def complete(self) -> None:
        """Nothing is made beside the requests."""

    async def close(self) -> None:
        sys.stderr.write(f"closed {self.name}\n")
        sys.stderr.flush()


async def main() -> None:
    file = Path(sys.argv[1])

    def open_app() -> tuple[GatewaySettings, GatewayApp]:
        table = json.loads(file.read_text())
        name = table.pop("name")
        if name == "wrong":
            raise UsageError("The name is wrong.")
        return msgspec.convert(table, GatewaySettings), SampleApp(name, file.with_name("release"))

    settings, app = open_app()
    listener = open_listener(settings.host, settings.port)
    sys.stdout.write(address_of(listener, settings) + "\n")
    sys.stdout.flush()
    await serve(settings, listener, app, open_app)


if __name__ == "__main__":
    asyncio.run(main())

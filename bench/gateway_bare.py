"""The bare stack of the benchmark: the gateway's own server and client, which pass the same bytes on and do nothing else."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import aiohttp
import uvicorn

from segue.gateway.server.process import open_listener

_SENT = (b"content-type", b"accept", b"anthropic-beta", b"anthropic-version")


class Bare:
    """The application."""

    def __init__(self, upstream: str) -> None:
        self._upstream = upstream
        self._session: aiohttp.ClientSession | None = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0), auto_decompress=False
            )
        portions = []
        while True:
            message = await receive()
            portions.append(message.get("body", b""))
            if not message.get("more_body"):
                break
        headers = {name.decode(): value.decode() for name, value in scope["headers"] if name in _SENT}
        async with self._session.post(
            self._upstream + scope["path"], data=b"".join(portions), headers=headers
        ) as answer:
            kept = [(b"content-type", answer.headers["content-type"].encode())]
            if "content-length" in answer.headers:
                kept.append((b"content-length", answer.headers["content-length"].encode()))
            await send({"type": "http.response.start", "status": answer.status, "headers": kept})
            while portion := await answer.content.readany():
                await send({"type": "http.response.body", "body": portion, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})


def main() -> None:
    listener = open_listener("127.0.0.1", 0)
    config = uvicorn.Config(
        Bare(sys.argv[1]),
        http="httptools",
        log_config=None,
        log_level="critical",
        access_log=False,
        lifespan="off",
        ws="none",
        backlog=2048,
        server_header=False,
        proxy_headers=False,
    )
    print(listener.getsockname()[1], flush=True)
    asyncio.run(uvicorn.Server(config).serve(sockets=[listener]))


if __name__ == "__main__":
    main()

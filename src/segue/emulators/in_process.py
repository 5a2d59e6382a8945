"""Talk to the emulators without a socket: one request in, one whole answer out."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, MutableMapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

if TYPE_CHECKING:
    from segue.emulators.app import App

KEY = {"authorization": "Bearer sk-emulated", "content-type": "application/json"}


class EmulatorResponse(Struct, frozen=True, kw_only=True):
    """What came back. `complete` is False when the connection was cut."""

    status: int
    headers: Mapping[str, str]
    portions: tuple[bytes, ...]
    complete: bool

    @property
    def body(self) -> bytes:
        return b"".join(self.portions)

    def json(self) -> Any:
        return msgspec.json.decode(self.body)


async def ask(
    app: App,
    method: str,
    url: str,
    *,
    json: object = None,
    body: bytes | None = None,
    headers: Mapping[str, str] = KEY,
    hang_up_after: int | None = None,
) -> EmulatorResponse:
    """Send one request to the app. `hang_up_after`: disconnect once so many portions have arrived."""
    sent = body if body is not None else (b"" if json is None else msgspec.json.encode(json))
    parts = urlsplit(url)
    start: dict[str, Any] = {}
    portions: list[bytes] = []
    finished = asyncio.Event()
    left_to_send = [{"type": "http.request", "body": sent, "more_body": False}]

    async def receive() -> MutableMapping[str, Any]:
        if left_to_send:
            return dict(left_to_send.pop())
        await finished.wait()
        return {"type": "http.disconnect"}

    async def send(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            start.update(message)
            return
        if message["body"]:
            portions.append(message["body"])
        if not message["more_body"]:
            start["complete"] = True
        if start.get("complete") or len(portions) == hang_up_after:
            finished.set()

    scope = {
        "type": "http",
        "method": method,
        "path": parts.path,
        "raw_path": parts.path.encode(),
        "query_string": parts.query.encode(),
        "headers": [(name.lower().encode(), value.encode()) for name, value in headers.items()],
    }
    await app(scope, receive, send)
    return EmulatorResponse(
        status=start["status"],
        headers={name.decode(): value.decode() for name, value in start["headers"]},
        portions=tuple(portions),
        complete=start.get("complete", False),
    )


def ask_now(app: App, method: str, url: str, **options: Any) -> EmulatorResponse:
    """`ask` for code without an event loop."""
    return asyncio.run(ask(app, method, url, **options))

"""Stand-ins for providers that show the very bytes that a gateway sends."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, NamedTuple

from segue.conversation.blocks import Origin, Text
from segue.conversation.events import Reply
from segue.conversation.message import Message
from segue.dialects.registry import DIALECTS

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class Sent(NamedTuple):
    """A request as it arrived."""

    path: str
    body: bytes


async def body_in(receive: Receive) -> bytes:
    body = b""
    while True:
        message = await receive()
        body += message.get("body", b"")
        if not message.get("more_body"):
            return bytes(body)


class RecordingApp:
    """Passes all on to another application and keeps the bytes of the requests."""

    def __init__(self, app: Callable[[Scope, Receive, Send], Awaitable[None]]) -> None:
        self._app = app
        self.sent: list[Sent] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = await body_in(receive)
        self.sent.append(Sent(scope["path"], body))
        waiting = [{"type": "http.request", "body": body, "more_body": False}]

        async def replay() -> MutableMapping[str, Any]:
            return waiting.pop() if waiting else await receive()

        await self._app(scope, replay, send)


class AnyRequestApp:
    """A provider that takes whatever comes, on the wire that a path belongs to, and answers with a text."""

    def __init__(self, wires: dict[str, str]) -> None:
        """The name of a dialect by how its paths begin."""
        self._wires = wires
        self.sent: list[Sent] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"]
        self.sent.append(Sent(path, await body_in(receive)))
        wire = next(name for start, name in self._wires.items() if path.startswith(start))
        message = Message("model", (Text("It is done."),), Origin(wire, model="m"))
        body = DIALECTS[wire].encode_reply(Reply(message, id="reply_1", model="m"))
        headers = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

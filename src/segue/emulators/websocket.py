"""Responses over a WebSocket: `response.create` in, one message for each event of the stream out.

Each request is judged and answered as if it had been posted; only the frames differ.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from segue.emulators.http import Receive, Request, Response, Send

CREATE = "response.create"


async def converse(
    opening: Request, answer: Callable[[Request], Response], receive: Receive, send: Send
) -> None:
    """Until the client closes the socket."""
    await receive()
    await send({"type": "websocket.accept"})
    while (message := await receive())["type"] == "websocket.receive":
        request = _posted(message.get("text") or "", opening)
        for data in _events(answer(request)) if request is not None else (_not_understood(),):
            await send({"type": "websocket.send", "text": data})


def _posted(text: str, opening: Request) -> Request | None:
    """The same request as it would be posted."""
    try:
        body = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return None
    if not isinstance(body, dict) or body.pop("type", None) != CREATE:
        return None
    sent = msgspec.json.encode({**body, "stream": True})
    return msgspec.structs.replace(opening, method="POST", body=sent)


def _events(response: Response) -> Iterator[str]:
    body = response.body
    if isinstance(body, bytes):  # a refusal
        error = msgspec.json.decode(body).get("error")
        yield msgspec.json.encode({"type": "error", "status": response.status, "error": error}).decode()
        return
    for frame in body:
        for line in frame.splitlines():
            if line.startswith(b"data: "):
                yield line.removeprefix(b"data: ").decode()


def _not_understood() -> str:
    error = {"type": "invalid_request_error", "message": f"Expected an event of type '{CREATE}'."}
    return msgspec.json.encode({"type": "error", "status": 400, "error": error}).decode()

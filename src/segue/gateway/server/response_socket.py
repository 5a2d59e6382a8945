"""The Responses API over a WebSocket: `response.create` in, the events of the stream out, one message each (WS-01 to WS-08).

Each request becomes the one that a client would post, and goes through the same door: limits, budgets, memory and routes are
those of HTTP. What only a socket has is kept here: replies that are stored nowhere and can be continued on this connection
alone, requests that only announce what is to come, and lanes that run beside each other.
"""

from __future__ import annotations

import asyncio
import re
from collections import OrderedDict
from contextlib import suppress
from secrets import token_hex
from time import time
from typing import TYPE_CHECKING, Any, Final, final

import msgspec
from msgspec import Struct

from segue.dialects.streams.sse import FrameDecoder
from segue.errors import SegueError
from segue.gateway.requests.byte_budget import Holding, weight_of
from segue.gateway.requests.client_errors import unexpected

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, MutableMapping

    from segue.gateway.requests.byte_budget import ByteBudget
    from segue.gateway.requests.web import Receive, Send

POSTS_TO: Final = "segue.posts_to"
"""In the scope of a socket: the application that its requests go to, if it is another than the one that opened it."""
CREATE: Final = "response.create"
MOST_LANES: Final = 32
"""Names of lanes on one connection (WS-06)."""
MOST_WAITING: Final = 64
"""Messages that wait behind others."""
MOST_KEPT: Final = 8
"""Replies of this connection that can be continued; the oldest is dropped first. Clients continue the newest of a lane."""
LIFETIME: Final = 3600.0
"""Seconds after which a connection takes no more requests (WS-06)."""
_LANE: Final = re.compile(r"[A-Za-z0-9_.-]{1,256}")
_OF_THE_SOCKET: Final = frozenset({"type", "stream", "background", "generate", "stream_id"})
_HOP_BY_HOP: Final = frozenset(
    {b"connection", b"upgrade", b"content-length", b"content-type", b"transfer-encoding"}
)
_SERVER_ERROR: Final = 500
_AGAIN: Final = 1011
"""How a socket is closed when we are in trouble: every client connects anew then, and sends all that it has (WS-07)."""


class _Kept(Struct, frozen=True):
    """A reply of this connection, or what was announced: all items up to its end, behind those of a stored reply."""

    items: tuple[msgspec.Raw, ...]
    stored: str | None
    """The id of the stored reply that all of it continues; None if there is none."""
    holding: Holding


class _Refused(Struct, frozen=True):
    """A message that is not served."""

    event: dict[str, Any]


class _Reply(Struct):
    """What came of one request."""

    status: int = 0
    body: bytearray = msgspec.field(default_factory=bytearray)
    end: Any = None
    """The response at the end of its stream, if it came to one that can be continued."""


@final
class ResponseSocket:
    """One connection of one caller."""

    def __init__(
        self,
        ask: Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]],
        scope: Mapping[str, Any],
        budget: ByteBudget,
        caller: str,
        *,
        lifetime: float = LIFETIME,
    ) -> None:
        """`ask` serves a request over HTTP, as an ASGI application does."""
        self._ask = scope.get(POSTS_TO, ask)
        self._scope = scope
        self._budget = budget
        self._caller = caller
        self._lifetime = lifetime
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._lanes: dict[str, asyncio.Task[None]] = {}
        self._waiting = 0
        self._gone = asyncio.Event()

    async def converse(self, receive: Receive, send: Send) -> None:
        """Until the client closes the socket, or its time is over."""
        await send({"type": "websocket.accept"})
        ends = asyncio.get_running_loop().time() + self._lifetime
        try:
            while True:
                async with asyncio.timeout_at(ends):
                    message = await receive()
                if message["type"] != "websocket.receive":
                    return
                self._take(message, send)
        except TimeoutError:
            await asyncio.gather(*self._lanes.values(), return_exceptions=True)
            over = _refused(
                "websocket_connection_limit_reached", "This connection has reached its 60 minutes."
            )
            await send({"type": "websocket.send", "text": _text(over.event)})
            await send({"type": "websocket.close", "code": _AGAIN, "reason": "connection limit reached"})
        finally:
            self._gone.set()  # what is under way ends as any request does whose client has left
            await asyncio.gather(*self._lanes.values(), return_exceptions=True)
            for kept in self._kept.values():
                kept.holding.close()

    def _take(self, message: Mapping[str, Any], send: Send) -> None:
        """Begin with a message; those of one lane run one after another."""
        asked = _decoded(message)
        lane = asked.get("stream_id") if isinstance(asked, dict) else None
        lane = "" if lane is None else lane
        if not isinstance(lane, str) or (lane and not _LANE.fullmatch(lane)):
            asked = _refused("invalid_stream_id", "stream_id is 1 to 256 of A-Z a-z 0-9 _ . -")
            lane = ""
        elif lane not in self._lanes and len(self._lanes) >= MOST_LANES:
            asked = _refused("too_many_streams", f"One connection has at most {MOST_LANES} streams.")
            lane = ""  # what concerns the connection has no stream (WS-06)
        elif self._waiting >= MOST_WAITING:
            why = f"{MOST_WAITING} messages wait on this connection already."
            asked = _refused("too_many_requests", why, status=429)
        self._waiting += 1
        earlier = self._lanes.get(lane)
        self._lanes[lane] = asyncio.create_task(self._in_turn(earlier, asked, lane, send))

    async def _in_turn(self, earlier: asyncio.Task[None] | None, asked: Any, lane: str, send: Send) -> None:
        if earlier is not None:
            await asyncio.wait({earlier})
        try:
            if not self._gone.is_set():
                await self._answer(asked, _Lane(lane, send))
        except OSError:
            return  # the client has left, and its request has ended with that
        except Exception as error:
            defect = unexpected(error, lane)
            with suppress(OSError):  # nobody waits for an answer that does not come
                await _Lane(lane, send).close(defect.message)
        finally:
            self._waiting -= 1

    async def _answer(self, asked: Any, lane: _Lane) -> None:
        match asked:
            case _Refused(event):
                await lane.write(event)
            case {"type": "response.create"} if (refused := _unreadable(asked)) is not None:
                await lane.write(refused.event)
            case {"type": "response.create", "generate": False}:
                await self._announce(asked, lane)
            case {"type": "response.create"}:
                await self._create(asked, lane)
            case {"type": "response.steer"}:
                why = {
                    "code": "steering_not_supported",
                    "message": "A running reply cannot be steered here.",
                }
                given = {name: asked.get(name) for name in ("previous_response_id", "input")}
                await lane.write({"type": "response.steer.failed", **given, "error": why})
            case _:
                await lane.write(_refused("invalid_event", f"Expected an event of type '{CREATE}'.").event)

    async def _announce(self, asked: dict[str, Any], lane: _Lane) -> None:
        """What a request will begin with, sent before it: no model is asked, and its id can be continued (WS-04)."""
        shown = _empty_response(asked)
        if not self._keep(shown["id"], *self._whole(asked)):
            await lane.close("the gateway holds as many bytes as it may")
            return
        begun = {**shown, "status": "in_progress"}
        await lane.write({"type": "response.created", "sequence_number": 0, "response": begun})
        await lane.write({"type": "response.completed", "sequence_number": 1, "response": shown})

    async def _create(self, asked: dict[str, Any], lane: _Lane) -> None:
        items, stored = self._whole(asked)
        body = {name: value for name, value in asked.items() if name not in _OF_THE_SOCKET}
        body["stream"] = True
        parent = body.pop("previous_response_id", None)
        if stored is not None:
            body["previous_response_id"] = stored
        if items:
            body["input"] = items
        if body.get("store") is False:
            # Nobody but this connection has the thoughts of such a reply: they must come with it.
            body["include"] = list(
                dict.fromkeys([*(body.get("include") or ()), "reasoning.encrypted_content"])
            )
        reply = await self._post(body, lane)
        if reply.status < _SERVER_ERROR and reply.body:
            await lane.write(_refusal(reply))
        elif reply.body:
            await lane.close(_reason(reply))
        if reply.end is None:
            self._drop(parent)  # WS-05
        elif body.get("store") is False:
            output = [msgspec.Raw(msgspec.json.encode(item)) for item in reply.end.get("output", [])]
            self._keep(reply.end.get("id", ""), (*items, *output), stored)

    def _whole(self, asked: dict[str, Any]) -> tuple[tuple[msgspec.Raw, ...], str | None]:
        """All items of a request, with those that it continues on this connection; and the id of what it continues elsewhere,
        None if that is nothing."""
        parent = asked.get("previous_response_id")
        kept = self._kept.get(parent) if isinstance(parent, str) else None
        given = asked.get("input")
        if isinstance(given, str):
            given = [{"type": "message", "role": "user", "content": given}]
        new = [msgspec.Raw(msgspec.json.encode(item)) for item in given] if isinstance(given, list) else []
        if kept is not None:
            return (*kept.items, *new), kept.stored
        return tuple(new), parent

    def _keep(self, name: str, items: tuple[msgspec.Raw, ...], stored: str | None) -> bool:
        """Whether there was room for it. A client that continues what is gone is refused so that it sends everything."""
        holding = self._budget.open(self._caller)
        try:
            holding.add(sum(weight_of(bytes(item)) for item in items))
        except SegueError:
            holding.close()
            return False
        self._drop(name)
        self._kept[name] = _Kept(items, stored, holding)
        while len(self._kept) > MOST_KEPT:
            self._kept.popitem(last=False)[1].holding.close()
        return True

    def _drop(self, name: Any) -> None:
        if isinstance(name, str) and (kept := self._kept.pop(name, None)) is not None:
            kept.holding.close()

    async def _post(self, body: dict[str, Any], lane: _Lane) -> _Reply:
        """Ask as a client that posts, and pass the events on."""
        sent, reply, frames = msgspec.json.encode(body), _Reply(), FrameDecoder()
        waiting = [{"type": "http.request", "body": sent, "more_body": False}]

        async def receive() -> Any:
            if waiting:
                return waiting.pop()
            await self._gone.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            if message["type"] == "http.response.start":
                reply.status = message["status"]
                return
            data = message.get("body", b"")
            if reply.status != 200:  # a refusal is whole
                reply.body += data
                return
            for frame in frames.feed(data):
                reply.end = await lane.forward(frame.data) or reply.end

        await self._ask(self._posted(len(sent)), receive, send)
        return reply

    def _posted(self, length: int) -> dict[str, Any]:
        kept = [
            (name, value)
            for name, value in self._scope["headers"]
            if name not in _HOP_BY_HOP and not name.startswith(b"sec-websocket-")
        ]
        headers = [*kept, (b"content-type", b"application/json"), (b"content-length", str(length).encode())]
        shared = {
            name: self._scope[name]
            for name in ("path", "raw_path", "client", "server")
            if name in self._scope
        }
        return {
            **shared,
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": "POST",
            "scheme": "http",
            "query_string": b"",
            "headers": headers,
        }


class _Lane:
    """Writes what belongs to one lane."""

    def __init__(self, name: str, send: Send) -> None:
        self._mark = {"stream_id": name} if name else {}
        self._tail = f',"stream_id":{msgspec.json.encode(name).decode()}}}' if name else "}"
        self._send = send

    async def write(self, event: dict[str, Any]) -> None:
        await self._send({"type": "websocket.send", "text": _text(event | self._mark)})

    async def close(self, reason: str) -> None:
        await self._send({"type": "websocket.close", "code": _AGAIN, "reason": reason[:120]})

    async def forward(self, data: bytes) -> Any:
        """An event of a stream, as it came. Returns the response that it ends with, if it is that one and can be continued."""
        if not data.startswith(b"{"):
            return None  # the mark of the end, which a socket does not have (WS-03)
        text = data.decode("utf-8", "replace").rstrip()
        await self._send({"type": "websocket.send", "text": text[:-1] + self._tail})
        if b'"response.completed"' not in data and b'"response.incomplete"' not in data:
            return None
        event = msgspec.json.decode(data)
        ends = event.get("type") in ("response.completed", "response.incomplete")
        return event.get("response") if ends else None


def _decoded(message: Mapping[str, Any]) -> Any:
    text = message.get("text")
    try:
        asked = msgspec.json.decode(text) if text is not None else None
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        asked = None
    if not isinstance(asked, dict):
        return _refused("invalid_json", "A message is one JSON object, as text.")
    return asked


def _unreadable(asked: Mapping[str, Any]) -> _Refused | None:
    """The error about a field that is none of its kinds, or stands for what a mere announcement cannot hold: it must not be left
    out."""
    kinds = {"previous_response_id": (str, "a string"), "input": (str | list, "a string or an array")}
    for name, (kind, expected) in kinds.items():
        given = asked.get(name)
        if given is not None and not isinstance(given, kind):
            return _refused("invalid_type", f"Invalid type for '{name}': expected {expected}.", name)
    included = asked.get("include") or []
    if not isinstance(included, list) or not all(isinstance(one, str) for one in included):
        return _refused(
            "invalid_type", "Invalid type for 'include': expected an array of strings.", "include"
        )
    for name in ("conversation", "prompt") if asked.get("generate") is False else ():
        if asked.get(name) is not None:
            why = f"Unsupported parameter: '{name}' is sent with the request that asks for a reply."
            return _refused("unsupported_parameter", why, name)
    return None


def _refused(code: str, message: str, param: str | None = None, *, status: int = 400) -> _Refused:
    error = {"type": "invalid_request_error", "code": code, "message": message, "param": param}
    return _Refused({"type": "error", "status": status, "error": error})


def _refusal(reply: _Reply) -> dict[str, Any]:
    """What was answered over HTTP."""
    try:
        body = msgspec.json.decode(bytes(reply.body))
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        body = None
    error = body.get("error") if isinstance(body, dict) else None
    return {"type": "error", "status": reply.status, "error": error or {"message": _reason(reply)}}


def _reason(reply: _Reply) -> str:
    return bytes(reply.body)[:120].decode("utf-8", "ignore")


def _empty_response(asked: Mapping[str, Any]) -> dict[str, Any]:
    """What is announced is stored nowhere, whatever its client asks for: it can be continued on its connection."""
    return {
        "id": f"resp_{token_hex(24)}",
        "object": "response",
        "created_at": int(time()),
        "status": "completed",
        "model": asked.get("model", ""),
        "output": [],
        "error": None,
        "incomplete_details": None,
        "instructions": asked.get("instructions"),
        "metadata": asked.get("metadata") or {},
        "parallel_tool_calls": asked.get("parallel_tool_calls", True),
        "previous_response_id": asked.get("previous_response_id"),
        "store": False,
        "temperature": asked.get("temperature"),
        "tool_choice": asked.get("tool_choice", "auto"),
        "tools": asked.get("tools") or [],
        "top_p": asked.get("top_p"),
        "usage": {
            "input_tokens": 0,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": 0,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 0,
        },
    }


def _text(event: dict[str, Any]) -> str:
    return msgspec.json.encode(event).decode()

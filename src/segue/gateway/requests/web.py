"""HTTP as the gateway uses it: a whole request, and a response that is whole or streamed, over ASGI."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, final
from urllib.parse import parse_qsl

import msgspec
from msgspec import Struct, structs

from segue.errors import InvalidRequestError

if TYPE_CHECKING:
    from segue.config.schema import GatewayLimits
    from segue.dialects.server_side.wire_server import Reframe
    from segue.transports.asgi import AsgiMessage

Receive: TypeAlias = "Callable[[], Awaitable[AsgiMessage]]"
Send: TypeAlias = "Callable[[AsgiMessage], Awaitable[None]]"

RESPONSE: Final = "segue.response"
"""In the scope of a request, where our server serves it: the `PlainResponse` that it is answered with."""
JSON_TYPE: Final = "application/json"
_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_CONTROLS: Final = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")
"""What no header may hold. A provider's header or a model's name may hold it all the same, and the server would break off instead of
answering."""
_PLAIN_ID: Final = re.compile(rb"[A-Za-z0-9._:-]{1,128}")


class ClientGoneError(Exception):
    """The client closed the connection: there is nobody to answer."""


@final
class WebRequest(Struct, frozen=True, kw_only=True):
    """One request of a client. Its headers hold a key, so it never shows itself."""

    method: str
    path: str
    target: str = ""
    """Path and query as they were sent, which is what signatures are about."""
    query: Mapping[str, str] = {}
    headers: Mapping[str, str] = {}
    """With lower-case names, which is how a server gives them."""
    body: bytes = b""
    weight: int = 0
    """What its body counts in the budget of the process: by it, work on it is done at once or beside the event loop."""

    def free(self) -> None:
        """Forget the body, for all who hold the request: it was sent on, and a reply may take minutes."""
        structs.force_setattr(self, "body", b"")

    def __repr__(self) -> str:
        return f"WebRequest({self.method} {self.path}, {len(self.body)} bytes)"


@final
class WebResponse(Struct, frozen=True, kw_only=True):
    """A whole response."""

    status: int = 200
    headers: Mapping[str, str] = {}
    body: bytes = b""


def json_response(content: object) -> WebResponse:
    return WebResponse(headers={"content-type": JSON_TYPE}, body=msgspec.json.encode(content))


def own_address(request: WebRequest) -> str:
    """Under which a client reaches the gateway, for addresses that an answer names."""
    scheme = request.headers.get("x-forwarded-proto", "http").partition(",")[0].strip()
    return f"{scheme if scheme in ('http', 'https') else 'http'}://{request.headers.get('host', 'localhost')}"


def read_head(scope: Mapping[str, Any], limits: GatewayLimits) -> WebRequest:
    """The request without its body. Raises when its headers are too large."""
    fields = scope["headers"]
    if sum(map(len, chain.from_iterable(fields))) > limits.header_bytes:
        raise InvalidRequestError(
            f"The headers of the request are larger than {limits.header_bytes} bytes.",
            code="headers_too_large",
            status=413,
            hint="Send fewer headers, or raise gateway.limits.header_bytes.",
        )
    query = scope.get("query_string", b"")
    raw = scope.get("raw_path") or scope["path"].encode()
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in fields}
    return WebRequest(
        method=scope.get("method", "GET"),
        path=scope["path"],
        target=(raw + b"?" + query if query else raw).decode("latin-1"),
        query=dict(parse_qsl(query.decode("latin-1"), keep_blank_values=True)) if query else {},
        headers=headers if len(headers) == len(fields) else _joined(fields),
    )


def _joined(fields: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """Headers of which one is sent several times: its values are those of a list."""
    headers: dict[str, str] = {}
    for name, value in fields:
        known, text = name.decode("latin-1"), value.decode("latin-1")
        headers[known] = f"{headers[known]}, {text}" if known in headers else text
    return headers


class PlainResponse(Protocol):
    """A response that is written by plain calls. Each portion of a stream would cost a message and three coroutines otherwise."""

    def start(self, status: int, fields: list[tuple[bytes, bytes]]) -> None:
        """The head, which leaves with what is written next."""

    def write(self, data: bytes, *, last: bool) -> Awaitable[None] | None:
        """Some of the body, at once. What to wait for before more is written; None if there is nothing to."""


@final
class ResponseWriter:
    """Writes one response. `sent` counts its bytes."""

    def __init__(self, send: Send, headers: Mapping[str, str], plain: PlainResponse | None = None) -> None:
        """`headers`: those of every response, such as the request's id. `plain`: written to instead of messages, if there is one."""
        self.headers = dict(headers)
        self._send = send
        self._plain = plain
        self._head: AsgiMessage | None = None
        """What has to be sent before anything else."""
        self.status = 0
        self.sent = 0
        self.reframe: Reframe | None = None
        """How the frames of its stream are written, where its path has another form for them."""

    @property
    def started(self) -> bool:
        return self.status > 0

    async def whole(self, response: WebResponse) -> None:
        length = {"content-length": str(len(response.body))}
        self.begin(response.status, {**response.headers, **length})
        await self.end(response.body)

    async def start(self, status: int, headers: Mapping[str, str]) -> None:
        """The head leaves now, however long its body may be in coming."""
        self.begin(status, headers)
        if self._plain is not None:
            self._plain.write(b"", last=False)
        else:
            await self._send_head()

    def begin(self, status: int, headers: Mapping[str, str]) -> None:
        """The head leaves with the first bytes of the body."""
        self.status = status
        fields = [
            (field, _field_value(value))
            for name, value in {**headers, **self.headers}.items()
            if (field := _field_name(name))
        ]
        if self._plain is not None:
            self._plain.start(status, fields)
        else:
            self._head = {"type": "http.response.start", "status": status, "headers": fields}

    def put(self, data: bytes, *, last: bool = False) -> Awaitable[None] | None:
        """Write, at once if the server can. What to wait for before more is written; None if there is nothing to."""
        if not (data or last):
            return None
        self.sent += len(data)
        if self._plain is not None:
            return self._plain.write(data, last=last)
        return self._send_body(data, last=last)

    async def write(self, data: bytes) -> None:
        if (wait := self.put(data)) is not None:
            await wait

    async def end(self, data: bytes = b"") -> None:
        if (wait := self.put(data, last=True)) is not None:
            await wait

    async def _send_body(self, data: bytes, *, last: bool) -> None:
        await self._send_head()
        await self._send({"type": "http.response.body", "body": data, "more_body": not last})

    async def _send_head(self) -> None:
        if self._head is not None:
            head, self._head = self._head, None
            await self._send(head)


@lru_cache(maxsize=256)
def _field_name(name: str) -> bytes:
    """Empty if it is none that could be sent."""
    return name.encode("latin-1") if _NAME.fullmatch(name) else b""


def _field_value(value: str) -> bytes:
    data = value.encode("latin-1", "replace")
    # A look at the text takes a fifth of a look with the pattern.
    return data if value.isascii() and value.isprintable() else _CONTROLS.sub(b" ", data)


async def until_gone(receive: Receive) -> None:
    """Ends when the client has gone."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def refuse_websocket(scope: Mapping[str, Any], send: Send, answer: WebResponse) -> None:
    """Before it is opened."""
    if "websocket.http.response" in scope.get("extensions", {}):
        fields = [
            (name.encode(), value.encode("latin-1", "replace")) for name, value in answer.headers.items()
        ]
        await send({"type": "websocket.http.response.start", "status": answer.status, "headers": fields})
        await send({"type": "websocket.http.response.body", "body": answer.body})
    else:
        await send({"type": "websocket.close", "code": 1008})


def given_id(scope: Mapping[str, Any]) -> str:
    """The id that the client or a proxy gave the request; empty if it is none that could stand in a log."""
    for name, value in scope["headers"]:
        if name == b"x-request-id":
            return value.decode() if _PLAIN_ID.fullmatch(value) else ""
    return ""

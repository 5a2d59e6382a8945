"""One ASGI application for all providers, each under its own prefix, with a control room at `/_emulator`.

`/openai/v1/chat/completions`, `/anthropic/v1/messages` … ; the provider given as `root` also answers without prefix.
`GET /_emulator/log` shows what was asked and how it was judged, `POST /_emulator/script` queues replies, rules and
faults, `POST /_emulator/reset` forgets everything.

Responses come over a WebSocket too: `response.create` in, one message for each event of the stream out. Each request
is judged and answered as if it had been posted; only the frames differ.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, MutableMapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import parse_qsl, quote, unquote

import msgspec
from msgspec import structs

from segue.emulators import provider_paths, script
from segue.emulators.emulator import Emulator, Entry
from segue.emulators.faults import Fault, instead, replaces_the_answer, spoil
from segue.emulators.http import BadJsonError, Receive, Request, Response, Send, error_response, json_response
from segue.emulators.request_checks import model_of
from segue.emulators.rules import Context, Refusal, RefusedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from segue.emulators.http import Receive, Response, Send


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


Scope: TypeAlias = MutableMapping[str, Any]

BODY_MAX = 64 * 1024 * 1024
CONTROL = "/_emulator/"


class App:
    """The ASGI application. `emulator` is its whole state."""

    def __init__(self, emulator: Emulator | None = None, *, root: str = "") -> None:
        self.emulator = emulator or Emulator()
        self.root = root

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await _live(receive, send)
        if scope["type"] == "websocket" and scope["path"].endswith("/v1/responses"):
            await converse(_request(scope, b""), self.answer, receive, send)
        if scope["type"] != "http":
            return
        body = await _read(receive)
        if body is None:
            return
        request = _request(scope, body)
        if not await _deliver(self.answer(request), receive, send):
            self.emulator.hung_up += 1

    def answer(self, request: Request) -> Response:
        """Everything but the sending, without I/O."""
        if request.path.startswith(CONTROL):
            return self._control(request)
        found = provider_paths.find(request.method, request.path, self.root)
        if found is None:
            return json_response({"error": "no such provider here"}, status=404)
        request = structs.replace(
            request, path=found.path, params=found.params, mounted=found.mounted.provider
        )
        fault = self._next_fault(found.mounted.provider, request)
        response = self._response(request, found, fault)
        self._note(request, found.mounted.provider, response, fault)
        return response

    def _response(self, request: Request, found: provider_paths.Found, fault: Fault | None) -> Response:
        errors = found.mounted.errors
        if fault is not None and replaces_the_answer(fault):
            return instead(fault, errors, self._context(request, found))
        if len(request.body) > BODY_MAX:
            return self._plain_refusal(request, found, 413, "Request exceeds the maximum size")
        if found.handler is None:
            return self._plain_refusal(request, found, found.status, _no_route(request, found.status))
        try:
            response = found.handler(request, self.emulator)
        except RefusedError as refused:
            response = error_response(errors, refused.refusal, refused.context)
        return spoil(fault, response, errors, self._context(request, found)) if fault else response

    def _context(self, request: Request, found: provider_paths.Found) -> Context:
        model = request.params.get("model") or model_of(_json_or_none(request))
        return self.emulator.context(request, provider=found.mounted.provider, model=model)

    def _plain_refusal(
        self, request: Request, found: provider_paths.Found, status: int, message: str
    ) -> Response:
        kinds = {404: "not_found_error", 413: "request_too_large"}
        openai = found.mounted.provider == "openai"
        kind = "invalid_request_error" if openai else kinds.get(status, "invalid_request_error")
        refusal = Refusal("HTTP", message, status=status, type=kind)
        context = self._context(request, found)
        body = found.mounted.errors.envelope(refusal, context)
        return json_response(body, status=status, refusal=refusal)

    def _next_fault(self, provider: str, request: Request) -> Fault | None:
        queue = self.emulator.faults
        for fault in queue:
            asked = fault.method in ("", request.method) and request.path.endswith(fault.path)
            if asked and fault.provider in ("", provider):
                queue.remove(fault)
                return fault
        return None

    def _note(self, request: Request, provider: str, response: Response, fault: Fault | None) -> None:
        refusal = response.refusal
        verdict = "refused" if refusal else "accepted"
        self.emulator.log.append(
            Entry(
                provider=provider,
                method=request.method,
                path=request.path,
                status=response.status,
                verdict="fault" if fault else verdict,
                rule=refusal.rule if refusal else None,
                message=refusal.message if refusal else None,
                fault=fault.kind if fault else None,
                body=_json_or_none(request),
            )
        )

    def _control(self, request: Request) -> Response:
        match request.method, request.path.removeprefix(CONTROL):
            case "GET", "log":
                return json_response({"entries": list(self.emulator.log)})
            case "POST", "reset":
                self.emulator.reset()
                return json_response({"ok": True})
            case "POST", "script":
                try:
                    script.perform(script.read(request.body), self.emulator)
                except script.ScriptError as error:
                    return json_response({"error": str(error)}, status=400)
                return json_response({"ok": True})
            case _:
                return json_response({"error": "GET log, POST script or POST reset"}, status=404)


def _no_route(request: Request, status: int) -> str:
    if status == 405:
        return f"Not allowed to {request.method} on {request.path}."
    return f"Invalid URL ({request.method} {request.path})"


def _json_or_none(request: Request) -> Any:
    try:
        return request.json() if request.body else None
    except BadJsonError:
        return None


def _request(scope: Scope, body: bytes) -> Request:
    headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
    query = dict(parse_qsl(scope.get("query_string", b"").decode("latin-1"), keep_blank_values=True))
    raw = scope.get("raw_path")
    path = unquote(raw.decode("latin-1")) if raw else scope["path"]
    asked = scope.get("query_string", b"").decode("latin-1")
    sent = raw.decode("latin-1") if raw else quote(scope["path"])
    return Request(
        method=scope.get("method", "GET"),
        path=path,
        query=query,
        headers=headers,
        body=body,
        target=f"{sent}?{asked}" if asked else sent,
    )


async def _read(receive: Receive) -> bytes | None:
    """The whole body, or None when the client went away before it was complete."""
    portions: list[bytes] = []
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        portions.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(portions)


async def _live(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return


async def _gone(receive: Receive) -> None:
    """Ends when the client has gone."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def _deliver(response: Response, receive: Receive, send: Send) -> bool:
    """Whether the client stayed to the end."""
    gone = asyncio.ensure_future(_gone(receive))
    try:
        return await _send(response, send, gone)
    finally:
        if isinstance(response.body, Iterator):
            # A generator that nobody reads any more must not wait for the garbage collector.
            getattr(response.body, "close", lambda: None)()
        gone.cancel()
        with suppress(asyncio.CancelledError):
            await gone


async def _send(response: Response, send: Send, gone: asyncio.Future[None]) -> bool:
    if response.silent_for:
        await asyncio.wait({gone}, timeout=response.silent_for)
    headers = [
        (name.encode(), value.encode("latin-1", "replace")) for name, value in response.headers.items()
    ]
    if isinstance(response.body, bytes) and not response.cut:
        headers.append((b"content-length", str(len(response.body)).encode()))
    await send({"type": "http.response.start", "status": response.status, "headers": headers})
    portions = iter([response.body]) if isinstance(response.body, bytes) else response.body
    for portion in portions:
        if response.delay:
            await asyncio.wait({gone}, timeout=response.delay)
        else:
            # Give the watcher its turn, else a client's hanging up goes unnoticed while we are busy.
            await asyncio.sleep(0)
        if gone.done():
            return False
        await send({"type": "http.response.body", "body": portion, "more_body": True})
    # An answer that is cut is never completed: the server then closes the connection.
    if not response.cut:
        await send({"type": "http.response.body", "body": b"", "more_body": False})
    return True

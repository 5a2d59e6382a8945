"""A small gateway that passes bytes on, each door to the provider of its own wire, with one fault planted in it."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from segue.lab.laboratory import GatewayUnderTest

DOORS = {"chat": "openai", "responses": "openai", "messages": "anthropic", "gemini": "gemini"}
MODELS = {"openai": "gpt-5", "anthropic": "claude-sonnet-4-6", "gemini": "gemini-3.5-flash"}
HELD = ("authorization", "x-api-key", "x-goog-api-key", "anthropic-version", "content-type")

Change = Callable[[Any], Any]


def everywhere(change: Callable[[dict[str, Any]], None]) -> Change:
    """A change of every object in a body."""

    def changed(value: Any) -> Any:
        if isinstance(value, dict):
            change(value)
            for item in value.values():
                changed(item)
        elif isinstance(value, list):
            for item in value:
                changed(item)
        return value

    return changed


class PlantedFault:
    """What this gateway does wrong: nothing, unless it is told to."""

    def __init__(
        self,
        *,
        request: Change | None = None,
        reply: Change | None = None,
        ends: bool = False,
        stays: bool = False,
    ) -> None:
        self.request = request or (lambda body: body)
        self.reply = reply
        self.ends = ends
        """A reply that breaks off is given a normal end."""
        self.stays = stays
        """A client that leaves does not end the request to the provider."""


@contextmanager
def planted(fault: PlantedFault, upstream: str) -> Iterator[GatewayUnderTest]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            with closing(_connection(upstream)) as connection:
                self._forward(_ask(connection, self.path, self.headers, fault.request(body)))

        def _forward(self, answer: http.client.HTTPResponse) -> None:
            self.send_response(answer.status)
            self.send_header("content-type", answer.headers.get("content-type", ""))
            self.end_headers()
            streamed = "event-stream" in answer.headers.get("content-type", "")
            with answer:
                self._pass_on(answer, _changed_stream if streamed else _changed_whole)

        def _pass_on(
            self, answer: http.client.HTTPResponse, change: Callable[[bytes, Change], bytes]
        ) -> None:
            if fault.reply is not None:
                self.wfile.write(change(answer.read(), fault.reply))
                return
            if fault.ends:
                self.wfile.write(_ended(answer))
                return
            while portion := answer.read1(4096):
                try:
                    self.wfile.write(portion)
                except OSError:
                    if not fault.stays:
                        return

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.handle_error = lambda *_: None  # type: ignore[method-assign]  # a broken connection is what some trials want
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield GatewayUnderTest(
            name="planted",
            url=f"http://127.0.0.1:{server.server_address[1]}",
            doors=dict.fromkeys(DOORS, ""),
            models=MODELS,
            behind={wire: (provider,) for wire, provider in DOORS.items()},
            claims=frozenset({"state"}),
        )
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)


_END = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'


def _ended(answer: http.client.HTTPResponse) -> bytes:
    """All whole events, and an end."""
    try:
        raw = answer.read()
    except http.client.IncompleteRead as error:
        raw = error.partial
    return raw[: raw.rfind(b"\n\n") + 2] + _END


def _connection(upstream: str) -> http.client.HTTPConnection:
    address = urlsplit(upstream)
    return http.client.HTTPConnection(address.hostname or "", address.port, timeout=20)


def _ask(
    connection: http.client.HTTPConnection, path: str, headers: Any, body: Any
) -> http.client.HTTPResponse:
    provider = next(
        DOORS[wire]
        for part, wire in (
            ("chat/", "chat"),
            ("responses", "responses"),
            ("messages", "messages"),
            ("v1beta", "gemini"),
        )
        if part in path
    )
    kept = {name: headers[name] for name in HELD if headers.get(name)}
    connection.request("POST", f"/{provider}{path}", json.dumps(body).encode(), kept)
    return connection.getresponse()


def _changed_whole(raw: bytes, change: Change) -> bytes:
    return json.dumps(change(json.loads(raw))).encode()


def _changed_stream(raw: bytes, change: Change) -> bytes:
    return b"\n".join(
        b"data: " + _changed_whole(line[6:], change) if line.startswith(b"data: {") else line
        for line in raw.split(b"\n")
    )

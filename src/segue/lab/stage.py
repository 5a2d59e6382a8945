"""The providers behind the gateway under test: emulators that keep what they were sent and what they answered."""

from __future__ import annotations

import json
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from msgspec import structs

from segue.emulators.app import App
from segue.emulators.emulator import Emulator
from segue.emulators.model.responder import ScriptedResponder
from segue.emulators.server import Served, serve
from segue.lab.clients import ChatClient, GeminiClient, MessagesClient, ResponsesClient

if TYPE_CHECKING:
    from collections.abc import Iterator

    from segue.emulators.http import Request, Response
    from segue.lab.clients import ClientAnswer, LabClient

CLIENTS: dict[str, type[LabClient]] = {
    "chat": ChatClient,
    "messages": MessagesClient,
    "responses": ResponsesClient,
    "gemini": GeminiClient,
}
_PATHS = (
    ("/chat/completions", "chat"),
    ("/v1/responses", "responses"),
    ("/v1/messages", "messages"),
    ("enerateContent", "gemini"),
)
_SEALS = re.compile(
    rb'"(?:signature|thought_?[sS]ignature|encrypted_content|data)"\s*:\s*"([A-Za-z0-9+/=_-]{24,})"'
)


class ProviderExchange:
    """One request that reached a provider, and its reply so far."""

    def __init__(self, provider: str, wire: str, request: Request) -> None:
        self.provider = provider
        self.wire = wire
        self.raw = request.body
        self.body: dict[str, Any] = _object(request.body)
        self.status = 0
        self.content_type = ""
        self.rule = ""
        self.refusal = ""
        self.spoilt = False
        self.reply = bytearray()

    @property
    def answer(self) -> ClientAnswer:
        return CLIENTS[self.wire]().decode(self.status, self.content_type, bytes(self.reply))

    @property
    def issued(self) -> frozenset[bytes]:
        """The signatures in its reply."""
        return frozenset(_SEALS.findall(bytes(self.reply)))


def _object(raw: bytes) -> dict[str, Any]:
    try:
        body = json.loads(raw)
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}


class Stage(App):
    """The emulators, with a record of every exchange of a chat."""

    def __init__(self) -> None:
        self.responder = ScriptedResponder()
        super().__init__(Emulator(responder=self.responder))
        self.exchanges: list[ProviderExchange] = []

    def answer(self, request: Request) -> Response:
        wire = next((wire for part, wire in _PATHS if part in request.path), "")
        if not wire or request.method != "POST" or request.path.endswith("count_tokens"):
            return super().answer(request)
        provider = request.path.strip("/").partition("/")[0]
        exchange = ProviderExchange(provider, wire, request)
        self.exchanges.append(exchange)
        response = super().answer(request)
        exchange.status = response.status
        exchange.content_type = response.headers.get("content-type", "")
        entry = self.emulator.log[-1]
        exchange.spoilt = entry.verdict == "fault"
        exchange.rule, exchange.refusal = entry.rule or "", entry.message or ""
        if isinstance(response.body, bytes):
            exchange.reply += response.body
            return response
        return structs.replace(response, body=_recorded(response.body, exchange.reply))

    def clear(self) -> None:
        self.emulator.reset(ids=False)
        self.exchanges.clear()


def _recorded(portions: Iterator[bytes], kept: bytearray) -> Iterator[bytes]:
    try:
        for portion in portions:
            kept += portion
            yield portion
    finally:
        getattr(portions, "close", lambda: None)()


@contextmanager
def open_stage(port: int = 0) -> Iterator[tuple[Stage, Served]]:
    stage = Stage()
    with serve(port, app=stage) as served:
        yield stage, served

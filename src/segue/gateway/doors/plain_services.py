"""Older services of a client's own API, completions of a prompt and moderation: passed on to a provider of the same wire.

Nothing is translated: a model of another wire has no such thing, and the client gets 404. A stream is read to its end before it is
sent, so that what it used is known.
"""

from __future__ import annotations

import asyncio
from time import time
from typing import TYPE_CHECKING, Any, Final, final

import msgspec

from segue.conversation.events import Finished, UsageReported
from segue.conversation.usage import Usage
from segue.errors import InvalidRequestError, SegueError
from segue.exchange.handovers import Handover
from segue.gateway.conversations.turns import read_fields
from segue.gateway.exchanges.usage_estimates import mark_estimate
from segue.gateway.requests.client_errors import model_error
from segue.gateway.requests.web import JSON_TYPE, WebResponse
from segue.gateway.telemetry.report import AttemptReport
from segue.providers.provider import Provider
from segue.routing.route import provider_of

if TYPE_CHECKING:
    from segue.gateway.accounts.account import Account
    from segue.gateway.doors.paths import Door
    from segue.gateway.names import ModelNames
    from segue.gateway.requests.web import WebRequest
    from segue.gateway.telemetry.report import RequestReport
    from segue.providers.endpoint import Endpoint
    from segue.providers.registry import KnownProviders
    from segue.routing.route import Route

_PATHS: Final = {"complete": "/completions", "moderate": "/moderations"}
"""The end of the path, by operation."""
_HOME: Final = "openai/"
"""Whose names clients leave bare, or leave away: those of models that moderate."""
_USUAL: Final = f"{_HOME}omni-moderation-latest"
_BYTES_PER_TOKEN: Final = 4


@final
class PlainServices:
    """Serves their paths."""

    def __init__(self, names: ModelNames, providers: KnownProviders) -> None:
        self._names = names
        self._providers = providers

    async def answer(
        self, door: Door, request: WebRequest, account: Account, report: RequestReport
    ) -> WebResponse:
        fields = read_fields(request.body)
        asked = str(fields.get("model") or "")
        route = self._route(door, asked)
        if not account.may_use(asked, (route.name,)):
            raise model_error(account, asked)
        endpoint = self._endpoint(door, route)
        report.asked, report.route = asked or route.name, route.name
        shows_usage = bool((fields.get("stream_options") or {}).get("include_usage"))
        sent = {**fields, "model": route.model}
        if fields.get("stream"):
            sent["stream_options"] = {**(fields.get("stream_options") or {}), "include_usage": True}
        body = msgspec.json.encode(sent)
        tried = AttemptReport(route=route.name, began=time())
        handover = Handover(route.name, route.model, lambda: len(body) // _BYTES_PER_TOKEN, size=len(body))
        if door.operation == "complete":  # to moderate is free
            report.tries.append(tried)
            tried.handovers.append(handover)
        try:
            async with endpoint.ask("POST", _PATHS[door.operation], body, whole=True) as answer:
                received, kind = await answer.read(), answer.headers.get("content-type", JSON_TYPE)
        except SegueError as error:
            handover.fail(error)
            raise
        except asyncio.CancelledError as left:
            handover.cancel(left)
            raise
        finally:
            tried.seconds = time() - tried.began
        frames = received.split(b"\n\n") if kind.startswith("text/event-stream") else [received]
        counted = [usage for frame in frames if (usage := _usage_in(frame)) is not None]
        handover.note([*map(UsageReported, counted[-1:]), Finished("stop")])
        headers = {"content-type": kind, "x-segue-route": route.name}
        if handover.estimated and door.operation == "complete":
            mark_estimate(headers)
        kept = [frame for frame in frames if shows_usage or b'"choices":[]' not in frame.replace(b" ", b"")]
        return WebResponse(headers=headers, body=b"\n\n".join(kept))

    def _route(self, door: Door, asked: str) -> Route:
        name = asked or (_USUAL if door.operation == "moderate" else "")
        try:
            return self._names.router(name).routes[0]
        except SegueError:
            if door.operation != "moderate" or "/" in name:
                raise
            return self._names.router(_HOME + name).routes[0]

    def _endpoint(self, door: Door, route: Route) -> Endpoint:
        provider = provider_of(route, self._providers)
        found = provider.endpoint_on(door.dialect.server) if isinstance(provider, Provider) else None
        if found is None:
            raise InvalidRequestError(
                f"{route.name} has no {_PATHS[door.operation]} of this API.",
                code="not_found",
                path="model",
                status=404,
                hint="It is not translated: ask for a model of the API that you use, or use chat completions.",
            )
        return found


def _usage_in(frame: bytes) -> Usage | None:
    try:
        fields: Any = msgspec.json.decode(frame.strip().removeprefix(b"data:").strip())
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    usage = fields.get("usage") if isinstance(fields, dict) else None
    if not isinstance(usage, dict):
        return None
    read, written = usage.get("prompt_tokens"), usage.get("completion_tokens")
    return Usage(read if isinstance(read, int) else None, written if isinstance(written, int) else 0)

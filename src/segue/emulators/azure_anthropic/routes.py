"""`/anthropic/v1/messages` and its count of tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING

from segue.emulators.anthropic import errors, routes
from segue.emulators.http import BadJsonError, Handler, Request, Response, Route
from segue.emulators.rules import rule
from segue.emulators.vertex_anthropic.routes import withheld

if TYPE_CHECKING:
    from segue.emulators.emulator import Emulator

__all__ = ["ROUTES", "errors"]


@rule("AZR-06")
def _asked(handler: Handler) -> Handler:
    def asked(request: Request, emulator: Emulator) -> Response:
        try:
            body = request.json()
        except BadJsonError:
            body = {}
        withheld(request, body if isinstance(body, dict) else {}, emulator)
        return handler(request, emulator)

    return asked


ROUTES: list[Route] = [
    ("POST", "/anthropic/v1/messages", _asked(routes.messages)),
    ("POST", "/anthropic/v1/messages/count_tokens", _asked(routes.count_tokens)),
]

"""Claude at Microsoft: Anthropic's own API under another address, without a list of models.

`/anthropic/v1/messages` and its count of tokens.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from segue.emulators.anthropic import routes
from segue.emulators.anthropic.errors import ERRORS
from segue.emulators.clouds.vertex_anthropic import withheld
from segue.emulators.http import BadJsonError, Handler, Request, Response, Route
from segue.emulators.request_checks import permitted
from segue.emulators.rules import Refusal, RefusedError, rule

if TYPE_CHECKING:
    from segue.emulators.emulator import Emulator


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


@rule("AZR-06")
def list_models(request: Request, emulator: Emulator) -> Response:
    """There is none."""
    context = permitted(request, emulator, ERRORS)
    raise RefusedError(Refusal("AZR-06", "Not Found", status=404, type="not_found_error"), context)


ROUTES: list[Route] = [
    ("GET", "/anthropic/models", list_models),
    ("GET", "/anthropic/v1/models", list_models),
    ("POST", "/anthropic/v1/messages", _asked(routes.messages)),
    ("POST", "/anthropic/v1/messages/count_tokens", _asked(routes.count_tokens)),
]

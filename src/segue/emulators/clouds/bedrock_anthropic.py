"""Claude at Bedrock's runtime in Messages, for models from 4.7 on.

`/anthropic/v1/messages` and its count of tokens, signed or with a key (AWS-01, AWS-03).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec import structs

from segue.emulators.anthropic import routes
from segue.emulators.anthropic.errors import ERRORS
from segue.emulators.clouds.bedrock_invoke import bare_claude
from segue.emulators.clouds.vertex_anthropic import withheld
from segue.emulators.converse.callers import BEDROCK, unknown_caller, with_key
from segue.emulators.converse.replies import ERRORS as AWS_ERRORS
from segue.emulators.http import BadJsonError, Handler, Request, Response, Route, error_response
from segue.emulators.model.model_facts import facts_for
from segue.emulators.rules import Refusal, RefusedError, first_enforced, rule

if TYPE_CHECKING:
    from segue.emulators.emulator import Emulator

__all__ = ["ERRORS", "ROUTES", "at_aws"]


def at_aws(handler: Handler, service: str = BEDROCK) -> Handler:
    """The handler of another wire behind AWS's own door, which answers in its own words."""

    def admitted(request: Request, emulator: Emulator) -> Response:
        context = emulator.context(request, provider="bedrock")
        refusal = first_enforced(unknown_caller(request, emulator, service), context)
        if refusal is not None:
            return error_response(AWS_ERRORS, refusal, context)
        return handler(with_key(request, emulator), emulator)

    return admitted


@rule("AWS-03")
@rule("AWS-05")
@rule("AWS-06")
def claude(handler: Handler, *, profiles: bool = True) -> Handler:
    """The request with Anthropic's own name of the model. `profiles`: whether its id may begin with a region."""

    def asked(request: Request, emulator: Emulator) -> Response:
        try:
            body = request.json()
        except BadJsonError:
            return handler(request, emulator)  # which says so
        if not isinstance(body, dict) or not isinstance(body.get("model"), str):
            return handler(request, emulator)
        model = body["model"]
        context = emulator.context(request, provider="anthropic", model=model)
        if not profiles and not model.startswith("anthropic."):
            text = f"model: {model} is not a valid model id here"
            raise RefusedError(Refusal("AWS-05", text, status=404, type="not_found_error"), context)
        if not facts_for("bedrock", model).get("messages") or ":" in model:
            text = f"model `{model}` isn't supported on this route"
            raise RefusedError(Refusal("AWS-06", text), context)
        withheld(request, body, emulator)
        own = msgspec.json.encode({**body, "model": bare_claude(model)})
        return handler(structs.replace(request, body=own), emulator)

    return asked


ROUTES: list[Route] = [
    ("POST", "/anthropic/v1/messages", at_aws(claude(routes.messages))),
    ("POST", "/anthropic/v1/messages/count_tokens", at_aws(claude(routes.count_tokens))),
]

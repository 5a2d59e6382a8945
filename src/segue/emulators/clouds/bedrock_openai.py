"""Models of OpenAI at Bedrock's runtime: open ones in Chat, the others in Responses.

`/openai/v1/chat/completions` and `/openai/v1/responses`, signed or with a key.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import structs

from segue.emulators.clouds.bedrock_anthropic import at_aws
from segue.emulators.http import BadJsonError, Handler, Request, Response, Route
from segue.emulators.model.model_facts import facts_for
from segue.emulators.openai_chat import routes as chat
from segue.emulators.openai_chat.errors import ERRORS
from segue.emulators.openai_responses import routes as responses
from segue.emulators.rules import Refusal, RefusedError, rule

if TYPE_CHECKING:
    from collections.abc import Callable

    from segue.emulators.emulator import Emulator

__all__ = ["ERRORS", "ROUTES", "named"]

OPEN, MAKER = "gpt-oss", "openai."


def is_open(model: str) -> bool:
    return OPEN in model


@rule("AWS-06")
def named(handler: Handler, serves: Callable[[str], bool]) -> Handler:
    """The request with OpenAI's own name of the model, if this route serves it."""

    def asked(request: Request, emulator: Emulator) -> Response:
        try:
            body = request.json()
        except BadJsonError:
            return handler(request, emulator)  # which says so
        model = body.get("model") if isinstance(body, dict) else None
        if not isinstance(model, str):
            return handler(request, emulator)
        _, maker, name = model.rpartition(MAKER)
        bare = name.removesuffix("-1:0")
        if not maker or not facts_for("openai", bare) or not serves(model):
            text = f"model `{model}` isn't supported on this route"
            raise _refused(request, emulator, Refusal("AWS-06", text, param="model"))
        return handler(structs.replace(request, body=msgspec.json.encode({**body, "model": bare})), emulator)

    return asked


@rule("AWS-06")
def at_runtime(handler: Handler) -> Handler:
    """It waits for every reply, and has none of OpenAI's own tools."""

    def asked(request: Request, emulator: Emulator) -> Response:
        try:
            body: Any = request.json()
        except BadJsonError:
            body = None
        fields = body if isinstance(body, dict) else {}
        kinds = [tool.get("type") for tool in fields.get("tools") or () if isinstance(tool, dict)]
        if fields.get("background"):
            text = "Unsupported parameter: 'background' is not supported on this endpoint."
            raise _refused(request, emulator, Refusal("AWS-06", text, param="background"))
        if any(kind not in ("function", "custom") for kind in kinds):
            text = "Server-side tools are not supported on this endpoint."
            raise _refused(request, emulator, Refusal("AWS-06", text, param="tools"))
        return handler(request, emulator)

    return asked


def _refused(request: Request, emulator: Emulator, refusal: Refusal) -> RefusedError:
    return RefusedError(refusal, emulator.context(request, provider="openai"))


ROUTES: list[Route] = [
    ("POST", "/openai/v1/chat/completions", at_aws(named(chat.chat_completions, is_open))),
    (
        "POST",
        "/openai/v1/responses",
        at_aws(at_runtime(named(responses.create, lambda model: not is_open(model)))),
    ),
]

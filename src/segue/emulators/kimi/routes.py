"""`/v1/chat/completions`, `/v1/models` and the token estimate of Moonshot."""

from __future__ import annotations

from typing import TYPE_CHECKING

from segue.emulators.http import Request, Response, Route, json_response, reply_response
from segue.emulators.kimi import checks, replies
from segue.emulators.kimi.replies import ERRORS
from segue.emulators.model.model_facts import facts_for, listed
from segue.emulators.openai_chat.prompt import prompt_of, segments_of
from segue.emulators.request_checks import admitted, permitted
from segue.emulators.rules import rule

if TYPE_CHECKING:
    from segue.emulators.emulator import Emulator

CREATED = 1_770_933_892


def chat_completions(request: Request, emulator: Emulator) -> Response:
    body, context = admitted(request, emulator, ERRORS, checks.complaints, segments_of)
    thinking = checks.is_thinking(body, context)
    reply = emulator.reply(prompt_of(body, provider="kimi", thinking=thinking))
    return reply_response(reply, body, context, ERRORS, whole=replies.whole, stream=replies.stream)


def list_models(request: Request, emulator: Emulator) -> Response:
    context = permitted(request, emulator, ERRORS)
    data = [
        {
            "id": name,
            "object": "model",
            "created": CREATED,
            "owned_by": "moonshot",
            "context_length": facts_for("kimi", name).get("context"),
            "supports_image_in": bool(facts_for("kimi", name).get("vision")),
            "supports_reasoning": facts_for("kimi", name).get("thinking") != "never",
        }
        for name in listed("kimi")
    ]
    return json_response({"object": "list", "data": data}, headers=ERRORS.headers(None, context))


@rule("KIM-22", "L")
def estimate_tokens(request: Request, emulator: Emulator) -> Response:
    body, context = admitted(request, emulator, ERRORS, lambda body, _: checks.wrong_shape(body), segments_of)
    total = checks.prompt_tokens(body)
    return json_response({"data": {"total_tokens": total}}, headers=ERRORS.headers(None, context))


ROUTES: list[Route] = [
    ("POST", "/v1/chat/completions", chat_completions),
    ("GET", "/v1/models", list_models),
    ("POST", "/v1/tokenizers/estimate-token-count", estimate_tokens),
    # The coding plan lives at another address with a longer path.
    ("POST", "/coding/v1/chat/completions", chat_completions),
    ("GET", "/coding/v1/models", list_models),
]

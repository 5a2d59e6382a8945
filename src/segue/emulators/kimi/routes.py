"""`/v1/chat/completions`, `/v1/models` and the token estimate of Moonshot."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from segue.emulators.admission import Complaints, admitted
from segue.emulators.http import Request, Response, Route, json_response, stream_response
from segue.emulators.kimi import checks, errors, replies
from segue.emulators.model_facts import facts_for, listed
from segue.emulators.openai_chat.prompt import prompt_of, segments_of
from segue.emulators.rules import Context, rule

if TYPE_CHECKING:
    from segue.emulators.emulator import Emulator

CREATED = 1_770_933_892


def _accepted(
    request: Request, emulator: Emulator, complaints: Complaints
) -> tuple[dict[str, Any], Context] | Response:
    return admitted(request, emulator, "kimi", errors, complaints, lambda body, _: segments_of(body))


def chat_completions(request: Request, emulator: Emulator) -> Response:
    accepted = _accepted(request, emulator, checks.complaints)
    if isinstance(accepted, Response):
        return accepted
    body, context = accepted
    thinking = checks.is_thinking(body, context)
    reply = emulator.reply(prompt_of(body, provider="kimi", thinking=thinking))
    headers = errors.headers(None, context)
    if body.get("stream") is True:
        return stream_response(replies.stream(reply, body, context), headers=headers, delay=reply.delay)
    return json_response(replies.whole(reply, body, context), headers=headers)


def list_models(request: Request, emulator: Emulator) -> Response:
    context = emulator.context(request, provider="kimi")
    refusal = errors.credentials(request, emulator)
    if refusal is not None:
        return errors.refuse(refusal, context)
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
    return json_response({"object": "list", "data": data}, headers=errors.headers(None, context))


@rule("KIM-22", "L")
def estimate_tokens(request: Request, emulator: Emulator) -> Response:
    accepted = _accepted(request, emulator, lambda body, _: checks.wrong_shape(body))
    if isinstance(accepted, Response):
        return accepted
    body, context = accepted
    total = checks.prompt_tokens(body)
    return json_response({"data": {"total_tokens": total}}, headers=errors.headers(None, context))


ROUTES: list[Route] = [
    ("POST", "/v1/chat/completions", chat_completions),
    ("GET", "/v1/models", list_models),
    ("POST", "/v1/tokenizers/estimate-token-count", estimate_tokens),
    # The coding plan lives at another address with a longer path.
    ("POST", "/coding/v1/chat/completions", chat_completions),
    ("GET", "/coding/v1/models", list_models),
]

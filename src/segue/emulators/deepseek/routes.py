"""`/chat/completions` and `/models` of DeepSeek, with the prefixes that its documentation offers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from segue.emulators.deepseek import checks, replies
from segue.emulators.deepseek.replies import ERRORS
from segue.emulators.http import Request, Response, Route, json_response, reply_response
from segue.emulators.model.model_facts import listed
from segue.emulators.openai_chat.prompt import prompt_of, segments_of
from segue.emulators.request_checks import admitted, permitted

if TYPE_CHECKING:
    from segue.emulators.emulator import Emulator


def chat_completions(request: Request, emulator: Emulator) -> Response:
    body, context = admitted(request, emulator, ERRORS, checks.complaints, segments_of)
    thinking = checks.is_thinking(body, context)
    reply = emulator.reply(prompt_of(body, provider="deepseek", thinking=thinking))
    return reply_response(reply, body, context, ERRORS, whole=replies.whole, stream=replies.stream)


def list_models(request: Request, emulator: Emulator) -> Response:
    context = permitted(request, emulator, ERRORS)
    data = [{"id": name, "object": "model", "owned_by": "deepseek"} for name in listed("deepseek")]
    return json_response({"object": "list", "data": data}, headers=ERRORS.headers(None, context))


ROUTES: list[Route] = [
    *[("POST", f"{prefix}/chat/completions", chat_completions) for prefix in ("", "/v1", "/beta")],
    *[("GET", f"{prefix}/models", list_models) for prefix in ("", "/v1", "/beta")],
]

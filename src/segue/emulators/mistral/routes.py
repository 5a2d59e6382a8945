"""`/v1/chat/completions`, `/v1/models` and `/v1/embeddings` of Mistral."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from segue.emulators.http import Request, Response, Route, json_response, reply_response
from segue.emulators.mistral import checks, replies
from segue.emulators.mistral.errors import ERRORS
from segue.emulators.model import model_facts
from segue.emulators.model.model_facts import facts_for, listed
from segue.emulators.openai_chat.embeddings import embedding
from segue.emulators.openai_chat.prompt import prompt_of, segments_of
from segue.emulators.request_checks import admitted, permitted
from segue.emulators.rules import Context, rule

if TYPE_CHECKING:
    from segue.emulators.emulator import Emulator
    from segue.emulators.model.model_reply import Prompt

CREATED = 1_770_933_892


def chat_completions(request: Request, emulator: Emulator) -> Response:
    body, context = admitted(request, emulator, ERRORS, checks.complaints, segments_of)
    reply = emulator.reply(_prompt(body, context))
    return reply_response(reply, body, context, ERRORS, whole=replies.whole, stream=replies.stream)


def _prompt(body: dict[str, Any], context: Context) -> Prompt:
    # "any" is this API's older word for "required"; tools may leave out their only possible type.
    choice = "required" if body.get("tool_choice") == "any" else body.get("tool_choice")
    tools = [{"type": "function", **tool} for tool in body.get("tools") or ()]
    thinking = replies.is_thinking(body, context)
    return prompt_of({**body, "tools": tools, "tool_choice": choice}, provider="mistral", thinking=thinking)


@rule("MIS-18")
def _model(name: str) -> dict[str, Any]:
    facts = facts_for("mistral", name)
    chats = "embedding" not in facts
    return {
        "id": name,
        "object": "model",
        "created": CREATED,
        "owned_by": "mistralai",
        "capabilities": {
            "completion_chat": chats,
            "function_calling": chats,
            "reasoning": bool(facts.get("thinking")),
            "completion_fim": False,
            "fine_tuning": False,
            "vision": bool(facts.get("vision")),
            "ocr": False,
            "classification": False,
            "moderation": False,
            "audio": False,
        },
        "name": name,
        "description": None,
        "max_context_length": facts.get("context", 32_768),
        "aliases": [],
        "deprecation": None,
        "default_model_temperature": 0.3,
        "type": "base",
    }


def list_models(request: Request, emulator: Emulator) -> Response:
    permitted(request, emulator, ERRORS)
    return json_response({"object": "list", "data": [_model(name) for name in listed("mistral")]})


def show_model(request: Request, emulator: Emulator) -> Response:
    context = permitted(request, emulator, ERRORS)
    return json_response(_model(context.model), headers=ERRORS.headers(None, context))


def embeddings(request: Request, emulator: Emulator) -> Response:
    body, context = admitted(request, emulator, ERRORS, checks.embedding_complaints)
    inputs = [body["input"]] if isinstance(body["input"], str) else body["input"]
    size = body.get("output_dimension") or context.facts.get("embedding", 1024)
    counted = sum(map(model_facts.count_tokens, inputs))
    data = [
        {"object": "embedding", "embedding": embedding(text, size).tolist(), "index": index}
        for index, text in enumerate(inputs)
    ]
    return json_response(
        {
            "id": context.reply_id,
            "object": "list",
            "data": data,
            "model": context.model,
            "usage": {"prompt_tokens": counted, "total_tokens": counted, "completion_tokens": 0},
        },
        headers=ERRORS.headers(None, context),
    )


ROUTES: list[Route] = [
    ("POST", "/v1/chat/completions", chat_completions),
    ("GET", "/v1/models", list_models),
    ("GET", "/v1/models/{model:path}", show_model),
    ("POST", "/v1/embeddings", embeddings),
]

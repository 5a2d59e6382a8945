"""Bedrock's mantle: Messages, Chat and Responses, with ids that name no region.

`/anthropic/v1/messages`, `/v1/…` for open models and `/openai/v1/…` for the others of OpenAI (AWS-05, AWS-06).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from segue.emulators.anthropic import routes as messages
from segue.emulators.anthropic.errors import ERRORS
from segue.emulators.clouds.bedrock_anthropic import at_aws, claude
from segue.emulators.clouds.bedrock_invoke import bare_claude
from segue.emulators.clouds.bedrock_openai import is_open, named
from segue.emulators.http import Handler, Request, Response, Route, json_response
from segue.emulators.model.model_facts import facts_for, listed
from segue.emulators.openai_chat import routes as chat
from segue.emulators.openai_responses import routes as responses

if TYPE_CHECKING:
    from segue.emulators.emulator import Emulator

__all__ = ["ERRORS", "ROUTES"]


SERVICE = "bedrock-mantle"


def _admitted(handler: Handler) -> Handler:
    return at_aws(handler, SERVICE)


def list_models(request: Request, emulator: Emulator) -> Response:
    del request, emulator
    claudes = [name for name in listed("bedrock") if facts_for("bedrock", name).get("messages")]
    names = [f"anthropic.{bare_claude(name)}" for name in claudes] + ["openai.gpt-oss-120b", "openai.gpt-5.5"]
    models = [{"id": name, "object": "model", "created": 0, "owned_by": "system"} for name in names]
    return json_response({"object": "list", "data": models})


ROUTES: list[Route] = [
    ("POST", "/anthropic/v1/messages", _admitted(claude(messages.messages, profiles=False))),
    (
        "POST",
        "/anthropic/v1/messages/count_tokens",
        _admitted(claude(messages.count_tokens, profiles=False)),
    ),
    ("POST", "/v1/chat/completions", _admitted(named(chat.chat_completions, is_open))),
    ("POST", "/v1/responses", _admitted(named(responses.create, is_open))),
    (
        "POST",
        "/openai/v1/responses",
        _admitted(named(responses.create, lambda model: not is_open(model))),
    ),
    ("GET", "/v1/models", _admitted(list_models)),
]

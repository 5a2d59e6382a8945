"""`/model/{id}/converse`, `/converse-stream` and `/count-tokens`, and the list of models."""

from __future__ import annotations

from base64 import b64decode
from binascii import Error as NotBase64Error
from typing import TYPE_CHECKING, Any

import msgspec

from segue.emulators.anthropic.prompt import segments as message_segments
from segue.emulators.converse import checks, replies
from segue.emulators.converse.callers import unknown_caller
from segue.emulators.converse.prompt import cached_segments, prompt, segments
from segue.emulators.converse.replies import ERRORS
from segue.emulators.http import BadJsonError, Request, Response, Route, json_response, stream_response
from segue.emulators.model.model_facts import facts_for, listed
from segue.emulators.model.prompt_cache import size
from segue.emulators.rules import Context, Refusal, RefusedError, enforce, rule

if TYPE_CHECKING:
    from segue.emulators.emulator import Emulator
    from segue.emulators.request_checks import Check

PROVIDER = "bedrock"
EVENT_STREAM = "application/vnd.amazon.eventstream"


def converse(request: Request, emulator: Emulator) -> Response:
    body, context = _admitted(request, emulator, checks.complaints)
    reply = emulator.reply(prompt(body, context))
    answer = json_response(replies.whole(reply, body, context), headers=ERRORS.headers(None, context))
    emulator.remember(PROVIDER, context, cached_segments(body))
    return answer


@rule("BDR-10")
def converse_stream(request: Request, emulator: Emulator) -> Response:
    body, context = _admitted(request, emulator, checks.complaints)
    reply = emulator.reply(prompt(body, context))
    emulator.remember(PROVIDER, context, cached_segments(body))
    headers = ERRORS.headers(None, context)
    if context.sends_whole:
        return json_response(replies.whole(reply, body, context), headers=headers)
    frames = replies.stream(reply, body, context)
    return stream_response(frames, content_type=EVENT_STREAM, headers=headers, delay=reply.delay)


@rule("AWS-09")
def count_tokens(request: Request, emulator: Emulator) -> Response:
    body, context = _admitted(request, emulator, checks.count_complaints)
    invoked = body["input"].get("invokeModel")
    if invoked is not None:
        return json_response({"inputTokens": counted_tokens(invoked["body"], context)})
    counted = body["input"].get("converse", {})
    return json_response({"inputTokens": size(segments(counted))}, headers=ERRORS.headers(None, context))


@rule("AWS-09")
def counted_tokens(encoded: str, context: Context) -> int:
    """Of a request for InvokeModel, which must be whole."""
    try:
        body = msgspec.json.decode(b64decode(encoded, validate=True))
    except (NotBase64Error, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RefusedError(ERRORS.not_json(b"", str(error)), context) from error
    for name in ("anthropic_version", "max_tokens", "messages"):
        if not isinstance(body, dict) or name not in body:
            raise RefusedError(Refusal("AWS-09", f"{name}: Field required"), context)
    return size(message_segments(body))


def _admitted(request: Request, emulator: Emulator, complaints: Check) -> tuple[dict[str, Any], Context]:
    model = request.params["model"]
    context = emulator.context(request, provider=PROVIDER, model=model)
    enforce(unknown_caller(request, emulator), context)
    try:
        body = request.json()
    except BadJsonError as error:
        raise RefusedError(ERRORS.not_json(request.body, str(error)), context) from error
    prefix = cached_segments(body) if isinstance(body, dict) else []
    context = emulator.context(request, provider=PROVIDER, model=model, segments=prefix)
    enforce(complaints(body, context), context)
    return body, context


def list_models(request: Request, emulator: Emulator) -> Response:
    context = emulator.context(request, provider=PROVIDER)
    enforce(unknown_caller(request, emulator), context)
    models = [
        {
            "modelId": name,
            "modelName": name,
            "outputModalities": ["EMBEDDING" if facts_for(PROVIDER, name).get("embedding") else "TEXT"],
            "responseStreamingSupported": not facts_for(PROVIDER, name).get("embedding"),
        }
        for name in listed(PROVIDER)
        if not facts_for(PROVIDER, name).get("profile")
    ]
    return json_response({"modelSummaries": models}, headers=ERRORS.headers(None, context))


def list_profiles(request: Request, emulator: Emulator) -> Response:
    """Inference profiles: the ids that begin with a region."""
    context = emulator.context(request, provider=PROVIDER)
    enforce(unknown_caller(request, emulator), context)
    profiles = [
        {"inferenceProfileId": name, "inferenceProfileName": name, "status": "ACTIVE"}
        for name in listed(PROVIDER)
        if facts_for(PROVIDER, name).get("profile")
    ]
    return json_response({"inferenceProfileSummaries": profiles}, headers=ERRORS.headers(None, context))


ROUTES: list[Route] = [
    ("POST", "/model/{model:path}/converse", converse),
    ("POST", "/model/{model:path}/converse-stream", converse_stream),
    ("POST", "/model/{model:path}/count-tokens", count_tokens),
    ("GET", "/foundation-models", list_models),
    ("GET", "/inference-profiles", list_profiles),
]

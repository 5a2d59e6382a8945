"""Bedrock's InvokeModel: Messages for Claude in an envelope of its own, and vectors in the form of their makers.

`/model/{id}/invoke` and `/model/{id}/invoke-with-response-stream` (AWS-04).
"""

from __future__ import annotations

from base64 import b64encode
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import structs

from segue.emulators.anthropic import routes
from segue.emulators.converse import replies
from segue.emulators.converse.callers import unknown_caller, with_key
from segue.emulators.converse.checks import unknown_model
from segue.emulators.converse.replies import ERRORS, event
from segue.emulators.converse.routes import EVENT_STREAM
from segue.emulators.http import BadJsonError, Request, Response, Route, json_response
from segue.emulators.model import model_facts
from segue.emulators.openai_chat.embeddings import embedding
from segue.emulators.rules import Context, Refusal, RefusedError, enforce, rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from segue.emulators.emulator import Emulator

__all__ = ["ERRORS", "ROUTES", "bare_claude"]

VERSION, NEW_VERSION = "bedrock-2023-05-31", "2026-10-21"
COHERE_TEXTS = 96


def invoke(request: Request, emulator: Emulator) -> Response:
    body, context = _opened(request, emulator)
    if context.facts.get("embedding"):
        return json_response(_vectors(body, context), headers=ERRORS.headers(None, context))
    return routes.messages(_as_messages(request, body, context, emulator, stream=False), emulator)


@rule("AWS-04")
def invoke_streamed(request: Request, emulator: Emulator) -> Response:
    """Each event of the stream is base64 in a frame of its own."""
    body, context = _opened(request, emulator)
    if context.facts.get("embedding"):
        raise _refused(context, "AWS-04", "The model is unsupported for streaming.")
    answer = routes.messages(_as_messages(request, body, context, emulator, stream=True), emulator)
    if isinstance(answer.body, bytes):
        return answer
    headers = {**answer.headers, "content-type": EVENT_STREAM}
    return structs.replace(answer, headers=headers, body=_framed(answer.body))


def _framed(events: Iterator[bytes]) -> Iterator[bytes]:
    for portion in events:
        for frame in portion.split(b"\n\n"):
            data = frame.partition(b"data: ")[2]
            if data:
                yield event("chunk", msgspec.json.encode({"bytes": b64encode(data).decode(), "p": "abcd"}))


def _opened(request: Request, emulator: Emulator) -> tuple[dict[str, Any], Context]:
    context = emulator.context(request, provider="bedrock", model=request.params["model"])
    enforce(unknown_caller(request, emulator), context)
    enforce(unknown_model(context), context)
    try:
        body = request.json()
    except BadJsonError as error:
        raise RefusedError(ERRORS.not_json(request.body, str(error)), context) from error
    if not isinstance(body, dict):
        raise _refused(context, "AWS-04", "Malformed input request: expected type: JSONObject")
    return body, context


@rule("AWS-03")
@rule("AWS-04")
def _as_messages(
    request: Request, body: dict[str, Any], context: Context, emulator: Emulator, *, stream: bool
) -> Request:
    """The same as Anthropic's own API gets it, if the envelope is right."""
    if not bare_claude(context.model):
        raise _refused(context, "AWS-04", "Malformed input request: #: required key [inputText] not found")
    versions = (VERSION, NEW_VERSION) if context.facts.get("messages") else (VERSION,)
    if "anthropic_version" not in body:
        raise _refused(context, "AWS-03", "anthropic_version: Field required")
    if body["anthropic_version"] not in versions:
        raise _refused(context, "AWS-03", f"anthropic_version: Input should be '{VERSION}'")
    for name in ("model", "stream"):
        if name in body:
            raise _refused(context, "AWS-04", f"{name}: Extra inputs are not permitted")
    betas = body.get("anthropic_beta", [])
    if not isinstance(betas, list) or not all(isinstance(beta, str) for beta in betas):
        raise _refused(context, "AWS-04", "anthropic_beta: Input should be a valid list")
    for name in (*betas, *body):
        if name in emulator.withheld:
            raise _refused(context, "AWS-08", _withheld(name, betas))
    inner = {
        name: value for name, value in body.items() if name not in ("anthropic_version", "anthropic_beta")
    }
    asked = {"model": bare_claude(context.model), "stream": stream, **inner}
    headers = {name: value for name, value in request.headers.items() if name != "anthropic-beta"}
    headers |= {"anthropic-version": "2023-06-01", **({"anthropic-beta": ",".join(betas)} if betas else {})}
    opened = structs.replace(request, headers=headers, body=msgspec.json.encode(asked), params={})
    return with_key(opened, emulator)


@rule("AWS-08", "M")
def _withheld(name: str, betas: list[str]) -> str:
    if name in betas:
        return f"Unexpected value(s) `{name}` for the `anthropic-beta` header."
    return f"{name}: Extra inputs are not permitted"


def bare_claude(model: str) -> str:
    """Anthropic's own name of a model of Bedrock; empty if it is not Anthropic's."""
    name = model.rpartition("/")[2].rpartition("anthropic.")[2] if "anthropic." in model else ""
    return name.partition("-v1:")[0].removesuffix("-v1")


def _vectors(body: dict[str, Any], context: Context) -> dict[str, Any]:
    most = context.facts["embedding"]
    if "cohere." in context.model:
        texts = body.get("texts")
        if not isinstance(texts, list) or not 0 < len(texts) <= COHERE_TEXTS or "input_type" not in body:
            raise _refused(
                context, "AWS-04", "Malformed input request: #: required key [input_type] not found"
            )
        size = int(body.get("output_dimension") or most)
        vectors = [embedding(text, min(size, most)).tolist() for text in texts]
        return {"embeddings": {"float": vectors}, "response_type": "embeddings_by_type"}
    strange = body.keys() - {"inputText", "dimensions", "normalize", "embeddingTypes"}
    if strange or not isinstance(body.get("inputText"), str):
        text = f"extraneous key [{min(strange)}]" if strange else "required key [inputText] not found"
        raise _refused(context, "AWS-04", f"Malformed input request: #: {text}")
    size = int(body.get("dimensions") or most)
    text = body["inputText"]
    return {
        "embedding": embedding(text, min(size, most)).tolist(),
        "inputTextTokenCount": model_facts.count_tokens(text),
    }


def _refused(context: Context, rule_id: str, message: str) -> RefusedError:
    return RefusedError(Refusal(rule_id, message, type=replies.VALIDATION), context)


ROUTES: list[Route] = [
    ("POST", "/model/{model:path}/invoke", invoke),
    ("POST", "/model/{model:path}/invoke-with-response-stream", invoke_streamed),
]

"""The OpenAI-like half of an Ollama server (OLL-30 … OLL-37): requests are checked, then translated to native ones,
and answers back.

Its errors stand in OpenAI's envelope around the native words; in a stream an error is lost.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import structs

from segue.emulators.http import ErrorWords, Request, Response, Route, json_response, sse, stream_response
from segue.emulators.model import model_facts
from segue.emulators.model.model_reply import Reply, calls_of, portions, text_of, thoughts_of
from segue.emulators.ollama import checks, embeddings, gojson, models, replies
from segue.emulators.ollama.checks import TOOLS, is_thinking
from segue.emulators.ollama.errors import fault, headers, not_json
from segue.emulators.ollama.models import Installed, store_of
from segue.emulators.ollama.replies import prompt_of
from segue.emulators.openai_chat.embeddings import listed
from segue.emulators.openai_chat.prompt import schema_in
from segue.emulators.openai_chat.replies import DONE, wants_usage
from segue.emulators.rules import Complaints, Context, Refusal, RefusedError, rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from segue.emulators.emulator import Emulator


_TYPES = {400: "invalid_request_error", 404: "not_found_error"}


def envelope(refusal: Refusal, context: Context) -> dict[str, Any]:  # noqa: ARG001 — one signature for all providers
    kind = _TYPES.get(refusal.status, "api_error")
    return {"error": {"message": refusal.message, "type": kind, "param": None, "code": None}}


@rule("OLL-37", "M")
def stream_error(refusal: Refusal, context: Context) -> bytes:  # noqa: ARG001 — one signature for all providers
    """The native error line is read as an empty answer: one empty chunk, then the end without [DONE]."""
    choice = {"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}
    chunk = {
        "id": "chatcmpl-0",
        "object": "chat.completion.chunk",
        "created": context.now,
        "model": context.model,
        "system_fingerprint": "fp_ollama",
        "choices": [choice],
    }
    return sse(chunk)


ERRORS = ErrorWords(
    provider="ollama",
    envelope=envelope,
    headers=headers,
    fault=fault,
    not_json=not_json,
    stream_error=stream_error,
)


EFFORTS = ("minimal", "low", "medium", "high", "xhigh", "ultra", "max", "none")
_IMAGE = re.compile(r"data:image/(jpeg|jpg|png|webp);base64,")


def complaints(body: object, context: Context) -> Complaints:
    misread = list(unreadable(body))
    yield from misread
    if misread or not isinstance(body, Mapping):
        return
    wrong = [*no_messages(body), *wrong_messages(body), *wrong_effort(body)]
    yield from wrong
    if not wrong:
        native = translated(body)
        yield from checks.ability_complaints(native, context)
        yield from checks.rendered(native, context)


@rule("OLL-35")
def unreadable(body: object) -> Complaints:
    """Types of the fields that are read; all others are silently ignored, tool_choice among them."""
    if body is None:
        yield Refusal("OLL-11", "missing request body")
    function = gojson.struct({"name": gojson.STRING, "arguments": gojson.STRING}, "openai.ToolCallFunction")
    call = gojson.struct({"id": gojson.STRING, "function": function}, "openai.ToolCall")
    message = gojson.struct(
        {
            "role": gojson.STRING,
            "reasoning": gojson.STRING,
            "name": gojson.STRING,
            "tool_call_id": gojson.STRING,
            "tool_calls": gojson.listing(call, "[]openai.ToolCall"),
        },
        "openai.Message",
    )
    fields = {
        "model": gojson.STRING,
        "messages": gojson.listing(message, "[]openai.Message"),
        "stream": gojson.BOOL,
        "stream_options": gojson.plain("object", "openai.StreamOptions"),
        "max_tokens": gojson.integer,
        "seed": gojson.integer,
        "temperature": gojson.FLOAT,
        "top_p": gojson.FLOAT,
        "frequency_penalty": gojson.FLOAT,
        "presence_penalty": gojson.FLOAT,
        "response_format": gojson.plain("object", "openai.ResponseFormat"),
        "tools": TOOLS,
        "reasoning": gojson.struct({"effort": gojson.STRING}, "openai.Reasoning"),
        "reasoning_effort": gojson.STRING,
    }
    for sentence in gojson.decode(body, "ChatCompletionRequest", "openai.ChatCompletionRequest", fields):
        yield Refusal("OLL-35", sentence)


@rule("OLL-35")
def no_messages(body: Mapping[str, Any]) -> Complaints:
    if not body.get("messages"):
        yield Refusal("OLL-35", "[] is too short - 'messages'")


def wrong_messages(body: Mapping[str, Any]) -> Complaints:
    for message in body.get("messages") or ():
        content = (message or {}).get("content")
        if isinstance(content, list):
            for part in content:
                yield from wrong_part(part)
        elif not isinstance(content, str):
            yield from wrong_content(message or {})
        yield from wrong_arguments(message or {})


@rule("OLL-31")
def wrong_content(message: Mapping[str, Any]) -> Complaints:
    """No content at all is fine as long as there is a field for calls."""
    content = message.get("content")
    if content is None and message.get("tool_calls") is not None:
        return
    names = {"number": "float64", "bool": "bool", "object": "map[string]interface {}"}
    shown = "<nil>" if content is None else names[gojson.kind(content)]
    yield Refusal("OLL-31", f"invalid message content type: {shown}")


@rule("OLL-32")
def wrong_part(part: object) -> Complaints:
    match part:
        case {"type": "text", "text": str()}:
            return
        case {"type": "image_url", "image_url": {"url": str(url)} | str(url)}:
            yield from wrong_image(url)
        case {"type": "input_audio", "input_audio": {"data": str()}}:
            return
        case _:
            yield Refusal("OLL-32", "invalid message format")


@rule("OLL-33")
def wrong_image(url: str) -> Complaints:
    if url.startswith(("http://", "https://")):
        yield Refusal(
            "OLL-33", "image URLs are not currently supported, please use base64 encoded data instead"
        )
        return
    match = _IMAGE.match(url)
    if match is None or next(gojson.base64(url[match.end() :], ""), None) is not None:
        yield Refusal("OLL-33", "invalid image input")


@rule("OLL-30")
def wrong_arguments(message: Mapping[str, Any]) -> Complaints:
    for call in message.get("tool_calls") or ():
        if _parsed(((call or {}).get("function") or {}).get("arguments")) is None:
            yield Refusal("OLL-30", "invalid tool call arguments")


def _parsed(arguments: object) -> dict[str, Any] | None:
    try:
        return msgspec.json.decode(str(arguments or ""), type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError):
        return None


@rule("OLL-35")
def wrong_effort(body: Mapping[str, Any]) -> Complaints:
    effort = effort_of(body)
    if effort and effort not in EFFORTS:
        listed = ", ".join(f'"{name}"' for name in EFFORTS[:-1])
        yield Refusal("OLL-35", f'invalid reasoning value: "{effort}" (must be {listed}, or "{EFFORTS[-1]}")')


def effort_of(body: Mapping[str, Any]) -> str | None:
    reasoning = body.get("reasoning")
    effort = reasoning.get("effort") if isinstance(reasoning, Mapping) else None
    return effort or body.get("reasoning_effort")


def translated(body: Mapping[str, Any]) -> dict[str, Any]:
    """The native request that this one becomes."""
    effort = effort_of(body)
    native: dict[str, Any] = {
        "model": body.get("model"),
        "messages": [one for message in body["messages"] for one in _messages(message or {}, body)],
        "tools": body.get("tools"),
        "stream": body.get("stream"),
        "options": {"num_predict": body.get("max_tokens")},
    }
    if effort:
        native["think"] = False if effort == "none" else effort
    return native


def _messages(message: Mapping[str, Any], body: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """OLL-32: every part becomes a message of its own, which loses the name and id of a result."""
    role, content = message.get("role"), message.get("content")
    if isinstance(content, list):
        for part in content:
            image = {"images": ["…"]} if part.get("type") == "image_url" else {}
            yield {"role": role, "content": part.get("text", ""), **image}
        return
    native: dict[str, Any] = {"role": role, "content": content or ""}
    if message.get("reasoning"):
        native["thinking"] = message["reasoning"]
    if message.get("tool_calls"):
        native["tool_calls"] = [
            {
                "id": call.get("id", ""),
                "function": {
                    "name": call["function"].get("name"),
                    "arguments": _parsed(call["function"]["arguments"]),
                },
            }
            for call in message["tool_calls"]
        ]
    if role == "tool":
        native["tool_call_id"] = message.get("tool_call_id")
        native["tool_name"] = tool_name(message, body)
    yield native


@rule("OLL-34")
def tool_name(message: Mapping[str, Any], body: Mapping[str, Any]) -> str:
    """The name given, or that of the last call with the same id."""
    if message.get("name"):
        return str(message["name"])
    calls = [call for one in body["messages"] for call in (one or {}).get("tool_calls") or ()]
    names = [call["function"].get("name") for call in calls if call.get("id") == message.get("tool_call_id")]
    return str(names[-1]) if names else ""


def whole(reply: Reply, request: Mapping[str, Any], context: Context) -> dict[str, Any]:
    native = translated(request)
    reply = replies.shortened(reply, native)
    message: dict[str, Any] = {"role": "assistant", "content": text_of(reply)}
    if is_thinking(native, context) and thoughts_of(reply):
        message["reasoning"] = thoughts_of(reply)
    if calls_of(reply):
        message["tool_calls"] = _calls(reply, context)
    return {
        **_frame(context, "chat.completion"),
        "choices": [{"index": 0, "message": message, "finish_reason": finish_reason(reply)}],
        "usage": usage(reply, native, context),
    }


@rule("OLL-36")
def stream(reply: Reply, request: Mapping[str, Any], context: Context) -> Iterator[bytes]:
    native = translated(request)
    reply = replies.shortened(reply, native)
    opening = {"role": "assistant"}
    for delta in _deltas(reply, native, context):
        yield _chunk(context, [_choice({**opening, **delta})])
        opening = {}
    yield _chunk(context, [_choice({}, finish_reason(reply))])
    if wants_usage(request):
        yield _chunk(context, [], usage(reply, native, context))
    yield DONE


def _deltas(reply: Reply, native: Mapping[str, Any], context: Context) -> Iterator[dict[str, Any]]:
    for portion in portions(thoughts_of(reply), reply.chunk_size) if is_thinking(native, context) else ():
        yield {"content": "", "reasoning": portion}
    for portion in portions(text_of(reply), reply.chunk_size) if reply.pieces else ("",):
        yield {"content": portion}
    for call in _calls(reply, context):
        yield {"content": "", "tool_calls": [call]}


def _calls(reply: Reply, context: Context) -> list[dict[str, Any]]:
    """The native calls with their arguments as JSON text."""
    return [
        {
            "id": call["id"],
            "index": index,
            "type": "function",
            "function": {
                "name": call["function"]["name"],
                "arguments": msgspec.json.encode(call["function"]["arguments"]).decode(),
            },
        }
        for index, call in enumerate(replies.calls(reply, context))
    ]


def finish_reason(reply: Reply) -> str:
    if reply.finish == "length":
        return "length"
    return "tool_calls" if calls_of(reply) else "stop"


def usage(reply: Reply, native: Mapping[str, Any], context: Context) -> dict[str, int]:
    prompt, answer = replies.usage(reply, native, context)
    return {"prompt_tokens": prompt, "completion_tokens": answer, "total_tokens": prompt + answer}


def _frame(context: Context, kind: str) -> dict[str, Any]:
    return {
        "id": f"chatcmpl-{int(context.reply_id or '0', 16) % 1000}",
        "object": kind,
        "created": context.now,
        "model": context.model,
        "system_fingerprint": "fp_ollama",
    }


def _choice(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    return {"index": 0, "delta": delta, "finish_reason": finish}


def _chunk(context: Context, choices: list[dict[str, Any]], counted: dict[str, int] | None = None) -> bytes:
    chunk: dict[str, Any] = {**_frame(context, "chat.completion.chunk"), "choices": choices}
    if counted is not None:
        chunk["usage"] = counted
    return sse(chunk)


def chat_completions(request: Request, emulator: Emulator) -> Response:
    body, context = models.accepted(request, emulator, complaints, ERRORS)
    native = translated(body)
    models.load(emulator, native, context)
    prompt = structs.replace(prompt_of(native, context), schema=schema_in(body.get("response_format")))
    reply = emulator.reply(prompt)
    if body.get("stream") is True and not context.sends_whole:
        chunks = stream(reply, body, context)
        return stream_response(chunks, content_type="text/event-stream", delay=reply.delay)
    return json_response(whole(reply, body, context))


def _listed(model: Installed) -> dict[str, Any]:
    return {"id": model.name, "object": "model", "created": model.since, "owned_by": "library"}


def list_models(request: Request, emulator: Emulator) -> Response:  # noqa: ARG001 — a handler
    models = store_of(emulator)
    return json_response({"object": "list", "data": [_listed(model) for model in models]})


def show_model(request: Request, emulator: Emulator) -> Response:
    model = store_of(emulator).find(request.params["model"])
    if model is None:
        refusal = models.not_found(request.params["model"])
        raise RefusedError(refusal, emulator.context(request, provider="ollama"))
    return json_response(_listed(model))


def embed(request: Request, emulator: Emulator) -> Response:
    body, context = models.accepted(request, emulator, embeddings.complaints, ERRORS)
    texts = embeddings.texts_of(body)
    if not texts:
        raise RefusedError(Refusal("OLL-40", "invalid input"), context)
    vectors = [embeddings.vector(text, body, context) for text in texts]
    return json_response(listed(vectors, body, context, tokens=sum(map(model_facts.count_tokens, texts))))


ROUTES: list[Route] = [
    ("POST", "/v1/chat/completions", chat_completions),
    ("GET", "/v1/models", list_models),
    ("GET", "/v1/models/{model:path}", show_model),
    ("POST", "/v1/embeddings", embed),
]

"""A responder's reply as DeepSeek writes it: reasoning beside the text, usage in the last chunk, cache hits and
misses. Errors are OpenAI's envelope with one code for everything, and plain text from its older parser."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from segue.emulators.deepseek.checks import is_thinking
from segue.emulators.http import ErrorWords, retry_after, sse
from segue.emulators.model import model_facts
from segue.emulators.model.model_reply import (
    Reply,
    calls_of,
    limited,
    piece_tokens,
    portions,
    text_of,
    thoughts_of,
)
from segue.emulators.openai_chat.checks import prompt_tokens
from segue.emulators.openai_chat.replies import DONE, call_deltas, called
from segue.emulators.rules import Context, Refusal, rule

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from segue.emulators.faults import Fault
    from segue.emulators.rules import Context


CODE = "invalid_request_error"


def envelope(refusal: Refusal, context: Context) -> dict[str, Any]:  # noqa: ARG001 — one signature for all providers
    return {
        "error": {
            "message": refusal.message,
            "type": refusal.type,
            "param": None,
            "code": refusal.code or CODE,
        }
    }


def headers(refusal: Refusal | None, context: Context) -> dict[str, str]:
    return {"x-ds-trace-id": context.reply_id, **retry_after(refusal)}


@rule("DSK-00")
def fault(fault: Fault, context: Context) -> Refusal:  # noqa: ARG001 — one signature for all providers
    match fault.status:
        case 429:
            return Refusal("DSK-00", "Rate limit reached", type="rate_limit_error")
        case 401:
            return Refusal("DSK-00", _invalid("sk-emulated-key"), type="authentication_error")
        case 402:
            return Refusal("DSK-00", "Insufficient Balance", type="unknown_error")
        case 503:
            text = "Service is too busy. Please try again later."
            return Refusal("DSK-00", text, type="service_unavailable_error")
        case status if status >= 500:
            return Refusal("DSK-00", "Internal Server Error", type="internal_server_error")
        case _:
            return Refusal("DSK-00", "Invalid request")


@rule("DSK-00")
def wrong_key(key: str) -> Refusal:
    text = _invalid(key) if key else "Authentication Fails (governor)"
    return Refusal("DSK-00", text, status=401, type="authentication_error")


def _invalid(key: str) -> str:
    return f"Authentication Fails, Your api key: ****{key[-4:]} is invalid"


def not_json(*_: object) -> Refusal:
    text = "Failed to parse the request body as JSON: expected value at line 1 column 1"
    return Refusal("DSK-00", text)


ERRORS = ErrorWords(
    provider="deepseek",
    envelope=envelope,
    headers=headers,
    fault=fault,
    not_json=not_json,
    wrong_key=wrong_key,
)


_FINGERPRINT = "fp_emulated_prod_fp8_kvcache"
_CACHE_STEP = 64


def whole(reply: Reply, request: Mapping[str, Any], context: Context) -> dict[str, Any]:
    reply = limited(reply, request.get("max_tokens"))
    message: dict[str, Any] = {"role": "assistant", "content": text_of(reply)}
    if is_thinking(request, context):
        message["reasoning_content"] = thoughts_of(reply)
    calls = _calls(reply, context)
    if calls:
        message["tool_calls"] = [{"index": index, **call} for index, call in enumerate(calls)]
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": finish_reason(reply)}
    return {
        **_frame(context, "chat.completion"),
        "choices": [choice],
        "usage": usage(reply, request, context),
    }


def stream(reply: Reply, request: Mapping[str, Any], context: Context) -> Iterator[bytes]:
    reply = limited(reply, request.get("max_tokens"))
    thinking = is_thinking(request, context)
    opening: dict[str, Any] = {"role": "assistant", "content": None if thinking else ""}
    yield _chunk(context, {**opening, "reasoning_content": ""} if thinking else opening)
    for delta in _deltas(reply, context, thinking=thinking):
        yield _chunk(context, delta)
    last = {"content": "", "reasoning_content": None} if thinking else {"content": ""}
    yield _chunk(context, last, finish_reason(reply), usage(reply, request, context))
    yield DONE


def _deltas(reply: Reply, context: Context, *, thinking: bool) -> Iterator[dict[str, Any]]:
    for portion in portions(thoughts_of(reply), reply.chunk_size) if thinking else ():
        yield {"content": None, "reasoning_content": portion}
    for portion in portions(text_of(reply), reply.chunk_size):
        yield {"content": portion, "reasoning_content": None} if thinking else {"content": portion}
    yield from call_deltas(_calls(reply, context), reply.chunk_size)


def _calls(reply: Reply, context: Context) -> list[dict[str, Any]]:
    code = hashlib.sha256(context.reply_id.encode()).hexdigest()[:20]
    return [called(call, f"call_{index:02d}_{code}{index:04d}") for index, call in enumerate(calls_of(reply))]


def finish_reason(reply: Reply) -> str:
    if reply.finish in ("length", "content_filter"):
        return reply.finish
    return "tool_calls" if calls_of(reply) and reply.finish == "auto" else "stop"


def usage(reply: Reply, request: Mapping[str, Any], context: Context) -> dict[str, Any]:
    prompt = sum(prompt_tokens(request))
    completion = sum(piece_tokens(piece) for piece in reply.pieces)
    hit = context.cached_of(prompt) // _CACHE_STEP * _CACHE_STEP
    counted: dict[str, Any] = {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": hit},
    }
    if is_thinking(request, context):
        counted["completion_tokens_details"] = {
            "reasoning_tokens": model_facts.count_tokens(thoughts_of(reply))
        }
    return {**counted, "prompt_cache_hit_tokens": hit, "prompt_cache_miss_tokens": prompt - hit}


def _frame(context: Context, kind: str) -> dict[str, Any]:
    """An alias is answered under the name of the model behind it."""
    return {
        "id": context.reply_id,
        "object": kind,
        "created": context.now,
        "model": context.facts.get("serves", context.model),
        "system_fingerprint": _FINGERPRINT,
    }


def _chunk(
    context: Context, delta: dict[str, Any], finish: str | None = None, counted: dict[str, Any] | None = None
) -> bytes:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    chunk = {**_frame(context, "chat.completion.chunk"), "choices": [choice], "usage": counted}
    return sse(chunk)

"""A responder's reply as DeepSeek writes it: reasoning beside the text, usage in the last chunk, cache hits and misses."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from segue.emulators.deepseek.checks import is_thinking
from segue.emulators.http import sse
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

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from segue.emulators.rules import Context

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

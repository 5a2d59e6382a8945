"""A responder's reply as a chat completion: whole, or as the chunks of a stream (CHAT-60 … CHAT-65)."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import msgspec

from segue.emulators.http import sse
from segue.emulators.model.model_facts import count_tokens
from segue.emulators.model.model_reply import (
    Call,
    Reply,
    calls_of,
    limited,
    piece_tokens,
    portions,
    text_of,
    thoughts_of,
)
from segue.emulators.openai_chat.checks import prompt_tokens
from segue.emulators.openai_chat.profile import OPENAI, Profile
from segue.emulators.rules import Context, rule

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

CACHE_MINIMUM, CACHE_STEP = 1024, 128
DONE = b"data: [DONE]\n\n"


def whole(
    reply: Reply, request: Mapping[str, Any], context: Context, profile: Profile = OPENAI
) -> dict[str, Any]:
    reply = limited(reply, most_tokens(request))
    choices = [
        {
            "index": index,
            "message": _message(reply, context, profile, index),
            "logprobs": None,
            "finish_reason": finish_reason(reply, request, context),
        }
        for index in range(_amount(request))
    ]
    return {
        **frame(context, "chat.completion"),
        "choices": choices,
        "usage": usage(reply, request, context),
        "service_tier": "default",
        "system_fingerprint": "fp_emulated",
    }


def stream(
    reply: Reply, request: Mapping[str, Any], context: Context, profile: Profile = OPENAI
) -> Iterator[bytes]:
    reply = limited(reply, most_tokens(request))
    with_usage = wants_usage(request)
    for index in range(_amount(request)):
        finish = finish_reason(reply, request, context)
        for delta in _deltas(reply, context, profile, index):
            padded = padding(str(delta)) if profile.obfuscation and obfuscates(request) else None
            yield _chunk(context, [_choice(index, delta)], with_usage=with_usage, padded=padded)
        yield _chunk(context, [_choice(index, {}, finish)], with_usage=with_usage)
    if with_usage:
        yield _chunk(context, [], with_usage=True, counted=usage(reply, request, context))
    yield DONE


def call_id(context: Context, index: int, choice: int = 0) -> str:
    """Ids are derived from the reply's own, so a reply says the same ids whole and streamed."""
    return "call_" + hashlib.sha256(f"{context.reply_id}/{choice}/{index}".encode()).hexdigest()[:24]


def most_tokens(request: Mapping[str, Any]) -> object:
    return request.get("max_completion_tokens") or request.get("max_tokens")


def frame(context: Context, kind: str) -> dict[str, Any]:
    """What a completion and each chunk of it begin with."""
    return {
        "id": f"chatcmpl-{context.reply_id}",
        "object": kind,
        "created": context.now,
        "model": context.model,
    }


def _amount(request: Mapping[str, Any]) -> int:
    amount = request.get("n")
    return min(max(amount, 1), 128) if isinstance(amount, int) else 1


def wants_usage(request: Mapping[str, Any]) -> bool:
    options = request.get("stream_options")
    return isinstance(options, dict) and options.get("include_usage") is True


def obfuscates(request: Mapping[str, Any]) -> bool:
    """Deltas are padded against eavesdroppers unless the client asks them not to be."""
    options = request.get("stream_options")
    return not (isinstance(options, dict) and options.get("include_obfuscation") is False)


def padding(text: str) -> str:
    """Letters that bring a delta to a multiple of 16 characters."""
    letters = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return letters[: 16 - len(text) % 16]


@rule("CHAT-62", "H")
def finish_reason(reply: Reply, request: Mapping[str, Any], context: Context) -> str:
    if reply.finish in ("length", "content_filter"):
        return reply.finish
    if not calls_of(reply) or reply.finish == "refusal":
        return "stop"
    # A named tool_choice ends with `stop` although there are calls; one report only, so when strict.
    named = isinstance(request.get("tool_choice"), dict)
    return "stop" if named and context.strict else "tool_calls"


def _message(reply: Reply, context: Context, profile: Profile, choice: int) -> dict[str, Any]:
    calls, text = calls_of(reply), text_of(reply)
    refused = reply.finish == "refusal"
    message: dict[str, Any] = {
        "role": "assistant",
        "content": None if refused or (calls and not text) else text,
        "refusal": text if refused else None,
        "annotations": [],
    }
    if profile.reasoning_fields and thoughts_of(reply):
        message["reasoning_content"] = thoughts_of(reply)
    if calls:
        message["tool_calls"] = _calls(reply, context, choice)
    return message


def _calls(reply: Reply, context: Context, choice: int) -> list[dict[str, Any]]:
    return [called(call, call_id(context, index, choice)) for index, call in enumerate(calls_of(reply))]


def called(call: Call, call_id: str) -> dict[str, Any]:
    """A call of a function as this wire and those like it write it, with its arguments as JSON text."""
    function = {"name": call.name, "arguments": msgspec.json.encode(call.arguments).decode()}
    return {"id": call_id, "type": "function", "function": function}


def call_deltas(calls: Iterable[dict[str, Any]], size: int) -> Iterator[dict[str, Any]]:
    """Id and name first, then the arguments in portions."""
    for index, call in enumerate(calls):
        opening = {"name": call["function"]["name"], "arguments": ""}
        yield {"tool_calls": [{"index": index, **call, "function": opening}]}
        for portion in portions(call["function"]["arguments"], size):
            yield {"tool_calls": [{"index": index, "function": {"arguments": portion}}]}


@rule("CHAT-61", "H")
def _deltas(reply: Reply, context: Context, profile: Profile, choice: int) -> Iterator[dict[str, Any]]:
    text = text_of(reply)
    yield {"role": "assistant", "content": None if calls_of(reply) and not text else "", "refusal": None}
    for portion in portions(thoughts_of(reply), reply.chunk_size) if profile.reasoning_fields else ():
        yield {"reasoning_content": portion}
    key = "refusal" if reply.finish == "refusal" else "content"
    for portion in portions(text, reply.chunk_size):
        yield {key: portion}
    yield from call_deltas(_calls(reply, context, choice), reply.chunk_size)


def _choice(index: int, delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    return {"index": index, "delta": delta, "logprobs": None, "finish_reason": finish}


@rule("CHAT-60", "H")
@rule("CHAT-63", "H")
def _chunk(
    context: Context,
    choices: list[Any],
    *,
    with_usage: bool,
    counted: dict[str, Any] | None = None,
    padded: str | None = None,
) -> bytes:
    """With include_usage every chunk has `usage`, null until the last one, which has no choices."""
    chunk: dict[str, Any] = {
        **frame(context, "chat.completion.chunk"),
        "service_tier": "default",
        "system_fingerprint": "fp_emulated",
        "choices": choices,
    }
    if with_usage:
        chunk["usage"] = counted
    if padded is not None:
        chunk["obfuscation"] = padded
    return sse(chunk)


@rule("OAI-01", "H")
def cached(context: Context, prompt: int) -> int:
    """Nothing below 1024 tokens, then steps of 128."""
    read = context.cached_of(prompt)
    return read // CACHE_STEP * CACHE_STEP if read >= CACHE_MINIMUM else 0


@rule("CHAT-65", "H")
def usage(reply: Reply, request: Mapping[str, Any], context: Context) -> dict[str, Any]:
    """`prompt_tokens` is gross: what came from the cache is inside; reasoning is inside the completion."""
    prompt = sum(prompt_tokens(request))
    completion = sum(piece_tokens(piece) for piece in reply.pieces) * _amount(request)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": cached(context, prompt), "audio_tokens": 0},
        "completion_tokens_details": {
            "reasoning_tokens": count_tokens(thoughts_of(reply)) * _amount(request),
            "audio_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    }

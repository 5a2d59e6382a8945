"""A responder's reply as Moonshot writes it: ids that count on, reasoning first, usage in an unusual place (KIM-19)."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any

import msgspec

from segue.emulators import tokens
from segue.emulators.kimi import messages
from segue.emulators.kimi.checks import is_thinking, prompt_tokens
from segue.emulators.model_reply import (
    Reply,
    calls_of,
    limited,
    piece_tokens,
    portions,
    text_of,
    thoughts_of,
)
from segue.emulators.rules import Context, rule

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


def whole(reply: Reply, request: Mapping[str, Any], context: Context) -> dict[str, Any]:
    reply = _within_limit(reply, request)
    calls = _calls(reply, request)
    message: dict[str, Any] = {"role": "assistant", "content": text_of(reply)}
    if thoughts := _thoughts(reply, request, context):
        message["reasoning_content"] = thoughts
    if calls:
        message["tool_calls"] = calls
    return {
        "id": f"chatcmpl-{context.reply_id}",
        "object": "chat.completion",
        "created": context.now,
        "model": context.model,
        "choices": [{"index": 0, "message": message, "finish_reason": finish_reason(reply)}],
        "usage": usage(reply, request, context),
    }


@rule("KIM-19")
def stream(reply: Reply, request: Mapping[str, Any], context: Context) -> Iterator[bytes]:
    """Usage sits in the last choice; who asks for it also gets it once more in a chunk of its own."""
    reply = _within_limit(reply, request)
    counted = usage(reply, request, context)
    yield _chunk(context, [_choice({"role": "assistant", "content": ""})])
    for delta in _deltas(reply, request, context):
        yield _chunk(context, [_choice(delta)])
    yield _chunk(context, [{**_choice({}, finish_reason(reply)), "usage": counted}])
    options = request.get("stream_options")
    if isinstance(options, dict) and options.get("include_usage") is True:
        yield _chunk(context, [], counted)
    yield b"data: [DONE]\n\n"


def _deltas(reply: Reply, request: Mapping[str, Any], context: Context) -> Iterator[dict[str, Any]]:
    if thoughts := _thoughts(reply, request, context):
        for portion in portions(thoughts, reply.chunk_size):
            yield {"reasoning_content": portion}
    if text := text_of(reply):
        for portion in portions(text, reply.chunk_size):
            yield {"content": portion}
    for index, call in enumerate(_calls(reply, request)):
        opening = {"name": call["function"]["name"], "arguments": ""}
        yield {"tool_calls": [{"index": index, "id": call["id"], "type": "function", "function": opening}]}
        for portion in portions(call["function"]["arguments"], reply.chunk_size):
            yield {"tool_calls": [{"index": index, "function": {"arguments": portion}}]}


def _within_limit(reply: Reply, request: Mapping[str, Any]) -> Reply:
    wanted = request.get("max_completion_tokens") or request.get("max_tokens")
    return limited(reply, wanted if isinstance(wanted, int) else None)


def _thoughts(reply: Reply, request: Mapping[str, Any], context: Context) -> str:
    return thoughts_of(reply) if is_thinking(request, context) else ""


def _calls(reply: Reply, request: Mapping[str, Any]) -> list[dict[str, Any]]:
    fresh = new_ids(request)
    return [
        {
            "id": next(fresh).format(name=call.name),
            "type": "function",
            "function": {"name": call.name, "arguments": msgspec.json.encode(call.arguments).decode()},
        }
        for call in calls_of(reply)
    ]


@rule("KIM-02")
def new_ids(request: Mapping[str, Any]) -> Iterator[str]:
    """``name:n`` without the native prefix; n counts every call of the conversation from 0."""
    used = [call["id"] for message in request["messages"] for call in messages.calls_of(message)]
    taken = {identifier.rpartition(":")[2] for identifier in used}
    for number in count(len(used)):
        if str(number) not in taken:
            yield f"{{name}}:{number}"


@rule("KIM-20")
def finish_reason(reply: Reply) -> str:
    if reply.finish in ("length", "content_filter"):
        return reply.finish
    return "tool_calls" if calls_of(reply) and reply.finish == "auto" else "stop"


def usage(reply: Reply, request: Mapping[str, Any], context: Context) -> dict[str, Any]:
    prompt = prompt_tokens(request)
    completion = sum(piece_tokens(piece) for piece in reply.pieces)
    counted: dict[str, Any] = {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "cached_tokens": context.cached_of(prompt),
    }
    if thoughts := _thoughts(reply, request, context):
        counted["completion_tokens_details"] = {"reasoning_tokens": tokens.count(thoughts)}
    return counted


def _choice(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    return {"index": 0, "delta": delta, "finish_reason": finish}


def _chunk(context: Context, choices: list[dict[str, Any]], counted: dict[str, Any] | None = None) -> bytes:
    chunk: dict[str, Any] = {
        "id": f"chatcmpl-{context.reply_id}",
        "object": "chat.completion.chunk",
        "created": context.now,
        "model": context.model,
        "choices": choices,
    }
    if counted is not None:
        chunk["usage"] = counted
    return b"data: " + msgspec.json.encode(chunk) + b"\n\n"

"""A responder's reply as Mistral writes it: thoughts as chunks, calls with ids of nine characters (MIS-20 … MIS-23)."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

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
from segue.emulators.openai_chat.prompt import text_in
from segue.emulators.openai_chat.replies import DONE
from segue.emulators.rules import Context, rule

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_PADDING = "abcdefghijklmnopqrstuvwxyz0123456789"
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"


def whole(reply: Reply, request: Mapping[str, Any], context: Context) -> dict[str, Any]:
    reply = limited(reply, request.get("max_tokens"))
    message: dict[str, Any] = {
        "role": "assistant",
        "tool_calls": None,
        "content": _content(reply, request, context),
    }
    if calls_of(reply):
        message["tool_calls"] = [{**call, "index": n} for n, call in enumerate(_calls(reply, context))]
    choice = {"finish_reason": finish_reason(reply), "message": message}
    return {
        "id": context.reply_id,
        "created": context.now,
        "model": context.model,
        "usage": usage(reply, request, context),
        "object": "chat.completion",
        "choices": [{"index": index, **choice} for index in range(request.get("n") or 1)],
    }


@rule("MIS-20")
def stream(reply: Reply, request: Mapping[str, Any], context: Context) -> Iterator[bytes]:
    reply = limited(reply, request.get("max_tokens"))
    counted = usage(reply, request, context)
    yield _chunk(context, {"role": "assistant", "content": ""})
    for delta in _spoken(reply, request, context):
        yield _chunk(context, delta)
    if calls_of(reply) and context.facts.get("nine_character_ids", True):
        yield _chunk(context, whole_calls(reply, context), finish_reason(reply), counted)
    else:
        for delta in incremental_calls(reply, context):
            yield _chunk(context, delta)
        yield _chunk(context, {"content": ""}, finish_reason(reply), counted)
    yield DONE


@rule("MIS-21")
def whole_calls(reply: Reply, context: Context) -> dict[str, Any]:
    """Mistral's own models send each call in one piece, with the finish reason; newer ones also number them."""
    calls = _calls(reply, context)
    if _is_recent(context):
        return {"tool_calls": [{**call, "type": "function", "index": n} for n, call in enumerate(calls)]}
    return {"content": None, "tool_calls": calls}


@rule("MIS-21")
def incremental_calls(reply: Reply, context: Context) -> Iterator[dict[str, Any]]:
    """Guest models send fragments: id and name first, then arguments with an empty name and no id."""
    for index, call in enumerate(_calls(reply, context)):
        opening = {"name": call["function"]["name"], "arguments": ""}
        yield _fragment({"id": call["id"], "type": "function", "function": opening, "index": index})
        for portion in portions(call["function"]["arguments"], reply.chunk_size):
            yield _fragment(
                {"type": "function", "function": {"name": "", "arguments": portion}, "index": index}
            )


def _fragment(call: dict[str, Any]) -> dict[str, Any]:
    return {"tool_calls": [call], "index": 0, "content": ""}


def _spoken(reply: Reply, request: Mapping[str, Any], context: Context) -> Iterator[dict[str, Any]]:
    thoughts = portions(_thoughts(reply, request, context), reply.chunk_size)
    thought = [thinking_chunk(portion) for portion in thoughts]
    said = portions(text_of(reply), reply.chunk_size)
    if _is_recent(context):
        yield from _mixed(thought, said)
        return
    for chunk in thought:
        yield {"content": [chunk]}
    for portion in said:
        # After thoughts the text comes as chunks too.
        yield {"content": [{"type": "text", "text": portion}] if thought else portion}


def _mixed(thought: list[dict[str, Any]], said: list[str]) -> Iterator[dict[str, Any]]:
    """As recorded in 2026: the last thought shares its delta with the first text, the rest are strings again."""
    closed = [{**chunk, "closed": True} for chunk in thought]
    for chunk in closed[:-1]:
        yield {"content": [chunk]}
    if closed:
        yield {"content": [closed[-1], *[{"type": "text", "text": portion} for portion in said[:1]]]}
    for portion in said[1:] if closed else said:
        yield {"content": portion}


def _is_recent(context: Context) -> bool:
    return context.facts.get("stream") == "2026"


@rule("MIS-22")
def thinking_chunk(text: str) -> dict[str, Any]:
    return {"type": "thinking", "thinking": [{"type": "text", "text": text}]}


def is_thinking(request: Mapping[str, Any], context: Context) -> bool:
    """MIS-11: the newest models think as far as `reasoning_effort` asks for it, older ones always or never."""
    adjustable = int(context.facts.get("tokenizer", 13)) >= 15
    asked = request.get("reasoning_effort") not in (None, "none")
    return bool(context.facts.get("thinking")) and (asked or not adjustable)


def _thoughts(reply: Reply, request: Mapping[str, Any], context: Context) -> str:
    return thoughts_of(reply) if is_thinking(request, context) else ""


def _content(reply: Reply, request: Mapping[str, Any], context: Context) -> object:
    thoughts, text = _thoughts(reply, request, context), text_of(reply)
    if not thoughts:
        return text
    said = [{"type": "text", "text": text}] if text else []
    return [{**thinking_chunk(thoughts), "closed": True}, *said]


def _calls(reply: Reply, context: Context) -> list[dict[str, Any]]:
    return [
        {
            "id": call_id(context, index),
            "function": {"name": call.name, "arguments": json.dumps(dict(call.arguments))},
        }
        for index, call in enumerate(calls_of(reply))
    ]


def call_id(context: Context, index: int) -> str:
    code = hashlib.sha256(f"{context.reply_id}/{index}".encode()).digest()
    if not context.facts.get("nine_character_ids", True):
        return f"chatcmpl-tool-{code.hex()[:16]}"
    return "".join(_LETTERS[byte % len(_LETTERS)] for byte in code[:9])


@rule("MIS-23")
def finish_reason(reply: Reply) -> str:
    if reply.finish == "length":
        return "length"
    if reply.finish == "content_filter":
        return "error"
    return "tool_calls" if calls_of(reply) and reply.finish == "auto" else "stop"


def prompt_tokens(request: Mapping[str, Any]) -> int:
    offered = model_facts.count_value_tokens(request["tools"]) if request.get("tools") else 0
    return offered + sum(_message_tokens(message) for message in request["messages"])


def _message_tokens(message: Mapping[str, Any]) -> int:
    content, calls = message.get("content"), message.get("tool_calls")
    # Two control tokens frame every message.
    said = (
        2
        + model_facts.count_tokens(text_in(content))
        + (model_facts.count_value_tokens(calls) if calls else 0)
    )
    chunks = content if isinstance(content, list) else ()
    return said + sum(
        model_facts.count_value_tokens(chunk) for chunk in chunks if chunk.get("type") == "thinking"
    )


CACHE_STEP = 64


@rule("MIS-23")
def usage(reply: Reply, request: Mapping[str, Any], context: Context) -> dict[str, Any]:
    prompt = prompt_tokens(request)
    completion = sum(piece_tokens(piece) for piece in reply.pieces)
    return {
        "prompt_tokens": prompt,
        "total_tokens": prompt + completion,
        "completion_tokens": completion,
        "prompt_tokens_details": {"cached_tokens": context.cached_of(prompt) // CACHE_STEP * CACHE_STEP},
        "service_tier": "standard",
    }


def _chunk(
    context: Context, delta: dict[str, Any], finish: str | None = None, counted: dict[str, Any] | None = None
) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}
    chunk: dict[str, Any] = {
        "id": context.reply_id,
        "object": "chat.completion.chunk",
        "created": context.now,
        "model": context.model,
        "choices": [choice],
    }
    if counted is not None:
        chunk["usage"] = counted
    if _is_recent(context) and "role" not in delta:
        # Padding against guessing the text from the length of encrypted packets.
        chunk["p"] = _PADDING[: len(context.reply_id) + len(str(delta)) % 12]
    return sse(chunk)

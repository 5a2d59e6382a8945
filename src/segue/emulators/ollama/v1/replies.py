"""A responder's reply as `/v1/chat/completions` writes it (OLL-36)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from segue.emulators.http import sse
from segue.emulators.model.model_reply import Reply, calls_of, portions, text_of, thoughts_of
from segue.emulators.ollama import replies
from segue.emulators.ollama.checks import is_thinking
from segue.emulators.ollama.v1.checks import translated
from segue.emulators.openai_chat.replies import DONE, wants_usage
from segue.emulators.rules import Context, rule

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


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

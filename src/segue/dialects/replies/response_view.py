"""A reply as one plain record, the same for every provider: content, finish reason, tool calls, usage, model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from segue.transcript.blocks.value_text import json_of

if TYPE_CHECKING:
    from segue.conversation.blocks import ToolCall
    from segue.conversation.events import Reply
    from segue.conversation.usage import Usage


def as_response(reply: Reply) -> dict[str, Any]:
    """What was answered; `tool_calls` is there only when tools are called, and their arguments stay text.

    A reply that was cut off in the middle of its calls has that finish reason, not that its calls are ready to run.
    """
    calls = reply.message.calls
    text = reply.message.text
    finish = "tool_calls" if calls and reply.finish == "stop" else reply.finish
    response: dict[str, Any] = {
        "content": text if text or not calls else None,
        "finish_reason": finish,
        "usage": _usage(reply.usage),
        "model": reply.model,
    }
    if calls:
        response["tool_calls"] = [_call(call, index) for index, call in enumerate(calls)]
    return response


def _call(call: ToolCall, index: int) -> dict[str, Any]:
    arguments = call.raw or json_of({} if call.arguments is None else call.arguments)
    return {
        "id": call.native_id or f"call_{index}",
        "type": "function",
        "function": {"name": call.name, "arguments": arguments},
    }


def _usage(usage: Usage) -> dict[str, int | None]:
    return {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.total_tokens,
        "cached_tokens": usage.cached_tokens,
        "reasoning_tokens": usage.reasoning_tokens,
    }

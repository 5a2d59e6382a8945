"""The fast path of requests, both ways (see transcript/fast_paths): the messages of which most of them consist.

A message with exactly the fields counted here cannot hold anything else that the slow path looks for, so that the
search for it, which takes several times as long, is not needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from segue.conversation.blocks import Text, ToolCall, ToolResult
from segue.conversation.events import parse_arguments
from segue.conversation.message import Message

if TYPE_CHECKING:
    from segue.conversation.blocks import Block, Origin
    from segue.dialects.openai_chat.rules import Variant

_SILENCE: dict[str, Any] = {"null": None, "empty": "", "omit": False}
"""The content of a message that only calls, as we would write it; False if it has none."""


def read_fast(variant: Variant, given: Any, origin: Origin) -> Message | None:
    """A user's text, a model's text and function calls, or a tool's text; None if it is anything else."""
    if type(given) is not dict:
        return None
    role, content = given.get("role"), given.get("content")
    if role == "tool":
        call_id, name = given.get("tool_call_id"), given.get("name", "")
        fields = 4 if variant.result_names else 3
        if len(given) == fields and type(content) is str and type(call_id) is str and type(name) is str:
            if bool(name) is not variant.result_names or not call_id:
                return None
            return Message("tool", (ToolResult("", name, content, complete=True, native_id=call_id),))
    elif role == "assistant":
        return _read_reply(given, content, origin, _SILENCE[variant.silence])
    elif role == "user" and len(given) == 2 and type(content) is str:
        return Message("user", (Text(content),))
    return None


def _read_reply(given: dict[str, Any], content: Any, origin: Origin, silence: Any) -> Message | None:
    blocks: list[Block] = []
    if type(content) is str and content:
        blocks.append(Text(content))
        if len(given) == 2:
            return Message("model", tuple(blocks), origin)
    elif content != silence or "content" not in given:
        return None
    listed = given.get("tool_calls")
    if len(given) != 3 or type(listed) is not list or not listed:
        return None
    for item in listed:
        call = _read_call(item)
        if call is None:
            return None
        blocks.append(call)
    return Message("model", tuple(blocks), origin)


def _read_call(given: Any) -> ToolCall | None:
    if type(given) is not dict or len(given) != 3 or given.get("type") != "function":
        return None
    call_id, function = given.get("id"), given.get("function")
    if type(call_id) is not str or not call_id or type(function) is not dict or len(function) != 2:
        return None
    name, raw = function.get("name"), function.get("arguments")
    if type(name) is not str or type(raw) is not str or not raw:
        return None
    return ToolCall("", name, parse_arguments(raw), raw, call_id)

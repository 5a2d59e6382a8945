"""The fast path of requests, both ways (see transcript/fast_paths): the items of which most of them consist.

An item with exactly the fields counted here has nothing of the wire's own, so that the search for it is not needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from segue.conversation.blocks import Reasoning, Seal, Text, ToolCall, ToolResult
from segue.conversation.events import parse_arguments
from segue.dialects.openai_responses.rules import NAME
from segue.dialects.openai_responses.wire import FunctionCall, FunctionCallOutput, MessageItem
from segue.dialects.request_messages import outcome_text
from segue.dialects.seal_makers import seal_origin
from segue.transcript.steps import AnsweredCall

if TYPE_CHECKING:
    from segue.conversation.blocks import Block, Origin
    from segue.conversation.message import Speaker
    from segue.transcript.steps import StepBlock


def write_fast(blocks: tuple[StepBlock, ...], items: list[Any]) -> bool:
    """Add the items of a reply: texts, and calls with their results; whether that is what it is."""
    written: list[Any] = []
    results: list[Any] = []
    for block in blocks:
        if block.extra is not None and block.extra.dialect == NAME:
            return False
        if type(block) is AnsweredCall:
            done = block.completion
            if (done.extra is not None and done.extra.dialect == NAME) or done.media:
                return False
            written.append(FunctionCall(block.id, block.name, block.arguments))
            results.append(FunctionCallOutput(block.id, outcome_text(done)))
        elif type(block) is Text and block.seal is None and not block.citations:
            written.append(MessageItem("assistant", block.text))
        else:
            return False
    items += written
    items += results
    return True


def read_fast(item: Any, origin: Origin) -> tuple[Speaker, Block] | None:
    """A model's text, thought or call, or a tool's result, and whose it is; None if it is anything else."""
    if type(item) is not dict:
        return None
    kind, fields = item.get("type"), len(item)
    if kind == "function_call" and fields == 4:
        name, raw, call_id = item.get("name"), item.get("arguments"), item.get("call_id")
        if type(name) is str and type(raw) is str and type(call_id) is str and raw:
            return "model", ToolCall("", name, parse_arguments(raw), raw, call_id)
    elif fields != 3:
        return None
    elif kind == "function_call_output":
        output, call_id = item.get("output"), item.get("call_id")
        if type(output) is str and type(call_id) is str:
            return "tool", ToolResult("", "", output, complete=True, native_id=call_id)
    elif kind == "message":
        content = item.get("content")
        if type(content) is str and item.get("role") == "assistant":
            return "model", Text(content)
    elif kind == "reasoning":
        sealed = item.get("encrypted_content")
        if type(sealed) is str and sealed and item.get("summary") == []:
            return "model", Reasoning("", Seal(seal_origin(sealed, origin, "openai"), sealed, "encrypted"))
    return None

"""The fast path of requests, both ways (see transcript/fast_paths): the messages of which most of them consist.

A block with exactly the fields counted here holds nothing of the wire's own but a mark for the cache or the note that a tool did
not fail, so that the search for it is not needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Raw

from segue.conversation.blocks import Reasoning, Seal, Text, ToolCall, ToolResult
from segue.conversation.extra import Extra
from segue.conversation.message import Message
from segue.dialects.anthropic_messages.rules import ANTHROPIC
from segue.dialects.anthropic_messages.wire import TextBlock, Thinking, ToolResultBlock, ToolUse
from segue.dialects.seal_makers import seal_origin
from segue.transcript.steps import AnsweredCall

if TYPE_CHECKING:
    from segue.conversation.blocks import Block, Origin
    from segue.transcript.steps import StepBlock


NAME = ANTHROPIC.target.dialect
LISTED = Extra(NAME, form={"type": "text"})
"""Of a text that came as the only block in a list: alone, we would write it as the content itself."""
_NOTE = Extra(NAME, container=Extra(NAME))
"""Of a system note that came as a message of its own."""
_MARK = "cache_control"
_FAILED = "is_error"


def write_fast(blocks: tuple[StepBlock, ...]) -> tuple[list[Any], list[Any]] | None:
    """The content of a reply with calls, and their results; None if it has anything of its own, or no calls."""
    content: list[Any] = []
    results: list[Any] = []
    for block in blocks:
        if block.extra is not None and block.extra.dialect == NAME:
            return None
        if type(block) is AnsweredCall:
            done = block.completion
            if (done.extra is not None and done.extra.dialect == NAME) or done.media:
                return None
            content.append(ToolUse(block.id, block.name, Raw(block.arguments)))
            results.append(ToolResultBlock(block.id, done.text, done.is_error))
        elif type(block) is Text and block.seal is None:
            content.append(TextBlock(block.text))
        elif type(block) is Reasoning and block.seal is not None and block.seal.kind == "signature":
            content.append(Thinking(block.text, block.seal.payload))
        else:
            return None
    return (content, results) if results else None


def read_fast(given: Any, origin: Origin) -> Message | None:
    """A user's texts, a model's thoughts, texts and calls, tools' texts, or a note; None if it is anything else."""
    if type(given) is not dict or len(given) != 2:
        return None
    role, content = given.get("role"), given.get("content")
    if type(content) is str:
        return _read_text(role, content, origin)
    if type(content) is not list or not content:
        return None
    if role == "assistant":
        content_text = _read_blocks(content, origin)
        return Message("model", content_text, origin) if content_text is not None else None
    if role != "user":
        return None
    if type(content[0]) is dict and content[0].get("type") == "tool_result":
        results = _read_results(content)
        return Message("tool", results) if results is not None else None
    asked = _read_blocks(content, origin)
    return Message("user", asked) if asked is not None else None


def _read_text(role: Any, content: str, origin: Origin) -> Message | None:
    if role == "user":
        return Message("user", (Text(content),))
    if role == "system":
        return Message("user", (Text(content, None, _NOTE),), instruction=True)
    return Message("model", (Text(content),), origin) if role == "assistant" else None


def _read_blocks(content: list[Any], origin: Origin) -> tuple[Block, ...] | None:
    blocks: list[Block] = []
    for part in content:
        if type(part) is not dict:
            return None
        kind = part.get("type")
        if kind == "text":
            text = part.get("text")
            if type(text) is not str:
                return None
            if len(part) == 2:
                blocks.append(Text(text, None, LISTED) if len(content) == 1 else Text(text))
            elif len(part) == 3 and _MARK in part:
                blocks.append(Text(text, None, Extra(NAME, hints={_MARK: part[_MARK]})))
            else:
                return None
        elif kind == "tool_use":
            call_id, name, given = part.get("id"), part.get("name"), part.get("input")
            if type(call_id) is not str or type(name) is not str or given is None or len(part) != 4:
                return None
            blocks.append(ToolCall("", name, given, "", call_id))
        elif kind == "thinking":
            text, signature = part.get("thinking"), part.get("signature")
            if type(text) is not str or type(signature) is not str or not signature or len(part) != 3:
                return None
            blocks.append(Reasoning(text, Seal(seal_origin(signature, origin, "anthropic"), signature)))
        else:
            return None
    return tuple(blocks)


def _read_results(content: list[Any]) -> tuple[Block, ...] | None:
    blocks: list[Block] = []
    for part in content:
        if type(part) is not dict or part.get("type") != "tool_result":
            return None
        call_id, content_text = part.get("tool_use_id"), part.get("content")
        if type(call_id) is not str or type(content_text) is not str:
            return None
        extra: Extra | None = None
        failed: Any = False
        if len(part) != 3:
            hints = {_MARK: part[_MARK]} if _MARK in part else {}
            failed = part.get(_FAILED)
            form = {_FAILED: False} if failed is False else {}
            if len(part) != 3 + len(hints) + (failed is True or failed is False):
                return None
            extra = Extra(NAME, hints=hints, form=form) if hints or form else None
        if failed:
            result = ToolResult("", "", None, content_text, complete=True, native_id=call_id, extra=extra)
        else:
            result = ToolResult("", "", content_text, complete=True, native_id=call_id, extra=extra)
        blocks.append(result)
    return tuple(blocks)

"""The fast path of requests, both ways (see transcript/fast): the messages of which most of them consist.

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
from segue.dialects.requests.seal_makers import seal_origin
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
        elif type(block) is Text and block.seal is None and not block.citations:
            content.append(TextBlock(block.text))
        elif type(block) is Reasoning and block.seal is not None and block.seal.kind == "signature":
            content.append(Thinking(block.text, block.seal.payload))
        else:
            return None
    return (content, results) if results else None


def read_exchanges(given: list[Any], start: int, origin: Origin, messages: list[Message]) -> int:
    """Add replies of a text and a call, each followed by its result: most of what an agent sends, in one loop. Returns where
    the next message is."""
    last = len(given) - 1
    try:
        # Here and below: what is missing is found out by the error, which costs nothing while there is none.
        while start < last:
            reply, answer = given[start], given[start + 1]
            if (
                len(reply) != 2
                or len(answer) != 2
                or reply["role"] != "assistant"
                or answer["role"] != "user"
            ):
                break
            text, call = reply["content"]
            (result,) = answer["content"]
            if (
                len(text) != 2
                or len(call) != 4
                or len(result) != 3
                or text["type"] != "text"
                or call["type"] != "tool_use"
                or result["type"] != "tool_result"
                or type(said := text["text"]) is not str
                or type(name := call["name"]) is not str
                or type(call_id := call["id"]) is not str
                or not call_id
                or type(arguments := call["input"]) is not dict
                or type(output := result["content"]) is not str
                or type(answered := result["tool_use_id"]) is not str
                or not answered
            ):
                break
            messages.append(
                Message("model", (Text(said), ToolCall("", name, arguments, "", call_id)), origin)
            )
            messages.append(Message("tool", (ToolResult("", "", output, complete=True, native_id=answered),)))
            start += 2
    except (KeyError, TypeError, ValueError):
        pass
    return start


def read_fast(given: Any, origin: Origin, marked: list[Any]) -> Message | None:
    """A user's texts, a model's thoughts, texts and calls, tools' texts, or a note; None if it is anything else. Adds the
    blocks that have a mark for the cache to `marked`."""
    if type(given) is not dict or len(given) != 2:
        return None
    try:
        role, content = given["role"], given["content"]
        if type(content) is str:
            return _read_text(role, content, origin)
        if type(content) is not list or not content:
            return None
        if role == "assistant":
            reply = _read_blocks(content, origin, marked)
            return Message("model", reply, origin) if reply is not None else None
        if role != "user":
            return None
        if content[0]["type"] == "tool_result":
            results = _read_results(content, marked)
            return Message("tool", results) if results is not None else None
        asked = _read_blocks(content, origin, marked)
    except (KeyError, TypeError):
        return None
    return Message("user", asked) if asked is not None else None


def _read_text(role: Any, content: str, origin: Origin) -> Message | None:
    if role == "user":
        return Message("user", (Text(content),))
    if role == "system":
        return Message("user", (Text(content, None, _NOTE),), instruction=True)
    return Message("model", (Text(content),), origin) if role == "assistant" else None


def _read_blocks(content: list[Any], origin: Origin, marked: list[Any]) -> tuple[Block, ...] | None:
    blocks: list[Block] = []
    for part in content:
        if type(part) is not dict:
            return None
        kind, size = part["type"], len(part)
        if kind == "text":
            text = part["text"]
            if type(text) is not str:
                return None
            if size == 2:
                blocks.append(Text(text, None, LISTED) if len(content) == 1 else Text(text))
            elif size == 3 and _is_mark(part[_MARK]):
                blocks.append(Text(text, None, Extra(NAME, hints={_MARK: part[_MARK]})))
                marked.append(part)
            else:
                return None
        elif kind == "tool_use":
            call_id, name, given = part["id"], part["name"], part["input"]
            if not (
                size == 4 and type(call_id) is str and call_id and type(name) is str and type(given) is dict
            ):
                return None
            blocks.append(ToolCall("", name, given, "", call_id))
        elif kind == "thinking":
            text, signature = part["thinking"], part["signature"]
            if type(text) is not str or type(signature) is not str or not signature or size != 3:
                return None
            blocks.append(Reasoning(text, Seal(seal_origin(signature, origin, "anthropic"), signature)))
        else:
            return None
    return tuple(blocks)


def _read_results(content: list[Any], marked: list[Any]) -> tuple[Block, ...] | None:
    blocks: list[Block] = []
    for part in content:
        if type(part) is not dict or part["type"] != "tool_result":
            return None
        call_id, output = part["tool_use_id"], part["content"]
        if type(call_id) is not str or type(output) is not str or not call_id:
            return None
        if len(part) == 3:
            blocks.append(ToolResult("", "", output, complete=True, native_id=call_id))
            continue
        hints = {_MARK: part[_MARK]} if _MARK in part and _is_mark(part[_MARK]) else {}
        failed = part.get(_FAILED)
        form = {_FAILED: False} if failed is False else {}
        if len(part) != 3 + len(hints) + (failed is True or failed is False):
            return None
        extra = Extra(NAME, hints=hints, form=form) if hints or form else None
        if hints:
            marked.append(part)
        if failed:
            result = ToolResult("", "", None, output, complete=True, native_id=call_id, extra=extra)
        else:
            result = ToolResult("", "", output, complete=True, native_id=call_id, extra=extra)
        blocks.append(result)
    return tuple(blocks)


def _is_mark(mark: Any) -> bool:
    """Whether a mark for the cache fits into its shape as it is."""
    return (
        type(mark) is dict
        and type(mark.get("type")) is str
        and (len(mark) == 1 or (len(mark) == 2 and type(mark.get("ttl")) is str))
    )

"""The fast path of requests, both ways (see transcript/fast): the contents of which most of them consist.

A part with exactly the fields counted here cannot hold anything else that the slow path looks for, in either of Google's
spellings, so that the search for it, which takes several times as long, is not needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Raw, structs

from segue.conversation.blocks import Reasoning, Seal, Text, ToolCall, ToolResult
from segue.conversation.message import Message
from segue.dialects.gemini.rules import NAME
from segue.dialects.gemini.shapes import SIGNATURE
from segue.dialects.gemini.wire import (
    SENTINELS,
    WITH_ID,
    WITHOUT_ID,
    CallPart,
    RequestCall,
    RequestResult,
    ResultPart,
    TextPart,
)
from segue.dialects.gemini.write_parts import write_output
from segue.dialects.requests.seal_makers import seal_origin
from segue.transcript.steps import AnsweredCall

if TYPE_CHECKING:
    from segue.conversation.blocks import Block, Origin
    from segue.transcript.steps import StepBlock


def write_fast(blocks: tuple[StepBlock, ...], *, ids: bool) -> tuple[list[Any], list[Any]] | None:
    """The parts of a reply with calls, and their results; None if it has anything of its own, or no calls."""
    parts: list[Any] = []
    results: list[Any] = []
    for block in blocks:
        extra = block.extra
        if extra is not None and extra.dialect == NAME and extra is not WITH_ID and extra is not WITHOUT_ID:
            return None
        if type(block) is AnsweredCall:
            done = block.completion
            if done.media or done.is_error:
                return None
            came = done.extra
            if came is not extra and (
                (came is not None and came.dialect == NAME) or (extra is not None and extra.dialect == NAME)
            ):
                return None
            with_id = extra is WITH_ID if extra is not None and extra.dialect == NAME else ids
            call_id = block.id if with_id else ""
            call = RequestCall(block.name, Raw(block.arguments), call_id)
            parts.append(CallPart(call) if block.seal is None else CallPart(call, block.seal.payload))
            results.append(ResultPart(RequestResult(block.name, write_output(done.text), call_id)))
        elif type(block) is Text and block.seal is None:
            parts.append(TextPart(block.text))
        else:
            return None
    return (parts, results) if results else None


def read_fast(given: Any, origin: Origin) -> Message | None:
    """A user's texts, a model's texts and calls, or tools' results; None if it is anything else."""
    parts = given.get("parts") if type(given) is dict else None
    if type(parts) is not list or not parts:
        return None
    role = given.get("role")
    if role not in ("model", "user") or len(given) != 2:
        return None
    blocks: list[Block] = []
    for part in parts:
        block = _read_part(part, origin) if type(part) is dict else None
        if block is None:
            return None
        blocks.append(block)
    if role == "model":
        return Message("model", tuple(blocks), origin)
    answers = type(blocks[0]) is ToolResult
    if any((type(block) is ToolResult) is not answers or type(block) is Reasoning for block in blocks):
        return None
    return Message("tool" if answers else "user", tuple(blocks))


def _read_part(part: dict[str, Any], origin: Origin) -> Block | None:
    fields = len(part)
    seal = None
    thinks = part.get("thought") is True
    if thinks:
        fields -= 1
    if fields == 2:
        signature: Any = part.get("thoughtSignature")
        if not SIGNATURE.accepts(signature):
            return None
        if signature in SENTINELS:
            call = part.get("functionCall")
            return _read_call(call, None, signature) if type(call) is dict and not thinks else None
        seal = Seal(seal_origin(signature, origin, "google"), signature, "thought")
    elif fields != 1:
        return None
    text = part.get("text")
    if type(text) is str:
        return Reasoning(text, seal) if thinks else Text(text, seal)
    if thinks:
        return None
    call = part.get("functionCall")
    if type(call) is dict:
        return _read_call(call, seal)
    result = part.get("functionResponse")
    return _read_result(result) if type(result) is dict else None


def _read_call(call: dict[str, Any], seal: Seal | None, stand_in: str = "") -> ToolCall | None:
    name, arguments, call_id = call.get("name"), call.get("args"), call.get("id", "")
    if type(name) is not str or type(arguments) is not dict or type(call_id) is not str:
        return None
    if len(call) != (3 if call_id else 2):
        return None
    extra = WITH_ID if call_id else WITHOUT_ID
    if stand_in:
        extra = structs.replace(extra, form={"thoughtSignature": stand_in})
    return ToolCall("", name, arguments, "", call_id, seal, extra=extra)


def _read_result(result: dict[str, Any]) -> ToolResult | None:
    name, output, call_id = result.get("name"), result.get("response"), result.get("id", "")
    if type(name) is not str or type(output) is not dict or type(call_id) is not str:
        return None
    if len(result) != (3 if call_id else 2) or "error" in output:
        return None
    if "output" in output:  # as we would write it: a text that is no object
        text = output["output"]
        if len(output) != 1 or type(text) is not str or text[:1] == "{":
            return None
        output = text
    extra = WITH_ID if call_id else WITHOUT_ID
    return ToolResult("", name, output, complete=True, native_id=call_id, extra=extra)

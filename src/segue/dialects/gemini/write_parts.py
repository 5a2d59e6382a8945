"""Blocks as parts of a Gemini content."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, assert_never

import msgspec
from msgspec import Raw

from segue.conversation.blocks import Media, Reasoning, Seal, Text
from segue.dialects.gemini import opaque_parts, wire
from segue.dialects.gemini.reply import media_part
from segue.dialects.gemini.rules import GEMINI, NAME
from segue.transcript.blocks.value_text import is_deeper, json_of
from segue.transcript.steps import AnsweredCall

if TYPE_CHECKING:
    from segue.conversation.blocks import ToolResult
    from segue.transcript.steps import Completion, StepBlock

_OBJECT = msgspec.json.Decoder(dict[str, Any])
_NOTHING: list[dict[str, Any]] = []


def write_call(name: str, args: Any, call_id: str, seal: Seal | None) -> wire.CallPart:
    call = wire.RequestCall(name, args, call_id)
    return wire.CallPart(call) if seal is None else wire.CallPart(call, seal.payload)


def write_result(
    name: str, text: str, done: Completion | ToolResult, call_id: str, *, failed: bool = False
) -> wire.ResultPart:
    response = wire.Failure(text) if failed else write_output(text)
    shown = (
        [media_part(media) for media in done.media if not stands_beside(media)] if done.media else _NOTHING
    )
    return wire.ResultPart(wire.RequestResult(name, response, call_id, shown))


def stands_beside(media: Media) -> bool:
    """Whether media of a result came as parts behind it, as older models are shown them (GEM-42)."""
    return media.extra is not None and media.extra.dialect == NAME and media.extra.container is not None


def write_output(value: str) -> wire.Output | Raw:
    """GEM-14: an object is given as such, where reading it back gives the very same text; all else is wrapped."""
    wrapped = value[:1] != "{" or value.startswith(('{"output":', '{"error":'))
    if wrapped or is_deeper(value, GEMINI.argument_levels):
        return wire.Output(value)
    try:
        same = json_of(_OBJECT.decode(value)) == value
    except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError):
        same = False
    return Raw(value) if same else wire.Output(value)


def write_part(block: StepBlock) -> wire.SignedPart | dict[str, Any] | Raw:
    """All but calls and plain texts."""
    match block:
        case Text(content, seal):
            own = opaque_parts.opaque_part(seal.payload, seal.kind) if seal is not None else None
            return own or wire.SignedPart(content, thought_signature=_payload(seal))
        case Reasoning(thought, seal):  # GEM-25
            return wire.SignedPart(thought, thought=True, thought_signature=_payload(seal))
        case Media():
            return media_part(block)
        case AnsweredCall():
            raise TypeError(block)
        case _:
            assert_never(block)


def _payload(seal: Seal | None) -> str:
    return seal.payload if seal is not None else ""  # GEM-20: on the very part it came on

"""Whole replies of the Interactions wire as its server writes them, and the steps that they are made of."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from segue.conversation.blocks import Code, Media, Reasoning, Text, ToolCall
from segue.dialects.gemini_interactions import wire
from segue.dialects.gemini_interactions.citations import annotation_of, is_written
from segue.dialects.gemini_interactions.errors import encode_error
from segue.dialects.gemini_interactions.read_steps import write_thought
from segue.dialects.gemini_interactions.reply import FILTERED
from segue.dialects.replies.calls import compact_arguments
from segue.dialects.requests.extra_fields import plain
from segue.dialects.requests.opaque_blocks import opaque_block
from segue.transcript.blocks.media import describe, written_out

if TYPE_CHECKING:
    from collections.abc import Mapping

    from msgspec import Raw

    from segue.conversation.blocks import Block
    from segue.conversation.events import FinishReason, Reply
    from segue.conversation.usage import Usage


def encode_reply(reply: Reply) -> bytes:
    if reply.error is not None:
        return encode_error(reply.error)[1]
    steps = [step for block in reply.message.blocks for step in _encode_block(block)]
    return wire.ENCODER.encode(
        interaction_object(
            reply.id,
            reply.model,
            created=reply.created,
            steps=steps,
            usage=reply.usage,
            repeated=reply.repeated,
            **status_of(reply.finish, reply.raw_finish),
        )
    )


def status_of(finish: FinishReason, raw: str) -> dict[str, Any]:
    """The status of an interaction that ended so, and the error beside it if there is one. INT-08: no other server can go on with
    what a client was told to continue."""
    match finish:
        case "tool_calls":
            return {"status": "requires_action"}
        case "cancelled":
            return {"status": "cancelled"}
        case "length":
            return {"status": raw if raw == "budget_exceeded" else "incomplete"}
        case "content_filter":
            error = {"code": FILTERED, "message": "The reply was stopped by a filter."}
            return {"status": "incomplete", "errors": [error]}
        case _:
            return {"status": "completed"}


def _encode_block(block: Block) -> list[Any]:
    match block:
        case Text(said):
            if (kept := opaque_block(block)) is not None:
                return [kept if not _is_content(kept) else {"type": "model_output", "content": [kept]}]
            signed = [write_thought("", block.seal.payload)] if block.seal is not None else []
            return [*signed, text_step(said, annotations_of(block))] if said or block.citations else signed
        case Reasoning(thought, seal):
            return [write_thought(thought, seal.payload if seal is not None else "")]
        case ToolCall():
            signed = [write_thought("", block.seal.payload)] if block.seal is not None else []
            arguments = compact_arguments(block)
            return [*signed, wire.FunctionCall(block.native_id or block.id, block.name, arguments)]
        case Media() if block.data:
            return [{"type": "model_output", "content": [wire.media_content(block)]}]
        case Media():
            return [text_step(describe(block).text)]
        case Code():
            return [text_step(written_out(block).text)]
        case _:  # a result is never part of a reply
            return []


def _is_content(kept: Raw) -> bool:
    return plain(kept).get("type") in wire.CONTENTS


def annotations_of(block: Text) -> list[dict[str, Any]]:
    return [annotation_of(citation, block.text) for citation in block.citations if is_written(citation)]


def text_step(said: str, cited: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    content: dict[str, Any] = {"type": "text", "text": said}
    if cited:
        content["annotations"] = cited
    return {"type": "model_output", "content": [content]}


def interaction_object(
    interaction_id: str,
    model: str,
    *,
    status: str,
    repeated: Mapping[str, Any],
    created: float = 0.0,
    steps: list[Any] | None = None,
    usage: Usage | None = None,
    errors: list[Any] | None = None,
) -> dict[str, Any]:
    """`repeated`: what it shows of its request."""
    moment = moment_text(created)
    fields: dict[str, Any] = {
        "id": interaction_id,
        "object": "interaction",
        "status": status,
        "model": model,
        **repeated,
        "created": moment,
        "updated": moment,
    }
    if steps is not None:
        fields["steps"] = steps
    if usage is not None and (counts := counts_of(usage)):
        fields["usage"] = counts
    if errors:
        fields["errors"] = errors
    return fields


def moment_text(seconds: float) -> str:
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def counts_of(usage: Usage) -> dict[str, Any]:
    thoughts = usage.reasoning_tokens
    counts = {
        "total_input_tokens": usage.input_tokens,
        "total_output_tokens": None
        if usage.output_tokens is None
        else max(usage.output_tokens - (thoughts or 0), 0),
        "total_thought_tokens": thoughts,
        "total_cached_tokens": usage.cached_tokens,
        "total_tokens": usage.total_tokens,
        "input_tokens_by_modality": _by_modality(usage.input_tokens, usage.audio_input_tokens),
        "output_tokens_by_modality": _by_modality(usage.output_tokens, usage.audio_output_tokens),
    }
    return {name: value for name, value in counts.items() if value is not None}


def _by_modality(tokens: int | None, audio: int | None) -> list[dict[str, Any]] | None:
    """None if there is text only."""
    if not audio:
        return None
    text = max((tokens or 0) - audio, 0)
    return [{"modality": "text", "tokens": text}, {"modality": "audio", "tokens": audio}]

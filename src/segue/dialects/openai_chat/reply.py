"""Whole replies, both ways, as the events that a stream of them would give."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from segue.conversation.blocks import Media, Reasoning, Text
from segue.conversation.usage import Usage
from segue.dialects.openai_chat.citations import annotations_of, beside_choices
from segue.dialects.openai_chat.errors import encode_error
from segue.dialects.openai_chat.lenient import decode_chunk
from segue.dialects.openai_chat.stream_state import ReplyReader
from segue.dialects.openai_chat.wire import sealed
from segue.dialects.replies.finish_reasons import FinishReasons
from segue.dialects.requests.data_urls import url_of
from segue.errors import ProtocolError
from segue.transcript.blocks.value_text import json_of

if TYPE_CHECKING:
    from segue.conversation.blocks import ToolCall
    from segue.conversation.events import Event, FinishReason, Reply
    from segue.dialects.openai_chat.rules import Variant

_ENCODER = msgspec.json.Encoder()
OWN_FINISHES = FinishReasons(
    {
        "stop": ("stop",),
        "length": ("length",),
        "tool_calls": ("tool_calls", "function_call"),
        "content_filter": ("content_filter",),
        "error": ("error",),
    }
)
"""What OpenAI's own clients know."""


def decode_reply(variant: Variant, data: bytes) -> list[Event]:
    """The events of a whole reply."""
    events: list[Event] = []
    reader = ReplyReader(variant)
    chunk = decode_chunk(data)
    if chunk is None:
        reader.fail(ProtocolError("The reply is not a JSON object.", code="reply_not_json"), events)
        return events
    reader.read(chunk, events, whole=True)
    reader.end(events, proper=True)
    return events


def encode_reply(variant: Variant, reply: Reply) -> bytes:
    if reply.error is not None:
        return encode_error(reply.error)[1]
    choice = {
        "index": 0,
        "message": _message(variant, reply),
        "logprobs": None,
        "finish_reason": finish_reason(reply.finish, reply.raw_finish),
    }
    body: dict[str, Any] = {
        "id": reply.id,
        "object": "chat.completion",
        "created": int(reply.created),
        "model": reply.model,
        "choices": [choice],
    }
    cited = [
        citation for block in reply.message.blocks if type(block) is Text for citation in block.citations
    ]
    body |= beside_choices(cited, variant.name)
    if reply.usage != Usage():
        body["usage"] = counts_of(reply.usage)
    return _ENCODER.encode(body)


def _message(variant: Variant, reply: Reply) -> dict[str, Any]:
    blocks = reply.message.blocks
    thoughts = [block for block in blocks if type(block) is Reasoning]
    text = reply.message.text
    calls = [call_of(call) for call in reply.message.calls]
    refused = reply.raw_finish == "refusal"
    message: dict[str, Any] = {
        "role": "assistant",
        "content": None if refused or (calls and not text) else text,
        "refusal": text if refused else None,
    }
    if any(thought.text for thought in thoughts):
        message[variant.thoughts or "reasoning_content"] = "".join(thought.text for thought in thoughts)
    details = [detail for thought in thoughts for detail in details_of(variant, thought)]
    if details:
        message["reasoning_details"] = details
    if calls:
        message["tool_calls"] = calls
    annotations = annotations_of(blocks, variant.name)
    if annotations:
        message["annotations"] = annotations
    images = [image_of(block) for block in blocks if type(block) is Media and block.kind != "audio"]
    if images:
        message["images"] = images
    sounds = [block for block in blocks if type(block) is Media and block.kind == "audio"]
    if sounds:
        message["content"] = None  # the transcript has it
        message["audio"] = {
            "id": f"audio_{reply.id}",
            "data": sounds[0].data,
            "transcript": text,
            "expires_at": 0,
        }
    for block in blocks:
        if type(block) is Text and block.seal is not None and block.seal.kind == "thought":
            message["extra_content"] = sealed(block.seal.payload)
    return message


def details_of(variant: Variant, thought: Reasoning) -> list[Any]:
    """The reasoning details that a seal of this server holds."""
    if not variant.details or thought.seal is None or thought.seal.origin.dialect != variant.name:
        return []
    return read_details(thought.seal.payload)


def read_details(payload: str) -> list[Any]:
    try:
        details = msgspec.json.decode(payload)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return []
    return details if isinstance(details, list) else []


def call_of(call: ToolCall) -> dict[str, Any]:
    encoded: dict[str, Any] = {
        "id": call.native_id or call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": call.raw or json_of(call.arguments or {})},
    }
    if call.seal is not None and call.seal.kind == "thought":
        encoded["extra_content"] = sealed(call.seal.payload)
    return encoded


def image_of(media: Media) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url_of(media)}}


def finish_reason(reason: FinishReason, raw: str) -> str:
    """This wire's own reason if the reply ended with one, else the nearest."""
    if raw == "refusal":
        return "stop"
    return OWN_FINISHES.write(reason, raw)


def counts_of(usage: Usage) -> dict[str, Any]:
    counts: dict[str, Any] = {
        "prompt_tokens": usage.input_tokens,  # null: not known
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.total_tokens,
    }
    parts = {
        "prompt_tokens_details": {
            "cached_tokens": usage.cached_tokens,
            "cache_write_tokens": usage.cache_write_tokens,
            "audio_tokens": usage.audio_input_tokens,
        },
        "completion_tokens_details": {
            "reasoning_tokens": usage.reasoning_tokens,
            "audio_tokens": usage.audio_output_tokens,
        },
    }
    for place, details in parts.items():
        if known := {name: count for name, count in details.items() if count is not None}:
            counts[place] = known
    return counts

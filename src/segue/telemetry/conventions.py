"""OpenTelemetry's conventions for generative AI: names, bounds, and contents, as chats and the gateway write them."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from segue.conversation.blocks import Media, Reasoning, Text, ToolCall, ToolResult

if TYPE_CHECKING:
    from opentelemetry.metrics import Histogram, Meter

    from segue.conversation.blocks import Block
    from segue.conversation.message import Message
    from segue.conversation.usage import Usage

Attributes: TypeAlias = Mapping[str, Any]
"""They are shared between spans, and never changed."""
CONTENT: Final = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
_ON_SPANS: Final = ("SPAN_ONLY", "SPAN_AND_EVENT", "TRUE")
_AS_EVENTS: Final = ("EVENT_ONLY", "SPAN_AND_EVENT")
_TOKEN_BOUNDS: Final = [4**power for power in range(14)]
_SECOND_BOUNDS: Final = [0.01 * 2**power for power in range(14)]
_MOST_KEPT: Final = 1000


def content_on_spans() -> bool:
    """Whether the user asks for what was written on spans."""
    return os.environ.get(CONTENT, "").upper() in _ON_SPANS


def content_as_events() -> bool:
    return os.environ.get(CONTENT, "").upper() in _AS_EVENTS


def token_histogram(meter: Meter) -> Histogram:
    return meter.create_histogram(
        "gen_ai.client.token.usage", "{token}", explicit_bucket_boundaries_advisory=_TOKEN_BOUNDS
    )


def duration_histogram(meter: Meter) -> Histogram:
    return meter.create_histogram(
        "gen_ai.client.operation.duration", "s", explicit_bucket_boundaries_advisory=_SECOND_BOUNDS
    )


def record_tokens(tokens: Histogram, usage: Usage, facts: Attributes) -> None:
    for kind, count in (("input", usage.input_tokens), ("output", usage.output_tokens)):
        if count is not None:
            tokens.record(count, {**facts, "gen_ai.token.type": kind})


@cache
def _provider_names() -> dict[str, str]:
    return tomllib.loads(files(__package__).joinpath("provider_names.toml").read_text("utf-8"))


@lru_cache(_MOST_KEPT)
def route_facts(route: str) -> Attributes:
    """Who answered: `provider/model`."""
    provider, _, model = route.partition("/")
    named = _provider_names().get(provider, provider)
    return {"gen_ai.provider.name": named, "gen_ai.response.model": model} if route else {}


@lru_cache(_MOST_KEPT)
def request_facts(operation: str, asked: str, route: str) -> Attributes:
    """What the span of a request and its measurements have."""
    return {"gen_ai.operation.name": operation, "gen_ai.request.model": asked, **route_facts(route)}


@lru_cache(_MOST_KEPT)
def attempt_facts(operation: str, route: str) -> Attributes:
    return {"gen_ai.operation.name": operation, **route_facts(route)}


def usage_facts(usage: Usage) -> dict[str, Any]:
    """Counts that are not known are None."""
    return {
        "gen_ai.usage.input_tokens": usage.input_tokens,
        "gen_ai.usage.output_tokens": usage.output_tokens,
        "gen_ai.usage.cache_read.input_tokens": usage.cached_tokens,
        "gen_ai.usage.cache_creation.input_tokens": usage.cache_write_tokens,
        "gen_ai.usage.reasoning.output_tokens": usage.reasoning_tokens,
    }


def content_of(messages: Sequence[Message], answer: Message | None) -> dict[str, Any]:
    return {
        "gen_ai.input.messages": _messages(messages),
        "gen_ai.output.messages": _messages([answer] if answer is not None else []),
    }


def as_texts(content: Attributes) -> dict[str, str]:
    """As JSON: attributes of spans hold no structures."""
    return {name: msgspec.json.encode(value).decode() for name, value in content.items()}


def _messages(messages: Sequence[Message]) -> list[dict[str, Any]]:
    return [
        {
            "role": "assistant" if message.speaker == "model" else message.speaker,
            "parts": [part for block in message.blocks if (part := _part(block)) is not None],
        }
        for message in messages
    ]


def _part(block: Block) -> dict[str, Any] | None:
    match block:
        case Text():
            return {"type": "text", "content": block.text}
        case Reasoning():
            return {"type": "reasoning", "content": block.text}
        case ToolCall():
            return {"type": "tool_call", "id": block.id, "name": block.name, "arguments": block.arguments}
        case ToolResult():
            response = block.output if block.error is None else block.error
            return {"type": "tool_call_response", "id": block.call_id, "response": response}
        case Media():
            return {"type": "blob", "mime_type": block.mime, "modality": block.kind}
        case _:
            return None

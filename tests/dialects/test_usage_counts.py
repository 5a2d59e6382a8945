"""Counts of a provider are not believed if they cannot be true, and never cost a reply its text."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.conversation.blocks import Origin
from segue.conversation.events import fold
from segue.conversation.usage import Usage
from segue.dialects import DIALECTS

ODD: tuple[Any, ...] = (
    -1,
    -(2**70),
    2**53,
    2**63,
    2**64,
    10**40,
    1e300,
    1.5,
    "7",
    "many",
    True,
    [],
    {},
    None,
)


def chat(usage: Any) -> dict[str, Any]:
    choice = {"index": 0, "message": {"role": "assistant", "content": "Hello."}, "finish_reason": "stop"}
    return {"id": "1", "object": "chat.completion", "model": "m", "choices": [choice], "usage": usage}


def responses(usage: Any) -> dict[str, Any]:
    text = {"type": "output_text", "text": "Hello.", "annotations": []}
    item = {"type": "message", "id": "i", "role": "assistant", "status": "completed", "content": [text]}
    return {"id": "1", "object": "response", "status": "completed", "output": [item], "usage": usage}


def anthropic(usage: Any) -> dict[str, Any]:
    content = [{"type": "text", "text": "Hello."}]
    return {
        "id": "1",
        "type": "message",
        "role": "assistant",
        "content": content,
        "stop_reason": "end_turn",
        "usage": usage,
    }


def gemini(usage: Any) -> dict[str, Any]:
    content = {"role": "model", "parts": [{"text": "Hello."}]}
    return {"candidates": [{"content": content, "finishReason": "STOP"}], "usageMetadata": usage}


def ollama(usage: Any) -> dict[str, Any]:
    counts = usage if isinstance(usage, dict) else {}
    return {"model": "m", "message": {"role": "assistant", "content": "Hello."}, "done": True, **counts}


BODIES: dict[str, tuple[Any, tuple[str, str, str]]] = {
    "openai_chat": (chat, ("prompt_tokens", "completion_tokens", "prompt_tokens_details.cached_tokens")),
    "mistral": (chat, ("prompt_tokens", "completion_tokens", "prompt_tokens_details.cached_tokens")),
    "deepseek": (chat, ("prompt_tokens", "completion_tokens", "prompt_cache_hit_tokens")),
    "openai_responses": (responses, ("input_tokens", "output_tokens", "input_tokens_details.cached_tokens")),
    "anthropic": (anthropic, ("input_tokens", "output_tokens", "cache_read_input_tokens")),
    "gemini": (gemini, ("promptTokenCount", "candidatesTokenCount", "cachedContentTokenCount")),
    "ollama": (ollama, ("prompt_eval_count", "eval_count", "none")),
}
"""How a reply of a wire looks, and what it calls input, output and what was read from a cache."""


def usage_in(wire: str, counts: Any) -> Usage:
    build, _ = BODIES[wire]
    reply = fold(DIALECTS[wire].decode_reply(json.dumps(build(counts)).encode()), Origin(wire))
    assert reply.error is None, reply.error
    assert reply.message.text == "Hello."
    return reply.usage


def written(wire: str, *values: Any) -> dict[str, Any]:
    counts: dict[str, Any] = {}
    for name, value in zip(BODIES[wire][1], values, strict=False):
        first, _, second = name.partition(".")
        counts[first] = {second: value} if second else value
    return counts


def is_possible(usage: Usage) -> bool:
    known = [
        value for value in (usage.input_tokens, usage.output_tokens, usage.cached_tokens) if value is not None
    ]
    cached = (usage.cached_tokens or 0) + (usage.cache_write_tokens or 0)
    return (
        all(0 <= value < 2**53 for value in known)
        and (usage.input_tokens is None or cached <= usage.input_tokens)
        and (usage.output_tokens is None or (usage.reasoning_tokens or 0) <= usage.output_tokens)
    )


@pytest.mark.parametrize("wire", BODIES)
@pytest.mark.parametrize("odd", ODD, ids=repr)
@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_count_that_is_none_costs_no_reply_its_text(wire: str, odd: Any, place: int) -> None:
    values: list[Any] = [20, 5, 3]
    values[place] = odd
    usage = usage_in(wire, written(wire, *values))
    assert is_possible(usage), usage
    if place == 1 and odd is not None:
        assert usage.output_tokens is None or isinstance(odd, float)


@pytest.mark.parametrize("wire", BODIES)
@pytest.mark.parametrize("counts", [[], "none", 7, None, True], ids=repr)
def test_counts_that_are_no_object_cost_no_reply_its_text(wire: str, counts: Any) -> None:
    assert usage_in(wire, counts) == Usage()


@pytest.mark.parametrize("wire", [wire for wire in BODIES if wire not in ("ollama", "anthropic")])
def test_more_from_the_cache_than_there_was_is_not_believed(wire: str) -> None:
    usage = usage_in(wire, written(wire, 20, 5, 100_000_000))
    assert (usage.input_tokens, usage.cached_tokens, usage.output_tokens) == (None, None, 5)


@given(
    st.sampled_from(sorted(BODIES)), st.lists(st.integers() | st.sampled_from(ODD), min_size=3, max_size=3)
)
def test_whatever_is_counted_a_usage_is_possible(wire: str, values: list[Any]) -> None:
    assert is_possible(usage_in(wire, written(wire, *values)))

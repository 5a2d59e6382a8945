"""What is kept of a body is bounded by what the body was charged, whatever it holds and wherever it stands; and all charges
together stay within the budget.

Kept: the parsed fields, the conversation with its tools and options, and the body itself. Counted by tracemalloc, not by us.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kept_memory import kept_of
from segue.conversation.blocks import Origin
from segue.conversation.events import Event, fold
from segue.dialects.caches.read_cache import ReadCache
from segue.dialects.registry import DIALECTS, WIRES
from segue.dialects.streams.amazon_event_stream import event_frame
from segue.errors import InvalidRequestError, OverloadError, SegueError
from segue.gateway.conversations.turns import read_fields
from segue.gateway.requests.byte_budget import SHARE, ByteBudget, Holding, most_values, values_in, weight_of

FACTOR = 8
ALWAYS = 300_000
"""Bytes that are allowed for what is loaded or remembered once."""

UNITS = (
    "{}",
    "[]",
    '""',
    "0",
    "1.5",
    "987654",
    "null",
    '"a"',
    '"é"',
    '"\\ud83d\\ude00"',
    '{"a":1}',
    '{"a":{"b":[]}}',
    "[[[]]]",
    '{"role":"user","content":""}',
    '{"role":"user","content":"a"}',
    '{"role":"user","content":[{"type":"text","text":""}]}',
    '{"role":"assistant","content":"a"}',
    '{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"f","input":{}}]}',
    '{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]}',
    '{"role":"tool","tool_call_id":"c","content":""}',
    '{"role":"user","parts":[{"text":"a"}]}',
    '{"role":"model","parts":[{"functionCall":{"name":"f","args":{}}}]}',
    '{"type":"function_call","call_id":"c","name":"f","arguments":"{}"}',
    '{"type":"function_call_output","call_id":"c","output":""}',
    '{"type":"function","function":{"name":"f","parameters":{}}}',
    '{"name":"f","input_schema":{}}',
)


def body_of(wire: str, unit: str, count: int, place: str) -> bytes:
    """A request with this unit so many times, at one of its places."""
    field = DIALECTS[wire].messages_field
    many = "[" + ",".join([unit] * count) + "]"
    hi = (
        {"role": "user", "parts": [{"text": "hi"}]}
        if field == "contents"
        else {"role": "user", "content": "hi"}
    )
    fields: dict[str, Any] = {"model": "m", field: [hi]}
    marked = {
        "messages": {**fields, field: "MARK"},
        "content": {**fields, field: [{"role": "user", "content": "MARK", "parts": "MARK"}]},
        "tools": {**fields, "tools": "MARK"},
        "schema": {
            **fields,
            "tools": [
                {"type": "function", "name": "f", "function": {"name": "f", "parameters": {"enum": "MARK"}}}
            ],
        },
        "own field": {**fields, "x": "MARK"},
        "keys": {**fields, "x": {"MARK": 0}},
        "arguments": {
            **fields,
            field: [
                hi,
                {
                    "role": "assistant",
                    "content": "",
                    "tool_calls": [
                        {"id": "c", "type": "function", "function": {"name": "f", "arguments": "TEXT"}}
                    ],
                },
                {"role": "tool", "tool_call_id": "c", "content": "done"},
            ],
        },
    }[place]
    text = json.dumps(marked).replace('"TEXT"', json.dumps('{"values":' + many + "}"))
    if place == "keys":
        return text.replace('"MARK": 0', ",".join(f'"{number}":{unit}' for number in range(count))).encode()
    return text.replace('"MARK"', many).encode()


PLACES = ("messages", "content", "tools", "schema", "own field", "keys", "arguments")


def read_whole(wire: str, body: bytes) -> object:
    """All that the gateway makes of a request; its fields, where it is refused later."""
    with suppress(SegueError, msgspec.DecodeError, RecursionError):
        return ReadCache(0).read(DIALECTS[wire], body)
    with suppress(SegueError):
        return read_fields(body)
    return None


def kept_of_request(wire: str, body: bytes) -> int:
    read_whole(wire, body)
    return kept_of(lambda: read_whole(wire, body)) + len(body)


@given(
    wire=st.sampled_from(WIRES),
    unit=st.sampled_from(UNITS),
    count=st.integers(500, 3_000),
    place=st.sampled_from(PLACES),
)
@example(wire="openai_chat", unit="{}", count=5_000, place="messages")
@example(wire="openai_chat", unit='{"role":"user","content":""}', count=5_000, place="messages")
@example(wire="openai_chat", unit="{}", count=5_000, place="own field")
@example(wire="openai_chat", unit="{}", count=5_000, place="arguments")
@example(wire="openai_chat", unit='"\\ud83d\\ude00"', count=5_000, place="own field")
@example(wire="openai_responses", unit='{"role":"user","content":""}', count=5_000, place="messages")
@example(
    wire="anthropic",
    unit='{"role":"user","content":[{"type":"text","text":""}]}',
    count=5_000,
    place="messages",
)
@example(wire="gemini", unit='{"role":"user","parts":[{"text":"a"}]}', count=5_000, place="messages")
@example(wire="mistral", unit='{"role":"assistant","content":"a"}', count=5_000, place="messages")
@example(wire="ollama", unit='{"role":"user","content":"a"}', count=5_000, place="messages")
def test_what_is_kept_of_a_request_is_bounded_by_what_it_was_charged(
    wire: str, unit: str, count: int, place: str
) -> None:
    body = body_of(wire, unit, count, place)
    assert kept_of_request(wire, body) <= FACTOR * weight_of(body) + ALWAYS


@given(wire=st.sampled_from(WIRES), piece=st.text(min_size=1, max_size=20), count=st.integers(1_000, 20_000))
@example(wire="openai_chat", piece="x" * 20, count=40_000)
@example(wire="openai_chat", piece="😀", count=40_000)
def test_what_is_kept_of_a_text_is_bounded(wire: str, piece: str, count: int) -> None:
    field = DIALECTS[wire].messages_field
    text = piece * count
    body = json.dumps(
        {"model": "m", field: [{"role": "user", "content": text, "parts": [{"text": text}]}]},
        ensure_ascii=True,
    ).encode()
    assert kept_of_request(wire, body) <= FACTOR * weight_of(body) + ALWAYS


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=8) | st.dictionaries(st.text(), inner, max_size=8),
    max_leaves=60,
)


def count_of(value: Any) -> int:
    """Values, by a parser."""
    if isinstance(value, dict):
        return 1 + sum(map(count_of, value.values()))
    return 1 + sum(map(count_of, value)) if isinstance(value, list) else 1


@given(value=json_values, compact=st.booleans(), ascii_only=st.booleans())
def test_values_are_never_counted_as_fewer_than_they_are(value: Any, compact: bool, ascii_only: bool) -> None:
    separators = (",", ":") if compact else None
    body = json.dumps(value, separators=separators, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    counted = values_in(body, 10**6)
    # Containers count twice with their first value, which has no comma before it.
    assert count_of(value) <= counted + 1
    assert counted <= 2 * count_of(value)
    assert counted <= most_values(body)


sizes = st.lists(
    st.tuples(st.sampled_from(["", "ann", "bob"]), st.integers(0, 300), st.booleans()), max_size=40
)


@given(steps=sizes)
def test_what_is_held_never_exceeds_the_budget_nor_a_caller_its_share(
    steps: list[tuple[str, int, bool]],
) -> None:
    budget = ByteBudget(1000)
    kept = budget.open()
    with suppress(OverloadError, InvalidRequestError):
        kept.add(400)
    spared: list[int] = []

    def spare(size: int) -> None:
        spared.append(size)
        kept.close()

    budget.when_short(spare)
    opened: list[tuple[str, Holding]] = []
    for caller, size, ends in steps:
        holding = budget.open(caller)
        opened.append((caller, holding))
        with suppress(OverloadError, InvalidRequestError):
            holding.add(size)
        assert budget.held <= 1000
        assert sum(each.size for name, each in opened if name == "ann") <= 1000 // SHARE
        assert budget.held == kept.size + sum(each.size for _, each in opened)
        if ends:
            opened.pop(0)[1].close()
    for _, holding in opened:
        holding.close()
        holding.close()
    kept.close()
    assert budget.held == 0


# Replies

STREAMS: dict[str, tuple[dict[str, Any], ...]] = {
    "openai_chat": (
        {"choices": [{"delta": {"content": "a"}}]},
        {"choices": [{"delta": {"reasoning_content": "a"}}]},
        {
            "choices": [
                {
                    "delta": {
                        "tool_calls": [{"index": 0, "id": "c", "function": {"name": "f", "arguments": "1"}}]
                    }
                }
            ]
        },
        {"choices": []},
        {},
    ),
    "openai_responses": (
        {"type": "response.output_text.delta", "output_index": 0, "delta": "a"},
        {
            "type": "response.reasoning_summary_text.delta",
            "output_index": 0,
            "summary_index": 0,
            "delta": "a",
        },
        {"type": "response.function_call_arguments.delta", "output_index": 0, "delta": "1"},
        {"type": "keepalive"},
        {},
    ),
    "anthropic": (
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "a"}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "a"}},
        {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "input_json_delta", "partial_json": "1"},
        },
        {"type": "message_delta", "delta": {}, "usage": {"output_tokens": 1}},
        {"type": "ping"},
        {},
    ),
    "gemini": (
        {"candidates": [{"content": {"parts": [{"text": "a"}]}}]},
        {"candidates": [{"content": {"parts": [{"text": "a", "thought": True}]}}]},
        {"candidates": [{"content": {"parts": [{"functionCall": {"name": "f", "args": {}}}]}}]},
        {"candidates": [{"groundingMetadata": {"webSearchQueries": []}}]},
        {},
    ),
    "gemini_interactions": (
        {"event_type": "step.delta", "index": 0, "delta": {"type": "text", "text": "a"}},
        {
            "event_type": "step.delta",
            "index": 0,
            "delta": {"type": "thought_summary", "content": {"text": "a"}},
        },
        {"event_type": "step.delta", "index": 0, "delta": {"type": "arguments_delta", "arguments": "1"}},
        {"event_type": "step.start", "index": 0, "step": {"type": "thought"}},
        {},
    ),
    "ollama": (
        {"message": {"role": "assistant", "content": "a"}},
        {"message": {"role": "assistant", "thinking": "a"}},
        {"message": {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": {}}}]}},
        {},
    ),
    "mistral": (
        {"choices": [{"delta": {"content": "a"}}]},
        {
            "choices": [
                {"delta": {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "a"}]}]}}
            ]
        },
        {
            "choices": [
                {
                    "delta": {
                        "tool_calls": [{"index": 0, "id": "c", "function": {"name": "f", "arguments": "1"}}]
                    }
                }
            ]
        },
        {},
    ),
    "converse": (
        {"contentBlockDelta": {"contentBlockIndex": 0, "delta": {"text": "a"}}},
        {"contentBlockDelta": {"contentBlockIndex": 0, "delta": {"reasoningContent": {"text": "a"}}}},
        {"contentBlockDelta": {"contentBlockIndex": 0, "delta": {"toolUse": {"input": "1"}}}},
        {
            "contentBlockStart": {
                "contentBlockIndex": 0,
                "start": {"toolUse": {"toolUseId": "c", "name": "f"}},
            }
        },
        {"own": {}},
    ),
}
"""The shortest portions there are, of every kind."""


def streamed(wire: str, portion: dict[str, Any]) -> bytes:
    if wire == "converse":
        ((event, payload),) = portion.items()
        return event_frame(event, json.dumps(payload, separators=(",", ":")).encode())
    written = json.dumps(portion, separators=(",", ":")).encode()
    return written + b"\n" if wire == "ollama" else b"data: " + written + b"\n\n"


def test_every_wire_has_its_portions() -> None:
    assert STREAMS.keys() == set(WIRES)


@pytest.mark.parametrize(
    ("wire", "number"), [(wire, number) for wire in sorted(STREAMS) for number in range(len(STREAMS[wire]))]
)
def test_what_is_kept_of_a_streamed_reply_is_bounded_by_its_bytes(wire: str, number: int) -> None:
    data = streamed(wire, STREAMS[wire][number]) * 1_500

    def read() -> tuple[list[Event], object]:
        decoder = DIALECTS[wire].new_decoder()
        events: list[Event] = []
        for start in range(0, len(data), 1 << 14):
            events += decoder.feed(data[start : start + (1 << 14)])
        return events, fold(events, Origin())

    read()
    assert kept_of(read) <= (FACTOR if number else 3) * len(data) + ALWAYS


REPLY_PLACES = ("content", "block", "calls", "arguments", "counts", "own field", "error")


def reply_of(wire: str, unit: str, count: int, place: str) -> bytes:
    """A whole reply, or the body of a refusal, with this unit so many times at one of its places."""
    many = "[" + ",".join([unit] * count) + "]"
    within = {
        "content": "MARK",
        "block": [{"type": "text", "text": "MARK"}, {"type": "own", "held": "MARK"}],
        "calls": "a",
        "arguments": "a",
    }.get(place, "a")
    calls: Any = "MARK" if place == "calls" else []
    if place == "arguments":
        calls = [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "TEXT"}}]
    counts: Any = {"input_tokens": "MARK", "details": "MARK"} if place == "counts" else {}
    own = {"x": "MARK"} if place == "own field" else {}
    called = {"type": "function_call", "id": "1", "call_id": "c", "name": "f", "arguments": "TEXT"}
    item = {"type": "message", "id": "1", "role": "assistant", "content": within}
    fields: dict[str, Any]
    match wire:
        case "openai_responses":
            output = calls if place == "calls" else [called] if place == "arguments" else [item]
            fields = {"id": "1", "status": "completed", "output": output, "usage": counts}
        case "anthropic":
            blocks = {"arguments": [{"type": "tool_use", "id": "c", "name": "f", "input": {"a": "MARK"}}]}
            content = blocks.get(place, calls if place == "calls" else within)
            fields = {"id": "1", "type": "message", "role": "assistant", "content": content, "usage": counts}
        case "gemini":
            args = {"functionCall": {"name": "f", "args": {"a": "MARK"}}}
            parts = {"calls": calls, "arguments": [args], "content": "MARK", "block": [{"fileData": "MARK"}]}
            content = {"role": "model", "parts": parts.get(place, [{"text": "a"}])}
            fields = {"candidates": [{"content": content, "finishReason": "STOP"}], "usageMetadata": counts}
        case "ollama":
            message = {"role": "assistant", "content": within, "tool_calls": calls}
            fields = {"message": message, "done": True, **({"prompt_eval_count": "MARK"} if counts else {})}
        case _:
            message = {"role": "assistant", "content": within, "tool_calls": calls}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            fields = {"id": "1", "choices": [choice], "usage": counts}
    if place == "error":
        fields = {"error": {"message": "no", "type": "a", "details": "MARK"}}
    text = json.dumps({**fields, **own})
    text = text.replace('"TEXT"', json.dumps('{"values":' + many + "}"))
    return text.replace('"MARK"', many).encode()


@given(
    wire=st.sampled_from(WIRES),
    unit=st.sampled_from(UNITS),
    count=st.integers(200, 600),
    place=st.sampled_from(REPLY_PLACES),
)
@example(wire="openai_chat", unit="{}", count=1_000, place="calls")
@example(wire="anthropic", unit='{"type":"text","text":"a"}', count=1_000, place="content")
@example(wire="openai_responses", unit='{"type":"function_call"}', count=1_000, place="calls")
@example(wire="gemini", unit='{"functionCall":{"name":"f"}}', count=1_000, place="calls")
@example(wire="mistral", unit="[[[]]]", count=1_000, place="block")
@example(wire="ollama", unit="{}", count=1_000, place="calls")
def test_what_is_kept_of_a_whole_reply_is_bounded_by_its_bytes_and_values(
    wire: str, unit: str, count: int, place: str
) -> None:
    body = reply_of(wire, unit, count, place)
    dialect = DIALECTS[wire]

    def read() -> object:
        if place == "error":
            return dialect.decode_error(400, {}, body)
        events = dialect.decode_reply(body)
        return events, fold(events, Origin())

    read()
    assert kept_of(read) <= FACTOR * weight_of(body) + ALWAYS

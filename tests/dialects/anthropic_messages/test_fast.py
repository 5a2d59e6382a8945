"""Which messages the fast path reads, and which it leaves to the slow path."""

from __future__ import annotations

from typing import Any

import pytest

from segue.conversation.blocks import Origin
from segue.dialects.anthropic_messages import DIALECT
from segue.dialects.anthropic_messages.fast import read_exchanges, read_fast
from segue.dialects.anthropic_messages.read_messages import _read_message
from segue.errors import TranscriptError
from segue.transcript.fast import fast_paths

ORIGIN = Origin("anthropic", model="m")
CALL = {"type": "tool_use", "id": "toolu_1", "name": "read", "input": {"path": "a"}}
RESULT = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "done"}
TEXT = {"type": "text", "text": "hello"}
MARK = {"cache_control": {"type": "ephemeral"}}
THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "SEALED"}


@pytest.mark.parametrize(
    "message",
    [
        {"role": "user", "content": "hello"},
        {"role": "user", "content": [TEXT]},
        {"role": "user", "content": [TEXT, TEXT]},
        {"role": "user", "content": [RESULT, RESULT]},
        {"role": "user", "content": [{**RESULT, "is_error": True}]},
        {"role": "user", "content": [{**RESULT, "is_error": False}, {**RESULT, "is_error": True, **MARK}]},
        {"role": "user", "content": [{**TEXT, **MARK}]},
        {"role": "user", "content": [TEXT, {**TEXT, **MARK}]},
        {"role": "user", "content": [{**RESULT, **MARK}]},
        {"role": "system", "content": "hello"},
        {"role": "assistant", "content": "hello"},
        {"role": "assistant", "content": [THOUGHT, TEXT, CALL, CALL]},
    ],
)
def test_common_messages_are_read_fast(message: dict[str, Any]) -> None:
    fast = read_fast(message, ORIGIN, [])
    assert fast is not None
    assert [fast] == list(_read_message(message, "messages[0]", ORIGIN))


@pytest.mark.parametrize(
    "message",
    [
        "hello",
        {"role": "user", "content": []},
        {"role": "user", "content": [RESULT, TEXT]},
        {"role": "user", "content": [TEXT, RESULT]},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm"}, CALL]},
        {"role": "assistant", "content": [{**CALL, "input": None}]},
        {"role": "assistant", "content": [{**CALL, "caller": {"type": "direct"}}]},
        {"role": "assistant", "content": [{**THOUGHT, "new_field": 1}]},
        {"role": "user", "content": [{**TEXT, **MARK, "new_field": 1}]},
        {"role": "user", "content": [{**RESULT, **MARK, "new_field": 1}]},
        {"role": "user", "content": [{**RESULT, "is_error": "no"}]},
        {"role": "user", "content": "hello", "new_field": 1},
    ],
)
def test_what_may_hold_more_is_left_to_the_slow_path(message: Any) -> None:
    assert read_fast(message, ORIGIN, []) is None


EXCHANGE: list[Any] = [{"role": "assistant", "content": [TEXT, CALL]}, {"role": "user", "content": [RESULT]}]


def decoded(messages: list[Any]) -> object:
    try:
        return DIALECT.decode_request({"model": "m", "messages": messages})
    except TranscriptError as error:
        return error.path, str(error)


def test_a_run_of_exchanges_is_read_at_once() -> None:
    assert read_exchanges(EXCHANGE * 3, 0, ORIGIN, []) == 6
    assert read_exchanges([*EXCHANGE, {"role": "user", "content": "hello"}, *EXCHANGE], 0, ORIGIN, []) == 2


@pytest.mark.parametrize("at", range(5))
@pytest.mark.parametrize(
    "odd",
    [
        *EXCHANGE,
        {"role": "user", "content": "hello"},
        {"role": "system", "content": "hello"},
        {"role": "assistant", "content": "no"},
        {"role": "assistant", "content": [CALL, TEXT]},
        {"role": "assistant", "content": [{**TEXT, **MARK}, CALL]},
        {"role": "assistant", "content": [TEXT, {**CALL, "input": None}]},
        {"role": "assistant", "content": [TEXT, {**CALL, "id": 1}]},
        {"role": "assistant", "content": [{**TEXT, "text": None}, CALL]},
        {"role": "assistant", "content": {"type": 1, "text": 2}},
        {"role": "assistant", "content": [TEXT, CALL], "new_field": 1},
        {"role": "user", "content": [{**RESULT, **MARK}]},
        {"role": "user", "content": [{**RESULT, "content": [TEXT]}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "is_error": True}]},
        {"role": "user", "content": 7},
        {"role": 7, "content": [RESULT]},
        {"content": [RESULT]},
        ["role", "content"],
        "no",
        None,
    ],
)
def test_whatever_stands_in_a_run_of_exchanges_is_read_as_ever(odd: Any, at: int) -> None:
    messages = EXCHANGE * 2
    messages[at:at] = [odd]
    fast = decoded(messages)
    with fast_paths.disabled():
        assert decoded(messages) == fast

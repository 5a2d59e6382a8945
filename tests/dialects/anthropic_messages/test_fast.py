"""What is read at once is read as the careful reader reads it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.conversation.blocks import Origin
from segue.dialects.anthropic_messages.fast import read_fast
from segue.dialects.anthropic_messages.request import _decode_message

ORIGIN = Origin("anthropic", model="m")
CALL = {"type": "tool_use", "id": "toolu_1", "name": "read", "input": {"path": "a"}}
RESULT = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "done"}
TEXT = {"type": "text", "text": "hello", "cache_control": {"type": "ephemeral"}}
THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "SEALED"}

strings = st.sampled_from(("", " ", "hello", "\ud800"))
odd: st.SearchStrategy[Any] = st.sampled_from((None, 1, True, [], {}, ["x"], [{"type": "text", "text": "x"}]))
parts = st.sampled_from((CALL, RESULT, TEXT, THOUGHT)) | st.fixed_dictionaries(
    {"type": st.sampled_from(("text", "tool_use", "tool_result", "thinking", "other"))},
    optional={
        "text": strings | odd,
        "id": strings | odd,
        "name": strings | odd,
        "input": strings | odd,
        "tool_use_id": strings | odd,
        "content": strings | odd,
        "is_error": st.booleans(),
        "thinking": strings | odd,
        "signature": strings | odd,
    },
)
told = st.fixed_dictionaries(
    {"role": st.sampled_from(("user", "assistant", "system"))},
    optional={"content": strings | odd | st.lists(parts, max_size=3), "unheard_of": odd},
)


@given(told)
def test_a_usual_message_is_read_as_with_care(message: dict[str, Any]) -> None:
    usual = read_fast(message, ORIGIN)
    assert usual is None or [usual] == list(_decode_message(message, "messages[0]", ORIGIN))


@pytest.mark.parametrize(
    "message",
    [
        {"role": "user", "content": "hello"},
        {"role": "user", "content": [TEXT, TEXT]},
        {"role": "user", "content": [RESULT, RESULT]},
        {"role": "assistant", "content": "hello"},
        {"role": "assistant", "content": [THOUGHT, TEXT, CALL, CALL]},
    ],
)
def test_the_usual_messages_are_read_at_once(message: dict[str, Any]) -> None:
    usual = read_fast(message, ORIGIN)
    assert usual is not None
    assert [usual] == list(_decode_message(message, "messages[0]", ORIGIN))


@pytest.mark.parametrize(
    "message",
    [
        "hello",
        {"role": "system", "content": "hello"},
        {"role": "user", "content": []},
        {"role": "user", "content": [RESULT, TEXT]},
        {"role": "user", "content": [TEXT, RESULT]},
        {"role": "user", "content": [{**RESULT, "is_error": True}]},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm"}, CALL]},
        {"role": "assistant", "content": [{**CALL, "input": None}]},
    ],
)
def test_what_may_hold_more_is_left_to_the_careful_reader(message: Any) -> None:
    assert read_fast(message, ORIGIN) is None

"""What is read at once is read as the careful reader reads it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.conversation.blocks import Origin
from segue.dialects.openai_chat.fast import read_fast
from segue.dialects.openai_chat.read_messages import read_message

ORIGIN = Origin("openai_chat", model="m")
CALL = {"id": "call_1", "type": "function", "function": {"name": "read", "arguments": '{"path": "a"}'}}

strings = st.sampled_from(("", " ", "hello", "\ud800"))
odd = st.sampled_from((None, 1, True, [], {}, ["x"], {"type": "text", "text": "x"}))
arguments = st.sampled_from(
    ("", " ", "{}", '{"a": 1}', "[1]", '{"cut": "o', '{"a": "\ud800"}', {"a": 1}, None)
)


def sometimes(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Objects in which any of these fields may be missing, and one that nobody knows may be there."""
    return st.fixed_dictionaries({}, optional={**fields, "unheard_of": odd})


functions = sometimes(name=strings | odd, arguments=arguments)
calls = st.just(CALL) | sometimes(
    id=strings | odd,
    type=st.sampled_from(("function", "custom")),
    function=functions,
    custom=sometimes(name=strings, input=strings),
    extra_content=st.just({"google": {"thought_signature": "SEALED"}}),
)
told = st.fixed_dictionaries(
    {"role": st.sampled_from(("user", "assistant", "tool", "function", "system"))},
    optional={
        "content": strings | odd,
        "name": strings,
        "tool_call_id": strings | odd,
        "tool_calls": st.lists(calls, max_size=2) | odd,
        "function_call": functions,
        "refusal": strings,
        "reasoning_content": strings,
    },
)


@given(told)
def test_a_usual_message_is_read_as_with_care(message: dict[str, Any]) -> None:
    usual = read_fast(message, ORIGIN)
    assert usual is None or usual == read_message(message, "messages[0]", ORIGIN)


@pytest.mark.parametrize(
    "message",
    [
        {"role": "user", "content": ""},
        {"role": "assistant", "content": "hello"},
        {"role": "assistant", "content": "hello", "tool_calls": [CALL, CALL]},
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "assistant", "content": "", "tool_calls": [CALL]},
        {"role": "tool", "content": "", "tool_call_id": "call_1"},
        {"role": "tool", "content": "done", "tool_call_id": "call_1", "name": "read"},
    ],
)
def test_the_usual_messages_are_read_at_once(message: dict[str, Any]) -> None:
    usual = read_fast(message, ORIGIN)
    assert usual is not None
    assert usual == read_message(message, "messages[0]", ORIGIN)


@pytest.mark.parametrize(
    "message",
    [
        "hello",
        {"role": "user", "content": "hello", "name": "Ada"},
        {"role": "assistant", "content": ""},
        {"role": "assistant", "content": "hello", "tool_calls": []},
        {"role": "assistant", "content": "hello", "refusal": "no"},
        {"role": "assistant", "content": "hello", "tool_calls": [{**CALL, "extra_content": {}}]},
        {"role": "tool", "content": [{"type": "text", "text": "x"}], "tool_call_id": "call_1"},
    ],
)
def test_what_may_hold_more_is_left_to_the_careful_reader(message: Any) -> None:
    assert read_fast(message, ORIGIN) is None

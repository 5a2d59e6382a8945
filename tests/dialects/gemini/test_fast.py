"""What is read at once is read as the careful reader reads it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.conversation.blocks import Origin
from segue.dialects.gemini.fast import read_fast
from segue.dialects.gemini.request import _decode_content

ORIGIN = Origin("gemini", model="m")
CALL = {"functionCall": {"id": "1", "name": "read", "args": {"path": "a"}}}
RESULT = {"functionResponse": {"name": "read", "response": {"output": "done"}}}
TEXT = {"text": "hello"}

strings = st.sampled_from(("", " ", "hello", "skip_thought_signature_validator", "\ud800"))
odd: st.SearchStrategy[Any] = st.sampled_from((None, 1, True, [], {}, ["x"], {"a": 1}))


def sometimes(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional={**fields, "unheardOf": odd})


responses = odd | sometimes(output=strings | odd) | sometimes(error=strings)
parts = st.sampled_from((CALL, RESULT, TEXT)) | sometimes(
    text=strings | odd,
    thought=st.booleans(),
    thoughtSignature=strings,
    thought_signature=strings,
    functionCall=sometimes(id=strings | odd, name=strings | odd, args=odd | strings),
    function_call=sometimes(name=strings),
    functionResponse=sometimes(id=strings, name=strings | odd, response=responses, parts=st.just([])),
    inlineData=st.just({"mimeType": "image/png", "data": "aGVsbG8="}),
)
told = st.fixed_dictionaries(
    {"parts": strings | odd | st.lists(parts, max_size=3)},
    optional={"role": st.sampled_from(("user", "model", "function", "system", "")), "unheardOf": odd},
)


@given(told)
def test_a_usual_content_is_read_as_with_care(content: dict[str, Any]) -> None:
    usual = read_fast(content, ORIGIN)
    assert usual is None or [usual] == list(_decode_content(content, "contents[0]", ORIGIN))


@pytest.mark.parametrize(
    "content",
    [
        {"role": "user", "parts": [TEXT, TEXT]},
        {"role": "user", "parts": [RESULT, RESULT]},
        {"role": "model", "parts": [TEXT, CALL, {**CALL, "thoughtSignature": "SEALED"}]},
        {"role": "model", "parts": [{**CALL, "thoughtSignature": "skip_thought_signature_validator"}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "read", "response": {"a": 1, "b": 2}}}]},
    ],
)
def test_the_usual_contents_are_read_at_once(content: dict[str, Any]) -> None:
    usual = read_fast(content, ORIGIN)
    assert usual is not None
    assert [usual] == list(_decode_content(content, "contents[0]", ORIGIN))


@pytest.mark.parametrize(
    "content",
    [
        "hello",
        {"parts": [TEXT]},
        {"role": "user", "parts": []},
        {"role": "user", "parts": [RESULT, TEXT]},
        {"role": "model", "parts": [{**TEXT, "thought": True}]},
        {"role": "model", "parts": [{**CALL, "thought_signature": "SEALED"}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "read", "response": {"error": "no"}}}]},
    ],
)
def test_what_may_hold_more_is_left_to_the_careful_reader(content: Any) -> None:
    assert read_fast(content, ORIGIN) is None

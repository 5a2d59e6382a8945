"""Which messages the fast path reads, and which it leaves to the slow path."""

from __future__ import annotations

from typing import Any

import pytest

from segue.conversation.blocks import Origin
from segue.dialects.gemini.fast import read_fast
from segue.dialects.gemini.read_contents import read_content

ORIGIN = Origin("gemini", model="m")
CALL = {"functionCall": {"id": "1", "name": "read", "args": {"path": "a"}}}
RESULT = {"functionResponse": {"name": "read", "response": {"output": "done"}}}
TEXT = {"text": "hello"}


@pytest.mark.parametrize(
    "content",
    [
        {"role": "user", "parts": [TEXT, TEXT]},
        {"role": "user", "parts": [RESULT, RESULT]},
        {"role": "model", "parts": [TEXT, CALL, {**CALL, "thoughtSignature": "SEALED"}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "read", "response": {"a": 1, "b": 2}}}]},
        {
            "role": "model",
            "parts": [{**TEXT, "thought": True}, {**TEXT, "thought": True, "thoughtSignature": "S"}],
        },
        {"role": "model", "parts": [{**CALL, "thoughtSignature": "skip_thought_signature_validator"}]},
    ],
)
def test_common_contents_are_read_fast(content: dict[str, Any]) -> None:
    fast = read_fast(content, ORIGIN)
    assert fast is not None
    assert [fast] == list(read_content(content, "contents[0]", ORIGIN))


@pytest.mark.parametrize(
    "content",
    [
        "hello",
        {"parts": [TEXT]},
        {"role": "user", "parts": []},
        {"role": "user", "parts": [RESULT, TEXT]},
        {"role": "user", "parts": [{**TEXT, "thought": True}]},
        {"role": "model", "parts": [{**TEXT, "thoughtSignature": "skip_thought_signature_validator"}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "read", "response": {"output": {"a": 1}}}}]},
        {"role": "user", "parts": [TEXT], "new_field": 1},
        {"role": "model", "parts": [{**CALL, "thought_signature": "SEALED"}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "read", "response": {"error": "no"}}}]},
    ],
)
def test_what_may_hold_more_is_left_to_the_slow_path(content: Any) -> None:
    assert read_fast(content, ORIGIN) is None

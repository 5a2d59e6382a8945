"""Which messages the fast path reads, and which it leaves to the slow path."""

from __future__ import annotations

from typing import Any

import pytest

from segue.conversation.blocks import Origin
from segue.dialects.openai_chat.read_messages import read_fast, read_message
from segue.dialects.openai_chat.rules import variant_of

ORIGIN = Origin("openai_chat", model="m")
CALL = {"id": "call_1", "type": "function", "function": {"name": "read", "arguments": '{"path": "a"}'}}


@pytest.mark.parametrize(
    "message",
    [
        {"role": "user", "content": ""},
        {"role": "assistant", "content": "hello"},
        {"role": "assistant", "content": "hello", "tool_calls": [CALL, CALL]},
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "assistant", "content": "", "tool_calls": [CALL]},
        {"role": "assistant", "tool_calls": [CALL]},
        {"role": "user", "content": [{"type": "text", "text": "hello"}]},
        {"role": "system", "content": "hello"},
        {"role": "tool", "content": "", "tool_call_id": "call_1"},
    ],
)
def test_common_messages_are_read_fast(message: dict[str, Any]) -> None:
    fast = read_fast(variant_of("openai_chat"), message, ORIGIN)
    assert fast is not None
    assert fast == read_message(variant_of("openai_chat"), message, "messages[0]", ORIGIN)


@pytest.mark.parametrize(
    "message",
    [
        "hello",
        {"role": "user", "content": "hello", "name": "Ada"},
        {"role": "assistant", "content": ""},
        {"role": "assistant", "content": [], "tool_calls": [CALL]},
        {"role": "user", "content": [{"type": "text", "text": "hello", "cache_control": {}}]},
        {"role": "tool", "content": "done", "tool_call_id": "call_1", "name": "read"},
        {"role": "assistant", "content": "hello", "tool_calls": []},
        {"role": "assistant", "content": "hello", "refusal": "no"},
        {"role": "assistant", "content": "hello", "tool_calls": [{**CALL, "extra_content": {}}]},
        {"role": "tool", "content": [{"type": "text", "text": "x"}], "tool_call_id": "call_1"},
    ],
)
def test_what_may_hold_more_is_left_to_the_slow_path(message: Any) -> None:
    assert read_fast(variant_of("openai_chat"), message, ORIGIN) is None


def test_what_is_common_depends_on_the_server() -> None:
    named = {"role": "tool", "content": "done", "tool_call_id": "call_1", "name": "read"}
    silent = {"role": "assistant", "content": "", "tool_calls": [CALL]}
    for variant, message in ((variant_of("kimi"), named), (variant_of("deepseek"), silent)):
        fast = read_fast(variant, message, ORIGIN)
        assert fast is not None
        assert fast == read_message(variant, message, "messages[0]", ORIGIN)

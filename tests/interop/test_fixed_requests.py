"""What `segue doctor --fix` writes of a request: the same request without its fault."""

from __future__ import annotations

import json
from typing import Any

import pytest

from segue.interop.doctor import fix_transcript
from segue.interop.source import read_request
from segue.transcript.blocks.outcomes import WORDING

CLOSED = WORDING["interrupted"]
CALL = {"name": "read", "arguments": "{}"}
OPEN_CALLS: dict[str, tuple[dict[str, Any], str, dict[str, Any]]] = {
    "openai_chat": (
        {
            "model": "gpt-4.1",
            "stream": True,
            "messages": [
                {"role": "user", "content": "Read."},
                {
                    "role": "assistant",
                    "content": None,
                    "tool_calls": [{"id": "call_a", "type": "function", "function": CALL}],
                },
                {"role": "user", "content": "Go on."},
            ],
        },
        "messages",
        {"role": "tool", "tool_call_id": "call_a", "content": CLOSED},
    ),
    "ollama": (
        {
            "model": "qwen3",
            "messages": [
                {"role": "user", "content": "Read."},
                {
                    "role": "assistant",
                    "content": "",
                    "tool_calls": [{"function": {"name": "read", "arguments": {}}}],
                },
                {"role": "user", "content": "Go on."},
            ],
            "options": {"num_predict": 5},
        },
        "messages",
        {"role": "tool", "tool_name": "read", "content": CLOSED},
    ),
    "openai_responses": (
        {
            "model": "gpt-5.5",
            "input": [
                {"role": "user", "content": "Read."},
                {"type": "function_call", "call_id": "call_a", **CALL},
                {"role": "user", "content": "Go on."},
            ],
            "stream": False,
        },
        "input",
        {"type": "function_call_output", "call_id": "call_a", "output": CLOSED},
    ),
}


def _fixed(request: Any) -> Any:
    return json.loads(fix_transcript(read_request(request))[1])


@pytest.mark.parametrize("wire", OPEN_CALLS)
def test_nothing_is_changed_but_the_fault(wire: str) -> None:
    body, field, result = OPEN_CALLS[wire]
    first, call, last = body[field]
    assert _fixed(body) == {**body, field: [first, call, result, last]}


@pytest.mark.parametrize("wire", OPEN_CALLS)
def test_a_bare_list_of_messages_stays_one(wire: str) -> None:
    body, field, result = OPEN_CALLS[wire]
    first, call, last = body[field]
    assert _fixed(body[field]) == [first, call, result, last]

"""Requests of a coding agent on the Messages wire, as large and as shaped as real ones: 24 tools of 70 KB, a system prompt
whose first line changes each time, a cache mark that moves, one tool call in each turn."""

from __future__ import annotations

import random
from itertools import count
from typing import Any

import msgspec

MODEL = "claude-opus-5-5"
BETAS = "claude-code-20250219,interleaved-thinking-2025-05-14,context-management-2025-06-27"
_WORDS = [f"word{number}" for number in range(400)]
_MARK = {"cache_control": {"type": "ephemeral"}}
_MARKED = b"," + msgspec.json.encode(_MARK)[1:-1]
_NUMBERS = count(1)


def _prose(dice: random.Random, size: int) -> str:
    return " ".join(dice.choices(_WORDS, k=size // 7 + 1))[:size]


def _tool(dice: random.Random, number: int, size: int) -> dict[str, Any]:
    fields: dict[str, Any] = {
        f"field_{at}": {"type": "string", "description": _prose(dice, 90)} for at in range(dice.randint(1, 6))
    }
    fields["mode"] = {"type": "string", "enum": ["fast", "careful"], "description": _prose(dice, 60)}
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": fields,
        "required": ["field_0"],
        "additionalProperties": False,
    }
    return {"name": f"Tool{number}", "description": _prose(dice, size), "input_schema": schema}


def _tools() -> bytes:
    dice = random.Random(1)
    sizes = [18_800, *(dice.randint(100, 3_000) for _ in range(22)), 2_400]
    return msgspec.json.encode([_tool(dice, number, size) for number, size in enumerate(sizes)])


_TOOLS = _tools()
_SYSTEM = _prose(random.Random(2), 6_000)


class AgentSession:
    """A client's side of one conversation. Its requests are written as clients write them: all of it, each time."""

    def __init__(self, *, size: int = 6, stream: bool = True, model: str = MODEL) -> None:
        """`size`: messages of the first request: a question, a note, and pairs of calls and results."""
        self.number = next(_NUMBERS)
        self._dice = dice = random.Random(self.number)
        self._stream = stream
        self._model = model
        question = [_text(_prose(dice, 1_200)), _text(f"Task {self.number}: {_prose(dice, 200)}")]
        self._messages = [
            msgspec.json.encode({"role": "user", "content": question}),
            msgspec.json.encode({"role": "system", "content": _prose(dice, 2_600)}),
        ]
        for pair in range((size - 2) // 2):
            self.answered(f"toolu_{self.number:010x}{pair:012x}")

    @property
    def size(self) -> int:
        return len(self._messages)

    @property
    def headers(self) -> dict[str, str]:
        session = f"00000000-0000-4000-8000-{self.number:012x}"
        return {"x-claude-code-session-id": session, "anthropic-beta": BETAS, "user-agent": "bench/1"}

    def answered(self, call_id: str) -> None:
        """The reply came and its call has run."""
        dice = self._dice
        self._messages[-1] = self._messages[-1].replace(_MARKED, b"")
        fields = {"field_0": _prose(dice, 40), "mode": "fast"}
        call = {"type": "tool_use", "id": call_id, "name": "Tool3", "input": fields}
        self._messages.append(
            msgspec.json.encode({"role": "assistant", "content": [_text(_REPLY_TEXT), call]})
        )
        result = {
            "type": "tool_result",
            "tool_use_id": call_id,
            "content": _prose(dice, dice.randint(500, 3_000)),
        }
        self._messages.append(msgspec.json.encode({"role": "user", "content": [{**result, **_MARK}]}))

    def body(self) -> bytes:
        billing = f"x-anthropic-billing-header: cc_version=2.1.197; cch={next(_NUMBERS):05x};"
        system = [_text(billing), {**_text(_SYSTEM), **_MARK}]
        settings = {
            "metadata": {"user_id": f'{{"session_id":"{self.number}"}}'},
            "max_tokens": 64_000,
            "thinking": {"type": "adaptive"},
            "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
            "output_config": {"effort": "high"},
            "stream": self._stream,
        }
        messages = b",".join(self._messages)
        return b"".join(
            (
                b'{"model":', msgspec.json.encode(self._model), b',"messages":[', messages, b'],"system":',
                msgspec.json.encode(system), b',"tools":', _TOOLS, b",", msgspec.json.encode(settings)[1:],
            )
        )  # fmt: skip


REPLY_WORDS = 46
_REPLY_TEXT = "".join(f" word{number}" for number in range(REPLY_WORDS))
"""What the upstream writes."""


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}

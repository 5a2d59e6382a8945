"""Real tool-calling chats, and what befalls them in real tools."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

CHATS: Final = Path(__file__).parents[2].parent / "shared" / "corpus" / "chats"

_FIELDS: Final = {
    "openai-chat": ("openai_chat", "messages"),
    "openai-responses": ("openai_responses", "input"),
    "anthropic-messages": ("anthropic", "messages"),
    "gemini-contents": ("gemini", "contents"),
}


def real_requests(*, one_in: int) -> list[tuple[str, str, str, list[Any]]]:
    """Name, dialect, the field of the messages, and the messages of every so-many-th chat."""
    requests = []
    for path in sorted(CHATS.glob("*.json"))[::one_in]:
        told = json.loads(path.read_bytes())
        dialect, field = _FIELDS[told["format"]]
        requests.append((path.stem, dialect, field, told["messages"]))
    return requests


def whole(messages: list[Any]) -> list[Any]:
    return messages


def cut_in_front(messages: list[Any]) -> list[Any]:
    return messages[len(messages) // 2 :]


def ended_early(messages: list[Any]) -> list[Any]:
    return messages[: len(messages) * 2 // 3 + 1]


def with_a_hole(messages: list[Any]) -> list[Any]:
    return [message for index, message in enumerate(messages) if index % 3 != 2] or messages


def said_twice(messages: list[Any]) -> list[Any]:
    return [message for message in messages for _ in range(2)]


def backwards(messages: list[Any]) -> list[Any]:
    return messages[::-1]


FATES: Final = (whole, cut_in_front, ended_early, with_a_hole, said_twice, backwards)

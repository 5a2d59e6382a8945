"""Real tool-calling chats, whole and broken as real tools break them, said to every emulated provider."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from laws.emulated import EMULATED, complaints_about
from segue.handoff.convert import convert
from segue.providers.cards import default_model

CHATS: Final = Path(__file__).parents[2].parent / "shared" / "corpus" / "chats"
pytestmark = pytest.mark.skipif(
    not CHATS.is_dir(), reason="the corpus of recorded chats is not beside the repository"
)

_FIELDS: Final = {
    "openai-chat": ("openai_chat", "messages"),
    "openai-responses": ("openai_responses", "input"),
    "anthropic-messages": ("anthropic", "messages"),
    "gemini-contents": ("gemini", "contents"),
}
_SAMPLE: Final = 8
"""Every eighth chat of a format; all of them when asked for by the long profile."""


def _requests() -> list[tuple[str, str, str, list[Any]]]:
    requests = []
    for number, path in enumerate(sorted(CHATS.glob("*.json"))):
        if number % _SAMPLE == 0:
            told = json.loads(path.read_bytes())
            dialect, field = _FIELDS[told["format"]]
            requests.append((path.stem, dialect, field, told["messages"]))
    return requests


def _whole(messages: list[Any]) -> list[Any]:
    return messages


def _cut_in_front(messages: list[Any]) -> list[Any]:
    return messages[len(messages) // 2 :]


def _ended_early(messages: list[Any]) -> list[Any]:
    return messages[: len(messages) * 2 // 3 + 1]


def _with_a_hole(messages: list[Any]) -> list[Any]:
    return [message for index, message in enumerate(messages) if index % 3 != 2] or messages


def _said_twice(messages: list[Any]) -> list[Any]:
    return [message for message in messages for _ in range(2)]


def _backwards(messages: list[Any]) -> list[Any]:
    return messages[::-1]


SEALS: Final = ("GEM-23", "ANT-55", "RESP-46")
"""A chat goes back to its own provider with its real signatures, which only the real provider can verify."""

FATES: Final = (_whole, _cut_in_front, _ended_early, _with_a_hole, _said_twice, _backwards)


@pytest.mark.requirement("REQ-915-004", "REQ-915-005")
@pytest.mark.parametrize("target", EMULATED)
@pytest.mark.parametrize("fate", FATES, ids=lambda fate: fate.__name__.strip("_"))
def test_no_real_chat_makes_a_provider_complain(target: str, fate: Callable[[list[Any]], list[Any]]) -> None:
    model = default_model(target)
    refused = {}
    for name, dialect, field, messages in _requests():
        converted = convert({field: fate(messages)}, source=dialect, to=target, model=model)
        complaints = complaints_about(converted.request, target, model)
        if dialect == target:
            complaints = [complaint for complaint in complaints if not complaint.startswith(SEALS)]
        if complaints:
            refused[name] = complaints[0]
    assert refused == {}

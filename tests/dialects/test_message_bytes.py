"""The last messages of a long body are found from its end, and never anything else that looks like messages."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from segue.dialects.message_bytes import (
    end_of_first_messages,
    end_of_messages,
    is_start_of_messages,
    split_last_messages,
    split_messages,
    start_of_messages,
)

LEAST = 5
LIKE_MESSAGES = [{"role": "user", "content": "no"}] * 20


def messages(count: int = 40, **last: Any) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = [
        {"role": "user", "content": f'{{"role": {number}'} for number in range(count)
    ]
    return [*made[:-1], {**made[-1], **last}]


BODIES: dict[str, dict[str, Any]] = {
    "alone": {"messages": messages()},
    "in the middle": {"model": "m", "messages": messages(), "system": "s", "stream": True},
    "before a list of the same kind": {"messages": messages(), "system": LIKE_MESSAGES},
    "behind a list of the same kind": {"system": LIKE_MESSAGES, "messages": messages(), "stream": True},
    "with objects of the same kind": {"messages": messages(input={"messages": LIKE_MESSAGES}), "system": "s"},
    "with few of these": {"messages": messages(input={"messages": LIKE_MESSAGES[:2]}), "system": "s"},
    "short": {"messages": messages(LEAST)},
}
FOUND = {"alone", "in the middle", "behind a list of the same kind", "with few of these"}
"""Elsewhere more has to be looked at than is worth it."""


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": "), (" ,\n", " : ")])
def test_the_last_messages_are_those_that_a_split_of_all_ends_with(name: str, separators: Any) -> None:
    body = json.dumps(BODIES[name], separators=separators).encode()
    found = split_last_messages(body, msgspec.json.decode(body), "messages", LEAST)
    assert (found is not None) is (name in FOUND)
    if found is not None:
        start, pieces = found
        assert len(pieces) >= LEAST
        assert pieces == split_messages(body, "messages")[-len(pieces) :]
        assert [body.startswith(bytes(pieces[0]), at) for at in (start, start + 1)] == [True, False]


@pytest.mark.parametrize(
    "given", [{"messages": ["a"] * 40}, {"messages": [{}] * 40}, {"messages": [[]] * 40}]
)
def test_messages_that_are_none_are_not_found(given: dict[str, Any]) -> None:
    assert split_last_messages(msgspec.json.encode(given), given, "messages", LEAST) is None


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": "), (" ,\n", " : ")])
def test_the_first_messages_end_where_a_split_of_all_says(name: str, separators: Any) -> None:
    body = json.dumps(BODIES[name], separators=separators).encode()
    given, pieces = msgspec.json.decode(body)["messages"], split_messages(body, "messages")
    start = start_of_messages(body, "messages")
    ends = [end_of_first_messages(body, start, given, count) for count in range(1, len(given))]
    wanted = [end_of_messages(body, start, pieces, count) for count in range(1, len(given))]
    alike = name not in (
        "before a list of the same kind",
        "with objects of the same kind",
        "with few of these",
    )
    assert [end for end in ends if end] == (wanted if alike else [])


@pytest.mark.parametrize(
    ("head", "begins"),
    [
        (b'{"messages":[', True),
        (b'{"model":"m", "system": [{"text":"a"}] ,"messages" : [', True),
        (b'{"model":"m","messages":[{"role":"user"},', False),
        (b'{"metadata":{"messages":[', False),
        (b'{"metadata":{"messages":1},"stop_sequences":[', False),
        (b'{"messages":[],"stop_sequences":[', False),
        (b'{"model":"m","messages":', False),
        (b"", False),
    ],
)
def test_messages_begin_behind_the_bracket_of_their_own_list(head: bytes, *, begins: bool) -> None:
    assert is_start_of_messages(head, "messages") is begins

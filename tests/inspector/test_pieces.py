"""Bodies as pieces: joined they are the body again, and a session costs about as much as its last request."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.conversation.message import Conversation, user
from segue.inspector.record.first_words import folder_of, title_of
from segue.inspector.record.pieces import KeptBody, cut, kept

_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=80),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=12,
)


@given(fields=st.dictionaries(st.text(max_size=8), _VALUES, max_size=6), indent=st.sampled_from([None, 1]))
def test_the_pieces_of_a_body_join_to_the_very_same_bytes(fields: dict[str, Any], indent: int | None) -> None:
    fields["messages"] = [
        {"role": "user", "content": "x" * 300},
        {"role": "user", "content": fields.get("a")},
    ]
    body = json.dumps(fields, indent=indent).encode()
    assert b"".join(piece for _, piece in cut(body)) == body


@given(body=st.binary(max_size=400))
def test_bytes_that_are_no_json_are_one_piece(body: bytes) -> None:
    assert b"".join(piece for _, piece in cut(body)) == body


def _growing(number: int) -> list[bytes]:
    messages: list[dict[str, str]] = []
    bodies = []
    for step in range(number):
        messages += [
            {"role": "user", "content": f"{step} " + "q" * 400},
            {"role": "assistant", "content": f"{step} " + "a" * 400},
        ]
        bodies.append(
            json.dumps(
                {"model": "m", "messages": messages, "tools": [{"name": "t" * 300}], "stream": True}
            ).encode()
        )
    return bodies


def _kept(bodies: list[bytes]) -> list[KeptBody]:
    before: KeptBody | None = None
    made = []
    for body in bodies:
        before = kept(body, before, before.data() if before is not None else b"", bytes)
        made.append(before)
    return made


def test_four_hundred_requests_of_one_session_cost_about_its_last_request() -> None:
    bodies = _growing(400)
    made = _kept(bodies)
    assert sum(one.size for one in made) < 2 * len(bodies[-1])
    assert [one.data() for one in made[::37]] == bodies[::37]


@given(
    bodies=st.lists(
        st.binary(max_size=3000) | st.integers(0, 40).map(lambda n: b"abc" * 300 + bytes(n) + b"xyz" * 300),
        max_size=6,
    )
)
def test_any_bodies_come_back_as_they_were(bodies: list[bytes]) -> None:
    assert [one.data() for one in _kept(bodies)] == bodies


@given(cut_at=st.integers(0, 40), text=st.text(max_size=20))
def test_a_secret_is_cut_out_wherever_two_bodies_begin_to_differ(cut_at: int, text: str) -> None:
    secret = b"sk-a-secret-value-of-forty-letters-12345"
    before = b"p" * 5000 + secret[:cut_at] + b"-another" + b"q" * 900
    body = b"p" * 5000 + secret + text.encode() + b"q" * 900
    clean = lambda data: data.replace(secret, b"")  # noqa: E731
    first = kept(before, None, b"", clean)
    second = kept(body, first, first.data(), clean)
    assert secret not in second.data()


@pytest.mark.parametrize(
    ("system", "first", "title", "folder"),
    [
        ("A directory of names. Working directory: ~/src/ledger\nBe careful.", "Fix it. Then stop.", "Fix it. Then stop.", "~/src/ledger"),
        ("The current directory is `/home/me`", "Why does the test fail? It is red.", "Why does the test fail?", "/home/me"),
        ("", "<environment_context><cwd>/work</cwd></environment_context>", "", "/work"),
        (" directory " * 9 + "Working directory: /late", "x" * 100, "x" * 79 + "…", ""),
    ],
)  # fmt: skip
def test_a_conversation_is_called_after_its_first_words(
    system: str, first: str, title: str, folder: str
) -> None:
    said = Conversation((user(first),), system)
    assert (title_of(said), folder_of(said)) == (title, folder)

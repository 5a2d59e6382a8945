"""Bodies as pieces: joined they are the body again, and a session costs about as much as its last request."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from segue.inspector.pieces import PieceList, PieceStore, body_of, cut, digested, listed

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


def test_four_hundred_requests_of_one_session_cost_about_its_last_request() -> None:
    store, before, lists = PieceStore(), None, list[PieceList]()
    bodies = _growing(400)
    for body in bodies:
        before = listed(cut(body), before, store.keep)
        lists.append(before)
    assert store.bytes < 1.3 * len(bodies[-1])
    assert [body_of(one) for one in lists] == bodies


def test_released_pieces_are_forgotten() -> None:
    store, before, lists = PieceStore(), None, list[PieceList]()
    for body in _growing(20):
        before = listed(cut(body), before, store.keep)
        lists.append(before)
    for one in lists:
        store.release(one)
    assert store.bytes == 0


def test_digests_compare_as_the_bytes_would_and_hold_none_of_them() -> None:
    before, shared = None, list[int]()
    for body in _growing(3):
        before = listed(cut(body), before, digested)
        shared.append(before.shared)
        assert body_of(before) == b""
    assert shared[0] == 0 and shared[1] > 2 and shared[2] > shared[1]

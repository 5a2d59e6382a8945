"""Chunks that repeat the one before are read at a glance, and nothing else is."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from segue.conversation.events import Event, TextDelta, fold
from segue.dialects.registry import DIALECTS, NAMES
from segue.dialects.repeated_chunk import RepeatedChunk
from strategies.replies import replies


def chunk(text: str, **more: object) -> bytes:
    return b"data: %b\n\n" % json.dumps({"id": "x", "delta": {"text": text}, **more}).encode()


def read(repeated: RepeatedChunk, portion: bytes) -> str | None:
    events = repeated.events(portion)
    return None if events is None else "".join(event.text for event in events if type(event) is TextDelta)


def test_only_the_text_of_a_repeated_chunk_is_read() -> None:
    repeated = RepeatedChunk()
    assert read(repeated, chunk("a")) is None
    repeated.learn(chunk("a"), [TextDelta(3, "a")])
    assert (read(repeated, chunk('b "c" \n✓')), repeated.index) == ('b "c" \n✓', 3)
    assert read(repeated, chunk("b", stop=True)) is None
    assert read(repeated, chunk("b") + chunk("c")) is None
    assert read(repeated, chunk("b")[:-1]) is None
    repeated.forget()
    assert read(repeated, chunk("b")) is None


def test_a_text_that_stands_in_a_chunk_twice_teaches_nothing() -> None:
    repeated = RepeatedChunk()
    repeated.learn(chunk("x"), [TextDelta(0, "x")])
    assert read(repeated, chunk("y")) is None


def test_a_number_may_count_up_between_chunks() -> None:
    repeated = RepeatedChunk(b'"n": ')
    repeated.learn(b'{"n": 7, "text": "a"}', [TextDelta(0, "a")])
    assert read(repeated, b'{"n": 8, "text": "b"}') == "b"
    assert read(repeated, b'{"n": 18, "text": "b"}') == "b"
    assert read(repeated, b'{"n": 19, "text": "c"}') == "c"
    assert read(repeated, b'{"n": "", "text": "b"}') is None


def test_a_server_whose_chunks_all_differ_is_not_learned_for_ever() -> None:
    repeated = RepeatedChunk()
    for number in range(100):
        repeated.learn(chunk("a", number=number), [TextDelta(0, "a")])
    assert read(repeated, chunk("b", number=99)) is None


@pytest.mark.parametrize("name", NAMES)
@given(events=replies(), repeats=st.integers(2, 5))
@settings(max_examples=5)
def test_a_stream_chunk_by_chunk_is_the_reply_that_it_is_in_one_piece(
    name: str, events: list[Event], repeats: int
) -> None:
    dialect = DIALECTS[name]
    many = [
        again
        for event in events
        for again in ([event] * repeats if isinstance(event, TextDelta) else [event])
    ]
    encoder = dialect.new_encoder("m")
    portions = [portion for event in many if (portion := encoder.feed(event))] + [encoder.close()]
    one, each = dialect.new_decoder(), dialect.new_decoder()
    whole = one.feed(b"".join(portions)) + one.close()
    pieces = [event for portion in portions for event in each.feed(portion)] + each.close()
    assert fold(pieces, dialect.rules.target) == fold(whole, dialect.rules.target)

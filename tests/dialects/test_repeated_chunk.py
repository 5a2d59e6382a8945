"""Chunks that repeat the one before are read at a glance, and nothing else is."""

from __future__ import annotations

import json
from typing import final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from segue.conversation.events import Event, ReasoningDelta, TextDelta, fold
from segue.dialects.registry import DIALECTS, NAMES
from segue.dialects.streams.repeated_chunk import FrameRun, RepeatedChunkDecoder
from segue.dialects.streams.sse import Frame
from strategies.replies import replies


@final
class Repeated(RepeatedChunkDecoder):
    """Reads nothing in full, and is taught."""

    def _feed(self, portion: bytes) -> list[Event]:
        raise LookupError(portion)

    learn = RepeatedChunkDecoder._learn
    forget = RepeatedChunkDecoder._forget


def chunk(text: str, **more: object) -> bytes:
    return b"data: %b\n\n" % json.dumps({"id": "x", "delta": {"text": text}, **more}).encode()


def read(repeated: RepeatedChunkDecoder, portion: bytes) -> list[Event] | None:
    """None if it would be read in full."""
    try:
        return repeated.feed(portion)
    except LookupError:
        return None


def test_only_the_text_of_a_repeated_chunk_is_read() -> None:
    repeated = Repeated()
    assert read(repeated, chunk("a")) is None
    repeated.learn(chunk("a"), [TextDelta(3, "a")])
    assert read(repeated, chunk('b "c" \n✓')) == [TextDelta(3, 'b "c" \n✓')]
    assert read(repeated, chunk("")) == []
    assert read(repeated, chunk("b", stop=True)) is None
    assert read(repeated, chunk("b") + chunk("") + chunk("c")) == [TextDelta(3, "b"), TextDelta(3, "c")]
    assert read(repeated, chunk("b") + chunk("c", stop=True) + chunk("d")) is None
    assert read(repeated, chunk("b") + b"data: [DONE]\n\n" + chunk("d")) is None
    assert read(repeated, chunk("b")[:-1]) is None
    repeated.forget()
    assert read(repeated, chunk("b")) is None


def test_a_thought_is_read_as_one() -> None:
    repeated = Repeated()
    repeated.learn(chunk("a"), [ReasoningDelta(1, "a")])
    assert read(repeated, chunk("b")) == [ReasoningDelta(1, "b")]


def test_frames_of_one_portion_repeat_the_last_that_was_read_in_full() -> None:
    run, events = FrameRun(), list[Event]()
    alike = [Frame(chunk("a")), Frame(chunk('b "c" \n✓')), Frame(chunk("d"))]
    assert not run.read(alike, 0, events)
    run.begin(chunk("a"), [TextDelta(3, "a")])
    others = (chunk(""), chunk("b", stop=True), chunk("b")[:-1], b"[DONE]")
    for other in (*map(Frame, others), Frame(chunk("e"), "error")):
        events.clear()
        assert run.read([*alike, other, *alike], 1, events) == 2
        assert events == [TextDelta(3, 'b "c" \n✓'), TextDelta(3, "d")]
    run.begin(chunk("a"), [TextDelta(3, "a"), TextDelta(3, "a")])
    assert not run.read(alike, 0, events)


def test_texts_behind_the_end_of_a_reply_are_not_read_whatever_they_repeat() -> None:
    def frame(**fields: object) -> bytes:
        return b"data: %b\n\n" % json.dumps({"id": "x", "model": "m", **fields}).encode()

    def text(text: str) -> bytes:
        return frame(choices=[{"index": 0, "delta": {"content": text}}])

    decoder = DIALECTS["openai_chat"].new_decoder()
    end = frame(choices=[{"index": 0, "delta": {}, "finish_reason": "stop"}]) + b"data: [DONE]\n\n"
    events = decoder.feed(text("a") + text("b") + text("c") + end + text("d") + text("e")) + decoder.close()
    assert [event.text for event in events if type(event) is TextDelta] == ["a", "b", "c"]


def test_a_text_that_stands_in_a_chunk_twice_teaches_nothing() -> None:
    repeated = Repeated()
    repeated.learn(chunk("x"), [TextDelta(0, "x")])
    assert read(repeated, chunk("y")) is None


@pytest.mark.parametrize(
    "shape",
    [
        '{"created_at":"%s","text":"%s"}\n',
        '{"text":"%s","obfuscation":"%s"}\n',
        '{"text":"%s","n":1,"obfuscation":"%s","m":[]}\n',
    ],
)
def test_a_time_or_a_padding_may_differ_between_chunks(shape: str) -> None:
    def varied(value: str, text: str) -> bytes:
        return (shape % ((value, text) if shape.startswith('{"created_at"') else (text, value))).encode()

    repeated = Repeated()
    repeated.learn(varied("07", "a"), [TextDelta(0, "a")])
    assert read(repeated, varied("07", "b")) == [TextDelta(0, "b")]
    assert read(repeated, varied("08", "b")) is None
    repeated.learn(varied("08", "b"), [TextDelta(0, "b")])
    for value in ("2026-01-02T10:00:01.000037Z", "xY7", ""):
        assert read(repeated, varied(value, "c\\n✓")) == [TextDelta(0, "c\n✓")]
    assert read(repeated, varied('1","x":"2', "d")) is None
    assert read(repeated, varied("9", 'd","x":"e')) is None
    assert read(repeated, varied("9", "d") + varied("9", "e")) is None
    assert read(repeated, varied("9", "d")[:-1]) is None


def test_a_server_whose_chunks_all_differ_is_not_learned_for_ever() -> None:
    repeated = Repeated()
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
        for again in ([event] * repeats if isinstance(event, TextDelta | ReasoningDelta) else [event])
    ]
    encoder = dialect.new_encoder("m")
    portions = [portion for event in many if (portion := encoder.feed(event))] + [encoder.close()]
    one = dialect.new_decoder()
    whole = one.feed(b"".join(portions)) + one.close()
    for together in (1, 2, 3):
        some = dialect.new_decoder()
        pieces = [
            event
            for start in range(0, len(portions), together)
            for event in some.feed(b"".join(portions[start : start + together]))
        ] + some.close()
        assert fold(pieces, dialect.rules.target) == fold(whole, dialect.rules.target)

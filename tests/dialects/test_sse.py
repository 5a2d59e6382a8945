"""Frames come out of a stream of bytes the same, however the bytes are cut."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.dialects.streams import sse
from segue.dialects.streams.sse import Frame, FrameDecoder


def frames_of(*portions: bytes) -> list[Frame]:
    decoder = FrameDecoder()
    return [frame for portion in portions for frame in decoder.feed(portion)] + decoder.close()


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
def test_every_line_ending_is_understood(end: bytes) -> None:
    stream = end.join([b"event: ping", b"data: {}", b"", b"data: one", b"data: two", b"", b""])
    assert frames_of(stream) == [Frame(b"{}", "ping"), Frame(b"one\ntwo")]


def test_comments_ids_and_retry_hints_carry_nothing() -> None:
    assert frames_of(b": OPENROUTER PROCESSING\n\nid: 7\nretry: 10\n\ndata: x\n\n") == [Frame(b"x")]


@pytest.mark.parametrize(
    "line", [b'dbta: {"a":1}', b'data {"a":1}', b'{"a":1}', b'event: edata: {"a":1}', b'Xdata: {"a":1}']
)
def test_an_object_in_a_garbled_line_is_told_as_it_came(line: bytes) -> None:
    """Whoever reads the frames must know that one was lost."""
    frames = frames_of(b"data: 1\n\n" + line + b"\n\ndata: 2\n\n")
    assert frames == [Frame(b"1"), Frame(line), Frame(b"2")]
    assert frames_of(b"data: 1\n" + line + b"\n\n") == [Frame(b"1"), Frame(line)]
    assert frames_of(b': {"a":1}\nid: {"a":1}\nretry: {"a":1}\n\n') == []


def test_one_space_behind_the_colon_is_not_data() -> None:
    assert frames_of(b"data:x\n\ndata:  y\n\ndata\n\n") == [Frame(b"x"), Frame(b" y"), Frame(b"")]


def test_an_event_without_data_is_no_frame_and_leaves_no_name_behind() -> None:
    assert frames_of(b"event: ping\n\ndata: x\n\n") == [Frame(b"x")]


@pytest.mark.parametrize("end", [b"", b"\n", b"\r", b"\r\n"])
def test_a_last_frame_without_its_blank_line_is_kept(end: bytes) -> None:
    assert frames_of(b"data: [DONE]" + end) == [Frame(b"[DONE]")]


def test_a_byte_order_mark_is_no_part_of_the_first_line() -> None:
    assert frames_of(b"\xef", b"\xbb\xbfdata: x\n\n") == [Frame(b"x")]


def test_a_frame_is_told_as_soon_as_it_is_complete() -> None:
    decoder = FrameDecoder()
    assert decoder.feed(b"data: x\r\r") == [Frame(b"x")]
    assert decoder.feed(b"\ndata: y\n\n") == [Frame(b"y")]


LINES = st.sampled_from(
    [
        b"data: {}",
        b"data: a",
        b"data:b",
        b"data",
        b": note",
        b"event: e",
        b"id: 1",
        b"",
        b"",
        b"odd: x",
        b"\xffdata",
    ]
)
STREAMS = st.lists(st.tuples(LINES, st.sampled_from([b"\n", b"\r", b"\r\n"])), max_size=20).map(
    lambda parts: b"".join(line + end for line, end in parts)
)


@given(STREAMS, st.lists(st.integers(0, 200), max_size=8), st.booleans())
def test_where_the_bytes_are_cut_makes_no_difference(
    stream: bytes, cuts: list[int], one_by_one: bool
) -> None:
    places = range(1, len(stream)) if one_by_one else sorted({min(cut, len(stream)) for cut in cuts})
    edges = [0, *places, len(stream)]
    portions = [stream[start:end] for start, end in pairwise(edges)]
    assert frames_of(*portions) == frames_of(stream)


@given(STREAMS, st.lists(st.integers(0, 200), max_size=8))
def test_data_alone_is_what_the_frames_hold(stream: bytes, cuts: list[int]) -> None:
    edges = [0, *sorted({min(cut, len(stream)) for cut in cuts}), len(stream)]
    decoder = FrameDecoder()
    told = []
    for start, end in pairwise(edges):
        sole = decoder.sole(stream[start:end])
        told += [sole] if sole is not None else decoder.data(stream[start:end])
    assert told + decoder.data(sse.END) == [frame.data for frame in frames_of(stream)]


ALIKE = st.lists(
    st.sampled_from(
        [b"event: e\ndata: {}\n\n", b"event: f\ndata: {}\n\n", b"data: {}\n\n", b"data: a\ndata: b\n\n"]
    ),
    max_size=12,
)


@given(ALIKE, st.integers(1, 60))
def test_frames_that_look_alike_are_told_in_any_portions(frames: list[bytes], size: int) -> None:
    stream = b"".join(frames)
    decoder = FrameDecoder()
    told = []
    for start in range(0, len(stream), size):
        told += decoder.data(stream[start : start + size])
    assert told == [b"a\nb" if b"a" in frame.partition(b"data: ")[2] else b"{}" for frame in frames]


@given(st.text(alphabet="ab{}\n \u00e9", min_size=1).filter(lambda text: not text.endswith("\n")))
def test_a_written_frame_is_read_back(text: str) -> None:
    assert frames_of(sse.encode(text.encode(), "note")) == [Frame(text.encode(), "note")]

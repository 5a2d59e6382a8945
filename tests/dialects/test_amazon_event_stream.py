"""Our event-stream frames are botocore's, wherever they are cut."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.dialects.streams.amazon_event_stream import (
    BrokenFrameError,
    EventFrame,
    EventFrameDecoder,
    cut_frames,
    encode_frame,
    event_frame,
)

EventStreamBuffer = pytest.importorskip("botocore.eventstream").EventStreamBuffer

header_names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=10).filter(
    lambda name: len(name.encode()) < 256
)
header_maps = st.dictionaries(header_names, st.text(st.characters(codec="utf-8"), max_size=20), max_size=5)
frames = st.lists(st.tuples(header_maps, st.binary(max_size=80)), min_size=1, max_size=4)


def botocore_frames(data: bytes) -> list[tuple[dict[str, str], bytes]]:
    buffer = EventStreamBuffer()
    buffer.add_data(data)
    return [(message.headers, message.payload) for message in buffer]


@given(made=frames, size=st.integers(1, 40))
def test_frames_are_read_as_botocore_reads_them(
    made: list[tuple[Mapping[str, str], bytes]], size: int
) -> None:
    data = b"".join(encode_frame(headers, payload) for headers, payload in made)
    decoder = EventFrameDecoder()
    read = [frame for at in range(0, len(data), size) for frame in decoder.feed(data[at : at + size])]
    assert read == [EventFrame(headers, payload) for headers, payload in made]
    assert decoder.is_empty
    assert [(dict(frame.headers), frame.payload) for frame in read] == botocore_frames(data)
    pieces, rest = cut_frames(data)
    assert (b"".join(pieces), len(pieces), rest) == (data, len(made), b"")


def test_a_stream_may_be_cut_at_every_byte() -> None:
    data = event_frame("contentBlockDelta", b'{"delta":{"text":"Hello"}}') + event_frame("metadata", b"{}")
    whole = EventFrameDecoder().feed(data)
    for at in range(len(data) + 1):
        decoder = EventFrameDecoder()
        assert decoder.feed(data[:at]) + decoder.feed(data[at:]) == whole
        pieces, rest = cut_frames(data[:at])
        assert b"".join(pieces) + rest == data[:at]


def test_a_byte_that_was_changed_is_noticed_wherever_it_is() -> None:
    data = event_frame("contentBlockDelta", b'{"delta":{"text":"Hello"}}')
    for at in range(len(data)):
        changed = data[:at] + bytes((data[at] ^ 1,)) + data[at + 1 :]
        with pytest.raises(BrokenFrameError):
            EventFrameDecoder().feed(changed)


@pytest.mark.parametrize(
    "value", [b"\x00", b"\x01", b"\x02\x07", b"\x04\x00\x00\x00\x09", b"\x06\x00\x01x", b"\x09" + b"u" * 16]
)
def test_headers_of_other_types_are_stepped_over(value: bytes) -> None:
    import zlib

    block = b"\x01a" + value + b"\x01b\x07\x00\x01c"
    lengths = (16 + len(block)).to_bytes(4, "big") + len(block).to_bytes(4, "big")
    head = lengths + zlib.crc32(lengths).to_bytes(4, "big") + block
    (frame,) = EventFrameDecoder().feed(head + zlib.crc32(head).to_bytes(4, "big"))
    assert frame.headers == {"b": "c"}


def test_frames_before_a_broken_one_are_not_lost() -> None:
    good = event_frame("messageStart", b"{}")
    with pytest.raises(BrokenFrameError) as caught:
        EventFrameDecoder().feed(good + b"\xff" * 20)
    assert [frame.headers[":event-type"] for frame in caught.value.frames] == ["messageStart"]

"""Characters and numbers that JSON cannot hold, in the middle of a stream: the text arrives all the same."""

from __future__ import annotations

import pytest

from segue.conversation.blocks import Origin
from segue.conversation.events import (
    ArgumentsDelta,
    CallStarted,
    Event,
    Finished,
    ReplyStarted,
    TextDelta,
    fold,
)
from segue.dialects.registry import DIALECTS, NAMES

GARBLED = {
    "half a surrogate pair": (b"MARK", b"\\ud83d"),
    "half a pair before text": (b"MARK", b"\\ud83dMARK"),
    "a byte that is no UTF-8": (b"MARK", b"\xff"),
    "half a character": (b"MARK", b"\xe2\x82"),
    "a surrogate in UTF-8": (b"MARK", b"\xed\xa0\x80"),
}
TEXT: list[Event] = [ReplyStarted("r", "m"), *(TextDelta(0, part) for part in ("one ", "two MARK ", "three"))]
CALL: list[Event] = [
    ReplyStarted("r", "m"),
    CallStarted(0, "x", "read"),
    ArgumentsDelta(0, '{"path": "MARK"}'),
]


def stream(name: str, events: list[Event], finish: Event) -> bytes:
    encoder = DIALECTS[name].new_encoder("m")
    return b"".join([*(encoder.feed(event) for event in (*events, finish)), encoder.close()])


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("how", GARBLED)
def test_text_with_a_character_that_cannot_be_read_arrives_with_a_replacement(name: str, how: str) -> None:
    written, garbled = GARBLED[how]
    data = stream(name, TEXT, Finished("stop"))
    assert written in data
    decoder = DIALECTS[name].new_decoder()
    events = [*decoder.feed(data.replace(written, garbled)), *decoder.close()]
    reply = fold(events, Origin())
    assert reply.finish == "stop"
    assert reply.message.text.startswith("one two \ufffd")
    assert reply.message.text.endswith(" three")
    assert decoder.unread == []


@pytest.mark.parametrize("name", NAMES)
def test_a_number_that_is_none_does_not_cost_the_text_beside_it(name: str) -> None:
    data = stream(name, TEXT, Finished("stop"))
    lines = [
        line.replace(b"{", b'{"score":NaN,"worst":-Infinity,', 1) if b"MARK" in line else line
        for line in data.splitlines(keepends=True)
    ]
    decoder = DIALECTS[name].new_decoder()
    reply = fold([*decoder.feed(b"".join(lines)), *decoder.close()], Origin())
    assert reply.message.text == "one two MARK three"
    assert decoder.unread == []


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("how", GARBLED)
def test_a_call_with_something_replaced_in_it_counts_as_unread(name: str, how: str) -> None:
    written, garbled = GARBLED[how]
    data = stream(name, CALL, Finished("tool_calls")).replace(written, garbled)
    dialect = DIALECTS[name]
    decoder = dialect.new_decoder()
    decoder.feed(data)
    decoder.close()
    assert decoder.unread
    assert any(mark in line for line in decoder.unread for mark in dialect.call_marks)

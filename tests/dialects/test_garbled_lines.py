"""Frames that cannot be read. Characters and numbers that JSON cannot hold do not cost the text; all else ends the reply."""

from __future__ import annotations

import re

import pytest

from segue.conversation.blocks import Origin
from segue.conversation.events import (
    ArgumentsDelta,
    CallStarted,
    Event,
    Failed,
    Finished,
    Reply,
    ReplyStarted,
    TextDelta,
    fold,
)
from segue.dialects.registry import DIALECTS, NAMES
from segue.errors import ProtocolError

TEXT_STREAMS = [name for name in NAMES if name != "converse"]
"""Converse's frames have checksums: whatever is changed in one is noticed, and ends the reply (converse/test_frames.py)."""
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


def read(name: str, data: bytes) -> Reply:
    decoder = DIALECTS[name].new_decoder()
    return fold([*decoder.feed(data), *decoder.close()], Origin())


@pytest.mark.parametrize("name", TEXT_STREAMS)
@pytest.mark.parametrize("how", GARBLED)
def test_text_with_a_character_that_cannot_be_read_arrives_with_a_replacement(name: str, how: str) -> None:
    written, garbled = GARBLED[how]
    data = stream(name, TEXT, Finished("stop"))
    assert written in data
    reply = read(name, data.replace(written, garbled))
    assert reply.finish == "stop"
    assert reply.message.text.startswith("one two \ufffd")
    assert reply.message.text.endswith(" three")


@pytest.mark.parametrize("name", TEXT_STREAMS)
def test_a_number_that_is_none_does_not_cost_the_text_beside_it(name: str) -> None:
    data = stream(name, TEXT, Finished("stop"))
    lines = [
        line.replace(b"{", b'{"score":NaN,"worst":-Infinity,', 1) if b"MARK" in line else line
        for line in data.splitlines(keepends=True)
    ]
    reply = read(name, b"".join(lines))
    assert (reply.message.text, reply.finish) == ("one two MARK three", "stop")


@pytest.mark.parametrize("name", TEXT_STREAMS)
@pytest.mark.parametrize("how", GARBLED)
def test_a_call_with_something_replaced_in_it_is_an_error_for_it_must_not_be_run(name: str, how: str) -> None:
    written, garbled = GARBLED[how]
    reply = read(name, stream(name, CALL, Finished("tool_calls")).replace(written, garbled))
    assert isinstance(reply.error, ProtocolError)
    assert all(call.arguments is None or not call.raw for call in reply.message.calls)


@pytest.mark.parametrize("name", TEXT_STREAMS)
@pytest.mark.parametrize("how", GARBLED)
def test_what_is_no_text_is_never_replaced(name: str, how: str) -> None:
    """Under another name, a text would be missing without a word."""
    _, garbled = GARBLED[how]
    data = stream(name, TEXT, Finished("stop"))
    lines = data.splitlines(keepends=True)
    at = next(number for number, line in enumerate(lines) if b"MARK" in line)
    keys = [key for key in re.findall(rb'"(\w+)":', lines[at]) if lines[at].count(b'"%b":' % key) == 1]
    for key in keys:
        spoiled = lines[at].replace(b'"%b":' % key, b'"%b":' % garbled.join((key[:1], key[1:])))
        reply = read(name, b"".join((*lines[:at], spoiled, *lines[at + 1 :])))
        assert isinstance(reply.error, ProtocolError), spoiled


@pytest.mark.parametrize("name", TEXT_STREAMS)
@pytest.mark.parametrize("noise", [b"keep-alive", b"ping: 12", b"[DONE]", b"null"])
def test_words_that_are_no_frame_cost_nothing(name: str, noise: bytes) -> None:
    if noise == b"[DONE]" and b"[DONE]" in stream(name, TEXT, Finished("stop")):
        return  # it ends the stream there
    whole = stream(name, TEXT, Finished("stop"))
    begin = whole.index(b"one ")
    at = whole.index(b"\n", begin) + 1
    framed = noise + b"\n" if name == "ollama" else b"\ndata: " + noise + b"\n\n"
    reply = read(name, whole[:at] + framed + whole[at:])
    assert (reply.message.text, reply.finish, reply.error) == ("one two MARK three", "stop", None)


@pytest.mark.parametrize("name", ["anthropic", "openai_responses"])
def test_an_event_of_a_new_type_costs_nothing_whatever_its_shape(name: str) -> None:
    new = b'data: {"type":"dream","index":"x","output_index":[],"delta":7,"item":"a","message":[],"usage":1}\n\n'
    first, rest = stream(name, TEXT, Finished("stop")).split(b"\n\n", 1)
    reply = read(name, first + b"\n\n" + new + rest)
    assert (reply.message.text, reply.finish, reply.error) == ("one two MARK three", "stop", None)


@pytest.mark.parametrize("name", TEXT_STREAMS)
def test_a_reply_that_failed_says_nothing_more(name: str) -> None:
    data = stream(name, TEXT, Finished("stop"))
    lines = data.splitlines(keepends=True)
    at = next(number for number, line in enumerate(lines) if b"MARK" in line)
    decoder = DIALECTS[name].new_decoder()
    portions = [*lines[:at], lines[at].rstrip()[:-2] + b"\n", *lines[at + 1 :]]
    events = [event for portion in portions for event in decoder.feed(portion)] + decoder.close()
    assert type(events[-1]) is Failed
    assert [type(event) for event in events].count(Failed) == 1
    assert fold(events, Origin()).message.text == "one "


HALF = b'{"willContinue":true,"partialArgs":[{"jsonPath":"$.path","stringValue":"/tmp"}]'


def test_arguments_that_come_value_by_value_and_break_off_are_no_arguments() -> None:
    call = HALF.replace(b"{", b'{"name":"remove",', 1) + b"}"
    frame = b'data: {"candidates":[{"content":{"parts":[{"functionCall":%b}]}}]}\n\n'
    reply = read("gemini", frame % call + frame % HALF)
    assert reply.error is not None
    assert [call.arguments for call in reply.message.calls] == [None]

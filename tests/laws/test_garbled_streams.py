"""A stream with one frame that cannot be read is never taken for a whole reply: it says the same, or it is an error."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator

import pytest
from hypothesis import assume, given, note
from hypothesis import strategies as st

from dialects.traffic import CORPUS, _read
from replies.recorded import maker_of
from segue.conversation.blocks import Origin, ToolCall
from segue.conversation.events import (
    ArgumentsDelta,
    CallStarted,
    Event,
    Finished,
    Reply,
    ReplyStarted,
    TextDelta,
    fold,
)
from segue.dialects.dialect import Dialect
from segue.dialects.registry import DIALECTS, NAMES
from segue.errors import ProtocolError
from strategies.replies import cuts, in_portions, replies

LONG = os.environ.get("HYPOTHESIS_PROFILE") == "laws"
HERE = Origin()
FRAME = re.compile(rb"(?:(?!\r?\n\r?\n).)*\r?\n\r?\n|.+\Z", re.DOTALL)
PAYLOAD = re.compile(rb"(?:\A|(?<=\n))data: ?([^\r\n]*)")


def streamed(dialect: Dialect, events: list[Event]) -> bytes:
    encoder = dialect.new_encoder("model-1")
    return b"".join(encoder.feed(event) for event in events) + encoder.close()


def frames_of(data: bytes) -> list[bytes]:
    """The frames of a stream with all that ends them, or its lines, or the objects of its array."""
    if data.lstrip()[:5] in (b"data:", b"event") or data.lstrip()[:1] == b":":
        return FRAME.findall(data)
    if data.lstrip()[:1] == b"[":
        return [piece for piece in re.split(rb"(?<=\})(?=\s*,\s*\{)|(?<=,)(?=\s*\{)", data) if piece]
    return data.splitlines(keepends=True)


def payload_in(frame: bytes) -> tuple[int, int]:
    """Where the JSON of a frame stands."""
    found = PAYLOAD.search(frame)
    if found is not None:
        return found.span(1)
    start, end = frame.find(b"{"), frame.rfind(b"}") + 1
    return (start, end) if 0 <= start < end else (0, 0)


def parses(payload: bytes) -> bool:
    try:
        json.loads(payload)
    except ValueError:
        return False
    return True


def read(dialect: Dialect, data: bytes, sizes: list[int] = []) -> Reply:  # noqa: B006 - never changed
    decoder = dialect.new_decoder()
    portions = in_portions(data, sizes) if sizes else [data]
    return fold([*(event for portion in portions for event in decoder.feed(portion)), *decoder.close()], HERE)


def whole_calls(reply: Reply) -> list[tuple[str, object]]:
    return [(call.name, call.arguments) for call in reply.message.calls if call.arguments]


def blocks_of(reply: Reply) -> list[object]:
    return [
        (block.name, block.arguments) if type(block) is ToolCall else block for block in reply.message.blocks
    ]


def in_place_of(shown: str, meant: str) -> bool:
    """Whether only characters that nobody could read were replaced: each is visible, and no text is missing around it."""
    start = next((at for at, (a, b) in enumerate(zip(shown, meant, strict=False)) if a != b), len(meant))
    kept = len(meant) - start
    end = 0
    while end < min(kept, len(shown) - start) and shown[-1 - end] == meant[-1 - end]:
        end += 1
    replaced, lost = shown[start : len(shown) - end], meant[start : len(meant) - end]
    readable = [letter for letter in replaced if letter != "\ufffd" and letter >= " "]
    # A byte of a longer character that became a letter by itself stands beside what is left of that character.
    return len(lost) <= 2 and (not readable or (len(readable) == 1 and "\ufffd" in replaced))


def is_true(reply: Reply, meant: Reply) -> bool:
    """Whether the reply says what was meant, or that it does not."""
    if reply.error is not None:
        return type(reply.error) is ProtocolError and meant.message.text.startswith(reply.message.text[:-4])
    if reply.finish != meant.finish:
        return False
    if blocks_of(reply) == blocks_of(meant):
        return True
    texts = [
        [getattr(block, "text", "") for block in one.message.blocks if type(block) is not ToolCall]
        for one in (reply, meant)
    ]
    return (
        len(texts[0]) == len(texts[1])
        and sum(a != b for a, b in zip(*texts, strict=True)) == 1
        and all(in_place_of(a, b) for a, b in zip(*texts, strict=True))
        and whole_calls(reply) == whole_calls(meant)
    )


@st.composite
def garbled(draw: st.DrawFn, payload: bytes) -> bytes:
    """The payload so that it is no JSON any more."""
    how = draw(st.sampled_from(("truncated", "flipped", "flipped", "a byte less", "noise inside")))
    at = draw(st.integers(0, len(payload) - 1))
    if how == "truncated":
        return payload[: max(at, 1)]
    if how == "a byte less":
        wide = [place for place, byte in enumerate(payload) if byte >= 0x80]
        at = draw(st.sampled_from([at, *wide]))
        return payload[:at] + payload[at + 1 :]
    byte = bytes([draw(st.integers(0, 255).filter(lambda drawn: drawn not in b"\r\n"))])
    return payload[:at] + byte + payload[at + (how == "flipped") :]


def as_array(data: bytes) -> bytes:
    """A stream of Gemini in its other form."""
    payloads = [frame[slice(*payload_in(frame))] for frame in frames_of(data)]
    return b"[" + b"\n,\r\n".join(payloads) + b"\n]"


WIRES = [*NAMES, "gemini array"]


def told(wire: str, events: list[Event]) -> tuple[Dialect, bytes]:
    dialect = DIALECTS[wire.removesuffix(" array")]
    data = streamed(dialect, events)
    return dialect, as_array(data) if wire.endswith("array") else data


@pytest.mark.parametrize("wire", WIRES)
@given(events=replies(), sizes=cuts, data=st.data())
def test_a_stream_with_one_garbled_frame_says_the_same_or_is_an_error(
    wire: str, events: list[Event], sizes: list[int], data: st.DataObject
) -> None:
    dialect, stream = told(wire, events)
    frames = frames_of(stream)
    assert b"".join(frames) == stream
    at = data.draw(st.integers(0, len(frames) - 1))
    start, end = payload_in(frames[at])
    assume(start < end)
    payload = data.draw(garbled(frames[at][start:end]))
    assume(not parses(payload))
    frames[at] = frames[at][:start] + payload + frames[at][end:]
    spoiled = b"".join(frames)
    assume(not parses(spoiled))  # an object of an array may be garbled into another
    note(repr(spoiled))
    reply, meant = read(dialect, spoiled), read(dialect, stream)
    assert meant.error is None
    assert is_true(reply, meant), (reply, meant)
    assert read(dialect, spoiled, sizes) == reply or reply.error is not None
    assert is_true(read(dialect, spoiled, sizes), meant)


THREE = [ReplyStarted("r", "m"), *(TextDelta(0, f"part {number} ") for number in range(4)), Finished("stop")]
CALL: list[Event] = [
    ReplyStarted("r", "m"),
    CallStarted(0, "call_00001", "remove"),
    *(ArgumentsDelta(0, piece) for piece in ('{"path": "/tmp', "/a/", 'b"}')),
    Finished("tool_calls"),
]


BYTES = b"\xff\x01X{"
"""Every place gets one of them; in `make laws` all four."""


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("events", [THREE, CALL], ids=["text", "call"])
def test_wherever_one_byte_of_a_stream_is_garbled_it_says_the_same_or_is_an_error(
    wire: str, events: list[Event]
) -> None:
    """Also between the frames, and in the names of their fields."""
    dialect, stream = told(wire, events)
    meant = read(dialect, stream)
    assert meant.error is None
    frames, place, wrong = frames_of(stream), 0, []
    for frame in frames:
        start, end = payload_in(frame)
        for at in range(len(frame)):
            for byte in BYTES if LONG else BYTES[at % 4 : at % 4 + 1]:
                spoiled = stream[: place + at] + bytes([byte]) + stream[place + at + 1 :]
                if start <= at < end and parses(frame[start:at] + bytes([byte]) + frame[at + 1 : end]):
                    continue
                reply = read(dialect, spoiled)
                if not is_true(reply, meant):
                    wrong.append((frame, at, byte, reply.message.blocks, reply.error))
        place += len(frame)
    assert wrong == []


def recorded_streams() -> Iterator[tuple[str, Dialect, bytes]]:
    for path in sorted(CORPUS.glob("*.json")):
        recording = _read(path)
        maker = "" if recording.status >= 300 else maker_of(recording)
        body = recording.body.lstrip()
        if maker and (
            recording.stream or body[:5] in (b"data:", b"event") or (maker, body[:1]) == ("gemini", b"[")
        ):
            yield path.name, DIALECTS[maker], recording.body


@pytest.mark.skipif(not CORPUS.is_dir(), reason="the recorded traffic is not beside this repository")
def test_a_recorded_stream_with_one_garbled_frame_says_the_same_or_is_an_error() -> None:
    wrong, number = [], 0
    for name, dialect, stream in recorded_streams():
        meant = read(dialect, stream)
        if meant.error is not None or len(stream) > 200_000:
            continue
        frames = frames_of(stream)
        for at in {*range(0, len(frames), 1 + len(frames) // 12), len(frames) - 1, len(frames) - 2}:
            start, end = payload_in(frames[at])
            if end - start < 2:
                continue
            number += 1
            middle = (start + end) // 2
            for cut in (
                frames[at][:middle] + frames[at][end:],
                frames[at][: start + 1] + b"\xff" + frames[at][start + 2 :],
            ):
                reply = read(dialect, b"".join((*frames[:at], cut, *frames[at + 1 :])))
                if not is_true(reply, meant):
                    wrong.append((name, frames[at]))
    assert number > 1000
    assert wrong == []

"""The model's name in a forwarded stream, wherever it stands and however the stream is cut."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.conversation.events import Event, ReplyStarted, TextDelta
from segue.gateway.exchanges.model_field import ModelField

EVENTS = "text/event-stream"
LINES = "application/x-ndjson"
STARTED = ReplyStarted("1", "theirs")


def named(name: str, *, end: str, ours: str) -> list[bytes]:
    """Frames with the name in some of them."""
    frames = (
        '{"type":"start","message":{"model":"NAME"}}',
        '{"text":"the \\"model\\" is no field"}',
        '{"model": "NAME","text":"x"}',
        '{"model" : "other","text":"x"}',
        '{"text":"last"}',
    )
    return [
        f"{'data: ' if ours == EVENTS else ''}{frame.replace('NAME', name)}{end}".encode() for frame in frames
    ]


def fed(field: ModelField, portions: list[bytes]) -> bytes:
    more: list[list[Event]] = [[TextDelta(0, "x")] for _ in portions[1:]]
    events: list[list[Event]] = [[STARTED], *more]
    fed = [field.feed(portion, event) for portion, event in zip(portions, events, strict=True)]
    return b"".join((*fed, field.close()))


@pytest.mark.parametrize(
    ("stream", "end"), [(EVENTS, "\n\n"), (EVENTS, "\r\n\r\n"), (LINES, "\n"), (EVENTS, "")]
)
@pytest.mark.parametrize("count", [1, 2, 3, 5])
@given(cuts=st.lists(st.integers(0, 300), max_size=6))
def test_all_names_are_replaced_wherever_the_stream_is_cut(
    stream: str, end: str, count: int, cuts: list[int]
) -> None:
    frames = b"".join(named("theirs", end=end, ours=stream)[:count])
    places = [0, *sorted(min(cut, len(frames)) for cut in cuts), len(frames)]
    portions = [frames[start:stop] for start, stop in pairwise(places)]
    wanted = b"".join(named("o\\\\urs", end=end, ours=stream)[:count])
    assert fed(ModelField("model", "o\\urs", stream), portions) == wanted
    assert fed(ModelField("model", "theirs", stream), portions) == frames

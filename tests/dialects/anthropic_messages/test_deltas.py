"""One delta after another, each a portion of its own: what is told at a glance is what reading all of it tells."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from segue.conversation.events import Event
from segue.dialects.anthropic_messages import DIALECT

_START = (
    '{"type":"content_block_start","index":%d,"content_block":{"type":"%s","id":"i","name":"n","input":{}}}'
)
_DELTA = '{"type":"content_block_delta","index":%d,"delta":{"type":"%s","%s":%s}%s'
_KINDS = [("text_delta", "text"), ("thinking_delta", "thinking"), ("input_json_delta", "partial_json")]
_INDEXES = st.integers(0, 1)

DELTAS = st.builds(
    lambda index, kind, text, end: _DELTA % (index, *kind, text, end),
    _INDEXES,
    st.sampled_from(_KINDS),
    st.sampled_from(['" word"', '""', "null", '"}}"', '"\\n"', '"\\ud83d\\ude00"', '"a" "b"', '"open', "7"]),
    st.sampled_from(["}", "}", "    }", "", "}}", "\n}", "\r}"]),
)
STARTS = st.builds(
    lambda index, kind: _START % (index, kind),
    _INDEXES,
    st.sampled_from(["text", "tool_use", "server_tool_use"]),
)
STOPS = _INDEXES.map('{{"type":"content_block_stop","index":{}}}'.format)
FRAMES = st.lists(
    st.one_of(
        DELTAS, DELTAS, DELTAS, STARTS, STOPS, st.sampled_from(['{"type":"ping"}', '{"type":"message_stop"}'])
    ),
    max_size=10,
)


@given(FRAMES)
def test_deltas_alone_in_their_portions_are_read_like_any_others(frames: list[str]) -> None:
    portions = [f"event: content_block_delta\ndata: {frame}\n\n".encode() for frame in frames]
    assert [str(event) for event in told(portions)] == [str(event) for event in told([b"".join(portions)])]


def told(portions: list[bytes]) -> list[Event]:
    decoder = DIALECT.new_decoder()
    return [event for portion in portions for event in decoder.feed(portion)] + decoder.close()

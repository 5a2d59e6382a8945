"""One delta after another, each a portion of its own: what is read at a glance is what reading all of it gives."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from segue.conversation.events import Event
from segue.dialects.openai_responses import DIALECT

_DELTA = '{"type":"response.%s.delta"%s,"delta":%s,"item_id":"m",%s"obfuscation":"xY7","sequence_number":%s%s'
_KINDS = ["output_text", "output_text", "output_text", "refusal", "function_call_arguments"]
_TEXTS = ['" word"', '""', "null", '"}}"', '"\\n"', '"\\ud83d\\ude00"', '"a" "b"', '"open', "7"]

DELTAS = st.builds(
    lambda *fields: _DELTA % fields,
    st.sampled_from(_KINDS),
    st.sampled_from([',"content_index":0', ',"content_index":0', ',"content_index":1', ""]),
    st.sampled_from([*_TEXTS[:1] * 5, *_TEXTS]),
    st.sampled_from(['"output_index":0,', '"output_index":0,', '"output_index":1,', ""]),
    st.integers(0, 20),
    st.sampled_from(["}", "}", "}", "    }", "", "}}", "\n}", "\r}"]),
)
OTHERS = st.sampled_from(
    [
        '{"type":"keepalive"}',
        '{"type":"response.output_item.done","output_index":0,"item":{"type":"message","content":[]}}',
        '{"type":"response.completed","response":{"status":"completed","output":[]}}',
    ]
)


@given(st.lists(st.one_of(DELTAS, DELTAS, DELTAS, OTHERS), max_size=10))
def test_deltas_alone_in_their_portions_are_read_like_any_others(frames: list[str]) -> None:
    portions = [f"event: response.output_text.delta\ndata: {frame}\n\n".encode() for frame in frames]
    assert [str(event) for event in read(portions)] == [str(event) for event in read([b"".join(portions)])]


def read(portions: list[bytes]) -> list[Event]:
    decoder = DIALECT.new_decoder()
    return [event for portion in portions for event in decoder.feed(portion)] + decoder.close()

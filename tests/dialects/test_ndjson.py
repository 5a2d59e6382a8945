"""Lines of JSON, however the bytes are cut."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from segue.dialects.streams.ndjson import LineDecoder
from strategies.replies import cuts, in_portions

LINES = st.lists(st.sampled_from((b'{"a":1}', b'{"text":"na\xc3\xafve"}', b"[]", b"7")), max_size=6)


@given(lines=LINES, gap=st.sampled_from((b"\n", b"\r\n", b"\n\n", b"\n \n")), sizes=cuts, ended=st.booleans())
def test_a_stream_cut_anywhere_gives_the_same_lines(
    lines: list[bytes], gap: bytes, sizes: list[int], ended: bool
) -> None:
    data = gap.join(lines) + (gap if ended else b"")
    decoder = LineDecoder()
    found = [line for portion in in_portions(data, sizes) for line in decoder.feed(portion)] + decoder.close()
    assert [line.strip() for line in found] == lines


def test_a_line_is_told_as_soon_as_it_is_whole() -> None:
    decoder = LineDecoder()
    assert decoder.feed(b'{"a"') == []
    assert decoder.feed(b":1}\n{") == [b'{"a":1}']
    assert decoder.close() == [b"{"]
    assert decoder.close() == []

"""The value of a JSON text that is still being written."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.text.partial_json import NOTHING, PartialJson

values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
)
containers = st.lists(values, max_size=5) | st.dictionaries(st.text(max_size=5), values, max_size=5)


def is_part(part: Any, whole: Any) -> bool:
    """Whether a value can still become the other."""
    if isinstance(part, str) and isinstance(whole, str):
        return whole.startswith(part)
    if isinstance(part, list) and isinstance(whole, list):
        return len(part) <= len(whole) and all(map(is_part, part, whole))
    if isinstance(part, dict) and isinstance(whole, dict):
        return all(key in whole and is_part(value, whole[key]) for key, value in part.items())
    return bool(part == whole) and type(part) is type(whole)


@given(containers, st.booleans(), st.sampled_from(["", "```json\n", " \n"]), st.data())
def test_every_value_on_the_way_is_a_part_of_the_last_which_is_whole(
    value: Any, ascii_only: bool, before: str, data: st.DataObject
) -> None:
    text = before + json.dumps(value, ensure_ascii=ascii_only)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=20)))
    reader, seen = PartialJson(), []
    for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True):
        read = reader.feed(text[start:end])
        if read is not NOTHING:
            seen.append(read)
    assert all(is_part(part, later) for part, later in zip(seen, [*seen[1:], value], strict=True))
    assert all(part != later for part, later in pairwise(seen))
    whole = PartialJson().feed(text)
    assert whole == value


@pytest.mark.parametrize("ascii_only", [True, False])
def test_a_text_only_grows_also_where_its_characters_are_written_as_escapes(ascii_only: bool) -> None:
    text = 'a "b" \\ é 😀 ✓\n'
    reader = PartialJson()
    written = json.dumps({"text": text}, ensure_ascii=ascii_only)
    seen = [read["text"] for one in written if (read := reader.feed(one)) not in (NOTHING, {})]
    assert seen == [text[:length] for length in range(len(text) + 1)]


def test_what_is_no_json_has_no_value() -> None:
    reader = PartialJson()
    assert [reader.feed(piece) for piece in ("Oslo ", "has {", '"a": 1}')] == [NOTHING] * 3


def test_a_long_text_is_not_read_anew_for_every_piece() -> None:
    reader = PartialJson()
    reader.feed('{"text": "')
    read = sum(reader.feed("word ") is not NOTHING for _ in range(20_000))
    assert read < 700

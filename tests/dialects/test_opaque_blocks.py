"""Blocks kept for their origin: each goes back once, tools only with their results, and the rest in words."""

from __future__ import annotations

from typing import Any

import pytest

from segue.conversation.blocks import Origin, Seal, Text
from segue.dialects.requests.opaque_blocks import OpaqueBlockFilter, is_opaque, opaque_block, seal_block

HERE = Origin("here")
USE = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}
RESULT = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []}
ITEM = {"type": "web_search_call", "id": "ws_1"}


def kept(*blocks: dict[str, Any]) -> list[Text]:
    return [seal_block(block, "words", HERE) for block in blocks]


def test_a_block_is_kept_word_for_word() -> None:
    text = seal_block(ITEM, "words", HERE)
    assert text.text == "words"
    assert bytes(opaque_block(text) or b"") == b'{"type":"web_search_call","id":"ws_1"}'


@pytest.mark.parametrize("payload", ["", "SEALED", "{", "[]", "{}", '{"type": 3}', '{"type": "\ud800"}'])
def test_other_seals_hold_no_block(payload: str) -> None:
    assert not is_opaque(payload, "encrypted")
    assert opaque_block(Text("words", Seal(HERE, payload, "encrypted"))) is None


@pytest.mark.parametrize(
    ("blocks", "returned"),
    [
        ([USE, RESULT], {0, 1}),
        ([USE], set()),
        ([RESULT], set()),
        ([RESULT, USE], set()),
        ([USE, USE, RESULT], {0, 2}),
        ([USE, RESULT, RESULT], {0, 1}),
        ([ITEM, ITEM], {0}),
        ([{"type": "compaction"}, {"type": "compaction"}], {0, 1}),
    ],
)
def test_only_what_fits_goes_back(blocks: list[dict[str, Any]], returned: set[int]) -> None:
    assert OpaqueBlockFilter().select(kept(*blocks)).keys() == returned


def test_an_id_goes_back_once_in_a_whole_transcript() -> None:
    returned = OpaqueBlockFilter()
    assert len(returned.select(kept(USE, RESULT))) == 2
    assert returned.select(kept(USE, RESULT)) == {}

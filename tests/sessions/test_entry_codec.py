"""Entries as JSON."""

from __future__ import annotations

import json

import pytest

from segue.conversation.blocks import ToolResult
from segue.conversation.options import Options
from segue.errors import JournalError
from segue.sessions.entries import CallEnded, SessionStarted, SettingsChanged, TurnEnded
from segue.sessions.entry_codec import EncodedEntry, decode_entry, encode_entry
from strategies.histories import CYCLE


@pytest.mark.parametrize(
    ("output", "kept"),
    [
        (float("nan"), "nan"),
        (b"\x00", {"base64": "AA=="}),
        (CYCLE, {"name": "cycle", "itself": "(circular)"}),
        ({1: 2}, {"1": 2}),
        (("t", 1), ["t", 1]),
        (2**100, 2**100),
        ("\udfff", "\udfff"),
    ],
)
def test_any_value_is_kept_in_a_form_that_can_be_read(output: object, kept: object) -> None:
    entry = EncodedEntry.of(CallEnded(ToolResult("c0", "read", output))).entry
    assert isinstance(entry, CallEnded)
    assert entry.result.output == kept
    assert EncodedEntry.of(entry).entry == entry


def test_an_entry_is_one_line_of_json_with_its_kind() -> None:
    body = encode_entry(TurnEnded("error", {"message": "two\nlines"}))
    assert b"\n" not in body
    assert json.loads(body) == {"type": "turn_ended", "finish": "error", "error": {"message": "two\nlines"}}


@pytest.mark.parametrize("name", ["extra_headers", "Authorization", "api-key", "x-goog-api-key"])
def test_nothing_of_a_key_is_ever_written(name: str) -> None:
    extra = {
        name: {"Authorization": "Bearer SECRET"},
        "deep": [{name: "SECRET", "kept": 1}],
        "top_logprobs": 2,
    }
    options = Options(seed=7, extra=extra)
    for entry in (SessionStarted(options=options), SettingsChanged(options=options)):
        body = encode_entry(entry)
        assert b"SECRET" not in body
        assert json.loads(body)["options"] == {"seed": 7, "extra": {"deep": [{"kept": 1}], "top_logprobs": 2}}
    assert extra[name]  # what the caller holds is untouched


def test_an_entry_of_a_newer_segue_is_refused_by_name() -> None:
    with pytest.raises(JournalError) as refused:
        decode_entry(b'{"type": "moon_landed", "crew": 3}')
    assert refused.value.code == "newer_entry"
    assert "moon_landed" in str(refused.value)
    assert "newer segue" in str(refused.value)


@pytest.mark.parametrize(
    "body", [b"", b"[]", b'{"type": "call_begun"}', b'{"type":"call_beg', b"\xff", b"{}"]
)
def test_what_is_no_entry_is_damaged(body: bytes) -> None:
    with pytest.raises(JournalError) as refused:
        decode_entry(body)
    assert refused.value.code == "damaged"

"""Why a reply ended, in the words of a wire, both ways."""

from __future__ import annotations

from typing import Any

import pytest

from segue.dialects.replies.finish_reasons import FinishReasons

_WITHOUT_CALLS = FinishReasons({"stop": ("STOP", "OTHER"), "length": ("MAX",)}, writes={"cancelled": "OTHER"})
_WITH_CALLS = FinishReasons({"stop": ("end",), "tool_calls": ("calls", "call"), "error": ("broken",)})


def test_a_word_that_nobody_knows_is_an_ordinary_end() -> None:
    assert _WITH_CALLS.read("new") == "stop"
    assert _WITH_CALLS.read("new", "error") == "error"
    assert _WITH_CALLS.read("call") == "tool_calls"


@pytest.mark.parametrize(
    ("reason", "raw", "word"),
    [
        ("tool_calls", "call", "call"),
        ("tool_calls", "", "calls"),
        ("tool_calls", "end", "calls"),
        ("content_filter", "safety", "end"),
        ("error", "", "broken"),
    ],
)
def test_a_reason_is_written_in_the_word_it_came_in_or_the_nearest(reason: Any, raw: str, word: str) -> None:
    assert _WITH_CALLS.write(reason, raw) == word


@pytest.mark.parametrize(("raw", "word"), [("OTHER", "OTHER"), ("MAX", "MAX"), ("calls", "STOP")])
def test_a_wire_without_a_word_for_calls_keeps_the_word_that_it_ended_them_with(raw: str, word: str) -> None:
    assert _WITHOUT_CALLS.write("tool_calls", raw) == word


def test_an_exception_is_written_as_it_says() -> None:
    assert _WITHOUT_CALLS.write("cancelled", "") == "OTHER"

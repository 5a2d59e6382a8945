"""The status ladder, and what counts as a real result."""

from __future__ import annotations

from typing import Any

import pytest

from segue.conversation.blocks import Media, Status, ToolResult, is_real, status_of

IMAGE = Media("image", "image/png", "aGVsbG8=")


@pytest.mark.requirement("REQ-915-048")
@pytest.mark.parametrize(
    ("result", "status"),
    [
        (ToolResult("c0", error="it failed", complete=True, output="half"), "error"),
        (ToolResult("c0", error=""), "error"),
        (ToolResult("c0", complete=True), "complete"),
        (ToolResult("c0", output="text"), "complete"),
        (ToolResult("c0", output="text", complete=False), "complete"),
        (ToolResult("c0", output=False), "complete"),
        (ToolResult("c0", output=0), "complete"),
        (ToolResult("c0", output=""), "complete"),
        (ToolResult("c0", output=[]), "complete"),
        (ToolResult("c0", media=(IMAGE,)), "complete"),
        (ToolResult("c0"), "pending"),
        (ToolResult("c0", complete=False), "pending"),
        (ToolResult("c0", reason="cancelled_by_user"), "cancelled"),
    ],
)
def test_an_error_comes_first_then_completeness_then_any_output(result: ToolResult, status: Status) -> None:
    assert status_of(result) == status
    assert is_real(result) == (status in ("complete", "error"))


@pytest.mark.requirement("REQ-915-048")
@pytest.mark.parametrize("output", ["", 0, False, [], {}])
def test_a_result_that_is_falsy_is_a_result_all_the_same(output: Any) -> None:
    assert is_real(ToolResult("c0", output=output))


def test_a_placeholder_is_never_real_even_with_words_in_it() -> None:
    assert not is_real(ToolResult("c0", output="partial", reason="timed_out"))

"""What a reply cost."""

from __future__ import annotations

from segue.conversation.usage import Usage


def test_the_total_is_unknown_only_when_nothing_is_known() -> None:
    assert Usage().total_tokens is None
    assert Usage(input_tokens=3).total_tokens == 3
    assert Usage(output_tokens=0).total_tokens == 0
    assert Usage(input_tokens=3, output_tokens=4, cached_tokens=2, reasoning_tokens=1).total_tokens == 7

"""What a reply cost."""

from __future__ import annotations

from segue.conversation.usage import NO_USAGE, Usage


def test_the_total_is_unknown_only_when_nothing_is_known() -> None:
    assert Usage().total_tokens is None
    assert Usage(input_tokens=3).total_tokens == 3
    assert Usage(output_tokens=0).total_tokens == 0
    assert Usage(input_tokens=3, output_tokens=4, cached_tokens=2, reasoning_tokens=1).total_tokens == 7


def test_what_neither_knows_stays_unknown_and_zero_is_known() -> None:
    first, second = Usage(1, None, 3), Usage(None, 2, 4, None, 0)
    assert first.plus(second) == second.plus(first) == Usage(1, 2, 7, None, 0)


def test_no_usage_adds_nothing() -> None:
    assert Usage(5, 6).plus(NO_USAGE) == NO_USAGE.plus(Usage(5, 6)) == Usage(5, 6)

"""The judges of `make soak` see what is lost, what is not counted and memory that grows; and a short soak finds nothing of it."""

from __future__ import annotations

from collections import Counter

import pytest

from gateway.soak import READ_TOKENS, WORDS, grown, soak, uncounted


def _row(kind: str, requests: int, **tokens: int) -> dict[str, object]:
    return {"asked": f"soak-{kind}", "requests": requests, **tokens}


def test_a_request_that_is_not_counted_is_found() -> None:
    sent = Counter({"error": 3})
    assert uncounted(sent, [_row("error", 1), _row("error", 2)], {}) == []
    assert len(uncounted(sent, [_row("error", 2)], {})) == 1


def test_a_client_that_hung_up_is_counted_if_its_provider_was_asked() -> None:
    sent = Counter({"hangs-up": 3})
    assert uncounted(sent, [_row("hangs-up", 2)], {"hangs-up": 2}) == []
    assert len(uncounted(sent, [_row("hangs-up", 1)], {"hangs-up": 2})) == 1


def test_a_whole_reply_is_counted_to_the_token() -> None:
    sent = Counter({"whole": 2})
    exact = _row("whole", 2, input_tokens=2 * READ_TOKENS, output_tokens=2 * WORDS["whole"])
    assert uncounted(sent, [exact], {}) == []
    assert len(uncounted(sent, [{**exact, "output_tokens": 2 * WORDS["whole"] - 1}], {})) == 1


def test_a_reply_that_broke_off_is_counted_with_an_estimate() -> None:
    assert len(uncounted(Counter({"leaves": 1}), [_row("leaves", 1, output_tokens=0)], {})) == 1


def test_memory_that_grows_in_the_end_is_found() -> None:
    assert grown([60, 80, 100, 110, 110, 112, 112, 111, 113]) == []
    assert len(grown([60, 80, 100, 110, 110, 112, 130, 140, 150])) == 1


@pytest.mark.timeout(60)
def test_nothing_is_lost_in_a_short_soak() -> None:
    found = soak(3.0, 0.3, looks=3)
    assert found.lost == []
    assert found.sent.total() > 0

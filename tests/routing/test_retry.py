"""When to ask again, and after how long."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.errors import (
    ContentPolicyError,
    ContextLengthError,
    CredentialsError,
    InvalidRequestError,
    JournalError,
    OverloadError,
    ProtocolError,
    ProviderError,
    QuotaError,
    RateLimitError,
    SegueError,
    TranscriptError,
    TransportError,
    UsageError,
)
from segue.routing.retry import RetrySettings, is_timeout, pause_before, recovery_for


@pytest.mark.parametrize(
    ("error", "recovery"),
    [
        (RateLimitError("slow down", status=429), "retry"),
        (OverloadError("busy", status=503), "retry"),
        (ProviderError("broken", status=500), "retry"),
        (TransportError("nobody there"), "retry"),
        (ProtocolError("half a stream"), "retry"),
        (CredentialsError("no", status=401), "other_member"),
        (CredentialsError("no key here"), "other_member"),
        (QuotaError("empty", status=429), "other_member"),
        (ProviderError("unclassified", status=403), "other_member"),
        (ProviderError("moved", status=307), "other_member"),
        (InvalidRequestError("no such model", status=404), "other_member"),
        (ContentPolicyError("refused", status=400), "other_member"),
        (ContextLengthError("too long", status=400), "larger_member"),
        (UsageError("wrong"), "give_up"),
        (TranscriptError("wrong"), "give_up"),
        (JournalError("wrong"), "give_up"),
    ],
)
def test_remedy_and_status_say_what_may_help(error: SegueError, recovery: str) -> None:
    assert recovery_for(error) == recovery


def test_timeouts_are_known_by_code_and_status() -> None:
    assert is_timeout(TransportError("late", code="first_byte_timeout"))
    assert is_timeout(OverloadError("late", status=504))
    assert not is_timeout(TransportError("gone", code="connection_broken"))


def test_pauses_double_up_to_the_longest() -> None:
    retry = RetrySettings(attempts=10, first_pause=1.0, longest_pause=5.0, total=1000.0)
    error = OverloadError("busy", status=503)
    pauses = [pause_before(attempt, error, 0.0, retry, lambda: 1.0) for attempt in range(1, 6)]
    assert pauses == [1.0, 2.0, 4.0, 5.0, 5.0]


def test_what_the_provider_asks_for_is_waited_at_least() -> None:
    error = RateLimitError("slow down", status=429, retry_after=7.0)
    assert pause_before(1, error, 0.0, RetrySettings(), lambda: 0.5) == 7.0


def test_a_provider_that_asks_for_too_long_a_pause_is_not_waited_for() -> None:
    error = RateLimitError("slow down", status=429, retry_after=3600.0)
    assert pause_before(1, error, 0.0, RetrySettings(), lambda: 0.5) is None


def test_the_last_attempt_is_followed_by_no_pause() -> None:
    error = TransportError("gone")
    assert pause_before(3, error, 0.0, RetrySettings(attempts=3), lambda: 0.5) is None


@given(
    st.lists(st.floats(0, 1), min_size=50, max_size=50),
    st.sampled_from((None, 0.0, 3.0, 29.0, math.inf, math.nan, -1.0)),
)
def test_all_pauses_together_are_bounded_in_number_and_time(draws: list[float], asked: float | None) -> None:
    retry = RetrySettings(attempts=8, total=20.0)
    chance = iter(draws)
    waited, attempt = 0.0, 1
    while (
        pause := pause_before(
            attempt, RateLimitError("", retry_after=asked), waited, retry, lambda: next(chance)
        )
    ) is not None:
        assert 0 <= pause <= retry.longest_pause
        waited += pause
        attempt += 1
    assert attempt <= retry.attempts
    assert waited <= retry.total

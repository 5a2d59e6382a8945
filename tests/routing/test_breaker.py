"""A member that keeps failing is left alone, and never for ever."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from segue.routing.breaker import Breaker, BreakerSettings

SETTINGS = BreakerSettings(failures=3, window=60.0, recovery=30.0)


def opened() -> Breaker:
    breaker = Breaker(SETTINGS)
    for at in (0.0, 1.0, 2.0):
        breaker.failed(at)
    return breaker


def test_enough_failures_within_the_window_open_it() -> None:
    breaker = opened()
    assert breaker.state(3.0) == "open"
    assert breaker.ready_at(3.0) == 32.0


def test_failures_that_lie_far_apart_do_not_open_it() -> None:
    breaker = Breaker(SETTINGS)
    for at in (0.0, 50.0, 100.0, 150.0):
        breaker.failed(at)
    assert breaker.state(151.0) == "closed"


def test_after_the_recovery_time_one_probe_may_pass_and_no_other() -> None:
    breaker = opened()
    assert breaker.state(32.0) == "half_open"
    assert breaker.ready_at(32.0) == 32.0
    assert breaker.begin(32.0)
    assert breaker.ready_at(33.0) > 33.0


def test_a_probe_that_succeeds_closes_it() -> None:
    breaker = opened()
    breaker.begin(32.0)
    breaker.succeeded()
    assert breaker.state(32.0) == "closed"
    breaker.failed(33.0)
    assert breaker.state(33.0) == "closed"


def test_a_probe_that_fails_opens_it_again_however_old_the_other_failures_are() -> None:
    breaker = opened()
    assert breaker.begin(5000.0)
    breaker.failed(5001.0)
    assert breaker.state(5002.0) == "open"
    assert breaker.state(5031.0) == "half_open"
    assert breaker.ready_at(5031.0) == 5031.0


def test_an_aborted_probe_is_given_back() -> None:
    breaker = opened()
    breaker.begin(40.0)
    breaker.give_back()
    assert breaker.ready_at(40.0) == 40.0
    assert breaker.begin(40.0)


def test_a_breaker_for_no_failures_never_opens() -> None:
    breaker = Breaker(BreakerSettings(failures=0))
    for at in range(100):
        breaker.failed(float(at))
    assert breaker.state(100.0) == "closed"


@given(st.lists(st.tuples(st.sampled_from(("begin", "fail", "succeed", "abort")), st.floats(0, 100))))
def test_whatever_happened_it_lets_a_request_pass_within_the_recovery_time(
    history: list[tuple[str, float]],
) -> None:
    breaker, now = Breaker(SETTINGS), 0.0
    for what, later in history:
        now += later
        if what == "begin":
            breaker.begin(now)
        elif what == "fail":
            breaker.failed(now)
        elif what == "succeed":
            breaker.succeeded()
        else:
            breaker.give_back()
        assert now <= breaker.ready_at(now) <= now + SETTINGS.recovery

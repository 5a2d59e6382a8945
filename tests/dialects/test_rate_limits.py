"""What the headers of a reply say about rate limits."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.dialects.replies.rate_limits import RateLimit, rate_limits

NOW = 1_790_000_000.0


@pytest.mark.parametrize(
    ("headers", "limits"),
    [
        (
            {
                "x-ratelimit-limit-requests": "60",
                "x-ratelimit-remaining-requests": "59",
                "x-ratelimit-reset-requests": "1s",
                "X-RateLimit-Remaining-Tokens": "149984",
                "X-RateLimit-Reset-Tokens": "6m0s",
            },
            (RateLimit("requests", 59, 1.0, 60), RateLimit("tokens", 149984, 360.0)),
        ),
        (
            {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "1h2m3.5s"},
            (RateLimit("requests", 0, 3723.5),),
        ),
        (
            {"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "20ms"},
            (RateLimit("tokens", 0, 0.02),),
        ),
        (
            {
                "anthropic-ratelimit-input-tokens-remaining": "0",
                "anthropic-ratelimit-input-tokens-reset": "2026-09-21T14:14:40Z",
            },
            (RateLimit("input-tokens", 0, 80.0),),
        ),
        (
            {"x-ratelimit-remaining": "3", "x-ratelimit-reset": "1790000060000"},
            (RateLimit("requests", 3, 60.0),),
        ),
        ({"ratelimit-remaining": "3", "ratelimit-reset": "1790000007"}, (RateLimit("requests", 3, 7.0),)),
        ({"ratelimit-remaining": "3", "ratelimit-reset": "12"}, (RateLimit("requests", 3, 12.0),)),
        ({"x-ratelimit-remaining-requests": "0"}, ()),
        ({"x-ratelimit-reset-requests": "1s"}, ()),
        ({"x-ratelimit-remaining-requests": "some", "x-ratelimit-reset-requests": "1s"}, ()),
        ({"x-ratelimit-remaining-requests": "1", "x-ratelimit-reset-requests": "soon"}, ()),
    ],
)
def test_each_way_to_write_a_limit_is_read(headers: dict[str, str], limits: tuple[RateLimit, ...]) -> None:
    assert rate_limits(headers, NOW) == limits


@given(left=st.text(max_size=40), reset=st.text(max_size=40))
def test_no_header_makes_reading_fail(left: str, reset: str) -> None:
    for limit in rate_limits({"x-ratelimit-remaining": left, "x-ratelimit-reset": reset}, NOW):
        assert limit.left >= 0
        assert limit.seconds >= 0

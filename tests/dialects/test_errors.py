"""What refusals have in common on every wire."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.dialects.errors import (
    class_of_status,
    clean_body,
    excerpt,
    request_id,
    retry_after,
)
from segue.errors import ContextLengthError, InvalidRequestError, OverloadError, ProviderError, RateLimitError
from segue.redaction import redact_text


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (400, InvalidRequestError),
        (413, ContextLengthError),
        (429, RateLimitError),
        (599, OverloadError),
        (302, ProviderError),
    ],
)
def test_a_status_has_a_class(status: int, expected: type[ProviderError]) -> None:
    assert class_of_status(status) is expected


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "3"}, 3.0),
        ({"retry-after": "3", "retry-after-ms": "1500"}, 1.5),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:00 GMT"}, None),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "nan"}, None),
        ({}, None),
    ],
)
def test_the_wait_is_read_when_it_is_a_number_of_seconds(
    headers: dict[str, str], seconds: float | None
) -> None:
    assert retry_after(headers) == seconds


@pytest.mark.parametrize(
    "told",
    [
        "Incorrect API key provided: hunter2. You can find your API key at the console.",
        "bad header Authorization: Bearer hunter2",
        'GET https://example.invalid/v1?key=hunter2" failed',
        "invalid key sk-ant-hunter2-abcdefgh",
    ],
)
def test_keys_are_redacted(told: str) -> None:
    assert "hunter2" not in redact_text(told)
    assert b"hunter2" not in clean_body(told.encode())


@given(st.binary(), st.integers())
def test_any_body_gives_a_message(body: bytes, status: int) -> None:
    assert excerpt(body, status)
    clean_body(body)


def test_the_request_is_named_by_whichever_header_does() -> None:
    assert request_id({"x-request-id": "req_2"}) == "req_2"
    assert request_id({}) == ""

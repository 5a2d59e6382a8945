"""Refusals of the Messages wire: any bytes become an error with a remedy, and errors of ours are spelled its way."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.dialects.anthropic_messages import DIALECT
from segue.errors import (
    ContentPolicyError,
    ContextLengthError,
    CredentialsError,
    InvalidRequestError,
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


def refused(status: int, kind: str, message: str, **headers: str) -> ProviderError:
    body = json.dumps({"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"})
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return DIALECT.decode_error(status, named, body.encode())


@given(st.integers(-5, 999), st.dictionaries(st.text(max_size=5), st.text(max_size=5)), st.binary())
def test_any_answer_becomes_an_error_with_a_remedy(status: int, headers: dict[str, str], body: bytes) -> None:
    error = DIALECT.decode_error(status, headers, body)
    assert error.remedy
    assert error.message
    assert error.status == status


@given(
    st.recursive(
        st.none() | st.integers() | st.text(),
        lambda held: (
            st.lists(held)
            | st.dictionaries(
                st.sampled_from(("error", "type", "message", "details", "error_code", "request_id")), held
            )
        ),
    )
)
def test_any_json_becomes_an_error(body: object) -> None:
    assert DIALECT.decode_error(400, {}, json.dumps(body).encode()).message


@pytest.mark.parametrize(
    ("status", "kind", "message", "expected"),
    [
        (400, "invalid_request_error", "messages: at least one message is required", InvalidRequestError),
        (401, "authentication_error", "invalid x-api-key", CredentialsError),
        (402, "billing_error", "pay", QuotaError),
        (403, "permission_error", "no", CredentialsError),
        (404, "not_found_error", "model: claude-0", InvalidRequestError),
        (413, "request_too_large", "Request exceeds the maximum size", ContextLengthError),
        (429, "rate_limit_error", "This request would exceed your rate limit", RateLimitError),
        (500, "api_error", "Internal server error", OverloadError),
        (504, "timeout_error", "late", OverloadError),
        (529, "overloaded_error", "Overloaded", OverloadError),
        (
            400,
            "invalid_request_error",
            "prompt is too long: 213462 tokens > 200000 maximum",
            ContextLengthError,
        ),
        (
            400,
            "invalid_request_error",
            "input length and `max_tokens` exceed context limit: 178959 + 64000 > 200000",
            ContextLengthError,
        ),
        (
            400,
            "invalid_request_error",
            "Your credit balance is too low to access the Anthropic API",
            QuotaError,
        ),
        (400, "invalid_request_error", "Output blocked by content filtering policy", ContentPolicyError),
        (418, "teapot_error", "short and stout", InvalidRequestError),
    ],
)
def test_types_and_phrases_have_their_class(
    status: int, kind: str, message: str, expected: type[ProviderError]
) -> None:
    error = refused(status, kind, message)
    assert type(error) is expected
    assert (error.code, error.request_id) == (kind, "req_1")


def test_the_wait_is_told_in_seconds() -> None:
    assert refused(429, "rate_limit_error", "slow down", retry_after="7").retry_after == 7
    assert refused(429, "rate_limit_error", "slow down", retry_after_ms="250").retry_after == 0.25
    late = "Wed, 21 Oct 2026 07:28:00 GMT"
    assert refused(429, "rate_limit_error", "slow down", retry_after=late).retry_after is None


def test_a_spend_limit_is_a_matter_of_paying() -> None:
    error = {
        "type": "rate_limit_error",
        "message": "m",
        "details": {"error_code": "enforced_spend_limit_reached"},
    }
    assert type(DIALECT.decode_error(429, {}, json.dumps({"error": error}).encode())) is QuotaError


@pytest.mark.parametrize(
    ("status", "kind", "code"),
    [
        (403, "permission_error", "user_profile_not_billable"),
        (403, "permission_error", "user_profile_billing_not_authorized"),
        (402, "billing_error", "linked_organization_spend_limit_reached"),
        (402, "billing_error", "linked_organization_billing_unavailable"),
    ],
)
def test_a_customer_who_cannot_be_billed_concerns_one_request_and_not_the_key(
    status: int, kind: str, code: str
) -> None:
    error = {"type": kind, "message": "m", "details": {"error_code": code}}
    decoded = DIALECT.decode_error(status, {}, json.dumps({"error": error}).encode())
    assert type(decoded) is InvalidRequestError
    assert decoded.code == code


def test_keys_are_blotted_out() -> None:
    error = refused(401, "authentication_error", "invalid key sk-ant-api03-abcdefghijklmnop")
    assert "abcdefgh" not in str(error) + error.body.decode()


@pytest.mark.parametrize(
    "error",
    [
        InvalidRequestError("no"),
        CredentialsError("no"),
        QuotaError("no"),
        RateLimitError("no"),
        OverloadError("no"),
        ContextLengthError("too much"),
        ContentPolicyError("no"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_our_errors_are_spelled_so_that_they_read_the_same(error: SegueError) -> None:
    status, body = DIALECT.encode_error(error)
    assert type(DIALECT.decode_error(status, {}, body)) is type(error)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (TranscriptError("no", path="x"), 400),
        (UsageError("no"), 400),
        (TransportError("no"), 504),
        (ProtocolError("no"), 502),
        (SegueError("no"), 500),
        (InvalidRequestError("no", status=404), 404),
    ],
)
def test_every_error_has_a_status_and_the_envelope(error: SegueError, status: int) -> None:
    told, body = DIALECT.encode_error(error)
    assert told == status
    assert json.loads(body)["type"] == "error"

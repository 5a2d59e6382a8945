"""Refusals of the Responses wire: any bytes become an error with a remedy, and errors of ours are spelled its way."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.dialects.openai_responses import DIALECT
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


def refused(status: int, message: str, code: str | None = None, **fields: Any) -> ProviderError:
    error = {"message": message, "type": "invalid_request_error", "param": None, "code": code, **fields}
    return DIALECT.decode_error(status, {"x-request-id": "req_1"}, json.dumps({"error": error}).encode())


@given(st.integers(-5, 999), st.dictionaries(st.text(max_size=5), st.text(max_size=5)), st.binary())
def test_any_answer_becomes_an_error_with_a_remedy(status: int, headers: dict[str, str], body: bytes) -> None:
    error = DIALECT.decode_error(status, headers, body)
    assert error.remedy
    assert error.message
    assert error.status == status


KEYS = st.sampled_from(("error", "type", "message", "code", "param", "detail"))


@given(
    st.recursive(
        st.none() | st.integers() | st.text(), lambda held: st.lists(held) | st.dictionaries(KEYS, held)
    )
)
def test_any_json_becomes_an_error(body: object) -> None:
    assert DIALECT.decode_error(400, {}, json.dumps(body).encode()).message


@pytest.mark.parametrize(
    ("status", "code", "message", "expected"),
    [
        (400, None, "No tool output found for function call call_1.", InvalidRequestError),
        (
            400,
            "context_length_exceeded",
            "Your input exceeds the context window of this model.",
            ContextLengthError,
        ),
        (400, None, "This model's maximum context length is 8192 tokens.", ContextLengthError),
        (400, "model_not_found", "The requested model 'x' does not exist.", InvalidRequestError),
        (
            400,
            "invalid_encrypted_content",
            "The encrypted content could not be verified.",
            InvalidRequestError,
        ),
        (401, "invalid_api_key", "Incorrect API key provided: sk-1.", CredentialsError),
        (429, "rate_limit_exceeded", "Rate limit reached. Please try again in 3.89s.", RateLimitError),
        (
            429,
            "rate_limit_exceeded",
            "Request too large for gpt-x: Limit 30000, Requested 48000.",
            ContextLengthError,
        ),
        (429, "insufficient_quota", "You exceeded your current quota.", QuotaError),
        (500, "server_error", "The server had an error.", OverloadError),
        (400, "content_policy_violation", "no", ContentPolicyError),
        (200, "bio_policy", "no", ContentPolicyError),
    ],
)
def test_codes_and_phrases_have_their_class(
    status: int, code: str | None, message: str, expected: type[ProviderError]
) -> None:
    error = refused(status, message, code)
    assert type(error) is expected
    assert error.request_id == "req_1"


def test_an_id_that_is_too_long_is_a_mistake_and_not_a_long_conversation() -> None:
    long = "Invalid 'input[95].call_id': string too long."
    assert (
        type(refused(400, long, "string_above_max_length", param="input[95].call_id")) is InvalidRequestError
    )
    assert (
        type(refused(400, "long", "string_above_max_length", param="input[1].output")) is ContextLengthError
    )


@pytest.mark.parametrize(("told", "seconds"), [("12ms", 0.012), ("3.89s", 3.89), ("6m0s", 360.0)])
def test_the_wait_may_be_told_in_the_sentence(told: str, seconds: float) -> None:
    error = refused(429, f"Rate limit reached. Please try again in {told}. Visit us.", "rate_limit_exceeded")
    assert error.retry_after == pytest.approx(seconds)


def test_the_key_that_was_refused_is_not_repeated() -> None:
    error = refused(
        401, "Incorrect API key provided: my-secret-key. You can find your API key here.", "invalid_api_key"
    )
    assert "my-secret-key" not in str(error) + error.body.decode()


@pytest.mark.parametrize(
    "body",
    [
        {"error": "Incorrect API key provided."},
        {"detail": "Incorrect API key"},
        {"message": "Incorrect API key"},
    ],
)
def test_servers_that_only_resemble_it_are_understood(body: dict[str, str]) -> None:
    assert type(DIALECT.decode_error(400, {}, json.dumps(body).encode())) is CredentialsError


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
        (TranscriptError("no", path="input[3]"), 400),
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
    assert json.loads(body)["error"].keys() == {"message", "type", "param", "code"}

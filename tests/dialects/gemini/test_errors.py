"""Refusals of the Gemini API."""

from __future__ import annotations

import json
from typing import Any

import pytest

from segue.dialects.gemini import DIALECT
from segue.errors import (
    ContentPolicyError,
    ContextLengthError,
    CredentialsError,
    InvalidRequestError,
    OverloadError,
    ProviderError,
    QuotaError,
    RateLimitError,
)


def refused(status: int, message: str, word: str, *details: dict[str, Any]) -> ProviderError:
    error = {"code": status, "message": message, "status": word, "details": list(details)}
    return DIALECT.decode_error(status, {}, json.dumps({"error": error}).encode())


@pytest.mark.parametrize(
    ("status", "message", "word", "expected"),
    [
        (
            400,
            "The input token count (1200293) exceeds the maximum number of tokens allowed (1048576).",
            "INVALID_ARGUMENT",
            ContextLengthError,
        ),
        (400, "Please use a valid role: user, model.", "INVALID_ARGUMENT", InvalidRequestError),
        (400, "API key not valid. Please pass a valid API key.", "INVALID_ARGUMENT", CredentialsError),
        (403, "Permission denied", "PERMISSION_DENIED", CredentialsError),
        (404, "models/x is not found", "NOT_FOUND", InvalidRequestError),
        (429, "Resource exhausted", "RESOURCE_EXHAUSTED", RateLimitError),
        (400, "Please enable billing on your project", "FAILED_PRECONDITION", QuotaError),
        (503, "The model is overloaded.", "UNAVAILABLE", OverloadError),
        (500, "An internal error", "INTERNAL", OverloadError),
    ],
)
def test_each_refusal_is_of_the_class_that_can_be_remedied(
    status: int, message: str, word: str, expected: type[ProviderError]
) -> None:
    error = refused(status, message, word)
    assert type(error) is expected
    assert (error.status, error.code, error.message) == (status, word.lower(), message)


def test_the_time_to_wait_is_read_from_the_details() -> None:
    info = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.4s"}
    assert refused(429, "slow down", "RESOURCE_EXHAUSTED", info).retry_after == 34.4
    assert refused(429, "Please retry in 7.5s.", "RESOURCE_EXHAUSTED").retry_after == 7.5


def test_the_days_quota_does_not_come_back_by_waiting() -> None:
    failure = {"violations": [{"quotaId": "GenerateRequestsPerDayPerProjectPerModel-FreeTier"}]}
    assert isinstance(
        refused(429, "You exceeded your current quota", "RESOURCE_EXHAUSTED", failure), QuotaError
    )


def test_a_stream_that_failed_before_it_began_answers_with_an_array() -> None:
    body = b'[{"error": {"code": 400, "message": "no", "status": "INVALID_ARGUMENT"}}]'
    assert isinstance(DIALECT.decode_error(400, {}, body), InvalidRequestError)


def test_keys_are_not_repeated() -> None:
    error = refused(
        403, "Consumer 'api_key:AIzaSyD-abcdefghijklmnopqrstuvw' has been suspended.", "PERMISSION_DENIED"
    )
    assert "AIza" not in str(error)


@pytest.mark.parametrize(
    "kind",
    [
        ContentPolicyError,
        ContextLengthError,
        CredentialsError,
        InvalidRequestError,
        OverloadError,
        QuotaError,
        RateLimitError,
    ],
)
def test_an_error_told_to_a_client_is_understood_as_the_same(kind: type[ProviderError]) -> None:
    status, body = DIALECT.encode_error(kind("something", retry_after=3))
    again = DIALECT.decode_error(status, {}, body)
    assert type(again) is kind
    assert again.retry_after == 3

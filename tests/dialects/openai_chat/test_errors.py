"""Any status and any bytes become an error with a remedy; vendor wording is understood; nothing secret is repeated."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.dialects.registry import CHAT_NAMES, DIALECTS
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
)


def refused(
    status: int, body: object, name: str = "openai_chat", headers: dict[str, str] | None = None
) -> ProviderError:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return DIALECTS[name].decode_error(status, headers or {}, data)


@pytest.mark.parametrize(
    ("name", "status", "body", "kind"),
    [
        (
            "openai_chat",
            429,
            {"error": {"message": "You exceeded your current quota, please check"}},
            QuotaError,
        ),
        ("openai_chat", 429, {"error": {"message": "x", "code": "rate_limit_exceeded"}}, RateLimitError),
        (
            "openai_chat",
            429,
            {"error": {"message": "Request too large for gpt-4o on TPM", "code": "rate_limit_exceeded"}},
            ContextLengthError,
        ),
        (
            "openai_chat",
            400,
            {"error": {"message": "x", "code": "context_length_exceeded"}},
            ContextLengthError,
        ),
        ("openai_chat", 400, {"error": {"message": "x", "code": "content_filter"}}, ContentPolicyError),
        ("openai_chat", 503, b"upstream connect error", OverloadError),
        ("deepseek", 402, {"error": {"message": "Insufficient Balance"}}, QuotaError),
        (
            "deepseek",
            400,
            {"error": {"message": "This model's maximum context length is 9"}},
            ContextLengthError,
        ),
        ("kimi", 429, {"error": {"message": "x", "type": "engine_overloaded_error"}}, OverloadError),
        ("kimi", 429, {"error": {"message": "x", "type": "exceeded_current_quota_error"}}, QuotaError),
        (
            "kimi",
            400,
            {"error": {"message": "Invalid request: Your request exceeded model token limit: 9"}},
            ContextLengthError,
        ),
        ("glm", 429, {"error": {"code": "1113", "message": "x"}}, QuotaError),
        (
            "glm",
            400,
            {"error": {"code": "1214", "message": "The messages parameter is illegal."}},
            InvalidRequestError,
        ),
        (
            "minimax",
            400,
            {
                "type": "error",
                "error": {"type": "bad_request_error", "message": "x (2013)", "http_code": "400"},
            },
            InvalidRequestError,
        ),
        ("minimax", 200, {"base_resp": {"status_code": 1008, "status_msg": "no balance"}}, QuotaError),
        ("xai", 400, {"code": "invalid-argument", "error": "Incorrect API key provided."}, CredentialsError),
        ("groq", 400, {"error": {"message": "x", "code": "tool_use_failed"}}, OverloadError),
        (
            "openrouter",
            403,
            {"error": {"code": 403, "message": "Your input was flagged"}},
            ContentPolicyError,
        ),
        ("qwen", 400, {"error": {"code": "data_inspection_failed", "message": "x"}}, ContentPolicyError),
        (
            "llama_cpp",
            400,
            {"error": {"type": "exceed_context_size_error", "message": "x"}},
            ContextLengthError,
        ),
        ("vllm", 400, {"object": "error", "message": "bad", "type": "BadRequestError"}, InvalidRequestError),
        ("ollama_v1", 404, {"error": "model 'x' not found"}, InvalidRequestError),
        ("openai_compatible", 401, [{"error": {"code": 401, "message": "no"}}], CredentialsError),
    ],
)
def test_vendor_wording_is_understood(
    name: str, status: int, body: object, kind: type[ProviderError]
) -> None:
    assert type(refused(status, body, name)) is kind


def test_what_helps_is_kept() -> None:
    error = refused(
        429,
        {
            "error": {
                "message": "Please try again in 1m2.5s.",
                "code": "rate_limit_exceeded",
                "param": "messages",
            }
        },
        headers={"x-request-id": "req_1"},
    )
    assert (error.request_id, error.retry_after, error.path) == ("req_1", 62.5, "messages")
    assert refused(429, b"", headers={"retry-after": "7"}).retry_after == 7
    assert refused(429, b"", headers={"retry-after": "7", "retry-after-ms": "250"}).retry_after == 0.25
    assert refused(429, b"", headers={"retry-after": "Wed, 21 Oct 2026 07:28:00 GMT"}).retry_after is None


@pytest.mark.parametrize("key", ["sk-proj-abc123def456", "test-ope*******-key", "gsk_abcdef123456", "sk-"])
def test_a_key_that_the_provider_repeats_is_not_repeated_by_us(key: str) -> None:
    message = f"Incorrect API key provided: {key}. You can find your API key at https://example.com."
    error = refused(401, {"error": {"message": message, "code": "invalid_api_key"}})
    shown = f"{error} {error.message} {error.body!r} {error.as_dict()}"
    assert key + "." not in shown
    assert "You can find your API key" in error.message


@given(st.integers(100, 599), st.binary(max_size=60), st.sampled_from(CHAT_NAMES))
def test_any_status_and_any_bytes_are_an_error_with_a_remedy(status: int, body: bytes, name: str) -> None:
    error = refused(status, body, name, {"retry-after": "soon"})
    assert error.remedy
    assert error.message
    assert error.status == status


@pytest.mark.parametrize(
    "error",
    [
        InvalidRequestError("bad", path="messages[0]"),
        CredentialsError("who?"),
        QuotaError("no money"),
        RateLimitError("slow"),
        OverloadError("busy"),
        ContextLengthError("long"),
        ContentPolicyError("no"),
    ],
)
@pytest.mark.parametrize("name", CHAT_NAMES)
def test_a_refusal_that_we_write_is_the_refusal_that_we_read(name: str, error: ProviderError) -> None:
    status, body = DIALECTS[name].encode_error(error)
    again = refused(status, body, name)
    assert (type(again), again.message, again.path) == (type(error), error.message, error.path)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (TranscriptError("x"), 400),
        (TransportError("x"), 502),
        (ProtocolError("x"), 502),
        (ProviderError("x"), 502),
        (JournalError("x"), 500),
    ],
)
def test_every_error_of_ours_has_a_status(error: SegueError, status: int) -> None:
    assert DIALECTS["openai_chat"].encode_error(error)[0] == status

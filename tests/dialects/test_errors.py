"""What errors have in common on every wire, and that every dialect keeps to it."""

from __future__ import annotations

import json
import tomllib
from importlib.resources import files
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.dialects.errors import (
    TOOLS_UNSUPPORTED,
    class_of_status,
    excerpt,
    redacted_body,
    request_id,
    retry_after,
    wire_errors,
)
from segue.dialects.registry import DIALECTS, WIRES
from segue.errors import (
    ContextLengthError,
    CredentialsError,
    InvalidRequestError,
    OverloadError,
    ProviderError,
    RateLimitError,
)
from segue.text.redaction import redact_text


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (400, InvalidRequestError),
        (409, OverloadError),
        (413, ContextLengthError),
        (424, OverloadError),
        (425, OverloadError),
        (429, RateLimitError),
        (599, OverloadError),
        (302, ProviderError),
        (None, OverloadError),
    ],
)
def test_a_status_has_a_class(status: int | None, expected: type[ProviderError]) -> None:
    assert class_of_status(status) is expected


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "3"}, 3.0),
        ({"retry-after": "3", "retry-after-ms": "1500"}, 1.5),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:00 GMT"}, None),
        ({"retry-after": "0"}, 0.0),
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
    assert b"hunter2" not in redacted_body(told.encode())


@given(st.binary(), st.integers())
def test_any_body_gives_a_message(body: bytes, status: int) -> None:
    assert excerpt(body, status)
    redacted_body(body)


def test_the_request_is_named_by_whichever_header_does() -> None:
    assert request_id({"x-request-id": "req_2"}) == "req_2"
    assert request_id({}) == ""


STATUSES = (302, 400, 401, 402, 403, 404, 408, 409, 413, 422, 424, 425, 429, 451, 500, 503, 529, 599)
WAITS = ("0", "3", "1.5", "-1", "nan", "1e400", "Wed, 21 Oct 2026 07:28:00 GMT", "")
KEYS = ("sk-proj-abc123def456", "gsk_abcdef123456", "AIzaSyA1234567890abcdef")


@pytest.mark.parametrize("name", DIALECTS)
def test_every_dialect_reads_a_status_alike_where_its_wire_says_nothing(name: str) -> None:
    for status in STATUSES:
        for body in (b"", b"{}", b"upstream failed", b'{"error": {}}'):
            error = DIALECTS[name].decode_error(status, {}, body)
            assert type(error) is class_of_status(status), (status, body)
            assert (error.status, error.retry_after, error.request_id) == (status, None, "")


@pytest.mark.parametrize("name", DIALECTS)
def test_every_dialect_reads_the_headers_alike(name: str) -> None:
    for wait in WAITS:
        headers = {"retry-after": wait, "x-request-id": "req_2"}
        error = DIALECTS[name].decode_error(429, headers, b"{}")
        assert (error.retry_after, error.request_id) == (retry_after(headers), "req_2")
        headers["retry-after-ms"] = "250"
        assert DIALECTS[name].decode_error(429, headers, b"{}").retry_after == 0.25


@pytest.mark.parametrize("name", DIALECTS)
def test_every_dialect_redacts_a_key_that_the_provider_repeats(name: str) -> None:
    for key in KEYS:
        for body in (f'{{"error": {{"message": "bad key {key}", "code": "{key}"}}}}', f"bad key {key}"):
            error = DIALECTS[name].decode_error(401, {}, body.encode())
            assert key not in f"{error} {error.message} {error.code} {error.body!r} {error.as_dict()}"


@pytest.mark.parametrize("name", DIALECTS)
@pytest.mark.parametrize("status", [300, 301, 302, 303, 304, 307, 308, 399])
def test_every_dialect_reports_a_redirect_as_one(name: str, status: int) -> None:
    messages = ("overloaded, try again in 3s", "rate limit", "maximum context length", "invalid api key", "")
    codes = ("overloaded_error", "rate_limit_exceeded", "UNAVAILABLE", "server_error")
    bodies = [f'{{"error": {{"message": "{message}", "type": "{code}", "code": "{code}", "status": "{code}"}}}}'
        for message in messages for code in codes]  # fmt: skip
    for body in ("", "<html>302 Found, temporarily overloaded</html>", "{}", "[]", *bodies):
        error = DIALECTS[name].decode_error(status, {"location": "https://other.example/v1"}, body.encode())
        assert (type(error), error.code, error.status) == (ProviderError, "redirect", status), body
        assert f"status {status}, a redirect to https://other.example/v1." in error.message
        assert "base_url" in error.hint


@pytest.mark.parametrize(
    ("location", "shown"),
    [
        ("https://me:hunter2@other.example/v1?key=hunter2#hunter2", "https://other.example/v1"),
        ("//hunter2@other.example/", "//other.example/"),
        ("/login", "/login"),
        ("/sk-ant-hunter2-abcdefgh", "/[redacted]"),
        ("/a\x1b]0;b\x07", "/a]0;b"),
        ("/" + "x" * 5_000, "/" + "x" * 299),
        ("", "nowhere"),
    ],
)
def test_a_redirect_shows_where_it_leads_without_secrets(location: str, shown: str) -> None:
    for dialect in DIALECTS.values():
        error = dialect.decode_error(302, {"location": location} if location else {}, b"")
        assert error.message.endswith(f"a redirect to {shown}.")
        assert "hunter2" not in f"{error} {error.as_dict()}"


def _table(wire: str) -> dict[str, Any]:
    text = files("segue.dialects").joinpath("errors.toml").read_text("utf-8")
    table: dict[str, Any] = tomllib.loads(text)["wires"][wire]
    return table


@pytest.mark.parametrize("wire", WIRES)
def test_a_name_in_the_table_of_a_wire_means_one_class(wire: str) -> None:
    table = _table(wire)
    for names in (table.get("names", {}), *table.get("names_of", {}).values()):
        listed = [name for found in names.values() for name in found]
        assert len(listed) == len(set(listed))


@pytest.mark.parametrize("wire", WIRES)
def test_every_name_and_every_lead_in_the_table_of_a_wire_is_read_as_its_class(wire: str) -> None:
    table, errors = _table(wire), wire_errors(wire)
    for kind, names in table.get("names", {}).items():
        assert {errors.kind_of("", [name], 418).default_code for name in names} == {kind}
    for kind, lead in table.get("leads", {}).items():
        assert errors.kind_of(lead, [], 400).default_code == kind


def test_a_server_of_the_chat_wire_has_codes_of_its_own() -> None:
    errors = wire_errors("openai_chat")
    assert errors.kind_of("", ["1004"], 400, "glm") is CredentialsError
    assert errors.kind_of("", ["1004"], 400) is InvalidRequestError


@pytest.mark.parametrize(
    ("dialect", "message"),
    [
        ("gemini", "Function calling is not enabled for models/x"),
        ("mistral", "Function calling is not enabled for this model"),
        ("ollama", "registry.ollama.ai/library/x does not support tools"),
        ("openai_compatible", "No endpoints found that support tool use."),
    ],
)
@pytest.mark.parametrize("status", [400, 404, 500])
def test_a_model_that_takes_no_tools_refuses_the_request_whatever_the_status(
    dialect: str, message: str, status: int
) -> None:
    body = json.dumps({"error": {"message": message}}).encode()
    error = DIALECTS[dialect].decode_error(status, {}, body)
    assert (type(error), error.code) == (InvalidRequestError, TOOLS_UNSUPPORTED)

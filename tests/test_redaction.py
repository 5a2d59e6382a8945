"""Secrets are removed wherever something leaves, and what is no secret stays."""

from __future__ import annotations

import pytest

from segue.text.redaction import mask, redact_environment, redact_settings, redact_text, redact_values


@pytest.mark.parametrize(
    "text",
    [
        "Incorrect API key provided: hunter2. You can find your API key at the console.",
        "Authentication Fails, Your api key: ****hunter2 is invalid",
        "Consumer 'api_key:hunter2' has been suspended.",
        "bad header Authorization: Bearer hunter2",
        'GET https://example.invalid/v1?key=hunter2" failed',
        "invalid key sk-ant-hunter2-abcdefgh",
        "x_gsk_hunter2abcdef",
        "key_hunter2_abcdefghijk",
        "AIzahunter2abcdefgh",
        "eyJhunter2abc.def",
    ],
)
def test_what_looks_like_a_key_is_removed_from_a_text(text: str) -> None:
    assert "hunter2" not in redact_text(text)
    assert redact_text(redact_text(text)) == redact_text(text)


@pytest.mark.parametrize(
    "text", ["task-1234567890", "the key_word", "risk_of_everything", "Bearer", "sk-learn"]
)
def test_words_stay(text: str) -> None:
    assert redact_text(text) == text


def test_known_values_are_removed_the_longest_first_and_short_words_stay() -> None:
    assert (
        redact_values("sesame-open sesame on", ["sesame", "sesame-open", "on"]) == "[redacted] [redacted] on"
    )


def test_settings_are_masked_by_their_names_and_by_their_tables() -> None:
    table = {"api_key": "0123456789abcdef", "headers": {"x-team": "red"}, "base_url": "http://host.test"}
    shown = redact_settings("providers", {"mine": table})
    assert shown == {"mine": {"api_key": "…cdef", "headers": {"x-team": "…"}, "base_url": "http://host.test"}}


def test_a_short_key_is_not_shown_at_all() -> None:
    assert mask("short") == "…"
    assert mask("sk-0123456789abcdef") == "…cdef"


def test_secrets_are_known_by_their_names_and_by_passwords_in_addresses() -> None:
    taken = (
        "OPENAI_API_KEY OPENAIAPIKEY GH_TOKEN AWS_SECRET_ACCESS_KEY DB_PASSWORD PGPASSWORD GITHUB_PAT MY_KEY"
    )
    taken += " SIGNING_KEY_2 GOOGLE_APPLICATION_CREDENTIALS SENTRY_DSN NPM_AUTH aws_session_token"
    harmless = "PATH HOME PWD OLDPWD SSH_AUTH_SOCK MONKEY KEYBOARD XAUTHORITY LANG PATTERN DESKTOP_SESSION"
    environment = dict.fromkeys([*taken.split(), *harmless.split()], "x") | {
        "DATABASE_URL": "postgres://me:hidden@db/x",
        "SITE_URL": "https://example.org:8080/a",
    }
    assert set(redact_environment(environment)) == {*harmless.split(), "SITE_URL"}

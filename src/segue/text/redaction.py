"""Removing secrets from whatever leaves: texts, settings, journalled fields, the environment of other programs.

Secrets are recognised by how keys look, by their known values, or by the names of what holds them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

REDACTED: Final = "[redacted]"
SHORTEST_SECRET: Final = 6
"""A known value that is shorter may be a word, and stays."""

_SHORTEST_KNOWN: Final = 8
"""Of a key that is redacted in the output of tools: local servers take any word for one."""
_SHORTEST_VARIABLE: Final = 12
"""Of the value of a variable that is a secret by its name only."""

_KEY_IN_TEXT: Final = re.compile(
    r"(?P<before>\bkey provided: |\b[Bb]earer |\bapi key: |\bapi_key:|[?&](?:api_)?key=)"
    r"[^\s\"'&,]+?(?=[.]?(?:[\s\"'&,]|$))"
    r"|(?<![A-Za-z0-9])(?:sk|gsk|xai|hf|nvapi|csk|pplx|tgp)[-_][\w*-]{8,}"
    r"|(?<![\w-])(?:pk|rk|key)[-_][\w*-]{12,}"
    # Only where a word begins: else a long row of such letters would be searched from each of them to its end.
    r"|AIza[\w-]{8,}|(?<![\w-])eyJ[\w-]{8,}\.[\w.-]+"
)
_SECRET_SETTINGS: Final = frozenset({"api_key", "key", "token", "password", "secret"})
_SECRET_TABLES: Final = frozenset({"headers", "env"})
"""Tables of settings whose values may be secrets, whatever their names."""
_SECRET_FIELDS: Final = frozenset(
    {
        *("headers", "extra_headers", "http_headers", "default_headers"),
        *("authorization", "proxy_authorization", "auth", "bearer", "cookie", "cookies"),
        *("api_key", "apikey", "x_api_key", "x_goog_api_key"),
        *("access_token", "refresh_token", "id_token", "client_secret", "password", "secret"),
    }
)
_SECRET_VARIABLE: Final = re.compile(
    r"API_?KEY|TOKEN|SECRET|PASSW|PASSPHRASE|CREDENTIAL|PRIVATE|(?:^|_)(?:KEYS?|PAT|PWD|AUTH|COOKIE|DSN)(?:_|\d*$)",
    re.IGNORECASE,
)
_HARMLESS_VARIABLES: Final = frozenset({"PWD", "OLDPWD", "SSH_AUTH_SOCK"})
_PASSWORD_IN_URL: Final = re.compile(r"://[^/@\s]*:[^/@\s]+@")
_PASSWORD_IN_QUERY: Final = re.compile(r"(?P<before>[?&](?:ssl)?password=)[^&\s]+")


def redact_text(text: str) -> str:
    """The text without anything that looks like a key: some providers repeat the key they refuse."""
    return _KEY_IN_TEXT.sub(lambda found: f"{found['before'] or ''}{REDACTED}", text)


def redact_values(text: str, secrets: Iterable[str]) -> str:
    """The text without these known values. The longest go first: one may be part of another."""
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= SHORTEST_SECRET:
            text = text.replace(secret, REDACTED)
    return text


_secret_values: set[str] = set()
_secret_variables: set[str] = set()


def secrets_revision() -> int:
    """Another one whenever a value was remembered or forgotten."""
    return _revision[0]


_revision = [0]


def remember_secret(value: str) -> None:
    """From now on this value is redacted wherever known ones are. Every key that the process reads comes here."""
    if len(value) >= _SHORTEST_KNOWN and value not in _secret_values:
        _secret_values.add(value)
        _revision[0] += 1


def forget_secret(value: str) -> None:
    """Of a token that has ended: it opens nothing any more, and there is a new one every hour."""
    _secret_values.discard(value)
    _revision[0] += 1


def remember_named_secrets(given: Mapping[str, str]) -> None:
    """Of variables or headers: the values whose names are those of secrets, also behind a word such as Bearer."""
    for name, value in given.items():
        if _SECRET_VARIABLE.search(name) or name.lower().replace("-", "_") in _SECRET_FIELDS:
            for part in {value, value.split()[-1] if value.strip() else ""}:
                if len(part) >= _SHORTEST_VARIABLE:
                    remember_secret(part)


def remember_secret_variable(name: str) -> None:
    """A variable that holds a key, whatever its name looks like."""
    _secret_variables.add(name)
    _revision[0] += 1


def known_secrets(environment: Mapping[str, str] | None = None) -> list[str]:
    """The values of all keys that are known, the longest first; of variables those that are no ordinary words."""
    held = os.environ if environment is None else environment
    found = {
        value for value in (held.get(name, "") for name in _secret_variables) if len(value) >= SHORTEST_SECRET
    }
    found |= {
        value
        for name, value in held.items()
        if len(value) >= _SHORTEST_VARIABLE
        and name not in _HARMLESS_VARIABLES
        and _SECRET_VARIABLE.search(name)
    }
    return sorted(found | _secret_values, key=len, reverse=True)


def redact_known(value: Any, secrets: list[str] | None = None) -> Any:
    """A text, or JSON of texts, without the value of any key that is known."""
    secrets = known_secrets() if secrets is None else secrets
    if isinstance(value, str):
        for secret in secrets:
            if secret in value:
                value = value.replace(secret, REDACTED)
        return value
    if isinstance(value, dict):
        return {redact_known(name, secrets): redact_known(held, secrets) for name, held in value.items()}
    return [redact_known(held, secrets) for held in value] if isinstance(value, list) else value


class StreamRedaction:
    """Redacts known keys in a text that arrives in pieces, wherever one is cut."""

    def __init__(self) -> None:
        self._secrets = known_secrets()
        self._held = ""

    def feed(self, text: str, *, last: bool = False) -> str:
        """The text so far, without an end that may be the beginning of a key."""
        text = redact_known(self._held + text, self._secrets)
        keep = 0 if last else max((_begun(text, secret) for secret in self._secrets), default=0)
        self._held = text[len(text) - keep :]
        return text[: len(text) - keep]


def _begun(text: str, secret: str) -> int:
    """How many characters of the secret the text ends with."""
    sizes = range(min(len(text), len(secret) - 1), 0, -1)
    return next((size for size in sizes if text.endswith(secret[:size])), 0)


def redact_settings(key: str, value: Any, *, table: str = "") -> Any:
    """A setting as it may be shown; `table` is the name of the table that holds it."""
    if isinstance(value, dict):
        return {name: redact_settings(name, item, table=key) for name, item in value.items()}
    if isinstance(value, str) and value and (key in _SECRET_SETTINGS or table in _SECRET_TABLES):
        return mask(value)
    return hide_passwords(value) if isinstance(value, str) else value


def hide_passwords(text: str) -> str:
    """A URL without the password that it may hold."""
    text = _PASSWORD_IN_URL.sub(lambda found: f"{found[0].rpartition(':')[0]}:…@", text)
    return _PASSWORD_IN_QUERY.sub(lambda found: f"{found['before']}…", text)


def redact_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment without its secrets, by name and by value, for programs that a model starts."""
    secrets = known_secrets(environment)
    return {
        name: value
        for name, value in environment.items()
        if name in _HARMLESS_VARIABLES
        or not (
            name in _secret_variables
            or _SECRET_VARIABLE.search(name)
            or _PASSWORD_IN_URL.search(value)
            or any(secret in value for secret in secrets)
        )
    }


def redact_keys(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment without the keys of providers: variables that settings name, and values that are known."""
    keys = [*_secret_values, *(os.environ.get(name, "") for name in _secret_variables)]
    known = [key for key in keys if len(key) >= SHORTEST_SECRET]
    return {
        name: value
        for name, value in environment.items()
        if name not in _secret_variables and not any(key in value for key in known)
    }


def drop_secret_fields(value: Any) -> Any:
    """JSON without the fields that carry headers or keys, at any depth."""
    if isinstance(value, Mapping):
        return {
            name: drop_secret_fields(held)
            for name, held in value.items()
            if name.lower().replace("-", "_") not in _SECRET_FIELDS
        }
    return [drop_secret_fields(held) for held in value] if isinstance(value, list) else value


def mask(secret: str) -> str:
    """Enough to recognise a key by, never enough to use it."""
    return f"…{secret[-4:]}" if len(secret) >= 16 else "…"

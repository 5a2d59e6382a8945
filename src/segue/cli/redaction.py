"""Secrets as they may be shown."""

from __future__ import annotations

from typing import Any, Final

SECRET_KEYS: Final = frozenset({"api_key", "key", "token", "password", "secret"})
SECRET_TABLES: Final = frozenset({"headers", "env"})
"""Tables whose values may be secrets, whatever they are called."""


def masked(value: str) -> str:
    """Enough to recognise a key by, never enough to use it."""
    return f"…{value[-4:]}" if len(value) >= 16 else "…"


def without_secrets(key: str, value: Any, *, inside: str = "") -> Any:
    """A setting as it may be shown."""
    if isinstance(value, dict):
        return {name: without_secrets(name, item, inside=key) for name, item in value.items()}
    if isinstance(value, str) and value and (key in SECRET_KEYS or inside in SECRET_TABLES):
        return masked(value)
    return value

"""What a project's file may set only when it is trusted: programs, addresses, and who approves."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

Path: TypeAlias = tuple[str, ...]

GUARDED: Final = frozenset({"approval", "mcp", "sessions", "tools"})
"""Whole sections."""
HARMLESS: Final = frozenset({"embedding_model", "model", "timeouts"})
"""All that a project may say about a provider; anything else could send a key or a conversation elsewhere."""


def guarded_paths(table: dict[str, Any]) -> list[Path]:
    """The settings of a project that need trust."""
    sections = [(section,) for section in table if section in GUARDED]
    providers = table.get("providers")
    settings = [
        ("providers", name, key)
        for name, provider in (providers.items() if isinstance(providers, dict) else ())
        for key in (provider if isinstance(provider, dict) else ())
        if key not in HARMLESS
    ]
    return [*sections, *settings]

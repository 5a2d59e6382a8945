"""What a check may know besides the request body."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field


class Context(Struct, frozen=True, kw_only=True):
    """The circumstances of one request: who asks, for which model, and how strict we are."""

    model: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Facts about the model, from models.toml, matched by pattern on the model's name."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Request headers with lower-case names."""
    account: str = "default"
    platform: str = "api"
    strict: bool = False
    extra_rules: frozenset[str] = frozenset()
    """Ids of L rules to enforce all the same."""

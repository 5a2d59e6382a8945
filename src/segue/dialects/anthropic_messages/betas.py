"""Betas of Anthropic's wire: which field each one opens, and what a host says that does not have it yet."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

_FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    "effort-": ("output_config",),
    "task-budgets-": ("output_config",),
    "context-management-": ("context_management",),
    "compact-": ("context_management",),
    "mcp-client-": ("mcp_servers",),
    "fast-mode-": ("speed",),
    "structured-outputs-": ("output_format",),
    "skills-": ("container",),
    "message-threads-": ("thread",),
    "cache-diagnosis-": ("diagnostics",),
}
"""How a beta begins → the fields of a request that it opens."""
_STRANGE_BETAS: Final = re.compile(
    r"Unexpected value\(s\) (?P<betas>`[^`]+`(?:, ?`[^`]+`)*) for the `anthropic-beta`"
)
_STRANGE_FIELD: Final = re.compile(
    r"(?:^|[\s:;])(?P<field>[a-z_]+)(?:\.[a-z_.]+)?: Extra inputs are not permitted"
)
_NEEDED: Final = frozenset({"model", "messages", "max_tokens", "system", "tools", "stream", "billing_policy"})
"""A request without these is another one, or one that somebody else pays: they are never left out."""


def refused_in(message: str) -> tuple[set[str], set[str]]:
    """The betas and the outermost fields that a host does not know, by its words."""
    found = _STRANGE_BETAS.search(message)
    betas = set(re.findall(r"`([^`]+)`", found["betas"])) if found else set()
    fields = {found["field"] for found in _STRANGE_FIELD.finditer(message)}
    return betas, fields - _NEEDED


def fields_of_beta(beta: str) -> tuple[str, ...]:
    return next((fields for begins, fields in _FIELDS.items() if beta.startswith(begins)), ())


def opens(beta: str, field: str) -> bool:
    """Whether a beta opens this field."""
    return field in fields_of_beta(beta)

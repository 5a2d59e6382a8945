"""Facts about models: read from model_facts.toml, matched by pattern on the model's name, first match wins; and an
estimate of tokens: four bytes of UTF-8 are one, as the providers' own rule of thumb says."""

from __future__ import annotations

import tomllib
from fnmatch import fnmatchcase
from functools import lru_cache
from importlib.resources import files
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping


def count_tokens(text: str) -> int:
    return -(-len(text.encode("utf-8", "surrogatepass")) // 4)


def count_value_tokens(value: object) -> int:
    """Tokens of a JSON value as it would be written, e.g. a tool definition or a message."""
    return -(-len(msgspec.json.encode(value)) // 4)


_NONE: Mapping[str, Any] = MappingProxyType({})


@lru_cache(maxsize=1)
def _entries() -> tuple[tuple[str, tuple[str, ...], Mapping[str, Any]], ...]:
    table = tomllib.loads(files(__package__).joinpath("model_facts.toml").read_text("utf-8"))
    return tuple(
        (
            entry["provider"],
            (entry["match"],) if isinstance(entry["match"], str) else tuple(entry["match"]),
            MappingProxyType({key: fact for key, fact in entry.items() if key not in ("provider", "match")}),
        )
        for entry in table.get("model", ())
    )


@lru_cache(maxsize=1024)
def facts_for(provider: str, model: str) -> Mapping[str, Any]:
    """What is known about a model; empty when no entry of this provider matches its name."""
    for owner, patterns, facts in _entries():
        if owner == provider and any(fnmatchcase(model, pattern) for pattern in patterns):
            return facts
    return _NONE


def listed(provider: str) -> tuple[str, ...]:
    """The model names that the provider's list of models shows, in the order of model_facts.toml."""
    return tuple(
        name for owner, _, facts in _entries() if owner == provider for name in facts.get("listed", ())
    )

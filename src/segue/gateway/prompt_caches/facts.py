"""What is known of the caches of providers: facts.toml, with how sure it is and where it was read."""

from __future__ import annotations

import tomllib
from fnmatch import fnmatchcase
from functools import lru_cache
from importlib.resources import files
from typing import Final, Literal, final

import msgspec
from msgspec import Struct


@final
class CacheFacts(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a provider keeps the beginnings of prompts. The words are those of facts.toml."""

    dialect: str = ""
    models: tuple[str, ...] = ()
    minimum: int = 0
    block: int = 1
    marks: bool = False
    lookback: int = 0
    seconds: int = 0
    doubtful: int = 0
    level: tuple[str, ...] = ()
    system_first: bool = False
    silent: bool = False
    confidence: Literal["H", "M", "L"] = "L"
    source: str = ""


@final
class _Facts(Struct, frozen=True):
    cache: tuple[CacheFacts, ...]


NOTHING_KNOWN: Final = CacheFacts()


@lru_cache(maxsize=1)
def all_facts() -> tuple[CacheFacts, ...]:
    text = files(__package__).joinpath("facts.toml").read_text("utf-8")
    return msgspec.convert(tomllib.loads(text), _Facts).cache


@lru_cache(maxsize=1024)
def cache_facts(dialect: str, model: str) -> CacheFacts:
    """Of a model on a wire; NOTHING_KNOWN if its provider may have no cache."""
    for one in all_facts():
        if one.dialect == dialect and (
            not one.models or any(fnmatchcase(model, name) for name in one.models)
        ):
            return one
    return NOTHING_KNOWN

"""Facts about models, read from cards.toml on first use; the first card that fits a model's name holds."""

from __future__ import annotations

import tomllib
from fnmatch import fnmatchcase
from functools import lru_cache
from importlib.resources import files
from typing import Any, final

import msgspec
from msgspec import Struct

from segue.dialects.card import ModelCard, card_for


@final
class Speaker(Struct, frozen=True, forbid_unknown_fields=True):
    """Models whose name fits `match` are asked in this dialect, where a body alone cannot tell."""

    match: str
    dialect: str


@final
class Catalog(Struct, frozen=True):
    """All of cards.toml."""

    cards: tuple[ModelCard, ...]
    defaults: dict[str, str]
    """Dialect → the model a request names when nobody named one."""
    speakers: tuple[Speaker, ...]


@lru_cache(maxsize=1)
def catalog() -> Catalog:
    table = tomllib.loads(files(__package__).joinpath("cards.toml").read_text("utf-8"))
    return read_catalog(table)


def read_catalog(table: dict[str, Any]) -> Catalog:
    """The catalog in a parsed TOML table. A card whose `match` lists several patterns stands for several cards."""
    cards = [
        msgspec.convert({**entry, "match": pattern}, ModelCard, strict=True)
        for entry in table.get("model", ())
        for pattern in _patterns(entry.get("match", "*"))
    ]
    speakers = [
        Speaker(pattern, entry["dialect"])
        for entry in table.get("speaker", ())
        for pattern in _patterns(entry["match"])
    ]
    return Catalog(tuple(cards), dict(table.get("defaults", {})), tuple(speakers))


def _patterns(match: str | list[str]) -> list[str]:
    return [match] if isinstance(match, str) else match


@lru_cache(maxsize=4096)
def card_for_model(model: str, dialect: str) -> ModelCard:
    """What is known about a model when it is asked in a dialect."""
    return card_for(model, dialect, catalog().cards)


def default_model(dialect: str) -> str:
    """The model a request names when nobody named one; nothing where the dialect has no such default."""
    return catalog().defaults.get(dialect, "")


@lru_cache(maxsize=4096)
def dialect_of_model(model: str) -> str:
    """The dialect a model's name points to; nothing if it points to none."""
    name = model.rpartition("/")[2].lower()
    return next((s.dialect for s in catalog().speakers if fnmatchcase(name, s.match)), "")

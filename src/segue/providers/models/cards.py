"""Cards: what requests to a model may contain, by name pattern (cards.toml). The first card that matches is used."""

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
class CardTable(Struct, frozen=True):
    """All of cards.toml."""

    cards: tuple[ModelCard, ...]
    defaults: dict[str, str]
    """Dialect → the model of a request that names none."""
    model_dialects: tuple[tuple[str, str], ...]
    """Patterns of names, and the dialect that such a model is used with if a body alone does not show it."""


@lru_cache(maxsize=1)
def card_table() -> CardTable:
    table = tomllib.loads(files(__package__).joinpath("cards.toml").read_text("utf-8"))
    return read_cards(table)


def read_cards(table: dict[str, Any]) -> CardTable:
    """The cards in a parsed TOML table. A card whose `match` lists several patterns stands for several cards."""
    cards = [
        msgspec.convert({**entry, "match": pattern}, ModelCard, strict=True)
        for entry in table.get("model", ())
        for pattern in _patterns(entry.get("match", "*"))
    ]
    model_dialects = [
        (pattern, entry["dialect"])
        for entry in table.get("dialect", ())
        for pattern in _patterns(entry["match"])
    ]
    return CardTable(tuple(cards), dict(table.get("defaults", {})), tuple(model_dialects))


def _patterns(match: str | list[str]) -> list[str]:
    return [match] if isinstance(match, str) else match


@lru_cache(maxsize=4096)
def card_for_model(model: str, dialect: str) -> ModelCard:
    """The card of a model in a dialect."""
    return card_for(model, dialect, card_table().cards)


def default_model(dialect: str) -> str:
    """The model of a request that names none; empty if the dialect has no default."""
    return card_table().defaults.get(dialect, "")


@lru_cache(maxsize=4096)
def dialect_of_model(model: str) -> str:
    """The dialect of a model, by its name; empty if the name shows none."""
    name = model.rpartition("/")[2].lower()
    return next((dialect for match, dialect in card_table().model_dialects if fnmatchcase(name, match)), "")

"""The catalog: the models that are known by name, with sizes and prices, and limits of embeddings (catalog.toml)."""

from __future__ import annotations

import tomllib
from fnmatch import fnmatchcase
from functools import lru_cache
from importlib.resources import files
from typing import final

import msgspec
from msgspec import Struct

from segue.providers.capabilities import ModelType


@final
class Price(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Dollars per million tokens. Where reading from or writing to a cache has no price, it costs what input costs."""

    input: float
    output: float = 0.0
    cached: float | None = None
    cache_write: float | None = None
    cache_hour: float | None = None
    """Writing to a cache that keeps it for an hour; `cache_write` if it is not set."""
    audio_input: float | None = None
    audio_output: float | None = None
    """Sound; as other input and output if it is not set."""
    above: int = 0
    """The price holds for requests whose input is longer."""


@final
class CatalogModel(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One model, as the providers that serve it under this name have it."""

    providers: tuple[str, ...]
    id: str
    also: tuple[str, ...] = ()
    type: ModelType = "chat"
    context: int | None = None
    output: int | None = None
    dimensions: int | None = None
    price: Price | None = None
    long: Price | None = None


@final
class EmbeddingLimits(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How vectors are asked for: by which model, how much in one request, and how many requests at a time."""

    model: str = ""
    """The one that is used if none is named."""
    texts: int = 64
    tokens: int | None = None
    """Of all texts of one request; `None`: no limit."""
    parallel: int = 4


@final
class ModelKind(Struct, frozen=True, forbid_unknown_fields=True):
    """What models are for whose names fit one of the patterns."""

    type: ModelType
    match: tuple[str, ...]


@final
class TierPrice(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What tokens cost that are made in another way than the usual one, as a multiple of the usual price."""

    provider: str
    tier: str
    match: tuple[str, ...] = ("*",)
    """Patterns of models."""
    factor: float
    cached: float | None = None
    """The same for what was read from a cache; `factor` if it is not set."""
    long: bool = True
    """Whether it holds for long requests too, where those have prices of their own."""


@final
class ToolPrice(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a provider takes for what its own tools do, in dollars for each time."""

    provider: str
    match: tuple[str, ...] = ("*",)
    web_search: float | None = None
    file_search: float | None = None
    once: bool = False
    """Searches of one reply are paid once, however many there are."""


@final
class PriceTable(Struct, frozen=True, forbid_unknown_fields=True):
    """The providers whose replies cost nothing, those that say themselves what they charge, and the names of providers in other
    price lists; and what costs more or less than the tokens of a model alone."""

    free: tuple[str, ...]
    own_word: tuple[str, ...]
    names: dict[str, str]
    tier: tuple[TierPrice, ...]
    tool: tuple[ToolPrice, ...]


@final
class Catalog(Struct, frozen=True, forbid_unknown_fields=True):
    """All of catalog.toml."""

    model: tuple[CatalogModel, ...]
    kind: tuple[ModelKind, ...]
    embeddings: dict[str, EmbeddingLimits]
    prices: PriceTable
    same_models: dict[str, str] = {}
    """A provider → the one whose models it serves under the same names."""


@lru_cache(maxsize=1)
def catalog() -> Catalog:
    table = tomllib.loads(files(__package__).joinpath("catalog.toml").read_text("utf-8"))
    return msgspec.convert(table, Catalog)


def models_of(provider: str) -> list[CatalogModel]:
    """The models of a provider in the catalog; a cloud has those of their maker."""
    name = catalog().same_models.get(provider, provider)
    return [listed for listed in catalog().model if name in listed.providers]


@lru_cache(maxsize=4096)
def catalog_model(provider: str, model: str) -> CatalogModel | None:
    """The entry of a model of a provider; None if it is not in the catalog."""
    name = model.lower().replace("@", "-")  # VTX-05: the date of a snapshot at Google Cloud
    offered = models_of(provider)
    exact = next((listed for listed in offered if listed.id.lower() == name), None)
    return exact or next(
        (listed for listed in offered if any(fnmatchcase(name, other) for other in listed.also)), None
    )


def tier_price(provider: str, model: str, tier: str) -> TierPrice | None:
    """None if nobody knows it."""
    fitting = (each for each in catalog().prices.tier if each.provider == provider and each.tier == tier)
    return next((each for each in fitting if _fits(model, each.match)), None)


def tool_price(provider: str, model: str) -> ToolPrice | None:
    """None if nobody knows it."""
    fitting = (each for each in catalog().prices.tool if each.provider == provider)
    return next((each for each in fitting if _fits(model, each.match)), None)


def _fits(model: str, patterns: tuple[str, ...]) -> bool:
    name = model.lower()
    return any(fnmatchcase(name, pattern) for pattern in patterns)


@lru_cache(maxsize=4096)
def type_of(model: str) -> ModelType:
    """What a model is for, judged by its name."""
    name = model.rpartition("/")[2].lower()
    return next(
        (kind.type for kind in catalog().kind if any(fnmatchcase(name, pattern) for pattern in kind.match)),
        "chat",
    )

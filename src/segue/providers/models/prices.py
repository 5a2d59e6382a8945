"""Prices: what a reply costs in dollars, by the catalog, else by genai-prices if it is installed, else unknown."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec

from msgspec import Struct

from segue.conversation.usage import Usage
from segue.providers.models.catalog import catalog, catalog_model

_MILLION = 1_000_000


def cost_of(usage: Usage, provider: str, model: str) -> float | None:
    """The price of what was used. `None`: the model has no known price, or the provider did not count."""
    if usage.input_tokens is None and usage.output_tokens is None:
        return None
    if provider in catalog().prices.free:
        return 0.0
    listed = catalog_model(provider, model)
    if listed is None or listed.price is None:
        return _by_genai_prices(usage, provider, model)
    price, read = listed.price, usage.input_tokens or 0
    if listed.long is not None and read > listed.long.above:
        price = listed.long
    # Input counts what was read from and written to a cache, and output what was thought: each is paid once.
    cached, written = usage.cached_tokens or 0, usage.cache_write_tokens or 0
    fresh = max(read - cached - written, 0)
    dollars = (
        fresh * price.input
        + cached * (price.input if price.cached is None else price.cached)
        + written * (price.input if price.cache_write is None else price.cache_write)
        + (usage.output_tokens or 0) * price.output
    )
    return dollars / _MILLION


def _by_genai_prices(usage: Usage, provider: str, model: str) -> float | None:
    if not _has_genai_prices():
        return None
    import genai_prices  # noqa: PLC0415 - half a second, for models that few ask for

    counted = genai_prices.Usage(
        input_tokens=usage.input_tokens,
        cache_read_tokens=usage.cached_tokens,
        cache_write_tokens=usage.cache_write_tokens,
        output_tokens=usage.output_tokens,
    )
    name = catalog().prices.names.get(provider, provider)
    try:
        return float(genai_prices.calc_price(counted, model, provider_id=name).total_price)
    except (LookupError, ValueError):
        return None


@cache
def _has_genai_prices() -> bool:
    return find_spec("genai_prices") is not None


class Bill(Struct):
    """What something has cost so far."""

    usage: Usage = Usage()
    cost: float | None = None
    """Dollars, as far as prices are known."""

    def add(self, usage: Usage, cost: float | None) -> None:
        self.usage = self.usage.plus(usage)
        if cost is not None:
            self.cost = (self.cost or 0.0) + cost

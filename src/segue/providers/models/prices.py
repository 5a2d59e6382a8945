"""Prices: what a reply costs in dollars, by rules of the user, the catalog, or genai-prices if it is installed; else unknown."""

from __future__ import annotations

from fnmatch import fnmatchcase
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple, TypeAlias, final

from msgspec import Meta, Struct

from segue.conversation.usage import Usage
from segue.providers.models.catalog import Price, catalog, catalog_model, tier_price, tool_price

if TYPE_CHECKING:
    from collections.abc import Mapping

_MILLION = 1_000_000
_MOST_LIKE: Final = 8
"""A model may cost like one that costs like another, but not in a circle."""
_MOST_FOUND: Final = 4096
DollarsPerMillion: TypeAlias = Annotated[float, Meta(ge=0, le=1_000_000)]
DollarsPerThousand: TypeAlias = Annotated[float, Meta(ge=0, le=1_000_000)]
TierFactor: TypeAlias = Annotated[float, Meta(ge=0, le=1000)]


@final
class PriceRule(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """What models cost whose names fit a pattern, in dollars for a million tokens; or like whom they cost."""

    input: DollarsPerMillion | None = None
    output: DollarsPerMillion | None = None
    cached: DollarsPerMillion | None = None
    """Input that was read from a cache; as much as other input if it is not set."""
    cache_write: DollarsPerMillion | None = None
    """Input that was written to a cache; as much as other input if it is not set."""
    cache_hour: DollarsPerMillion | None = None
    """The same for a cache that keeps it for an hour; as much as `cache_write` if it is not set."""
    audio_input: DollarsPerMillion | None = None
    audio_output: DollarsPerMillion | None = None
    """Sound; as much as other input and output if it is not set."""
    web_search: DollarsPerThousand | None = None
    file_search: DollarsPerThousand | None = None
    """A thousand searches by the provider's own tools; as its other models if it is not set."""
    tiers: dict[str, TierFactor] = {}
    """What replies cost that are made in another way, as a multiple: { flex = 0.5, priority = 2 }."""
    like: str = ""
    """provider/model, or provider/* for its model of the same name."""


@final
class _TokenCost(NamedTuple):
    """What tokens cost in the usual way."""

    dollars: float
    """All of them."""
    cached: float | None = 0.0
    """Of these, for what was read from a cache; None if that is not known."""


@final
class _Cost(NamedTuple):
    dollars: float
    exact: bool = True
    """Else something in it has a price that nobody knows, and it is what the rest costs."""


@final
class PriceBook:
    """What replies cost: by rules of the user, else by the catalog, else by genai-prices if it is installed."""

    def __init__(self, rules: Mapping[str, float | PriceRule] | None = None) -> None:
        """By provider/model, with * for anything; where several match, the later one counts. A number is the price of input
        and output alike."""
        self._rules = dict(rules or {})
        self._found: dict[tuple[str, str], float | PriceRule | None] = {}

    def cost_of(self, usage: Usage, provider: str, model: str) -> float | None:
        """Dollars. None: nobody knows the price of it or of a part of it, or the provider did not count."""
        cost = self._cost(usage, provider, model)
        return cost.dollars if cost is not None and cost.exact else None

    def least_cost(self, usage: Usage, provider: str, model: str) -> float:
        """Dollars for all in it that has a known price."""
        cost = self._cost(usage, provider, model)
        return cost.dollars if cost is not None else 0.0

    def charge(self, bill: Bill, usage: Usage, provider: str, model: str) -> float | None:
        """Put it on a bill. Dollars, as `cost_of` says."""
        cost = self.cost_of(usage, provider, model)
        bill.add(usage, cost, self.least_cost(usage, provider, model) if cost is None else cost)
        return cost

    def _cost(self, usage: Usage, provider: str, model: str) -> _Cost | None:
        if usage.input_tokens is None and usage.output_tokens is None:
            return None
        for _ in range(_MOST_LIKE):
            rule = self._rule(provider, model)
            if rule is None:
                return _catalog_cost(usage, provider, model)
            if not isinstance(rule, PriceRule):
                rule = PriceRule(input=rule, output=rule)
            if not rule.like:
                return _with_surcharges(_dollars(usage, _price(rule)), usage, provider, model, rule)
            like, _, meant = rule.like.partition("/")
            place = like, model if meant == "*" else meant
            if place == (provider, model):
                return _catalog_cost(usage, provider, model)
            provider, model = place
        return None

    def _rule(self, provider: str, model: str) -> float | PriceRule | None:
        if not self._rules:
            return None
        place = provider, model
        if place not in self._found:
            if len(self._found) >= _MOST_FOUND:  # clients make up names
                self._found.clear()
            name = f"{provider}/{model}"
            fitting = [rule for pattern, rule in self._rules.items() if fnmatchcase(name, pattern)]
            self._found[place] = fitting[-1] if fitting else None
        return self._found[place]


def _price(rule: PriceRule) -> Price:
    return Price(
        input=rule.input or 0.0,
        output=rule.output or 0.0,
        cached=rule.cached,
        cache_write=rule.cache_write,
        cache_hour=rule.cache_hour,
        audio_input=rule.audio_input,
        audio_output=rule.audio_output,
    )


CATALOG_PRICES: Final = PriceBook()


def prices_of(providers: object) -> PriceBook:
    """What replies of these providers cost: a registry knows the user's prices, a plain dict of providers does not."""
    found = getattr(providers, "prices", None)
    return found if isinstance(found, PriceBook) else CATALOG_PRICES


def cost_of(usage: Usage, provider: str, model: str) -> float | None:
    """The price of what was used. `None`: it has no known price, or a part of it, or the provider did not count."""
    return CATALOG_PRICES.cost_of(usage, provider, model)


def _catalog_cost(usage: Usage, provider: str, model: str) -> _Cost | None:
    prices = catalog().prices
    if provider in prices.free:
        return _Cost(0.0)
    if usage.charged is not None and provider in prices.own_word:
        return _Cost(usage.charged)
    listed = catalog_model(provider, model)
    if listed is None or listed.price is None:
        dollars = _by_genai_prices(usage, provider, model)
        if dollars is None:
            return None
        known = _TokenCost(dollars, None if usage.cached_tokens else 0.0)
        return _with_surcharges(known, usage, provider, model)
    is_long = listed.long is not None and (usage.input_tokens or 0) > listed.long.above
    price = listed.long if is_long and listed.long is not None else listed.price
    return _with_surcharges(_dollars(usage, price), usage, provider, model, is_long=is_long)


def _with_surcharges(
    tokens: _TokenCost,
    usage: Usage,
    provider: str,
    model: str,
    rule: PriceRule | None = None,
    *,
    is_long: bool = False,
) -> _Cost:
    """The price of the tokens, and what is paid more or less for how they were made and for what the provider's tools did."""
    if usage.tier is None and not (usage.web_searches or usage.file_searches or usage.other_tool_runs):
        return _Cost(tokens.dollars)
    rule = rule or PriceRule()
    exact = not usage.other_tool_runs
    rest, cached = tokens.dollars - (tokens.cached or 0.0), tokens.cached or 0.0
    for tier in (usage.tier or "").split():
        listed = tier_price(provider, model, tier)
        factor = for_cached = rule.tiers.get(tier)
        if factor is None and listed is not None and (listed.long or not is_long):
            factor = listed.factor
            for_cached = factor if listed.cached is None else listed.cached
        exact = exact and (factor is not None or not tokens.dollars)
        exact = exact and (tokens.cached is not None or for_cached == factor)
        rest *= 1.0 if factor is None else factor
        cached *= 1.0 if for_cached is None else for_cached
    tools, fees = tool_price(provider, model), 0.0
    once = tools is not None and tools.once
    for times, own, known in (
        (usage.web_searches, rule.web_search, tools and tools.web_search),
        (usage.file_searches, rule.file_search, tools and tools.file_search),
    ):
        each = known if own is None else own / 1000
        exact = exact and not (times and each is None)
        fees += (1 if once and times else times or 0) * (each or 0.0)
    return _Cost(rest + cached + fees, exact)


def _dollars(usage: Usage, price: Price) -> _TokenCost:
    # Input counts what was read from and written to a cache, and output what was thought: each is paid once.
    cached, written = usage.cached_tokens or 0, usage.cache_write_tokens or 0
    hour = min(usage.cache_hour_tokens or 0, written)
    fresh = max((usage.input_tokens or 0) - cached - written, 0)
    heard, spoken = min(usage.audio_input_tokens or 0, fresh), usage.audio_output_tokens or 0
    cache_write = price.input if price.cache_write is None else price.cache_write
    from_cache = cached * (price.input if price.cached is None else price.cached)
    dollars = (
        (fresh - heard) * price.input
        + heard * (price.input if price.audio_input is None else price.audio_input)
        + from_cache
        + (written - hour) * cache_write
        + hour * (cache_write if price.cache_hour is None else price.cache_hour)
        + ((usage.output_tokens or 0) - spoken) * price.output
        + spoken * (price.output if price.audio_output is None else price.audio_output)
    )
    return _TokenCost(dollars / _MILLION, from_cache / _MILLION)


def _by_genai_prices(usage: Usage, provider: str, model: str) -> float | None:
    if not _has_genai_prices():
        return None
    import genai_prices  # noqa: PLC0415 - half a second, for models that few ask for

    counted = genai_prices.Usage(
        input_tokens=usage.input_tokens,
        cache_read_tokens=usage.cached_tokens,
        cache_write_tokens=usage.cache_write_tokens,
        cache_write_1h_tokens=usage.cache_hour_tokens,
        output_tokens=usage.output_tokens,
        input_audio_tokens=usage.audio_input_tokens,
        output_audio_tokens=usage.audio_output_tokens,
    )
    maker = catalog().same_models.get(provider, provider)
    name = catalog().prices.names.get(maker, maker)
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
    at_least: float = 0.0
    """The same with the known part of what has no whole price, such as the tokens of a tier that nobody knows: what limits are
    held against."""

    def add(self, usage: Usage, cost: float | None, at_least: float = 0.0) -> None:
        self.usage = self.usage.plus(usage)
        self.at_least += max(at_least, cost or 0.0)
        if cost is not None:
            self.cost = (self.cost or 0.0) + cost

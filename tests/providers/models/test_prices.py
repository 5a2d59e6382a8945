"""What replies cost."""

from __future__ import annotations

import subprocess
import sys

import pytest

from segue.conversation.usage import Usage
from segue.providers.models.catalog import catalog
from segue.providers.models.prices import cost_of

MILLION = 1_000_000


@pytest.mark.parametrize(
    ("usage", "dollars"),
    [
        (Usage(MILLION, MILLION), 10.0),
        (Usage(MILLION, 0, cached_tokens=MILLION), 0.5),
        (Usage(MILLION, 0, cached_tokens=250_000), 1.625),
        (Usage(0, MILLION, reasoning_tokens=900_000), 8.0),
        (Usage(MILLION), 2.0),
        (Usage(None, MILLION), 8.0),
    ],
)
def test_each_token_is_paid_once_at_its_own_price(usage: Usage, dollars: float) -> None:
    assert cost_of(usage, "openai", "gpt-4.1") == pytest.approx(dollars)
    assert cost_of(usage, "openai", "gpt-4.1-2025-04-14") == pytest.approx(dollars)


def test_writing_to_a_cache_has_a_price_of_its_own() -> None:
    usage = Usage(MILLION, 0, cached_tokens=400_000, cache_write_tokens=100_000)
    assert cost_of(usage, "anthropic", "claude-sonnet-4-6") == pytest.approx(1.5 + 0.12 + 0.375)


def test_a_long_request_costs_more_from_its_first_token() -> None:
    assert cost_of(Usage(200_000, 0), "gemini", "gemini-2.5-pro") == pytest.approx(0.25)
    assert cost_of(Usage(200_001, 0), "gemini", "gemini-2.5-pro") == pytest.approx(0.5000025)


def test_what_nobody_counted_has_no_price() -> None:
    assert cost_of(Usage(), "openai", "gpt-4.1") is None


def test_what_runs_at_home_costs_nothing() -> None:
    assert cost_of(Usage(MILLION, MILLION), "ollama", "qwen3") == 0.0


@pytest.mark.parametrize(
    ("provider", "model"), [("openai", "no-such-model"), ("no-such-provider", "gpt-4.1")]
)
def test_what_nobody_knows_has_no_price(provider: str, model: str) -> None:
    assert cost_of(Usage(1, 1), provider, model) is None


def test_models_that_are_not_listed_are_looked_up_elsewhere_if_possible() -> None:
    pytest.importorskip("genai_prices")
    assert cost_of(Usage(MILLION, 0), "kimi", "kimi-k2-turbo-preview") == pytest.approx(1.15)


def test_our_prices_are_those_of_the_larger_table() -> None:
    """A second opinion: where both know a model, they agree, or the other one knows no such model any more."""
    prices = pytest.importorskip("genai_prices")
    usage = Usage(100_000, 10_000, cached_tokens=50_000)
    apart = {}
    for listed in catalog().model:
        provider = listed.providers[0]
        ours = cost_of(usage, provider, listed.id)
        if listed.price is None or listed.price.cached is None or listed.type != "chat":
            continue
        counted = prices.Usage(input_tokens=100_000, cache_read_tokens=50_000, output_tokens=10_000)
        name = catalog().prices.names.get(provider, provider)
        try:
            theirs = float(prices.calc_price(counted, listed.id, provider_id=name).total_price)
        except LookupError:
            continue
        if ours != pytest.approx(theirs):
            apart[listed.id] = ours, theirs
    assert len(apart) <= 5, apart  # prices change: a few may be newer on one side


def test_the_large_table_is_not_loaded_for_models_of_our_own() -> None:
    program = (
        "import sys; from segue.providers.models.prices import cost_of; from segue.conversation.usage import Usage; "
        "cost_of(Usage(1, 1), 'openai', 'gpt-4.1'); sys.exit('genai_prices' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0  # noqa: S603

"""Prices that a configuration sets: budgets then hold for deployments, fine-tunes and servers of one's own."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from cli.cli_runs import Home
from gateway.accounts.paid_world import WORD, Scripted, paid_world
from segue.config.layers import load_settings
from segue.config.model_names import reference_faults
from segue.conversation.usage import Usage
from segue.errors import UsageError
from segue.gateway.accounts.budget_rules import MILLION
from segue.gateway.accounts.store import UsageRow
from segue.providers.models.prices import PriceBook, PriceRule, cost_of

USAGE = Usage(1_000_000, 1_000_000, cached_tokens=400_000, cache_write_tokens=100_000)
COUNTS = {"prompt_tokens": 1000, "completion_tokens": 100, "total_tokens": 1100}


@pytest.mark.parametrize(
    ("rules", "route", "dollars"),
    [
        ({"vllm/*": 0}, "vllm/llama", 0.0),
        ({"vllm/*": 2}, "vllm/llama", 4.0),
        ({"mine/*": PriceRule(input=2.0, output=10.0)}, "mine/big", 12.0),
        (
            {"mine/*": PriceRule(input=2.0, output=10.0, cached=0.5, cache_write=3.0)},
            "mine/big",
            1.0 + 0.2 + 0.3 + 10,
        ),
        ({"azure-openai/team-*": PriceRule(like="openai/gpt-4.1")}, "azure-openai/team-eu", "openai/gpt-4.1"),
        (
            {"openai/ft:gpt-4.1:*": PriceRule(like="openai/gpt-4.1")},
            "openai/ft:gpt-4.1:acme::1",
            "openai/gpt-4.1",
        ),
        ({"openai-2/*": PriceRule(like="openai/*")}, "openai-2/gpt-4.1-mini", "openai/gpt-4.1-mini"),
        ({"a/*": PriceRule(like="b/one"), "b/*": PriceRule(like="openai/gpt-4.1")}, "a/x", "openai/gpt-4.1"),
        ({"a/*": PriceRule(like="b/*"), "b/*": PriceRule(like="a/*")}, "a/x", None),
        ({"*/*": 5, "vllm/*": 0}, "vllm/llama", 0.0),
        ({"vllm/*": 0, "*/*": 5}, "vllm/llama", 10.0),
        ({"other/*": 0}, "openai/gpt-4.1", "openai/gpt-4.1"),
        ({"openai/*": 0}, "openai/gpt-4.1", 0.0),
        ({"other/*": 0}, "mine/unheard-of", None),
    ],
    ids=str,
)
def test_a_price_is_found_by_pattern_and_the_last_one_that_fits_counts(
    rules: Any, route: str, dollars: float | str | None
) -> None:
    book, (provider, _, model) = PriceBook(rules), route.partition("/")
    wanted = cost_of(USAGE, *dollars.split("/")) if isinstance(dollars, str) else dollars
    assert book.cost_of(USAGE, provider, model) == (wanted if wanted is None else pytest.approx(wanted))
    assert book.cost_of(Usage(), provider, model) is None, "nobody counted"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('"vllm/*" = 0', ""),
        ('"mine/*" = { input = 2.5, output = 10 }', ""),
        ('"azure-openai/x" = { like = "openai/gpt-4.1" }', ""),
        ('"openai-2/*" = { like = "openai/*" }', ""),
        ('"mine/*" = { input = 2.5 }', "needs either like, or input and output"),
        (
            '"mine/*" = { like = "openai/gpt-4.1", input = 1, output = 1 }',
            "needs either like, or input and output",
        ),
        ('"mine/*" = {}', "needs either like, or input and output"),
        ('"mine/*" = { price = 3 }', "Unknown key"),
        ('"mine/*" = -1', "at least 0"),
        ('"mine/*" = nan', "at least 0"),
        ('"mine/*" = inf', "at most"),
        ('"mine/*" = "cheap"', "must be a"),
        ("mine = 0", "no provider/model"),
        ('"mine/*" = { like = "openai/unheard-of" }', 'The price of "openai/unheard-of" is not known'),
        ('"mine/*" = { like = "gpt" }', 'The price of "gpt" is not known'),
    ],
)
def test_prices_are_checked_with_the_other_settings(
    text: str, fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "config.toml"
    file.write_text(f"[prices]\n{text}\n")
    monkeypatch.setenv("SEGUE_CONFIG", str(file))
    monkeypatch.chdir(tmp_path)
    try:
        faults = "".join(reference_faults(load_settings()))
    except UsageError as error:
        faults = str(error)
    assert fault in faults
    assert bool(fault) == bool(faults), faults


def test_a_budget_holds_for_models_whose_price_the_configuration_sets() -> None:
    async def main() -> None:
        members = {"mine": ["openai/my-own-model"], "ours": ["openai/gpt-unheard-of"]}
        async with paid_world(members=members) as world:
            world.provider.scripts.append(Scripted(counts=COUNTS))
            status, body = await world.ask("chat", "mine", WORD)
            assert status == 403
            line = re.search(r'"openai/my-own-model\\?" = 0', body.decode().replace('\\"', '"'))
            assert line is not None, "who meets it is told which line to add"
            rules: dict[str, float | PriceRule] = {
                "openai/my-own-model": 0,
                "openai/gpt-unheard-of": PriceRule(like="openai/gpt-4.1"),
            }
            world.gateway.accounts.prices = PriceBook(rules)
            for model, spent in (("mine", 0), ("ours", 2 * 1000 + 8 * 100)):
                status, body = await world.ask("chat", model, WORD)
                assert status == 200, body
                standing, _, rows = await world.settled()
                assert standing.day_spent == spent
                assert not any(row.unpriced for row in rows)

    asyncio.run(main())


def test_the_line_that_is_named_is_one_that_the_configuration_takes(home: Home) -> None:
    lines = [
        '"mine/big" = { like = "openai/gpt-4o" }',
        '"mine/big" = { input = 2.5, output = 10 }',
        '"mine/big" = 0',
    ]
    for line in lines:
        home.configure(f'[prices]\n{line}\n[providers.mine]\nbase_url = "http://127.0.0.1:9/v1"\n')
        checked = home.run("config", "check")
        assert checked.code == 0, checked.err


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def test_a_price_book_without_rules_is_the_catalog() -> None:
    assert PriceBook().cost_of(USAGE, "openai", "gpt-4.1") == cost_of(USAGE, "openai", "gpt-4.1")


@pytest.mark.parametrize(
    ("counts", "least", "unpriced"),
    [
        ({"service_tier": "standard"}, 0.3, 0),
        ({"service_tier": "batch"}, 0.15, 0),
        ({"server_tool_use": {"web_search_requests": 2}}, 0.32, 0),
        ({"service_tier": "priority"}, 0.3, 1),
    ],
)
def test_how_a_reply_was_made_counts_for_a_budget_and_what_has_no_price_is_marked(
    counts: dict[str, Any], least: float, unpriced: int
) -> None:
    async def story() -> tuple[int, list[UsageRow]]:
        async with paid_world() as world:
            usage = {"input_tokens": 100_000, "output_tokens": 0, **counts}
            world.provider.scripts.append(Scripted(counts=usage))
            assert (await world.ask("anthropic", "anthropic", WORD * 20_000))[0] == 200
            standing, _, rows = await world.settled()
            return standing.day_spent, rows

    spent, rows = asyncio.run(story())
    assert spent == pytest.approx(least * MILLION)
    assert sum(row.unpriced for row in rows) == unpriced

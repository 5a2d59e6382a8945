"""Providers that count wrongly: what they claim neither empties a budget, nor fills it, nor costs others their counts."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from gateway.accounts.paid_world import WORD, Scripted, paid_world
from postgres_server import schema_url
from segue.config.schema import AccountSettings, Allowance
from segue.gateway.accounts.account import Account
from segue.gateway.accounts.budget_rules import Charge, Reserved
from segue.gateway.accounts.postgres_store import PostgresAccountStore
from segue.gateway.accounts.register import Accounts
from segue.gateway.accounts.sqlite_store import SQLiteAccountStore
from segue.gateway.accounts.store import Admission, Settlement, UsageRow

PROMPT = 2000
HOSTILE: dict[str, Any] = {
    "negative": {"prompt_tokens": -5_000_000, "completion_tokens": -5_000_000},
    "negative output": {"prompt_tokens": 2000, "completion_tokens": -5_000_000},
    "beyond 64 bits": {"prompt_tokens": 2**63, "completion_tokens": 2**64},
    "beyond any float": {"prompt_tokens": 10**400, "completion_tokens": 1},
    "more from the cache than there was": {
        "prompt_tokens": 20,
        "completion_tokens": 5,
        "prompt_tokens_details": {"cached_tokens": 1_000_000_000},
    },
    "more than the request can hold": {"prompt_tokens": 9_000_000, "completion_tokens": 5},
    "more than a reply can be": {"prompt_tokens": 2000, "completion_tokens": 900_000_000},
    "more than any request": {"prompt_tokens": 2**52, "completion_tokens": 2**52},
}


@pytest.mark.parametrize("hostile", HOSTILE)
@pytest.mark.parametrize("client", ["chat", "anthropic"])
@pytest.mark.parametrize("stream", [True, False])
def test_a_count_that_cannot_be_true_becomes_an_estimate_that_is_marked(
    hostile: str, client: str, *, stream: bool
) -> None:
    async def main() -> None:
        async with paid_world(dollars=1.0) as world:
            world.provider.scripts.append(Scripted(counts=HOSTILE[hostile]))
            status, body = await world.ask(client, "chat", WORD * PROMPT, stream=stream)
            assert status == 200, body
            standing, reserved, (row,) = await world.settled()
            assert PROMPT / 2 <= row.input_tokens <= 2 * PROMPT
            assert 10 <= row.output_tokens <= 400
            assert row.cached_tokens == 0
            assert standing.day_spent == row.micros
            assert 2 * PROMPT / 2 <= row.micros <= 2 * 2 * PROMPT + 8 * 400
            assert reserved == Reserved()
            assert world.reports[-1].usage_estimated
            if client == "anthropic":
                assert str(2**52).encode() not in body
                assert b"9000000" not in body

    asyncio.run(main())


@pytest.mark.parametrize(
    "fields",
    [{"web_search_options": {}}, {"tools": [{"type": "web_search"}]}],
    ids=["a setting of its own", "a tool of its own"],
)
def test_a_provider_that_reads_pages_for_a_request_is_believed_that_it_read_more(fields: Any) -> None:
    async def main() -> None:
        async with paid_world(dollars=5.0) as world:
            world.provider.scripts.append(Scripted(counts={"prompt_tokens": 400_000, "completion_tokens": 5}))
            path, body = "/v1/chat/completions", {"messages": [{"role": "user", "content": "Look it up."}]}
            status, answered = await world.send(path, {"model": "chat", **body, **fields})
            assert status == 200, answered
            _, _, (row,) = await world.settled()
            assert row.input_tokens == 400_000
            assert not world.reports[-1].usage_estimated

    asyncio.run(main())


@pytest.mark.parametrize("kind", ["volatile", "sqlite", "postgres"])
def test_one_settlement_that_fails_takes_none_of_the_others_with_it(kind: str, tmp_path: Path) -> None:
    async def main() -> None:
        stores: dict[str, Any] = {
            "volatile": SQLiteAccountStore,
            "sqlite": lambda: SQLiteAccountStore(tmp_path / "accounts.db"),
            "postgres": lambda: PostgresAccountStore(schema_url(tmp_path)),
        }
        store = stores[kind]()
        accounts = Accounts(store, {}, AccountSettings())
        names = ["ann", "bob", "eve", "joe"]
        settlements = []
        for name in names:
            account = Account(name=name, allowance=Allowance(dollars_per_day=100.0))
            admission = await accounts.admit(account, Charge(10, 1000))
            assert isinstance(admission, Admission)
            tokens = 2**70 if name == "eve" else 7
            row = UsageRow("2026-11-17", name, "fast", "a/b", requests=1, input_tokens=tokens, micros=tokens)
            settlements.append(Settlement(admission, Charge(tokens, tokens), (row,)))
        await accounts._settlements._settle(settlements)
        for name in ("ann", "bob", "joe"):
            standing, reserved = await store.standing(name)
            assert (standing.day_spent, reserved) == (7, Reserved()), name
        rows = await store.usage("2026-11-17", "2026-11-17")
        assert {row.caller for row in rows} >= {"ann", "bob", "joe"}
        await accounts.close()

    asyncio.run(main())


def test_a_row_that_cannot_be_kept_takes_none_of_the_others_with_it(tmp_path: Path) -> None:
    async def main() -> None:
        store = SQLiteAccountStore(tmp_path / "accounts.db")
        accounts = Accounts(store, {}, AccountSettings())
        for name in ("ann", "bob", "eve"):
            tokens = 2**70 if name == "bob" else 7
            accounts.ended(
                None, Charge(), UsageRow("2026-11-17", name, "fast", "a/b", requests=1, input_tokens=tokens)
            )
        await accounts.settled()
        rows = await store.usage("2026-11-17", "2026-11-17")
        assert {row.caller for row in rows} == {"ann", "eve"}
        await accounts.close()

    asyncio.run(main())

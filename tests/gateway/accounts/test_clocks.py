"""Clocks that jump: they give nobody their money again, and keep nobody waiting."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from postgres_server import schema_url
from segue.config.schema import Allowance
from segue.gateway.accounts import rate_limit
from segue.gateway.accounts.account import Account
from segue.gateway.accounts.budget_rules import Charge, Refusal, Reserved, Standing, admit, current, settle
from segue.gateway.accounts.postgres_store import PostgresAccountStore
from segue.gateway.accounts.sqlite_store import SQLiteAccountStore
from segue.gateway.accounts.store import Admission, Settlement

NOON = 1_794_830_400.0
DAY = 86_400.0
JUMPS = [DAY, 31 * DAY, 400 * DAY, 3600.0, 20 * 3600.0]


class Clock:
    def __init__(self) -> None:
        self.now = NOON

    def __call__(self) -> float:
        return self.now


@pytest.fixture(params=["volatile", "sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    clock = Clock()
    stores: dict[str, Any] = {
        "volatile": lambda: SQLiteAccountStore(clock=clock),
        "sqlite": lambda: SQLiteAccountStore(tmp_path / "accounts.db", clock=clock),
        "postgres": lambda: PostgresAccountStore(schema_url(tmp_path), clock=clock),
    }
    opened = stores[request.param]()
    opened.clock = clock
    return opened


async def spend(store: Any, account: Account, micros: int) -> None:
    admission = await store.admit(f"a{store.clock.now}", account, Charge(1, micros))
    assert isinstance(admission, Admission)
    await store.settle([Settlement(admission, Charge(1, micros))])


@pytest.mark.parametrize("jump", JUMPS)
def test_a_clock_that_jumps_and_comes_back_empties_no_budget(store: Any, jump: float) -> None:
    async def main() -> None:
        ann = Account(name="ann", allowance=Allowance(dollars_per_day=1.0, dollars_per_month=2.0))
        store.clock.now += jump
        await spend(store, ann, 1_000_000)
        store.clock.now -= jump
        refused = await store.admit("back", ann, Charge(1, 1000))
        assert isinstance(refused, Refusal), "what was spent stays spent"
        store.clock.now += 2 * DAY
        assert isinstance(await store.admit("later", ann, Charge(1, 1000)), Admission), "and its day ends"
        await store.close()

    asyncio.run(main())


@pytest.mark.parametrize("jump", JUMPS)
@pytest.mark.parametrize("limits", [Allowance(dollars_per_day=1.0), Allowance(dollars_per_month=1.0)])
def test_a_clock_that_is_set_back_and_right_again_empties_no_budget(
    store: Any, jump: float, limits: Allowance
) -> None:
    async def main() -> None:
        ann = Account(name="ann", allowance=limits)
        await spend(store, ann, 1_000_000)
        for moment in (NOON - jump, NOON, NOON - jump, NOON - 2 * jump, NOON):
            store.clock.now = moment
            refused = await store.admit(f"at {moment}", ann, Charge(1, 1000))
            assert isinstance(refused, Refusal), "what was spent stays spent"
        store.clock.now += 31 * DAY
        assert isinstance(await store.admit("later", ann, Charge(1, 1000)), Admission), "and its month ends"
        await store.close()

    asyncio.run(main())


@pytest.mark.parametrize("jump", JUMPS)
def test_a_clock_that_is_set_back_blocks_nobody(store: Any, jump: float) -> None:
    async def main() -> None:
        limits = Allowance(requests_per_minute=2, tokens_per_minute=30, concurrent=1, dollars_per_day=100.0)
        ann = Account(name="ann", allowance=limits)
        store.clock.now += jump
        dead = await store.admit("dead", ann, Charge(50, 1000))
        assert isinstance(dead, Admission), "its gateway dies"
        store.clock.now -= jump
        waited, decided = 0.0, await store.admit("back", ann, Charge(50, 1000))
        while isinstance(decided, Refusal) and waited < 300:
            waited += max(decided.wait, 1.0)
            store.clock.now += max(decided.wait, 1.0)
            decided = await store.admit(f"back-{waited}", ann, Charge(50, 1000))
        assert isinstance(decided, Admission)
        assert waited <= 120, "not until the moment that the clock came from"
        await store.close()

    asyncio.run(main())


def test_what_a_gateway_that_died_had_reserved_counts_though_the_clock_was_set_back(store: Any) -> None:
    async def main() -> None:
        ann = Account(name="ann", allowance=Allowance(dollars_per_day=100.0, concurrent=5))
        assert isinstance(await store.admit("dead", ann, Charge(1, 700_000)), Admission)
        alive = await store.admit("alive", ann, Charge(1, 100_000))
        store.clock.now -= 30 * DAY
        assert isinstance(await store.admit("next", ann, Charge(1, 1)), Admission)
        standing, reserved = await store.standing("ann")
        assert (standing.day_spent, reserved.expired) == (800_000, 0)
        await store.settle([Settlement(alive, Charge(1, 50_000))])
        standing, reserved = await store.standing("ann")
        assert standing.day_spent == 750_000, "one that ends after all is corrected"
        assert reserved == Reserved(1, 1)
        await store.close()

    asyncio.run(main())


@settings(max_examples=200)
@given(
    st.lists(
        st.tuples(
            st.sampled_from([0.0, 1.0, 40.0, 3600.0, DAY, 33 * DAY, -1.0, -40.0, -3600.0, -DAY, -33 * DAY]),
            st.integers(0, 400_000),
        ),
        max_size=30,
    )
)
def test_by_any_clock_what_is_spent_in_a_real_day_is_bounded_by_how_often_it_jumps_ahead(
    steps: list[tuple[float, int]],
) -> None:
    allowance = Allowance(dollars_per_day=1.0, requests_per_minute=60)
    standing, now, spent, ahead = Standing(), NOON, 0, 0
    for jump, cost in steps:
        now += jump
        ahead += jump > 60
        before = current(standing, now)
        assert before.day_spent >= (standing.day_spent if jump <= 0 else 0), "back gives nothing again"
        assert before.requests_due <= now + 2 * rate_limit.MINUTE, "what is due is due soon"
        decided = admit(allowance, standing, Reserved(), Charge(1, cost), now)
        if isinstance(decided, Standing):
            standing = settle(allowance, decided, Charge(1, cost), Charge(1, cost), now)
            spent += cost
    assert spent <= (1 + ahead) * 1_400_000


def test_a_file_of_the_form_before_is_taken_over(tmp_path: Path) -> None:
    file = tmp_path / "accounts.db"

    async def main() -> None:
        store = SQLiteAccountStore(file)
        ann = Account(name="ann", allowance=Allowance(dollars_per_day=1.0))
        await store.save(ann, new=True)
        first = await store.admit("1", ann, Charge(1, 5))
        assert isinstance(first, Admission)
        await store.settle([Settlement(first, Charge(1, 5))])
        await store.close()
        with closing(sqlite3.connect(file)) as connection:
            connection.execute("ALTER TABLE standings DROP COLUMN set_back_from")
            connection.execute("ALTER TABLE standings DROP COLUMN seen")
            connection.execute("ALTER TABLE usage DROP COLUMN lost_tokens")
            connection.execute("ALTER TABLE usage DROP COLUMN lost_micros")
            connection.execute("PRAGMA user_version = 1")
            connection.commit()
        again = SQLiteAccountStore(file)
        assert (await again.standing("ann"))[0].day_spent == 5
        assert isinstance(await again.admit("2", ann, Charge(1, 5)), Admission)
        assert [account.name for account in await again.accounts()] == ["ann"]
        await again.close()

    asyncio.run(main())

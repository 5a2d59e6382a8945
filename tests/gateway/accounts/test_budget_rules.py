"""Limits and budgets as laws: over any run of requests, on every store."""

from __future__ import annotations

import asyncio
import itertools
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from postgres_server import schema_url
from segue.config.schema import AccountSettings, Allowance
from segue.databases.postgres.address import read_address
from segue.errors import RateLimitError, UsageError
from segue.gateway.accounts import rate_limit, reservations
from segue.gateway.accounts.account import Account, KeyDigest
from segue.gateway.accounts.budget_rules import Charge, Refusal, Reserved, Standing, admit, current, settle
from segue.gateway.accounts.postgres_store import PostgresAccountStore
from segue.gateway.accounts.register import Accounts
from segue.gateway.accounts.sqlite_store import SQLiteAccountStore
from segue.gateway.accounts.store import (
    NAMES_PER_DAY,
    OTHER,
    RESERVED_SECONDS,
    AccountStore,
    Admission,
    Settlement,
    UsageRow,
)

NOON = 1_794_830_400.0
"""A noon of UTC in November 2026."""
DAY = 86_400.0
PAUSES = [0.0, 0.5, 31.0, DAY, -0.5, -61.0, -DAY, 40 * DAY, -40 * DAY]
"""Seconds, also by a clock that is set."""
EXAMPLES = max(10, settings().max_examples // 3)


class Clock:
    def __init__(self) -> None:
        self.now = NOON

    def __call__(self) -> float:
        return self.now


@pytest.fixture(params=["volatile", "sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    clock = Clock()
    if request.param == "volatile":
        opened: Any = SQLiteAccountStore(clock=clock)
    elif request.param == "postgres":
        opened = PostgresAccountStore(schema_url(tmp_path), clock=clock)
    else:
        opened = SQLiteAccountStore(tmp_path / "accounts.db", clock=clock)
    opened.clock = clock
    return opened


def test_a_removed_account_is_gone_and_what_it_spent_stays_under_its_name(store: Any) -> None:
    async def story() -> None:
        account = Account(name="ann", allowance=Allowance(dollars_per_day=1.0))
        await store.save(account, new=True)
        admitted = await store.admit("r1", account, Charge(tokens=1, micros=900_000))
        assert isinstance(admitted, Admission)
        before = await store.revision()
        await store.remove("ann")
        assert await store.revision() > before, "gateways that run notice it"
        assert list(await store.accounts()) == []
        with pytest.raises(UsageError, match='no caller "ann"'):
            await store.remove("ann")
        # A request that was running is counted to its end.
        row = UsageRow("2026-11-01", "ann", "x", "a/b", requests=1, micros=900_000)
        await store.settle([Settlement(admitted, Charge(tokens=1, micros=900_000), (row,))])
        assert [used.micros for used in await store.usage("2026-11-01", "2026-11-01")] == [900_000]
        await store.save(account, new=True)
        standing, _ = await store.standing("ann")
        assert standing.day_spent == 900_000, "whoever gets the name gets no new money with it"
        await store.close()

    asyncio.run(story())


@given(
    per_minute=st.integers(1, 1000),
    steps=st.lists(st.tuples(st.floats(0, 20), st.integers(1, 50)), max_size=60),
)
def test_no_window_passes_more_than_a_whole_allowance_and_what_has_filled(
    per_minute: int, steps: list[tuple[float, int]]
) -> None:
    now = due = NOON
    passed: list[tuple[float, int]] = []
    for pause, asked in steps:
        now += pause
        cost = min(asked, per_minute)
        passage = rate_limit.take(due, now, cost, per_minute)
        if not passage.wait:
            due = passage.due
            passed.append((now, cost))
        else:
            later = rate_limit.take(due, now + passage.wait + 1e-6, cost, per_minute)
            assert later.wait == 0.0, "after the wait it passes"
    for first, (begin, _) in enumerate(passed):
        taken = 0
        for moment, cost in passed[first:]:
            taken += cost
            assert taken <= per_minute + (moment - begin) * per_minute / 60 + 1e-3


def test_a_minute_that_begins_gives_nobody_twice_as_much() -> None:
    due = NOON
    for _ in range(60):
        passage = rate_limit.take(due, NOON, 1, 60)
        assert passage.wait == 0.0
        due = passage.due
    assert rate_limit.take(due, NOON, 1, 60).wait == pytest.approx(1.0)
    assert rate_limit.left(due, NOON + 30, 60) == 30


def test_what_is_dearer_than_the_allowance_passes_when_that_is_whole() -> None:
    passage = rate_limit.take(NOON - 100, NOON, 500, 100)
    assert passage.wait == 0.0
    assert rate_limit.take(passage.due, NOON + 1, 1, 100).wait > 200


@given(
    dollars=st.floats(0.01, 3),
    concurrent=st.none() | st.integers(1, 4),
    moves=st.lists(
        st.tuples(st.sampled_from(["send", "end"]), st.integers(0, 2_000_000), st.integers(0, 2_000_000)),
        max_size=60,
    ),
)
def test_money_is_never_spent_beyond_the_limit_by_more_than_the_requests_in_flight(
    dollars: float, concurrent: int | None, moves: list[tuple[str, int, int]]
) -> None:
    allowance = Allowance(dollars_per_month=dollars, concurrent=concurrent)
    standing, limit = Standing(), dollars * 1_000_000
    running: list[tuple[Charge, Charge]] = []
    most = limit
    for move, expected, real in moves:
        if move == "end" and running:
            in_flight = sum(used.micros for _, used in running)
            estimate, used = running.pop(0)
            if current(standing, NOON).month_spent < limit:
                most = limit + in_flight
            standing = settle(allowance, standing, estimate, used, NOON)
        elif move == "send":
            estimate, used = Charge(0, expected), Charge(0, real)
            reserved = Reserved(len(running), sum(one.micros for one, _ in running))
            decided = admit(allowance, standing, reserved, estimate, NOON)
            if isinstance(decided, Standing):
                standing = decided
                running.append((estimate, used))
        assert current(standing, NOON).month_spent <= most
        assert concurrent is None or len(running) <= concurrent


def test_one_request_may_be_dearer_than_what_is_left_but_not_two_at_once() -> None:
    allowance = Allowance(dollars_per_day=1.0)
    dear = Charge(0, 700_000)
    alone = admit(allowance, Standing(), Reserved(), dear, NOON)
    assert isinstance(alone, Standing)
    beside = admit(allowance, alone, Reserved(1, 700_000), dear, NOON)
    assert isinstance(beside, Refusal)
    assert (beside.limit, beside.wait) == ("reserved", 1.0), "the other may cost less in the end"
    spent = settle(allowance, alone, dear, Charge(0, 1_200_000), NOON)
    refused = admit(allowance, spent, Reserved(), dear, NOON)
    assert isinstance(refused, Refusal)
    assert refused.wait == pytest.approx(DAY / 2), "until the day ends"
    assert isinstance(admit(allowance, spent, Reserved(), dear, NOON + DAY), Standing)


def test_a_month_ends_in_the_next_year_too() -> None:
    allowance = Allowance(dollars_per_month=1.0)
    december = NOON + 40 * DAY
    spent = settle(allowance, Standing(), Charge(), Charge(0, 2_000_000), december)
    refused = admit(allowance, spent, Reserved(), Charge(), december)
    assert isinstance(refused, Refusal)
    assert isinstance(admit(allowance, spent, Reserved(), Charge(), december + refused.wait + 1), Standing)


# Stores


def test_accounts_are_kept_by_name(store: AccountStore) -> None:
    async def story() -> None:
        ann = Account(name="ann", keys=(KeyDigest(sha256="ab"),), allowance=Allowance(concurrent=2))
        before = await store.revision()
        await store.save(ann, new=True)
        assert await store.revision() > before
        assert list(await store.accounts()) == [ann]
        with pytest.raises(UsageError, match="already"):
            await store.save(ann, new=True)
        with pytest.raises(UsageError, match="no caller"):
            await store.save(Account(name="bob"), new=False)
        await store.close()

    asyncio.run(story())


def test_reservations_end_when_settled_once_and_count_as_spent_when_their_gateway_died(store: Any) -> None:
    async def story() -> None:
        ann = Account(name="ann", allowance=Allowance(dollars_per_day=1.0, concurrent=2))
        first = await store.admit("1", ann, Charge(10, 600_000))
        assert isinstance(first, Admission)
        assert isinstance(await store.admit("2", ann, Charge(10, 600_000)), Refusal)
        for _ in range(2):
            await store.settle([Settlement(first, Charge(5, 100_000))])
        standing, reserved = await store.standing("ann")
        assert (standing.day_spent, reserved) == (100_000, Reserved())
        dead = await store.admit("3", ann, Charge(10, 600_000))
        assert isinstance(dead, Admission)
        store.clock.now += RESERVED_SECONDS - 1
        await store.renew(["3"])
        store.clock.now += RESERVED_SECONDS - 1
        assert (await store.standing("ann"))[1] == Reserved(1, 600_000)
        store.clock.now += 2
        assert (await store.standing("ann"))[1] == Reserved(0, 0, 600_000), "it may have been served"
        beside = await store.admit("4", ann, Charge(10, 600_000))
        assert isinstance(beside, Admission), "one more: none runs, and something is left"
        assert beside.standing.day_spent == 700_000
        assert (await store.standing("ann"))[1] == Reserved(1, 600_000), "counted once"
        await store.settle([Settlement(dead, Charge(5, 50_000))])
        standing, reserved = await store.standing("ann")
        assert (standing.day_spent, reserved) == (150_000, Reserved(1, 600_000)), "its end came late"
        await store.settle([Settlement(beside, Charge(5, 900_000))])
        last = await store.admit("5", ann, Charge(10, 1))
        assert isinstance(last, Refusal)
        assert last.limit == "day"
        await store.close()

    asyncio.run(story())


def test_usage_adds_up_by_day_caller_name_and_route(store: AccountStore) -> None:
    async def story() -> None:
        row = UsageRow(day="2026-11-16", caller="ann", asked="fast", route="a/b", requests=1, micros=5)
        await store.record([row, row])
        await store.record([UsageRow(day="2026-11-17", caller="ann", asked="fast", route="a/b", requests=1)])
        shown = await store.usage("2026-11-01", "2026-11-16")
        assert [(one.requests, one.micros) for one in shown] == [(2, 10)]
        assert len(await store.usage("2026-11-01", "2026-11-30")) == 2
        await store.close()

    asyncio.run(story())


def test_names_that_a_client_makes_up_do_not_fill_the_disk(tmp_path: Path) -> None:
    async def story() -> None:
        store: AccountStore = SQLiteAccountStore(tmp_path / "accounts.db")
        rows = [
            UsageRow(day="2026-11-16", caller="ann", asked=f"name-{number}", route="a/b", requests=1)
            for number in range(NAMES_PER_DAY + 20)
        ]
        await store.record(rows)
        shown = await store.usage("2026-11-16", "2026-11-16")
        assert len(shown) == NAMES_PER_DAY + 1
        assert next(row.requests for row in shown if row.asked == OTHER) == 20
        await store.close()

    asyncio.run(story())


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_two_gateways_spend_the_same_money_only_once(kind: str, tmp_path: Path) -> None:
    async def story() -> None:
        url = schema_url(tmp_path) if kind == "postgres" else ""
        stores: list[AccountStore] = [
            PostgresAccountStore(url) if url else SQLiteAccountStore(tmp_path / "accounts.db")
            for _ in range(2)
        ]
        ann = Account(name="ann", allowance=Allowance(dollars_per_day=1.0))
        decided = await asyncio.gather(
            *(stores[number % 2].admit(str(number), ann, Charge(1, 100_000)) for number in range(40))
        )
        assert sum(isinstance(one, Admission) for one in decided) == 10
        for opened in stores:
            await opened.close()

    asyncio.run(story())


async def _outcome(
    store: AccountStore, account: Account, move: tuple[str, int, int, int], sent: list[Any]
) -> Any:
    """What a move leads to, as far as all stores must agree."""
    what, tokens, micros, more = move
    if what == "send":
        decided = await store.admit(f"{account.name}-{len(sent)}", account, Charge(tokens, micros), more=more)
        if isinstance(decided, Refusal):
            sent.append(decided)
            return decided.limit, round(decided.wait, 3)
        sent += [decided.slot(number) for number in range(decided.slots)]
        return decided.standing.day_spent, decided.reserved, decided.slots
    admissions = [each for each in sent if isinstance(each, Admission)]
    if what == "end" and admissions:
        await store.settle([Settlement(each, Charge(tokens, micros)) for each in admissions[:5]])
        for each in admissions[:5]:
            sent[sent.index(each)] = None
    standing, reserved = await store.standing(account.name)
    spent = standing.day, standing.day_spent, standing.month, standing.month_spent
    return *spent, reserved, round(standing.requests_due, 3), round(standing.tokens_due, 3)


def test_all_stores_decide_the_same_over_any_run_of_requests(tmp_path: Path) -> None:
    clock, names = Clock(), itertools.count()
    stores: list[AccountStore] = [
        SQLiteAccountStore(clock=clock),
        SQLiteAccountStore(tmp_path / "accounts.db", clock=clock),
        PostgresAccountStore(schema_url(tmp_path), clock=clock),
    ]
    limits = st.builds(
        Allowance,
        requests_per_minute=st.none() | st.integers(1, 5) | st.integers(50, 1000),
        tokens_per_minute=st.none() | st.integers(1, 500) | st.integers(10_000, 500_000),
        concurrent=st.none() | st.integers(1, 3) | st.sampled_from([50, 51, 52, 101, 151, 1000]),
        dollars_per_day=st.none() | st.floats(0.01, 1) | st.floats(20, 1000),
        dollars_per_month=st.none() | st.floats(0.01, 2) | st.floats(20, 1000),
    )
    moves = st.tuples(
        st.sampled_from(["send", "send", "end", "wait"]),
        st.integers(0, 300),
        st.integers(0, 500_000),
        st.sampled_from([0, 0, 3, 20]),
    )

    with asyncio.Runner() as runner:

        @settings(max_examples=EXAMPLES)
        @given(limits, st.lists(st.tuples(moves, st.sampled_from(PAUSES)), max_size=15))
        def agree(allowance: Allowance, steps: list[tuple[tuple[str, int, int, int], float]]) -> None:
            account = Account(name=f"caller-{next(names)}", allowance=allowance)
            sent: list[list[Any]] = [[] for _ in stores]
            for move, pause in steps:
                clock.now += pause
                outcomes = [
                    runner.run(_outcome(store, account, move, own))
                    for store, own in zip(stores, sent, strict=True)
                ]
                assert outcomes[1:] == [outcomes[0], outcomes[0]]

        agree()
        for store in stores:
            runner.run(store.close())


def test_a_file_that_another_process_writes_is_waited_for_outside_of_the_loop(tmp_path: Path) -> None:
    async def story() -> None:
        store = SQLiteAccountStore(tmp_path / "accounts.db")
        ann = Account(name="ann", allowance=Allowance(concurrent=2))
        assert isinstance(await store.admit("1", ann, Charge()), Admission)
        other = sqlite3.connect(tmp_path / "accounts.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        waiting = asyncio.ensure_future(store.admit("2", ann, Charge()))
        for _ in range(5):
            await asyncio.sleep(0.002)
        assert not waiting.done(), "and the loop runs on"
        other.execute("COMMIT")
        other.close()
        assert isinstance(await waiting, Admission)
        assert (await store.standing("ann"))[1].requests == 2
        await store.close()

    asyncio.run(story())


def test_the_log_of_a_file_does_not_grow_without_end(tmp_path: Path) -> None:
    async def story() -> None:
        store = SQLiteAccountStore(tmp_path / "accounts.db")
        ann = Account(name="ann", allowance=Allowance(concurrent=2))
        for number in range(1200):
            admission = await store.admit(str(number), ann, Charge())
            assert isinstance(admission, Admission)
            await store.settle([Settlement(admission, Charge())])
            await asyncio.sleep(0)
        written = (tmp_path / "accounts.db-wal").stat().st_size
        assert written < 20_000_000, "two megabytes for each hundred"
        await store.close()

    asyncio.run(story())


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_a_client_that_leaves_while_its_request_is_admitted_pays_nothing(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reservations, "_LATE_SECONDS", 0.05)
    url = schema_url(tmp_path) if kind == "postgres" else ""
    store: AccountStore = PostgresAccountStore(url) if url else SQLiteAccountStore(tmp_path / "accounts.db")
    ann = Account(name="ann", allowance=Allowance(dollars_per_day=1.0, tokens_per_minute=100))

    @contextmanager
    def held() -> Iterator[None]:
        """Somebody else is writing."""
        if not url:
            with closing(sqlite3.connect(tmp_path / "accounts.db", isolation_level=None)) as other:
                other.execute("BEGIN IMMEDIATE")
                yield
            return
        address = read_address(url)
        with psycopg.connect(address.url) as database:
            database.execute(f"SELECT * FROM {address.schema}.standings FOR UPDATE".encode())  # noqa: S608
            yield

    async def story() -> None:
        accounts = Accounts(store, {}, AccountSettings())
        first = await accounts.admit(ann, Charge(10, 100_000))
        with held():
            waiting = asyncio.ensure_future(accounts.admit(ann, Charge(50, 300_000)))
            await asyncio.sleep(0.05)
            waiting.cancel()
            await asyncio.wait([waiting])
        assert waiting.cancelled()
        await asyncio.sleep(0.1)
        row = UsageRow(day="2026-11-16", caller="ann", asked="fast", route="a/b", requests=1)
        accounts.ended(first, Charge(10, 200_000), row)
        await accounts.settled()
        standing, reserved = await store.standing("ann")
        assert (standing.day_spent, reserved) == (200_000, Reserved())
        await accounts.close()

    asyncio.run(story())


def test_requests_far_from_a_limit_are_settled_together_a_moment_later_and_never_stand_in_the_way(
    store: AccountStore,
) -> None:
    async def story() -> None:
        accounts = Accounts(store, {}, AccountSettings())
        ann = Account(name="ann", allowance=Allowance(concurrent=5))
        row = UsageRow(day="2026-11-16", caller="ann", asked="fast", route="a/b", requests=1)
        for _ in range(2):
            accounts.ended(await accounts.admit(ann, Charge()), Charge(), row)
        running = [await accounts.admit(ann, Charge()) for _ in range(5)]
        with pytest.raises(RateLimitError):
            await accounts.admit(ann, Charge())
        accounts.ended(running.pop(), Charge(), row)
        accounts.ended(running.pop(0), Charge(), row)
        running += [await accounts.admit(ann, Charge()) for _ in range(2)]
        for one in running:
            accounts.ended(one, Charge(), row)
        alone = await accounts.admit(ann, Charge())
        accounts.ended(alone, Charge(), row)
        await asyncio.sleep(0.2)
        assert (await store.standing("ann"))[1] == Reserved(), "without another request"
        assert [each.requests for each in await store.usage("2026-11-16", "2026-11-16")] == [10]
        await accounts.close()

    asyncio.run(story())

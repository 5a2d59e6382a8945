"""Blocks of requests that busy gateways reserve at once: laws over any run of requests, ends and deaths on several of them."""

from __future__ import annotations

import asyncio
import itertools
import sqlite3
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from gateway.accounts import busy_node
from postgres_server import schema_url
from segue.config.schema import AccountSettings, Allowance
from segue.errors import CredentialsError, JournalError, QuotaError, RateLimitError
from segue.gateway.accounts.account import Account
from segue.gateway.accounts.budget_rules import (
    BLOCK_SHARE,
    Charge,
    Reserved,
    Standing,
    admit,
    admit_more,
    current,
    micros,
    spend,
)
from segue.gateway.accounts.caller_keys import REFRESH_SECONDS
from segue.gateway.accounts.leased_quota import LEASE_SECONDS
from segue.gateway.accounts.postgres_store import PostgresAccountStore
from segue.gateway.accounts.register import Accounts
from segue.gateway.accounts.sqlite_store import SQLiteAccountStore
from segue.gateway.accounts.store import RESERVED_SECONDS, AccountStore, Admission, UsageRow

NOON = 1_794_830_400.0
"""A noon of UTC in November 2026."""
EXAMPLES = max(10, settings().max_examples // 3)
NODES = 3
ROW = UsageRow(day="2026-11-16", caller="ann", asked="fast", route="a/b", requests=1)
PLENTY = Allowance(
    requests_per_minute=1_000_000,
    tokens_per_minute=1_000_000_000,
    concurrent=100_000,
    dollars_per_day=10_000.0,
)


class Clock:
    def __init__(self) -> None:
        self.now = NOON

    def __call__(self) -> float:
        return self.now


def open_stores(kind: str, place: Path, clock: Clock) -> list[AccountStore]:
    """One for each node, all on the same data."""
    if kind == "volatile":
        return [SQLiteAccountStore(clock=clock)] * NODES
    if kind == "sqlite":
        return [SQLiteAccountStore(place / "accounts.db", clock=clock) for _ in range(NODES)]
    url = schema_url(place)
    return [PostgresAccountStore(url, clock=clock) for _ in range(NODES)]


class Node:
    """One gateway, and what runs there."""

    def __init__(self, store: AccountStore, clock: Clock) -> None:
        self.accounts = Accounts(store, {}, AccountSettings(), clock=clock)
        self.running: list[tuple[Admission, Charge]] = []

    async def burst(self, account: Account, estimates: Sequence[Charge]) -> int:
        """How many of these requests were admitted; the others were refused for a limit."""
        asked = [self.accounts.admit(account, estimate) for estimate in estimates]
        answers = await asyncio.gather(*asked, return_exceptions=True)
        admitted = 0
        for estimate, answer in zip(estimates, answers, strict=True):
            if isinstance(answer, BaseException):
                assert isinstance(answer, (RateLimitError, QuotaError)), answer
            else:
                assert answer is not None
                admitted += 1
                self.running.append((answer, estimate))
        return admitted

    def end(self, number: int, share: float) -> Charge:
        """So many requests end, having used this share of what they were expected to; the sum of it."""
        ended, self.running = self.running[:number], self.running[number:]
        tokens = spent = 0
        for admission, estimate in ended:
            used = Charge(int(share * estimate.tokens), int(share * estimate.micros))
            tokens, spent = tokens + used.tokens, spent + used.micros
            self.accounts.ended(admission, used, ROW)
        return Charge(tokens, spent)

    @property
    def held(self) -> Charge:
        """What its requests may come to."""
        estimates = [estimate for _, estimate in self.running]
        return Charge(sum(each.tokens for each in estimates), sum(each.micros for each in estimates))

    async def die(self) -> None:
        for task in list(self.accounts._settlements._tasks):
            task.cancel()
        await asyncio.gather(*self.accounts._settlements._tasks, return_exceptions=True)


class Gateways:
    """Several of them, which one caller asks as much as it likes."""

    def __init__(self, stores: Sequence[AccountStore], clock: Clock, account: Account) -> None:
        self._stores = stores
        self._clock = clock
        self._account = account
        self._nodes = [Node(store, clock) for store in stores]
        self._began = clock.now
        self._admitted = self._tokens = self._spent = self._dearest = self._deaths = 0

    async def run(self, moves: Sequence[Any]) -> None:
        for move in moves:
            await self._make(move)
            self._check_limits()
        for node in self._nodes:
            self._add(node.end(len(node.running), 0.5))
            await node.accounts.settled()
        standing, reserved = await self._stores[0].standing(self._account.name)
        counted = current(standing, self._clock.now).day_spent + reserved.micros + reserved.expired
        if self._deaths:
            assert counted >= self._spent, "what a dead gateway sent may have been served"
        else:
            assert (counted, reserved) == (self._spent, Reserved()), "nothing is held or lost"

    async def _make(self, move: Any) -> None:
        match move:
            case ("burst", number, count, tokens, cost):
                self._dearest = max(self._dearest, cost)
                estimates = [Charge(tokens, cost)] * count
                self._admitted += await self._nodes[number].burst(self._account, estimates)
            case ("end", number, count, share):
                self._add(self._nodes[number].end(count, share))
            case ("wait", seconds):
                self._clock.now += seconds
                for node in self._nodes:  # as they do all the time
                    await node.accounts.store.renew([one.id for one, _ in node.running])
            case ("tidy", number):
                await self._nodes[number].accounts.settled()
            case ("die", number):
                self._deaths += 1
                self._add(self._nodes[number].held)
                await self._nodes[number].die()
                self._nodes[number] = Node(self._stores[number], self._clock)

    def _add(self, used: Charge) -> None:
        self._tokens += used.tokens
        self._spent += used.micros

    def _check_limits(self) -> None:
        limits, minutes = self._account.allowance, 1 + (self._clock.now - self._began) / 60
        held = [node.held for node in self._nodes]
        if limits.concurrent is not None:
            assert sum(len(node.running) for node in self._nodes) <= limits.concurrent
        if limits.requests_per_minute is not None:
            assert self._admitted <= limits.requests_per_minute * minutes + 1e-3
        if limits.tokens_per_minute is not None:
            tokens = self._tokens + sum(each.tokens for each in held)
            assert tokens <= limits.tokens_per_minute * minutes + 1e-3
        if limits.dollars_per_day is not None:
            spent = self._spent + sum(each.micros for each in held)
            most = micros(limits.dollars_per_day) + self._dearest
            assert spent <= most, "one request may be dearer than what is left"


@given(
    allowance=st.builds(
        Allowance,
        requests_per_minute=st.none() | st.integers(1, 10_000),
        tokens_per_minute=st.none() | st.integers(1, 1_000_000),
        concurrent=st.none() | st.integers(1, 1000),
        dollars_per_day=st.none() | st.floats(0.01, 1000),
        dollars_per_month=st.none() | st.floats(0.01, 1000),
    ),
    estimate=st.builds(Charge, st.integers(0, 1000), st.integers(0, 100_000)),
    reserved=st.builds(Reserved, st.integers(0, 50), st.integers(0, 10_000_000), st.just(0)),
    standing=st.builds(
        Standing,
        requests_due=st.floats(NOON - 60, NOON + 60),
        tokens_due=st.floats(NOON - 60, NOON + 60),
        day=st.just("2026-11-16"),
        day_spent=st.integers(0, 10_000_000),
        month=st.just("2026-11"),
        month_spent=st.integers(0, 10_000_000),
    ),
    wanted=st.integers(1, 100),
)
def test_a_block_holds_what_so_many_requests_would_and_is_a_small_part_of_what_is_left(
    allowance: Allowance, estimate: Charge, reserved: Reserved, standing: Standing, wanted: int
) -> None:
    first = admit(allowance, standing, reserved, estimate, NOON)
    if not isinstance(first, Standing):
        return
    block, more = admit_more(allowance, first, reserved, estimate, NOON, wanted)
    assert 0 <= more <= wanted
    one_by_one, held = first, structs.replace(reserved, requests=reserved.requests + 1)
    held = structs.replace(held, micros=held.micros + estimate.micros)
    for number in range(BLOCK_SHARE * more):
        following = admit(allowance, one_by_one, held, estimate, NOON)
        assert isinstance(following, Standing), "fifty times as many could have been admitted"
        one_by_one = following
        held = Reserved(held.requests + 1, held.micros + estimate.micros)
        if number == more - 1:
            assert one_by_one.requests_due == pytest.approx(block.requests_due, abs=1e-5)
            assert one_by_one.tokens_due == pytest.approx(block.tokens_due, abs=1e-5)
    if not more:
        assert block == first


@pytest.mark.parametrize("kind", ["volatile", "sqlite", "postgres"])
def test_limits_hold_on_several_gateways_over_any_run_of_bursts_ends_and_deaths(
    kind: str, tmp_path: Path
) -> None:
    clock, names = Clock(), itertools.count()
    stores = open_stores(kind, tmp_path, clock)
    limits = st.builds(
        Allowance,
        requests_per_minute=st.none() | st.integers(20, 2000),
        tokens_per_minute=st.none() | st.integers(2000, 200_000),
        concurrent=st.none() | st.integers(5, 500),
        dollars_per_day=st.none() | st.floats(0.1, 20),
    )
    nodes_ = st.integers(0, NODES - 1)
    moves = st.one_of(
        st.tuples(st.just("burst"), nodes_, st.integers(1, 40), st.integers(0, 100), st.integers(0, 20_000)),
        st.tuples(st.just("end"), nodes_, st.integers(1, 40), st.floats(0, 1)),
        st.tuples(st.just("wait"), st.sampled_from([0.01, 0.1, 1.0, 20.0])),
        st.tuples(st.sampled_from(["tidy", "die"]), nodes_),
    )

    with asyncio.Runner() as runner:

        @settings(max_examples=EXAMPLES)
        @given(limits, st.lists(moves, max_size=20))
        def hold(allowance: Allowance, steps: list[Any]) -> None:
            clock.now = NOON  # so that all is of one day
            account = Account(name=f"caller-{next(names)}", allowance=allowance)
            runner.run(Gateways(stores, clock, account).run(steps))

        hold()
        for store in stores:
            runner.run(store.close())


@pytest.mark.parametrize("kind", ["volatile", "sqlite", "postgres"])
@pytest.mark.parametrize(
    ("limits", "allowed"),
    [
        (Allowance(requests_per_minute=1000), 1000),
        (Allowance(tokens_per_minute=10_000), 1000),
        (Allowance(concurrent=1000), 1000),
        (Allowance(dollars_per_day=1.0), 1000),
    ],
    ids=["requests", "tokens", "concurrent", "dollars"],
)
def test_at_the_edge_several_gateways_admit_what_is_allowed(
    kind: str, limits: Allowance, allowed: int, tmp_path: Path
) -> None:
    async def story() -> None:
        clock = Clock()
        stores = open_stores(kind, tmp_path, clock)
        nodes = [Node(store, clock) for store in stores]
        ann = Account(name="ann", allowance=limits)
        admitted = largest = 0
        for node in itertools.islice(itertools.cycle(nodes), 120):
            admitted += await node.burst(ann, [Charge(10, 1000)] * 12)
            largest = max(largest, *(one.id.count(".") for one, _ in node.running))
        assert largest, "there were blocks"
        assert 0.95 * allowed <= admitted <= allowed
        for node in nodes:
            await node.accounts.close()

    asyncio.run(story())


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_processes_that_are_killed_while_they_hold_blocks_never_send_more_than_the_budget(
    kind: str, tmp_path: Path
) -> None:
    place = schema_url(tmp_path) if kind == "postgres" else str(tmp_path / "accounts.db")
    sent = tmp_path / "sent"
    sent.touch()
    allowed = micros(busy_node.DOLLARS) // busy_node.COST.micros
    nodes: list[subprocess.Popen[bytes]] = []

    def start() -> None:
        nodes.append(subprocess.Popen([sys.executable, busy_node.__file__, place, str(sent)]))  # noqa: S603 - our own words

    def wait_until(share: float) -> None:
        """So much of the budget is spent."""
        deadline = time.monotonic() + 100
        while sent.stat().st_size < share * allowed:
            assert time.monotonic() < deadline, f"{sent.stat().st_size} of {allowed} were sent"
            time.sleep(0.01)

    async def kept() -> tuple[Standing, Reserved]:
        store = busy_node.open_store(place)
        try:
            return await store.standing(busy_node.CALLER.name)
        finally:
            await store.close()

    try:
        for _ in range(2):
            start()
        for share in (0.2, 0.4, 0.6):
            wait_until(share)
            nodes[0].kill()
            nodes.pop(0).wait()
            start()
        wait_until(0.9)
        time.sleep(1.0)  # whatever can be sent is
    finally:
        for node in nodes:
            node.kill()
            node.wait()
    standing, reserved = asyncio.run(kept())
    counted = (standing.month_spent + reserved.micros + reserved.expired) // busy_node.COST.micros
    assert sent.stat().st_size <= counted <= allowed


async def _with_block(store: AccountStore, account: Account, *, clock: Clock | None = None) -> Node:
    """A gateway that holds a block of which something is left."""
    node = Node(store, clock or Clock())
    assert await node.burst(account, [Charge(10, 1000)] * 20) == 20
    assert await node.burst(account, [Charge(10, 1000)] * 2) == 2
    _, reserved = await store.standing(account.name)
    assert reserved.requests > 22, "it holds more than it runs"
    return node


def test_few_requests_are_admitted_one_by_one() -> None:
    async def story() -> None:
        store = SQLiteAccountStore()
        accounts = Accounts(store, {}, AccountSettings())
        ann = Account(name="ann", allowance=PLENTY)
        for number in range(1, 4):
            await accounts.admit(ann, Charge(10, 1000))
            assert (await store.standing("ann"))[1].requests == number
        await accounts.close()

    asyncio.run(story())


def test_what_is_left_of_a_block_is_given_back_soon() -> None:
    async def story() -> None:
        store = SQLiteAccountStore()
        node = await _with_block(store, Account(name="ann", allowance=PLENTY))
        await asyncio.sleep(LEASE_SECONDS + 0.3)
        assert (await store.standing("ann"))[1] == Reserved(22, 22_000), "what runs"
        await node.accounts.close()

    asyncio.run(story())


def test_a_block_of_a_gateway_that_died_counts_as_spent() -> None:
    async def story() -> None:
        clock = Clock()
        store = SQLiteAccountStore(clock=clock)
        node = await _with_block(store, Account(name="ann", allowance=PLENTY), clock=clock)
        _, before = await store.standing("ann")
        await node.die()
        clock.now += RESERVED_SECONDS + 1
        standing, reserved = await store.standing("ann")
        assert reserved == Reserved(0, 0, before.micros)
        assert spend(standing, reserved.expired, clock.now).day_spent == 1000 * before.requests

    asyncio.run(story())


def test_changed_limits_and_revoked_keys_count_at_once_while_a_block_is_held() -> None:
    async def story() -> None:
        store = SQLiteAccountStore()
        made = Accounts(store, {}, AccountSettings())
        key = await made.administration.create("ann", PLENTY, labels={})
        node = await _with_block(store, await made.find([key]))
        fewer = structs.replace((await store.accounts())[0], allowance=Allowance(concurrent=1))
        await store.save(fewer, new=False)
        await asyncio.sleep(REFRESH_SECONDS + 0.05)
        assert await node.burst(await node.accounts.find([key]), [Charge(10, 1000)]) == 0
        await store.save(structs.replace(fewer, revoked=1.0), new=False)
        await asyncio.sleep(REFRESH_SECONDS + 0.05)
        with pytest.raises(CredentialsError):
            await node.accounts.find([key])
        await node.accounts.close()

    asyncio.run(story())


def test_a_client_that_leaves_while_a_block_is_taken_takes_nothing_from_the_others(tmp_path: Path) -> None:
    async def story() -> None:
        store = SQLiteAccountStore(tmp_path / "accounts.db")
        ann = Account(name="ann", allowance=PLENTY)
        accounts = Accounts(store, {}, AccountSettings())
        for _ in range(3):
            accounts.ended(await accounts.admit(ann, Charge(10, 1000)), Charge(), ROW)
        with closing(sqlite3.connect(tmp_path / "accounts.db", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            first, *others = [asyncio.ensure_future(accounts.admit(ann, Charge(10, 1000))) for _ in range(6)]
            await asyncio.sleep(0.01)
            first.cancel()
            await asyncio.sleep(0.01)
            assert not any(each.done() for each in others)
        for each in others:
            accounts.ended(await each, Charge(10, 1000), ROW)
        await accounts.settled()
        standing, reserved = await store.standing("ann")
        assert (standing.day_spent, reserved) == (5000, Reserved())
        await accounts.close()

    asyncio.run(story())


def test_a_block_that_is_asked_for_again_after_a_lost_connection_is_reserved_once(tmp_path: Path) -> None:
    async def story() -> None:
        store = PostgresAccountStore(schema_url(tmp_path))
        ann = Account(name="ann", allowance=PLENTY)
        for _ in range(2):
            block = await store.admit("1", ann, Charge(10, 1000), more=5)
            assert isinstance(block, Admission)
            assert (block.slots, block.reserved) == (6, Reserved())
        assert (await store.standing("ann"))[1] == Reserved(6, 6000)
        await store.close()

    asyncio.run(story())


def test_where_the_store_fails_each_request_gets_the_error() -> None:
    class Failing(SQLiteAccountStore):
        async def admit(self, *_: Any, **__: Any) -> Any:
            await asyncio.sleep(0)
            raise JournalError("gone")

    async def story() -> None:
        accounts = Accounts(Failing(), {}, AccountSettings())
        ann = Account(name="ann", allowance=PLENTY)
        asked = [accounts.admit(ann, Charge(10, 1000)) for _ in range(8)]
        answers = await asyncio.gather(*asked, return_exceptions=True)
        assert [getattr(answer, "code", "") for answer in answers] == ["accounts_away"] * 8
        await accounts.close()

    asyncio.run(story())

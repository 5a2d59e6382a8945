"""Callers with a budget and with limits, who send as much as they can while gateways are killed; and what they got.

All their requests are the same, so that what the provider served is the number of them that it saw.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from hashlib import sha256
from typing import Final

import psycopg
from msgspec import Struct

from segue.conversation.usage import Usage
from segue.databases.postgres.address import read_address
from segue.emulators.emulator import Emulator
from segue.gateway.accounts.budget_rules import MILLION, Reserved, Standing, micros
from segue.gateway.accounts.postgres_store import PostgresAccountStore
from segue.gateway.exchanges.usage_estimates import BYTES_PER_TOKEN
from segue.providers.models.prices import cost_of

PROVIDER: Final = "anthropic"
MODEL: Final = "claude-sonnet-4-6"
SENDERS: Final = 3
"""Of each caller: at most so many requests of it are in flight."""
WAIT_SECONDS: Final = 180.0
LONGEST_WAIT: Final = 4.0
"""Seconds until a caller that was refused comes again."""
TOLERANCE: Final = 0.05
_MOST_TOKENS: Final = 20
_POLL_SECONDS: Final = 0.2


class LimitedCaller(Struct, frozen=True):
    """What one caller may use, of which one thing is limited."""

    name: str
    setting: str
    limit: float

    @property
    def key(self) -> str:
        return key_of(self.name)

    @property
    def settings(self) -> str:
        return caller_settings(self.name, f"{self.setting} = {self.limit:g}")


class Got(Struct):
    """What a caller got of it."""

    served: int = 0
    """Requests that the provider answered."""
    broken_off: int = 0
    """Requests whose gateway died: they were admitted or not, and served or not."""
    refused: int = 0
    allowed: float = 0.0
    """So many requests could be sent."""
    counted: float = 0.0
    """So many were counted: also those that a gateway admitted and could not serve or settle before it died."""


def key_of(name: str) -> str:
    return f"segue-key-of-{name}"


def caller_settings(name: str, limits: str) -> str:
    digest = sha256(key_of(name).encode()).hexdigest()
    return f'[gateway.callers.{name}]\nkey_sha256 = "{digest}"\n{limits}\n'


class _Sender:
    """Several clients of one caller."""

    def __init__(self, caller: LimitedCaller, any_port: Callable[[], int | None]) -> None:
        self.caller = caller
        self.got = Got()
        self.usage: Usage | None = None
        self.began = 0.0
        self.seconds = 0.0
        self.has_met_limit = threading.Event()
        self._any_port = any_port
        self._lock = threading.Lock()

    @property
    def text(self) -> str:
        return f"This is {self.caller.name}: go ahead."

    @property
    def body(self) -> bytes:
        messages = [{"role": "user", "content": self.text}]
        body = {"model": f"{PROVIDER}/{MODEL}", "max_tokens": _MOST_TOKENS, "messages": messages}
        return json.dumps(body).encode()

    @property
    def expected_tokens(self) -> int:
        return len(self.body) // BYTES_PER_TOKEN + _MOST_TOKENS

    def send_until(self, over: threading.Event) -> None:
        while not over.is_set():
            port = self._any_port()
            wait = self._send(port) if port is not None else _POLL_SECONDS
            if wait:
                over.wait(wait)

    def _send(self, port: int) -> float:
        """How long to wait before the next one. Raises AssertionError for any answer but a reply or a refusal of the limit."""
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=WAIT_SECONDS)
        headers = {"content-type": "application/json", "authorization": f"Bearer {self.caller.key}"}
        try:
            connection.request("POST", "/v1/chat/completions", self.body, headers)
            answer = connection.getresponse()
            data = answer.read()
        except (OSError, http.client.HTTPException):
            with self._lock:
                self.got.broken_off += 1
            return 0.02
        finally:
            connection.close()
        if answer.status == 200:
            counted = json.loads(data)["usage"]
            self.usage = Usage(
                input_tokens=counted["prompt_tokens"], output_tokens=counted["completion_tokens"]
            )
            return 0.0
        assert answer.status == 429, data
        with self._lock:
            self.got.refused += 1
        if self.caller.setting != "dollars_per_day" or b"spent its budget" in data:
            self.has_met_limit.set()
        return min(float(answer.headers.get("retry-after", LONGEST_WAIT)), LONGEST_WAIT)


class LimitedTraffic:
    """All senders of one run."""

    def __init__(self, senders: list[_Sender], url: str) -> None:
        self._senders = senders
        self._url = url

    def check(self, emulator: Emulator) -> dict[str, Got]:
        """Raises if a caller got more or less than it was allowed."""
        found = {}
        for sender in self._senders:
            sender.got.served = sum(
                entry.verdict == "accepted" and sender.text in json.dumps(entry.body.get("messages", ""))
                for entry in emulator.log
                if entry.body
            )
            assert sender.usage is not None, f"{sender.caller.name} got no reply"
            match sender.caller.setting:
                case "dollars_per_day":
                    self._check_budget(sender, sender.usage)
                case "tokens_per_minute":
                    due = _kept(self._url, sender.caller.name)[0].tokens_due
                    _check_rate(sender, sender.usage.total_tokens or 0, sender.expected_tokens, due)
                case _:
                    due = _kept(self._url, sender.caller.name)[0].requests_due
                    _check_rate(sender, 1, 1, due)
            found[sender.caller.name] = sender.got
        return found

    def _check_budget(self, sender: _Sender, usage: Usage) -> None:
        got, cost = sender.got, micros(cost_of(usage, PROVIDER, MODEL) or 0.0)
        limit = micros(sender.caller.limit)
        got.allowed = limit / cost
        assert got.served * cost <= limit + SENDERS * cost, (got, cost)
        standing, reserved = _kept(self._url, sender.caller.name)
        counted = standing.day_spent + reserved.micros + reserved.expired
        got.counted = counted / cost
        assert counted >= got.served * cost, "something was served and not counted"
        expected = Usage(
            input_tokens=sender.expected_tokens - _MOST_TOKENS, output_tokens=_MOST_TOKENS
        )  # broken off: at the estimate
        dearest = micros(cost_of(expected, PROVIDER, MODEL) or 0.0)
        lost = got.broken_off + _slots_of_the_dead(self._url, sender.caller.name)
        assert counted <= got.served * cost + lost * dearest, (got, counted)
        assert counted >= limit - dearest, "the budget could not be used up"


def _check_rate(sender: _Sender, cost: int, expected: int, due: float) -> None:
    """A whole minute's worth at once, and then as much as fills. `expected`: what a request takes until it has ended, and for
    good if its gateway died; one that may not take so much is refused and comes again some seconds later. `due`: the moment
    when the allowance would be whole again, which is moved by all that was taken, as long as the caller is at its limit."""
    got, limit = sender.got, sender.caller.limit
    allowed = limit * (1 + sender.seconds / 60)
    unused = LONGEST_WAIT * limit / 60 + SENDERS * expected
    got.allowed = allowed / cost
    counted = (due - sender.began) * limit / 60
    got.counted = counted / cost
    assert counted <= allowed * (1 + TOLERANCE) + cost, got
    assert got.served * cost <= allowed * (1 + TOLERANCE) + cost, got
    assert counted >= allowed * (1 - TOLERANCE) - unused, got
    assert got.served * cost + got.broken_off * expected >= allowed * (1 - TOLERANCE) - unused, got


def _kept(url: str, name: str) -> tuple[Standing, Reserved]:
    """What the store holds of a caller. `reserved` is of gateways that died."""

    async def read() -> tuple[Standing, Reserved]:
        store = PostgresAccountStore(url)
        try:
            return await store.standing(name)
        finally:
            await store.close()

    return asyncio.run(read())


def _slots_of_the_dead(url: str, name: str) -> int:
    """Of blocks that a gateway had reserved at once and not settled when it was killed: they count as spent."""
    address = read_address(url)
    with psycopg.connect(address.url) as database:
        query = f"SELECT count(*) FROM {address.schema}.reservations WHERE name = %s AND id LIKE '%%.%%'"  # noqa: S608
        found = database.execute(query.encode(), (name,)).fetchone()
    return int(found[0]) if found is not None else 0


@contextmanager
def limited_traffic(
    callers: tuple[LimitedCaller, ...], any_port: Callable[[], int | None], url: str
) -> Iterator[LimitedTraffic]:
    """As much as they can send, until the block ends and each has met its limit."""
    over = threading.Event()
    senders = [_Sender(caller, any_port) for caller in callers]
    running: list[Future[None]] = []
    with ThreadPoolExecutor(SENDERS * len(senders) or 1) as pool:
        began = time.monotonic()
        for sender in senders:
            sender.began = time.time()
            running += [pool.submit(sender.send_until, over) for _ in range(SENDERS)]
        try:
            yield LimitedTraffic(senders, url)
            for sender in senders:
                assert sender.has_met_limit.wait(WAIT_SECONDS), f"{sender.caller.name} never met its limit"
        finally:
            over.set()
            for sender in senders:
                sender.seconds = time.monotonic() - began
    for one in running:
        one.result()


def limited_callers(*, budget: int, per_minute: int) -> tuple[LimitedCaller, ...]:
    """One for each kind of limit, all of about so many requests."""
    price = (cost_of(Usage(input_tokens=20, output_tokens=_MOST_TOKENS), PROVIDER, MODEL) or 0.0) * MILLION
    return (
        LimitedCaller("frugal", "dollars_per_day", budget * round(price) / MILLION),
        LimitedCaller("steady", "requests_per_minute", per_minute),
        LimitedCaller("wordy", "tokens_per_minute", 40 * per_minute),
    )

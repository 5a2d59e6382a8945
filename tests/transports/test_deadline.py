"""Deadlines end the waits that last too long, in time, and only those."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import Context
from typing import TypeVarTuple

import pytest

from segue.transports.deadline import Deadline

_Args = TypeVarTuple("_Args")


async def waited(seconds: float, limit: float) -> bool:
    """Whether a wait came to its end."""
    deadline = Deadline()
    deadline.begin(limit)
    try:
        with deadline:
            await asyncio.sleep(seconds)
    except TimeoutError:
        return False
    return True


class CountingLoop(asyncio.SelectorEventLoop):
    """Counts the timers that are set for deadlines."""

    def __init__(self) -> None:
        super().__init__()
        self.timers = 0

    def call_at(
        self, when: float, callback: Callable[[*_Args], object], *args: *_Args, context: Context | None = None
    ) -> asyncio.TimerHandle:
        self.timers += "_Watch" in repr(callback)
        return super().call_at(when, callback, *args, context=context)


def test_each_wait_has_its_own_limit() -> None:
    async def story() -> None:
        # Later ones first, and earlier ones while those are waited for.
        limits = (10.0, 0.05, 0.02, 0.08, 0.02)
        waits = [asyncio.ensure_future(waited(2.0, limit)) for limit in limits[:3]]
        await asyncio.sleep(0.01)
        waits += [asyncio.ensure_future(waited(2.0, limit)) for limit in limits[3:]]
        loop = asyncio.get_running_loop()
        began = loop.time()
        assert await asyncio.gather(*waits[1:]) == [False] * 4
        assert loop.time() - began < 1.5
        assert await waits[0]

    asyncio.run(story())


def test_a_deadline_that_is_put_off_holds_from_then_on() -> None:
    async def story() -> None:
        loop, deadline = asyncio.get_running_loop(), Deadline()
        deadline.begin(0.05)
        began = loop.time()
        loop.call_later(0.02, deadline.begin, 0.1)
        with pytest.raises(TimeoutError), deadline:
            await asyncio.sleep(5)
        assert 0.11 < loop.time() - began < 1

    asyncio.run(story())


def test_a_deadline_that_is_brought_forward_holds_from_then_on() -> None:
    async def story() -> None:
        loop, deadline = asyncio.get_running_loop(), Deadline()
        deadline.begin(5)
        began = loop.time()
        loop.call_later(0.02, deadline.begin, 0.02)
        with pytest.raises(TimeoutError), deadline:
            await asyncio.sleep(5)
        assert loop.time() - began < 1

    asyncio.run(story())


def test_a_deadline_that_passed_before_the_wait_ends_it_at_once() -> None:
    async def story() -> None:
        deadline = Deadline()
        deadline.begin(0.01)
        await asyncio.sleep(0.03)
        with pytest.raises(TimeoutError), deadline:
            await asyncio.sleep(5)

    asyncio.run(story())


def test_the_outer_of_two_deadlines_ends_both_waits() -> None:
    async def story() -> None:
        outer, inner = Deadline(), Deadline()
        outer.begin(0.02)
        inner.begin(5)
        with pytest.raises(TimeoutError), outer, inner:
            await asyncio.sleep(5)
        # And the same task can be cancelled afterwards like any other.
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0

    asyncio.run(story())


def test_a_task_that_somebody_else_cancels_is_cancelled() -> None:
    async def story() -> None:
        task = asyncio.ensure_future(waited(5, 5))
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(story())


def test_waits_that_end_in_time_share_a_timer() -> None:
    async def story() -> None:
        for _ in range(20):
            assert all(await asyncio.gather(*(waited(0.001, 5) for _ in range(20))))

    with asyncio.Runner(loop_factory=CountingLoop) as runner:
        runner.run(story())
        loop = runner.get_loop()
        assert isinstance(loop, CountingLoop)
        assert loop.timers == 1


def test_each_loop_has_deadlines_of_its_own() -> None:
    for _ in range(2):
        assert asyncio.run(waited(0, 0.05))
        assert not asyncio.run(waited(5, 0.02))

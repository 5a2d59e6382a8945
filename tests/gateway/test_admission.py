"""A process that is late refuses new requests until it is in time again."""

from __future__ import annotations

import asyncio
import time

from gateway.world import ROUTES, GatewayWorld
from segue.gateway.requests import admission
from segue.gateway.requests.admission import LoopWatch


async def _stall(watch: LoopWatch, times: int) -> None:
    for _ in range(times):
        watch.begin()
        await asyncio.sleep(admission.TICK_SECONDS * 0.9)
        time.sleep(admission.TICK_SECONDS * 0.5)
        await asyncio.sleep(0)


def test_a_loop_that_stays_late_is_overloaded_and_recovers() -> None:
    async def main() -> None:
        watch = LoopWatch(0.05)
        await _stall(watch, 1)
        seen = [watch.overloaded]
        await _stall_until(watch)
        seen.append(watch.overloaded)
        for _ in range(50):
            await asyncio.sleep(admission.TICK_SECONDS)
            if not watch.overloaded:
                break
        assert [*seen, watch.overloaded] == [False, True, False]

    asyncio.run(main())


def test_an_overloaded_gateway_refuses_with_a_reason_and_a_time_to_wait() -> None:
    async def main() -> None:
        world = GatewayWorld(model=ROUTES["chat"])
        await _stall_until(world.gateway._watch)
        body = {"model": "any", "max_tokens": 9, "messages": [{"role": "user", "content": "Hello"}]}
        refused = await world.ask("/v1/messages", body, headers={"anthropic-version": "2023-06-01"})
        assert refused.status == 529
        assert refused.headers["retry-after"] == "1"
        assert "late" in refused.json()["error"]["message"]

    asyncio.run(main())


async def _stall_until(watch: LoopWatch) -> None:
    watch._max_lag = 0.02
    for _ in range(20):
        await _stall(watch, 1)
        if watch.overloaded:
            return

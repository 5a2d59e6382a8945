from __future__ import annotations

import asyncio
from typing import Any

import pytest

from segue.providers.requests.abort import AbortedError, Waiting


def run(main: Any) -> None:
    """Also what goes wrong in a callback, where nobody waits for it, is an error."""

    async def watched() -> None:
        wrong: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: wrong.append(context))
        await main()
        await asyncio.sleep(0)
        assert wrong == []

    asyncio.run(watched())


def test_a_wait_ends_when_the_abort_is_set() -> None:
    async def main() -> None:
        abort = asyncio.Event()
        waiting = Waiting(abort)
        assert await waiting.for_(asyncio.sleep(0, "done")) == "done"
        asyncio.get_running_loop().call_later(0.01, abort.set)
        with pytest.raises(AbortedError):
            await waiting.for_(asyncio.sleep(20))
        waiting.close()

    run(main)


def test_a_wait_that_begins_after_the_abort_ends_at_once() -> None:
    async def main() -> None:
        abort = asyncio.Event()
        waiting = Waiting(abort)
        await waiting.for_(asyncio.sleep(0))
        abort.set()
        for _ in range(3):
            with pytest.raises(AbortedError):
                await waiting.for_(asyncio.sleep(20))
        waiting.close()

    run(main)


@pytest.mark.parametrize("abort", [None, asyncio.Event()])
def test_what_the_wait_was_for_may_time_out_or_be_cancelled_for_its_own_reasons(
    abort: asyncio.Event | None,
) -> None:
    async def late() -> None:
        raise TimeoutError

    async def main() -> None:
        waiting = Waiting(abort)
        with pytest.raises(TimeoutError):
            await waiting.for_(late())
        task = asyncio.ensure_future(waiting.for_(asyncio.sleep(20)))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        waiting.close()

    run(main)

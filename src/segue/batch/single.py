"""Requests of a batch sent one by one, some at a time: for providers without a batch endpoint, at their usual price."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from typing import TYPE_CHECKING

from segue.batch.outcome import keep_error, keep_reply
from segue.batch.state_file import Settled
from segue.batch.stored_requests import chat_request
from segue.errors import SegueError, is_transient
from segue.exchange.attempt import Attempt
from segue.providers.batches.wire_batch import ReplyReading
from segue.providers.models.prices import prices_of
from segue.routing.retry import pause_before
from segue.routing.route import provider_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from segue.batch.state_file import StateFile, StoredRequest
    from segue.conversation.events import Event
    from segue.providers.adapter import Providers
    from segue.routing.retry import RetrySettings
    from segue.routing.route import Route


async def ask_singly(
    state: StateFile,
    route: Route,
    providers: Providers,
    *,
    concurrency: int,
    retry: RetrySettings,
    settled: Callable[[], None],
) -> None:
    """Until all have an outcome, or the batch is cancelled. What was asked when a process was killed is asked again.

    Raises what would stop every request alike, a wrong key or an empty account; then they wait, and can be asked later.
    """
    state.wait_again([stored.place for stored in state.requests("asked")])
    left = deque(state.requests("waiting"))
    stops = list[SegueError]()

    async def work() -> None:
        while left and not stops and not state.cancelled:
            stored = left.popleft()
            outcome = await _answer(stored, state, route, providers, retry)
            if isinstance(outcome, SegueError):
                stops.append(outcome)
                state.wait_again([stored.place])
            else:
                state.settle([outcome])
                settled()

    async with asyncio.TaskGroup() as group:
        for _ in range(max(concurrency, 1)):
            group.create_task(work())
    if stops:
        raise stops[0]


async def _answer(
    stored: StoredRequest, state: StateFile, route: Route, providers: Providers, retry: RetrySettings
) -> Settled | SegueError:
    """Its outcome; or why no request of the batch can have one now."""
    provider = provider_of(route, providers)
    request = chat_request(stored, route, providers)
    tries, waited = 0, 0.0
    while True:
        state.ask(stored.place)
        tries += 1
        attempt = Attempt(provider, request)
        error = await attempt.run(_ignore)
        if attempt.sent is not None and attempt.sent.repairs:
            sent = attempt.sent
            state.note_reading(
                stored.place, ReplyReading(origin=sent.origin, repairs=tuple(map(str, sent.repairs)))
            )
        if error is None:
            reply = attempt.reply
            cost = prices_of(providers).cost_of(reply.usage, route.provider, route.model)
            kept = keep_reply(reply, cost, request.conversation.minted)
            return Settled(stored.place, "succeeded", kept, cost)
        pause = pause_before(tries, error, waited, retry, random.random) if is_transient(error) else None
        if error.remedy in ("log_in", "pay"):
            return error
        if pause is None or state.cancelled:
            return Settled(stored.place, "failed", keep_error(error))
        waited += pause
        await asyncio.sleep(pause)


def _ignore(attempt: Attempt, events: list[Event], data: bytes) -> None:
    """The reply is read when it is whole."""

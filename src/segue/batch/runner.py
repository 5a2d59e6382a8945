"""Performs the steps of a batch, one after the other, and writes down each before and after."""

from __future__ import annotations

import asyncio
import random
import time
from secrets import token_hex
from typing import TYPE_CHECKING, Final, assert_never, final

from msgspec import Struct, structs

from segue.batch import steps
from segue.batch.outcome import keep_error, keep_reply
from segue.batch.single import ask_singly
from segue.batch.state_file import Settled
from segue.batch.stored_requests import chat_request, document_of
from segue.errors import (
    InvalidRequestError,
    ProviderError,
    SegueError,
    TransportError,
    UsageError,
    is_transient,
    status_of,
)
from segue.providers.batches.wire_batch import ReplyReading, Sought, WireLine, WireResult
from segue.providers.models.prices import prices_of
from segue.routing.retry import RetrySettings, pause_before
from segue.routing.route import provider_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from segue.batch.state_file import Part, StateFile, StoredRequest
    from segue.providers.adapter import Providers
    from segue.providers.batches.wire_batch import BatchAccess, WireBatch
    from segue.routing.route import Route

_NO_ENDPOINT: Final = (404, 405, 501)
_GONE: Final = 404
_OVER: Final = (400, 404, 409)
"""What a provider answers to whoever cancels a batch that has ended by itself."""
_CHUNK: Final = 500
"""Results that are written at once."""
_LINE_BYTES: Final = 200
"""Of a line beside the body of its request, at most."""
_RETRY: Final = RetrySettings(attempts=6, first_pause=1.0, longest_pause=120.0, total=600.0)
"""Of what is asked about a batch: an outage of some minutes is waited for."""


@final
class Pace(Struct, frozen=True, kw_only=True):
    """How patient a run is, in seconds."""

    first_look: float = 2.0
    longest_pause: float = 60.0
    """Between two looks; each is half as long again as the one before."""
    settling: float = 5.0
    """After this a batch that was handed over can be found at its provider, if it got there at all."""
    retry: RetrySettings = _RETRY


@final
class BatchRunner:
    """One run of a batch, in the process that holds its lock."""

    def __init__(
        self,
        state: StateFile,
        route: Route,
        providers: Providers,
        *,
        pace: Pace = Pace(),  # noqa: B008 - frozen
        concurrency: int = 4,
    ) -> None:
        self._state = state
        self._route = route
        self._providers = providers
        self._pace = pace
        self._concurrency = concurrency
        self._retries = state.facts.retries
        self._report: Callable[[], None] = lambda: None
        self.trouble = ""
        """Why the last step failed, while it is tried again."""

    async def run(self, report: Callable[[], None], *, wait: bool) -> None:
        self._report = report
        state, failures, looked, pause = self._state, 0, False, self._pace.first_look
        while True:
            step = steps.next_step(state.mode, state.counts(), state.parts(), cancelled=state.cancelled)
            if isinstance(step, steps.Complete) or (isinstance(step, steps.Look) and looked and not wait):
                return
            if isinstance(step, steps.Look) and looked:
                await asyncio.sleep(pause)
                pause = min(pause * 1.5, self._pace.longest_pause)
            looked = isinstance(step, steps.Look)
            try:
                await self._perform(step)
                failures, self.trouble = 0, ""
            except SegueError as error:
                # What was begun stays begun, and the next step recovers it.
                failures += 1
                late = pause_before(failures, error, 0.0, self._pace.retry, random.random)
                if late is None or not is_transient(error):
                    raise
                self.trouble = error.message
                report()
                await asyncio.sleep(late)
            if state.cancelled:
                state.cancel()  # what waits again by now
            report()

    async def cancel(self) -> None:
        self._state.cancel()
        for part in self._state.parts():
            if part.state == "running" and not part.cancelled:
                await self._cancel(part)

    async def _perform(self, step: steps.Step) -> None:
        match step:
            case steps.Look(parts):
                await self._look(parts)
            case steps.Recover(part):
                await self._recover(part)
            case steps.HandOver():
                await self._hand_over_next()
            case steps.Cancel(part):
                await self._cancel(part)
            case steps.TakeResults(part):
                await self._take(part)
            case steps.AskSingly():
                await self._ask_singly()
            case steps.Complete():
                pass
            case _:
                assert_never(step)

    def _endpoint(self) -> BatchAccess | None:
        return provider_of(self._route, self._providers).capabilities.batches

    def _batches(self) -> BatchAccess:
        access = self._endpoint()
        if access is None:
            raise UsageError(
                f"{self._route.provider} has no batch endpoint any more, and a batch is there.",
                code="no_batch_endpoint",
                hint=f"Configure {self._route.provider} as it was when the batch was started.",
            )
        return access

    async def _hand_over_next(self) -> None:
        access, model = self._endpoint(), self._route.model
        mark = ""
        if access is None:
            self._state.mode = "single"
            return
        try:
            mark = await access.mark(model)
        except ProviderError as error:
            if error.status not in _NO_ENDPOINT or self._state.mode == "batch":
                raise
            self._state.mode = "single"
            return
        self._state.mode = "batch"
        token = f"segue-{token_hex(8)}"
        lines, readings, size = list[WireLine](), list[tuple[int, ReplyReading]](), 0
        for stored in self._state.requests("waiting"):
            body, reading = access.write(chat_request(stored, self._route, self._providers))
            size += len(body) + _LINE_BYTES
            if lines and (size > access.service.most_bytes or len(lines) >= access.service.most_requests):
                break
            lines.append(WireLine(f"{token}-{stored.place}", body))
            readings.append((stored.place, reading))
        part = self._state.begin_part(token, mark, time.time(), readings)
        await self._hand_over(access, part, lines)

    async def _hand_over(self, access: BatchAccess, part: Part, lines: Sequence[WireLine]) -> None:
        try:
            batch = await access.hand_over(part.token, self._route.model, lines)
        except ProviderError as error:
            status = status_of(error)
            if status is not None and status < 500:  # a refusal: there is no such batch
                self._state.abandon_part(part)
            raise
        self._state.update_part(part, batch)

    async def _recover(self, part: Part) -> None:
        access = self._batches()
        rest = part.began + self._pace.settling - time.time()
        await asyncio.sleep(min(max(rest, 0.0), self._pace.settling))
        stored = list(self._state.requests("asked", part.number))
        sought = Sought(token=part.token, mark=part.mark, count=len(stored), others=part.others)
        found = await access.find(self._route.model, sought)
        if found is not None:
            self._state.update_part(part, found, proven=access.service.proves_itself)
            return
        if self._state.cancelled:
            self._state.abandon_part(part)
            return
        lines = [
            WireLine(
                f"{part.token}-{one.place}",
                access.write(chat_request(one, self._route, self._providers))[0],
            )
            for one in stored
        ]
        await self._hand_over(access, part, lines)

    async def _look(self, parts: Sequence[Part]) -> None:
        access = self._batches()
        for part in parts:
            if part.batch is None:
                continue
            try:
                batch = await access.look(self._route.model, part.batch.id)
            except ProviderError as error:
                if error.status != _GONE:
                    raise
                self._give_up(part, error)
                continue
            if batch != part.batch:
                self._state.update_part(part, batch, proven=False)

    def _give_up(self, part: Part, error: ProviderError) -> None:
        """The provider has no such batch: it was deleted there, or is too old. Perhaps it is only looked for at the wrong place."""
        if not self._state.cancelled:
            error.hint = (
                f"{self._route.provider} does not have this batch any more, or not with this key and address."
                f" To give it up: segue batch cancel {self._state.facts.id}"
            )
            raise error
        asked = self._state.requests("asked", part.number)
        self._state.settle([Settled(one.place, "cancelled", keep_error(error)) for one in asked], part=part)

    async def _cancel(self, part: Part) -> None:
        if part.batch is not None:
            try:
                await self._batches().cancel(self._route.model, part.batch.id)
            except ProviderError as error:
                if error.status not in _OVER:
                    raise
        self._state.cancel_part(part)

    async def _take(self, part: Part) -> None:
        asked = {one.place: one for one in self._state.requests("asked", part.number)}
        batch = part.batch
        if batch is None:
            return
        if batch.state == "refused":
            self._take_refusal(part, batch, asked)
            return
        access, settled = self._batches(), list[Settled]()
        answered, proven = set[int](), part.proven
        async for result in access.results(self._route.model, batch):
            token, _, place = result.name.rpartition("-")
            if token != part.token and not proven:
                self._state.disprove_part(part, batch)
                return
            stored = asked.get(int(place)) if token == part.token and place.isdecimal() else None
            if stored is None or stored.place in answered:
                continue
            proven = True
            answered.add(stored.place)
            settled.append(self._settled(access, stored, result))
            if len(settled) == _CHUNK:
                self._state.settle(settled)
                settled.clear()
        missing = WireResult(name="", outcome=batch.missing)
        settled += [
            self._settled(access, stored, missing) for place, stored in asked.items() if place not in answered
        ]
        self._state.settle(settled, part=part)

    def _take_refusal(self, part: Part, batch: WireBatch, asked: Mapping[int, StoredRequest]) -> None:
        """Lines that the provider names have failed; the others wait again. If it names none, all have failed."""
        places, provider = sorted(asked), self._route.provider
        named = {places[one.place]: one for one in batch.refused if 0 <= one.place < len(places)}
        if named:
            failed = [
                Settled(place, "failed", keep_error(_refused(one.message, one.code, provider)))
                for place, one in named.items()
            ]
            self._state.abandon_part(part, also=failed)
            return
        why = keep_error(_refused(batch.problem or "The batch failed.", batch.problem_code, provider))
        self._state.settle([Settled(place, "failed", why) for place in places], part=part)

    def _settled(self, access: BatchAccess, stored: StoredRequest, result: WireResult) -> Settled:
        again = stored.attempts <= self._retries and not self._state.cancelled
        place, provider = stored.place, self._route.provider
        if result.outcome == "cancelled":
            return Settled(place, "cancelled")
        if result.outcome == "expired":
            return Settled(place, "waiting" if again else "expired", keep_error(_expired(provider)))
        error: SegueError | None = result.error
        if result.outcome == "succeeded":
            reply = access.read(result.body, stored.how_to_read)
            error = reply.error
            if error is None:
                cost = prices_of(self._providers).cost_of(reply.usage, provider, self._route.model)
                kept = keep_reply(reply, cost, document_of(stored)[0].minted)
                return Settled(place, "succeeded", kept, cost)
        error = error or _no_result(provider)
        return Settled(place, "waiting" if again and is_transient(error) else "failed", keep_error(error))

    async def _ask_singly(self) -> None:
        await ask_singly(
            self._state,
            self._route,
            self._providers,
            concurrency=self._concurrency,
            retry=structs.replace(self._pace.retry, attempts=self._retries + 1),
            settled=self._report,
        )


def _refused(message: str, code: str, provider: str) -> InvalidRequestError:
    error = InvalidRequestError(message, code=code or "batch_failed")
    error.provider = provider
    return error


def _expired(provider: str) -> SegueError:
    return TransportError(
        f"{provider} did not answer the request before its batch expired.", code="batch_expired"
    )


def _no_result(provider: str) -> SegueError:
    return TransportError(f"{provider} has no result for the request.", code="no_result")

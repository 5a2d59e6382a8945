"""An exchange: a request is put to the routes of a turn until one gives a reply, or something of a reply was shown.

Who asks is given: a chat, or a client of the gateway. It makes the requests, listens to the pieces, and remembers; what it
costs it is told for every attempt, however that ended. Whether to try again, in which way and where is decided here alone.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, final

from segue.errors import InvalidRequestError, JournalError, SegueError
from segue.exchange.remedies import REMEDIES, is_refusal, simplify
from segue.providers.headroom import LONGEST_WAIT
from segue.routing.router import GiveUp, GoTo, Retry
from segue.transcript.text_tools.react import MAX_CORRECTIONS, correction

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from segue.conversation.events import Event
    from segue.exchange.attempt import Attempt
    from segue.exchange.remedies import Remedying
    from segue.routing.route import Route
    from segue.routing.router import Routing


class Asker:
    """Who asks, listens and remembers. Subclass it; most of it has a default."""

    @property
    def shown(self) -> bool:
        """Whether something of the reply was shown: then nobody else may answer."""
        return False

    async def attempt(self, route: Route) -> Attempt:
        """What is asked, for this route. Raises what keeps it from being sent there."""
        raise NotImplementedError

    def take(self, attempt: Attempt, events: list[Event], data: bytes) -> Awaitable[None] | None:
        """A piece of the reply has come. What to wait for before more is read; None if there is nothing to."""

    def ended(self, route: Route, attempt: Attempt | None, error: SegueError | None) -> None:
        """An attempt is over, however it ended, or could not be made: count what it has cost."""

    def waits(self, route: Route, seconds: float) -> None:
        """The next attempt begins only when a limit of the provider is whole again."""

    async def correct(self, attempt: Attempt, note: str) -> None:
        """Remember a reply that cannot be read, and add a note that says why."""

    async def again(
        self, route: Route, attempt: Attempt | None, error: SegueError, step: Retry | GoTo | None
    ) -> None:
        """Another attempt follows: nobody sees what came of this one. `step`: where the router sends it; None if it stays,
        because a remedy may help."""

    async def shrink(self, route: Route, error: SegueError) -> bool:
        """Whether the conversation could be made shorter for a model that found it too long."""
        del route, error
        return False

    async def send_whole(self, route: Route, attempt: Attempt) -> bool:
        """Whether what its provider was believed to hold is sent from now on."""
        del route, attempt
        return False

    async def hold_nothing(self, route: Route, error: SegueError) -> bool:
        """Whether this provider is no longer asked to hold the conversation, if that is what it refuses."""
        del route, error
        return False

    async def simplify(self, route: Route, attempt: Attempt, error: SegueError) -> bool:
        """Whether what is asked can do without something that only another account or model may know. Raises if it must not."""
        del route, attempt, error
        return False


@final
class Exchange:
    """The exchanges of one turn, over one routing."""

    def __init__(self, asker: Asker, routing: Routing, *, abort: asyncio.Event | None = None) -> None:
        self.routing = routing
        self.ran = False
        """Whether a call of this turn has run: from then on it stays where it is."""
        self._asker = asker
        self._abort = abort
        self._corrections = 0
        self._refusal: SegueError | None = None
        """Why this route is asked for less than was wanted."""

    async def ask(self) -> tuple[Attempt | None, SegueError | None]:
        """The last attempt, and why there is no whole reply; None if there is, or it was aborted."""
        tried: set[Remedying] = set()
        while True:
            route = self.routing.route
            attempt, error = await self._try(route)
            if error is None:
                if attempt is None or (rejected := attempt.rejected) is None:
                    return attempt, None
                self._corrections += 1
                await self._asker.correct(attempt, correction(rejected))
                continue
            again, error = await self._goes_on(route, attempt, error, tried)
            if not again:
                return attempt, error

    async def _try(self, route: Route) -> tuple[Attempt | None, SegueError | None]:
        attempt: Attempt | None = None
        error: SegueError | None = None
        try:
            attempt = await self._asker.attempt(route)
            attempt.may_correct = self._corrections < MAX_CORRECTIONS
            await self._wait_for_limit(route, attempt)
            error = await attempt.run(self._asker.take, self._abort)
        except JournalError:  # no route's failure
            raise
        except SegueError as refused:
            error = refused
        except asyncio.CancelledError:
            self.routing.aborted()
            raise
        finally:
            self._asker.ended(route, attempt, error)
        if error is not None:
            error.provider = error.provider or route.provider
            # What is wrong with the request as it was meant is the asker's affair, not what is wrong with the lesser one.
            return attempt, self._refusal if self._refusal is not None and is_refusal(error) else error
        if attempt is not None and attempt.reply.finish == "cancelled":
            self.routing.aborted()
        elif attempt is not None:
            seconds, first = attempt.seconds, attempt.first_content
            self.routing.answered(attempt.usage, first, seconds=seconds, cost=attempt.cost)
        return attempt, None

    async def _goes_on(
        self, route: Route, attempt: Attempt | None, error: SegueError, tried: set[Remedying]
    ) -> tuple[bool, SegueError]:
        """Whether another attempt is made, and else the error to report."""
        try:
            helped = not self._asker.shown and await self._remedied(route, attempt, error, tried)
        except SegueError as refused:
            helped, error = False, refused
        step: Retry | GoTo | None = None
        if not helped:
            shown = self._asker.shown
            following = self.routing.failed(error, shown=shown, ran=self.ran)
            if type(following) is GiveUp:
                return False, following.error
            if shown or (type(following) is GoTo and self.ran):
                return False, error
            step = following
        if type(step) is GoTo:
            tried.clear()
            self._refusal = None
        await self._asker.again(route, attempt, error, step)
        if type(step) is Retry:
            await self._pause(step.after)
        return True, error

    async def _remedied(
        self, route: Route, attempt: Attempt | None, error: SegueError, tried: set[Remedying]
    ) -> bool:
        for remedy in REMEDIES:
            if remedy not in tried and await remedy(self._asker, route, attempt, error):
                tried.add(remedy)
                if remedy is simplify:
                    self._refusal = error
                return True
        return False

    async def _wait_for_limit(self, route: Route, attempt: Attempt) -> None:
        """Wait where a limit is known to be used up: whoever asks before only learns that once more."""
        seconds = attempt.provider.wait_for_limit(route.model)
        if 0.0 < seconds <= LONGEST_WAIT:
            self._asker.waits(route, seconds)
            await self._pause(seconds)

    async def _pause(self, seconds: float) -> None:
        if self._abort is None:
            await asyncio.sleep(seconds)
        elif seconds > 0:
            with suppress(TimeoutError):
                # A turn that is aborted meanwhile asks once more, and finds that it is.
                await asyncio.wait_for(self._abort.wait(), seconds)


async def ask_one_after_another(
    asker: Asker, routings: Iterable[Callable[[], Routing]]
) -> tuple[Attempt | None, SegueError | None]:
    """The same over several routings, each opened when those before it have failed."""
    attempt: Attempt | None = None
    error: SegueError | None = None
    for opened in routings:
        try:
            attempt, error = await Exchange(asker, opened()).ask()
        except SegueError as none_free:
            error = error or none_free
        if error is None or asker.shown or not _may_go_elsewhere(error):
            break
    return attempt, error


def _may_go_elsewhere(error: SegueError) -> bool:
    """Whether another route may take what this one did not: it failed, or refused in its own way."""
    return not isinstance(error, InvalidRequestError) and error.remedy != "report"

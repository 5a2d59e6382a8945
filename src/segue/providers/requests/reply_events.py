"""Events of a reply while it arrives: in batches, the end of the reply alone, with what only its response knows; and the same
for who asks for one event after another."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, final

from msgspec import structs

from segue.conversation.events import CallStarted, Event, Failed, Finished, TextDelta
from segue.dialects.errors import request_id
from segue.errors import ProtocolError, ProviderError
from segue.transports.transport import in_turn, shown_address

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping

    from segue.dialects.dialect import ReplyDecoder
    from segue.providers.adapter import ChatRequest, StreamEvent, TakeEvents
    from segue.providers.endpoint import Endpoint
    from segue.transports.transport import PushedResponse

EVENTS_AT_ONCE: Final = 100
_ENDS: Final = frozenset[type]({Finished, Failed})


class _OverError(Exception):
    """The reply has ended: what still comes of its response is nobody's."""


@final
class ReplyReader:
    """Reads one reply: its events in batches, held to the limits, with the conversation's own names of tools."""

    def __init__(
        self, decoder: ReplyDecoder, endpoint: Endpoint, names: dict[str, str], headers: Mapping[str, str]
    ) -> None:
        """`names`: the conversation's, of tools that were renamed. `headers`: of the response."""
        self._decoder = decoder
        self._endpoint = endpoint
        self._names = names
        self._headers = headers
        self._silent = True
        self._calls = 0
        self.end: Finished | Failed | None = None
        """What ended the reply, behind all batches."""

    async def read(self, response: PushedResponse, take: TakeEvents, check: Callable[[], None]) -> None:
        """Push all events but the reply's end. `check` is called behind each batch; what it raises ends the reading."""

        def some(portion: bytes) -> Awaitable[None] | None:
            batches = self._feed(portion)
            if len(batches) == 1 and self.end is None and len(batches[0]) < EVENTS_AT_ONCE:  # nearly always
                wait = take(batches[0])
                if wait is None:
                    check()
                return wait
            return in_turn(self._hand_over(batches, take, check))

        try:
            await response.push(some)
        except _OverError:
            if type(self.end) is Finished:
                await response.read_rest()
        for batch in self._close():
            if (wait := take(batch)) is not None:
                await wait

    def _hand_over(
        self, batches: list[list[StreamEvent]], take: TakeEvents, check: Callable[[], None]
    ) -> Iterator[Awaitable[None] | None]:
        for batch in batches:
            yield take(batch)
            check()
            if len(batch) == EVENTS_AT_ONCE:
                yield asyncio.sleep(0)  # others need the loop too
        if self.end is not None:
            raise _OverError

    def _feed(self, portion: bytes) -> list[list[StreamEvent]]:
        """Not too many events at once, and all but the reply's end."""
        events = self._decoder.feed(portion)
        if len(events) == 1 and type(events[0]) is TextDelta:  # nearly always
            self._silent = False
            return [events]  # type: ignore[list-item]  # nobody adds to it
        self._silent = self._silent and not portion
        return self._in_batches(events)

    def _close(self) -> list[list[StreamEvent]]:
        """Nothing more will come, if the reply has not ended yet."""
        if self.end is not None:
            return []
        if self._silent:
            raise ProtocolError(
                "No response body",
                code="empty_body",
                hint=f"Check that {shown_address(self._endpoint.base_url)} is the right address.",
            )
        return self._in_batches(self._decoder.close())

    def _in_batches(self, events: list[Event]) -> list[list[StreamEvent]]:
        kinds = [*map(type, events)]
        self._calls += kinds.count(CallStarted)
        surplus = self._calls - self._endpoint.limits.calls
        if surplus > 0:
            events = [*_before_last_calls(events, surplus), Failed(_too_many_calls(self._endpoint))]
        if surplus > 0 or not _ENDS.isdisjoint(kinds):
            place, end = next(
                (place, event) for place, event in enumerate(events) if isinstance(event, Finished | Failed)
            )
            self.end, events = self._completed(end), events[:place]
        if self._names:
            events = [self._with_own_name(event) if type(event) is CallStarted else event for event in events]
        return [[*events[at : at + EVENTS_AT_ONCE]] for at in range(0, len(events), EVENTS_AT_ONCE)]

    def _with_own_name(self, call: CallStarted) -> CallStarted:
        return structs.replace(call, name=self._names.get(call.name, call.name))

    def _completed(self, end: Finished | Failed) -> Finished | Failed:
        """An error in mid-stream has the request id of its response too."""
        match end:
            case Failed(error) if isinstance(error, ProviderError) and not error.request_id:
                error.request_id = request_id(self._headers)
        return end


async def pulled(
    push: Callable[[ChatRequest, TakeEvents], Awaitable[None]], request: ChatRequest
) -> AsyncGenerator[StreamEvent, None]:
    """The events of a reply one after another. No more of it is read before the next one is asked for."""
    waiting: list[list[StreamEvent]] = []
    came, asked = asyncio.Event(), asyncio.Event()

    async def take(events: list[StreamEvent]) -> None:
        waiting.append(events)
        came.set()
        asked.clear()
        await asked.wait()

    pushing = asyncio.ensure_future(push(request, take))
    pushing.add_done_callback(lambda _: came.set())
    try:
        while True:
            await came.wait()
            came.clear()
            if not waiting:
                break
            events = waiting.pop()
            for number, event in enumerate(events, 1):
                yield event
                if request.abort is not None and number < len(events) and request.abort.is_set():
                    yield Finished("cancelled")
                    return
            asked.set()
        await pushing
    finally:
        if not pushing.done():
            pushing.cancel()
            await asyncio.wait({pushing})


def _before_last_calls(events: list[Event], number: int) -> list[Event]:
    """The events before the last `number` calls begin."""
    for place in range(len(events) - 1, -1, -1):
        if type(events[place]) is CallStarted:
            number -= 1
            if not number:
                return events[:place]
    return []


def _too_many_calls(endpoint: Endpoint) -> ProtocolError:
    return ProtocolError(
        f"The reply of {endpoint.provider} has more than {endpoint.limits.calls} tool calls.",
        code="too_many_calls",
        hint=f"Ask again, or allow more: providers.{endpoint.provider}.limits.calls.",
    )

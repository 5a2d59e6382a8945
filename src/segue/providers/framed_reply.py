"""Replies whose events a host wraps in frames of its own, unwrapped: what reads or forwards them sees the wire itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from segue.dialects.streams.garbled_lines import reply_garbled
from segue.transports.transport import in_turn

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Iterator, Mapping

    from segue.providers.host_form import HostForm
    from segue.transports.transport import PushedResponse, TakePortion


def plain_response(form: HostForm, response: PushedResponse) -> PushedResponse:
    """The response as the wire's own host would give it."""
    from segue.dialects.streams.amazon_event_stream import CONTENT_TYPE  # noqa: PLC0415 - of one cloud

    if form.frames != "aws" or not response.headers.get("content-type", "").startswith(CONTENT_TYPE):
        return response
    return _PlainResponse(response)


@final
class _PlainResponse:
    def __init__(self, framed: PushedResponse) -> None:
        from segue.dialects.anthropic_messages.invoke_frames import EventsInFrames  # noqa: PLC0415 - as above

        self._framed = framed
        self._events = EventsInFrames()
        self.status = framed.status
        self.headers: Mapping[str, str] = {**framed.headers, "content-type": self._events.stream_type}

    async def portions(self) -> AsyncIterator[bytes]:
        async for portion in self._framed.portions():
            if events := self._events.feed(portion):
                yield events
            self._check()

    async def push(self, take: TakePortion) -> None:
        def unwrapped(portion: bytes) -> Iterator[Awaitable[None] | None]:
            if events := self._events.feed(portion):
                yield take(events)
            self._check()

        await self._framed.push(lambda portion: in_turn(unwrapped(portion)))

    async def read_rest(self) -> None:
        await self._framed.read_rest()

    async def read(self) -> bytes:
        return b"".join([portion async for portion in self.portions()])

    def _check(self) -> None:
        if self._events.is_broken:
            raise reply_garbled("a frame")

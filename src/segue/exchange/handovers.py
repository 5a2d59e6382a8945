"""Requests that were handed to a provider. From then on their input counts, and what came of the reply, however it ends.

What a provider counted holds if it can be true; where it counted nothing, or something that cannot be, an estimate does.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, Literal, final

from msgspec import structs

from segue.conversation.blocks import Media
from segue.conversation.events import (
    ArgumentsDelta,
    Event,
    Failed,
    Finished,
    ReasoningDelta,
    TextDelta,
    UsageReported,
)
from segue.conversation.usage import NO_USAGE, Usage
from segue.dialects.replies.usage_counts import counted
from segue.errors import SegueError
from segue.providers.token_counts import estimate_request, family_of, text_tokens

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterable, Sequence

    from segue.providers.adapter import ChatRequest

UNSEEN_TOKENS: Final = 65_536
"""What a provider may add to a request by itself: its instructions for tools, the results of searches."""
TOKENS_PER_BYTE: Final = 4
"""No text has so many; pages of a compressed document come near it."""
MOST_READ: Final = 10_000_000
"""Tokens that a request may be counted which refers to something that we have not seen: a file, an earlier reply, a page."""
MOST_WRITTEN: Final = 1_000_000
"""Tokens of one reply, thoughts that nobody is shown included."""

_AT_ONCE: Final = 10_000

End = Literal["running", "complete", "failed", "refused"]


@final
class Handover:
    """One request at one provider."""

    def __init__(
        self,
        route: str,
        model: str,
        read: Callable[[], int],
        *,
        size: int = 0,
        refers: Callable[[], bool] = lambda: False,
    ) -> None:
        """`read` estimates its input, of `size` bytes if they are known. `refers`: whether its provider may read more than what
        was sent."""
        self.route = route
        self._model = model
        self._read = read
        self._size = size
        self._refers = refers
        self._events: list[Event] = []
        self._counted = NO_USAGE
        self._end: End = "running"
        self._usage: Usage | None = None

    @property
    def usage(self) -> Usage:
        """What it has come to until now."""
        if self._usage is None:
            self._usage = self._reckoned()
        return self._usage

    @property
    def estimated(self) -> bool:
        """Whether the provider has not counted all of it."""
        if self._end == "refused":
            return False
        counted = self._counted
        return self._end != "complete" or counted.input_tokens is None or counted.output_tokens is None

    def note(self, events: list[Event]) -> list[Event]:
        """Something has come: all of it that can be believed."""
        self._usage = None
        self._events += events
        believed = events
        for event in events:
            kind = type(event)
            if kind is UsageReported:
                if self._is_plausible(event.usage):  # type: ignore[union-attr]
                    self._counted = self._counted.updated(event.usage)  # type: ignore[union-attr]
                else:
                    believed = [one for one in believed if one is not event]
            elif kind is Finished:
                self._end = "failed" if event.reason == "cancelled" else "complete"  # type: ignore[union-attr]
            elif kind is Failed:
                self.fail(event.error)  # type: ignore[union-attr]
        return believed

    def fail(self, error: SegueError) -> None:
        """It ended with an error, before a reply or in the midst of one."""
        self._usage = None
        self._end = "refused" if error.unbilled else "failed"

    def cancel(self, left: asyncio.CancelledError) -> None:
        """Whoever waited for it has left. It costs nothing if nothing was sent yet, which the cause says."""
        if isinstance(left.__cause__, SegueError):
            self.fail(left.__cause__)

    def _reckoned(self) -> Usage:
        if self._end == "refused":
            return NO_USAGE
        if not self.estimated:
            return self._counted
        counted = self._counted
        # Of a reply that breaks off, its provider has often counted the beginning only.
        written = _written_tokens(self._events, self._model)
        return structs.replace(
            counted,
            input_tokens=self._read() if counted.input_tokens is None else counted.input_tokens,
            output_tokens=max(counted.output_tokens or 0, written),
            estimated=True,
        )

    def _is_plausible(self, usage: Usage) -> bool:
        """By the size of what was sent, which is looked at closely only where the count is large."""
        claimed = structs.astuple(usage)[:5]
        if structs.astuple(counted(*claimed))[:5] != claimed:
            return False
        read, written = usage.input_tokens or 0, usage.output_tokens or 0
        if written > MOST_WRITTEN or read > MOST_READ:
            return False
        if read <= self._size * TOKENS_PER_BYTE + UNSEEN_TOKENS or self._refers():
            return True
        return not self._size and read <= self._read() * TOKENS_PER_BYTE + UNSEEN_TOKENS


def hand_over(route: str, request: ChatRequest, *, size: int, refers: bool = False) -> Handover:
    """A request for a reply, of so many bytes, or 0 if they are not known. `refers`: it names what only its provider has."""
    model = request.model
    return Handover(
        route,
        model,
        lambda: estimate_request(request, family_of(model)),
        size=size,
        refers=lambda: refers or _refers(request),
    )


def estimate_of(handovers: Sequence[Handover]) -> Usage | None:
    """What these came to together; None if their providers counted all of it."""
    if not any(one.estimated for one in handovers):
        return None
    return sum_of(one.usage for one in handovers)


def sum_of(usages: Iterable[Usage]) -> Usage:
    total: Usage | None = None  # nearly always it is one alone
    for usage in usages:
        total = usage if total is None else total.plus(usage)
    return NO_USAGE if total is None else total


def _refers(request: ChatRequest) -> bool:
    """Whether it may have its provider read more than what is in it: by tools of the provider's own, by names of files and
    pages, or by settings that we do not know."""
    options = request.options
    if options.extra or (options.own is not None and options.own.fields):
        return True
    if any(tool.kind == "server" for tool in request.tools):
        return True
    return any(
        type(block) is Media and not block.data
        for message in request.conversation.messages
        for block in message.blocks
    )


def _written_tokens(events: Sequence[Event], model: str) -> int:
    # Some at a time: of a reply without an end not even one more copy is made.
    portions = [events[at : at + _AT_ONCE] for at in range(0, len(events), _AT_ONCE)]
    return math.ceil(sum(text_tokens(_text_of(portion), family_of(model)) for portion in portions))


def _text_of(events: Sequence[Event]) -> str:
    return "".join(
        [event.text for event in events if isinstance(event, TextDelta | ReasoningDelta | ArgumentsDelta)]
    )

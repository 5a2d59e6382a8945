"""What carries a request to a provider: one function from a `WireRequest` to a `WireResponse`.

A transport knows nothing of dialects. Leaving the context of an answer gives its connection back, or closes it at once
when the body was not read to its end: that is how a reply is cancelled.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias, final

from msgspec import Struct

from segue.limits import ERROR_BYTES, LINE_BYTES, REPLY_BYTES, REPLY_CALLS

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager


TakePortion: TypeAlias = Callable[[bytes], Awaitable[None] | None]
"""Gets a portion of a body by a plain call. What it gives back is waited for before it gets more."""


def in_turn(steps: Iterator[Awaitable[None] | None]) -> Awaitable[None] | None:
    """Take steps one after another, each by a plain call; from the first on that has to be waited for, they are taken by whoever
    waits for what this gives back."""
    for wait in steps:
        if wait is not None:
            return _wait_in_turn(wait, steps)
    return None


async def _wait_in_turn(wait: Awaitable[None], steps: Iterator[Awaitable[None] | None]) -> None:
    await wait
    for following in steps:
        if following is not None:
            await following


@final
class Timeouts(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Seconds to wait, each for its own thing. `None`: for ever."""

    connect: float | None = 10.0
    first_byte: float | None = 300.0
    """From the request being sent to the first byte of the answer: a model may think for long."""
    idle: float | None = 120.0
    """Between two portions of an answer; comments in a stream are silence too."""
    total: float | None = None
    whole_reply: float | None = 600.0
    """Like `first_byte`, and never less, for a reply that is not streamed: its first byte is sent when all is written."""


@final
class ReplyLimits(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """What a server may send. Beyond it the answer is ended with an error, and what came until then is kept."""

    body_bytes: int = REPLY_BYTES
    """After decompression."""
    line_bytes: int = LINE_BYTES
    """Of one line of a stream."""
    error_bytes: int = ERROR_BYTES
    """Of an error's body; the rest is not read."""
    calls: int = REPLY_CALLS
    """Tool calls in one reply."""


@final
class WireRequest(Struct, frozen=True, kw_only=True):
    """One HTTP request. Its headers may hold a key, so it never shows itself."""

    method: str = "POST"
    url: str
    headers: Mapping[str, str] = {}
    body: bytes = b""
    timeouts: Timeouts = Timeouts()
    whole: bool = False
    """Whether a reply is asked for that is not streamed."""

    @property
    def first_wait(self) -> Literal["first_byte", "whole_reply"]:
        """The limit until the answer begins."""
        first, whole = self.timeouts.first_byte, self.timeouts.whole_reply
        if self.whole and first is not None and (whole is None or whole > first):
            return "whole_reply"
        return "first_byte"

    @property
    def place(self) -> str:
        return shown_address(self.url)

    def __repr__(self) -> str:
        return f"WireRequest({self.method} {self.place}, {len(self.body)} bytes)"


def shown_address(url: str) -> str:
    """The address as it may be shown: without its query, and without a name and password in it."""
    scheme, separator, rest = url.partition("?")[0].partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}{separator}{host.rpartition('@')[2]}{slash}{path}"


class WireResponse(Protocol):
    """What came back: the head at once, the body as it arrives."""

    @property
    def status(self) -> int: ...

    @property
    def headers(self) -> Mapping[str, str]:
        """With lower-case names."""
        ...

    def portions(self) -> AsyncIterator[bytes]:
        """The body in the portions in which it arrives; raises TransportError when it breaks off or stalls."""
        ...

    async def read(self) -> bytes:
        """The rest of the body as a whole."""
        ...


class PushedResponse(WireResponse, Protocol):
    """One whose body comes to whoever wants it, by a plain call for each portion: that takes neither the wake-up of a task nor a
    generator, and a stream has thousands of portions."""

    async def push(self, take: TakePortion) -> None:
        """Call `take` with each portion as soon as it is here, and return at the end of the body. Raises what `portions` raises, and
        what `take` raises: then no more is handed over."""
        ...

    async def read_rest(self) -> None:
        """Read on for a moment behind what was pushed, and throw it away: then the connection can be used again."""
        ...


class Transport(Protocol):
    """Carries one request, brings one answer; raises TransportError if there is no answer."""

    def __call__(self, request: WireRequest) -> AbstractAsyncContextManager[WireResponse]: ...

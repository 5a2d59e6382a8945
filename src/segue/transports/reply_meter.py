"""An answer that is held to its limits: bytes of its body and of one line, and silence, in which comments count for nothing.

It stands between a transport and whoever reads, so that every transport is held to the same.
"""

from __future__ import annotations

from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING, Final, final

from segue.errors import ProtocolError, TransportError
from segue.transports.deadline import Deadline

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from segue.transports.transport import ReplyLimits, TakePortion, WireRequest, WireResponse

REST_SECONDS: Final = 0.2
TOO_LARGE: Final = frozenset({"reply_too_large", "line_too_long"})
"""The codes of the errors for answers that go beyond their limits."""
_FRAMED: Final = "application/vnd.amazon.eventstream"
"""A body of frames that bear their length: it has no lines, and no comments."""
_NOT_CONTENT: Final = (b":", b"\n", b"\r")


@final
class MeteredResponse:
    """The answer of another transport, of which no more than allowed is read."""

    def __init__(self, response: WireResponse, request: WireRequest, limits: ReplyLimits) -> None:
        self.status = response.status
        self.headers = response.headers
        self._response = response
        self._request = request
        self._limits = limits
        self._more: Callable[[], Awaitable[bytes]]
        self._size = 0
        self._silent_since = 0.0
        self._begun = False
        self._line = 0
        """Bytes of the line that is not over yet, wherever the stream is cut."""
        self._in_comment = False
        self._has_lines = not response.headers.get("content-type", "").startswith(_FRAMED)

    def portions(self) -> AsyncIterator[bytes]:
        """Raises ProtocolError `reply_too_large` or `line_too_long`, and TransportError as the transport does."""
        self._more = self._response.portions().__anext__
        self._silent_since = monotonic()
        return self

    def __aiter__(self) -> MeteredResponse:
        return self

    async def __anext__(self) -> bytes:
        return self._checked(await self._more())

    async def push(self, take: TakePortion) -> None:
        """As `PushedResponse` has it. Of a transport that cannot push, the portions are pulled."""
        portions = self._response.portions()
        self._more, self._silent_since = portions.__anext__, monotonic()
        push: Callable[[TakePortion], Awaitable[None]] | None = getattr(portions, "push", None)
        if push is not None:
            await push(lambda portion: take(self._checked(portion)))
            return
        async for portion in self:
            if (wait := take(portion)) is not None:
                await wait

    async def read_rest(self) -> None:
        deadline = Deadline()
        deadline.begin(REST_SECONDS)
        with suppress(TimeoutError, TransportError), deadline:
            async for _ in self:
                pass

    def _checked(self, portion: bytes) -> bytes:
        size, limits = len(portion), self._limits
        self._size += size
        if self._size > limits.body_bytes:
            raise self._too_large(limits.body_bytes)
        if not self._has_lines:
            self._silent_since, self._begun = monotonic(), True
            return portion
        if (
            self._line + size <= limits.line_bytes
            and not self._in_comment
            and portion.endswith(b"\n")
            and not portion.startswith(_NOT_CONTENT)
        ):
            # Nearly all portions: some lines, of which the first has content.
            self._silent_since, self._begun, self._line = monotonic(), True, 0
            return portion
        if self._has_content(portion):
            self._silent_since, self._begun = monotonic(), True
        else:
            self._check_silence(monotonic() - self._silent_since)
        if self._longest_line(portion) > limits.line_bytes:
            raise ProtocolError(
                f"{self._request.place} sent a line of more than {_amount(limits.line_bytes)}.",
                code="line_too_long",
                hint="Use another provider, or allow more: limits.line_bytes of the provider.",
            )
        return portion

    async def read(self) -> bytes:
        """Raises ProtocolError `reply_too_large`."""
        pieces, whole = await self._read_up_to(self._limits.body_bytes)
        if not whole:
            raise self._too_large(self._limits.body_bytes)
        return b"".join(pieces)

    async def read_error(self) -> bytes:
        """The start of an error's body: what explains it is there."""
        return b"".join((await self._read_up_to(self._limits.error_bytes))[0])

    async def _read_up_to(self, most: int) -> tuple[list[bytes], bool]:
        """The body, and whether it is all of it."""
        pieces, size = [], 0
        async for portion in self._response.portions():
            pieces.append(portion[: most - size])
            size += len(portion)
            if size > most:
                return pieces, False
        return pieces, True

    def _check_silence(self, seconds: float) -> None:
        what = "idle" if self._begun else self._request.first_wait
        limit: float | None = getattr(self._request.timeouts, what)
        if limit is not None and seconds > limit:
            raise TransportError(
                f"{self._request.place} sent nothing but comments for {limit:g} s.",
                code=f"{what}_timeout",
                hint=f"Try again, or allow more time: timeouts.{what}.",
            )

    def _too_large(self, most: int) -> ProtocolError:
        return ProtocolError(
            f"The answer of {self._request.place} is larger than {_amount(most)}.",
            code="reply_too_large",
            hint="Use another provider, or allow more: limits.body_bytes of the provider.",
        )

    def _longest_line(self, portion: bytes) -> int:
        """Bytes of the longest line in a portion, with what came of it before."""
        end = portion.rfind(b"\n")
        if end < 0:
            self._line += len(portion)
            return self._line
        longest = max(self._line + portion.find(b"\n"), len(portion) - end)
        self._line = len(portion) - end - 1
        return longest

    def _has_content(self, portion: bytes) -> bool:
        """Whether a portion holds anything but comments and blank lines."""
        if portion and not portion.startswith(_NOT_CONTENT) and not self._in_comment:
            self._in_comment = portion.startswith(b":", portion.rfind(b"\n") + 1)
            return True
        *lines, rest = portion.replace(b"\r", b"\n").split(b"\n")
        content = False
        for number, line in enumerate((*lines, rest)):
            continued = number == 0 and self._line > 0
            is_comment = self._in_comment if continued else line.startswith(b":")
            content = content or (bool(line) and not is_comment)
            self._in_comment = is_comment and number == len(lines)
        return content


def _amount(size: int) -> str:
    return f"{size >> 20} MiB" if size >= 1 << 20 else f"{size} bytes"

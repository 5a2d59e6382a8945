"""The one budget of bytes that requests and background replies hold in this process, whoever sent them.

A body is charged as it arrives, before it is known what is in it, and by its values when it is whole: a short value takes many
times its bytes. What is read from a body takes at most eight times what it was charged (tests/laws/test_memory.py), so the
budget bounds the memory of the process.
"""

from __future__ import annotations

import re
from collections import Counter
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final, final

from segue.errors import InvalidRequestError
from segue.gateway.requests.client_errors import busy_error

if TYPE_CHECKING:
    from collections.abc import Callable

VALUE_BYTES: Final = 80
"""What each value of a body is charged beside its bytes."""
SHARE: Final = 2
"""One caller holds at most this part of the budget, so that the others are served beside it."""

_SIGNS: Final = b"{[,"
"""Before each value but the first of all stands one of these, or a key."""
_EACH_SIGN: Final = tuple([bytes([sign]) for sign in _SIGNS])
_NOT_SIGNS: Final = bytes(set(range(256)) - set(b'"' + _SIGNS))
_NOT_COUNTED: Final = bytes(set(range(256)) - set(_SIGNS))
_AT_ONCE: Final = 1 << 17
"""Bytes that are looked at in one go: what is copied for it is small, and still in the cache."""
_DENSE: Final = 32
"""Where more than every so many bytes are such a sign, all bytes are looked at one by one."""
_STRING: Final = re.compile(rb'"[^"]*"?')


def most_values(body: bytes) -> int:
    """No fewer than the values in a body of JSON, at the speed of the memory: what stands in texts is counted, too."""
    # To remove a sign jumps from one to the next (`memchr`): in text, where they are rare, that takes a fifth of looking at each
    # byte, as `translate` and `count` do. Where they are dense it takes many times as long: then it is done for one piece at most.
    count, dense = 0, False
    for at in range(0, len(body), _AT_ONCE):
        piece = body[at : at + _AT_ONCE]
        if dense:
            found = len(piece.translate(None, _NOT_COUNTED))
        else:
            found = sum([len(piece) - len(piece.replace(sign, b"")) for sign in _EACH_SIGN])
        count, dense = count + found, dense or found * _DENSE > len(piece)
    return count


def values_in(body: bytes, most: int) -> int:
    """The same, without what stands in texts; more than `most` if there are more. It takes several times as long."""
    # Without escapes every quotation mark begins or ends a text, and at most every second text is a key.
    bare = body.replace(b"\\\\", b"").replace(b'\\"', b"").translate(None, _NOT_SIGNS)
    texts = bare.count(b'"') // 4
    return texts if texts > most else len(bare) - sum(len(text[0]) for text in _STRING.finditer(bare))


def weight_of(body: bytes) -> int:
    """What a body of JSON is charged."""
    return len(body) + VALUE_BYTES * most_values(body)


@final
class ByteBudget:
    """Of one process."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.held = 0
        self._by_caller: Counter[str] = Counter()
        self._spare: Callable[[int], None] = lambda _: None

    def when_short(self, spare: Callable[[int], None]) -> None:
        """`spare` gives back what is only kept for convenience: at least so many bytes, if there are as many."""
        self._spare = spare

    def open(self, caller: str = "") -> Holding:
        """`caller`: whose share it counts for; empty for nobody's."""
        return Holding(self, caller)

    def take(self, size: int, caller: str) -> None:
        """Raises if there is no room."""
        share = self._most // SHARE if caller else self._most
        if size > share:
            raise InvalidRequestError(
                f"The request takes more memory than the {share} bytes that one caller may hold.",
                code="request_too_large",
                status=413,
                hint="Shorten the conversation, or raise gateway.limits.held_bytes.",
            )
        missing = max(self.held + size - self._most, self._by_caller[caller] + size - share)
        if missing > 0:
            self._spare(missing)
        if self._by_caller[caller] + size > share:
            raise busy_error("holds as many bytes of this caller's requests as it may")
        if self.held + size > self._most:
            raise busy_error("holds as many bytes of requests as it may")
        self.held += size
        self._by_caller[caller] += size

    def give_back(self, size: int, caller: str) -> None:
        self.held -= size
        self._by_caller[caller] -= size
        if not self._by_caller[caller]:
            del self._by_caller[caller]


@final
class Holding:
    """What one request, or one reply that is kept, holds of the budget."""

    def __init__(self, budget: ByteBudget, caller: str) -> None:
        self._budget = budget
        self._caller = caller
        self._closed = False
        self.size = 0

    def add(self, size: int) -> None:
        """Raises if there is no room; then it holds what it held."""
        if not self._closed:
            self._budget.take(size, self._caller)
            self.size += size

    def close(self) -> None:
        """Give all of it back. Nothing is added from now on."""
        size, self.size = self.size, 0
        self._closed = True
        self._budget.give_back(size, self._caller)

    def __enter__(self) -> Holding:
        self._token = _REQUEST.set(self)
        return self

    def __exit__(self, *_: object) -> None:
        _REQUEST.reset(self._token)
        self.close()


_REQUEST: ContextVar[Holding | None] = ContextVar("_REQUEST", default=None)


def hold_for_request(data: bytes) -> None:
    """Count what was fetched for the request that is being served: a short one may refer to a long conversation."""
    holding = _REQUEST.get()
    if holding is not None:
        holding.add(weight_of(data))

"""Whether something that does not answer is asked again, and by whom: nobody waits for it but one, after every rest."""

from __future__ import annotations

from copy import copy
from time import monotonic
from typing import TYPE_CHECKING, final

if TYPE_CHECKING:
    from segue.errors import StoreUnreachableError


@final
class Circuit:
    """Of one store. Threads and loops may share it."""

    def __init__(self, rest: float) -> None:
        """`rest`: for so many seconds after it did not answer, nobody asks it. 0: everybody always does."""
        self._rest = rest
        self._failure: StoreUnreachableError | None = None
        self._until = 0.0
        self._answered = float("-inf")

    def enter(self, seconds: float) -> float:
        """The moment at which somebody asks, who waits so many seconds at most. Raises at once while nobody should."""
        now = monotonic()
        if self._failure is not None:
            if now < self._until:
                unasked = copy(self._failure)  # with a traceback of its own
                unasked.may_be_done = False
                raise unasked
            self._until = now + seconds  # this one finds out for all others
        return now

    def answered(self) -> None:
        self._answered = monotonic()
        self._failure = None

    def failed(self, began: float, failure: StoreUnreachableError) -> None:
        """Somebody who asked at that moment got no answer. If others got one since, it is not the store that is silent."""
        if self._rest and not self.has_answered_since(began):
            self._failure = failure.with_traceback(None)
            self._until = monotonic() + self._rest

    def has_answered_since(self, moment: float) -> bool:
        return self._answered >= moment

"""One budget of bytes for several caches: where they hold more together, the largest drops what it used longest ago.

What a cache drops only costs time. So no part of the budget is set aside for one of them: the requests of clients decide
which kind is worth how much.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, Protocol, TypeVar, final

_K = TypeVar("_K", bound=Hashable)
_V = TypeVar("_V")


class BoundedCache(Protocol):
    """What is kept only to be faster, oldest first."""

    budget: CacheBudget

    @property
    def held(self) -> int:
        """The bytes that it takes, by an estimate that is rather too high."""
        ...

    def drop_oldest(self) -> None:
        """Drop what was not used longest; there is something."""
        ...


@final
class CacheBudget:
    """Of one process, or of one cache alone. All of its caches belong to one thread."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._caches: dict[str, BoundedCache] = {}
        self._at_most = 0
        """No more is held: what was counted last, and what has come since. To count it for each value that is kept takes longer
        than to keep the value."""

    def share(self, **caches: BoundedCache) -> None:
        """Bound these caches together, with those that were given before."""
        self._caches |= caches
        for cache in caches.values():
            cache.budget = self
        self.fit(self.held)

    @property
    def held(self) -> int:
        return sum([cache.held for cache in self._caches.values()])

    def by_kind(self) -> dict[str, int]:
        """The bytes that each cache takes."""
        return {kind: cache.held for kind, cache in self._caches.items()}

    def fit(self, grown: int) -> None:
        """To be called by a cache that has grown by so many bytes."""
        self._at_most += grown
        if self._at_most <= self.most:
            return
        while (held := self.held) > self.most:
            max(self._caches.values(), key=_held).drop_oldest()
        self._at_most = held


def _held(cache: BoundedCache) -> int:
    return cache.held


class SizedCache(Generic[_K, _V]):
    """Values by their keys, each with the bytes that it takes."""

    budget: CacheBudget

    def __init__(self, most: int) -> None:
        """`most`: the bytes that it holds as long as it shares no other budget."""
        self._kept: OrderedDict[_K, tuple[_V, int]] = OrderedDict()
        self.held = 0
        CacheBudget(most).share(values=self)

    def get(self, key: _K) -> _V | None:
        if (kept := self._kept.get(key)) is None:
            return None
        self._kept.move_to_end(key)
        return kept[0]

    def keep(self, key: _K, value: _V, size: int) -> None:
        """Instead of what the key had. What alone is larger than the budget is not kept, and drops nothing else."""
        self.drop(key)
        if size > self.budget.most:
            return
        self._kept[key] = value, size
        self.held += size
        self.budget.fit(size)

    def drop(self, key: _K) -> None:
        if (kept := self._kept.pop(key, None)) is not None:
            self.held -= kept[1]

    def drop_oldest(self) -> None:
        self.drop(next(iter(self._kept)))

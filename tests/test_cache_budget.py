"""Caches that share a budget hold no more than that together, and the largest gives first."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from segue.cache_budget import CacheBudget


class Cache:
    """Sizes, oldest first."""

    budget: CacheBudget

    def __init__(self) -> None:
        self.sizes: list[int] = []

    @property
    def held(self) -> int:
        return sum(self.sizes)

    def keep(self, size: int) -> None:
        self.sizes.append(size)
        self.budget.fit(size)

    def drop_oldest(self) -> None:
        del self.sizes[0]


@given(st.lists(st.tuples(st.sampled_from(["one", "two", "three"]), st.integers(1, 150))))
def test_caches_never_hold_more_than_their_budget_together(kept: list[tuple[str, int]]) -> None:
    caches = {"one": Cache(), "two": Cache(), "three": Cache()}
    budget = CacheBudget(100)
    budget.share(**caches)
    for name, size in kept:
        caches[name].keep(size)
        assert budget.held == sum(budget.by_kind().values()) <= 100


def test_the_largest_cache_drops_what_is_oldest() -> None:
    one, two = Cache(), Cache()
    CacheBudget(100).share(one=one, two=two)
    for cache, size in ((one, 40), (one, 30), (two, 20), (two, 25)):
        cache.keep(size)
    assert (one.sizes, two.sizes) == ([30], [20, 25])


def test_caches_that_are_put_under_another_budget_fit_it_at_once() -> None:
    cache = Cache()
    CacheBudget(100).share(one=cache)
    for _ in range(5):
        cache.keep(20)
    CacheBudget(50).share(one=cache)
    assert cache.sizes == [20, 20]

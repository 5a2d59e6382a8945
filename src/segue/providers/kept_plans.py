"""What was planned for a session, with which the next request to the same target begins."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final, final

from segue.cache_budget import CacheBudget

if TYPE_CHECKING:
    from segue.conversation.blocks import Origin
    from segue.dialects.plan import PlanState

KEPT_BYTES: Final = 64 << 20
"""Conversations are kept whole, so only the most recent ones."""
_SESSION_BYTES: Final = 4096
_STEP_BYTES: Final = 256
_HELD: Final = 2
"""What is kept of a session takes so much, as much for each step, and its request so many times."""


@final
class KeptPlans:
    """What was planned last for each session and target."""

    budget: CacheBudget

    def __init__(self, max_bytes: int = KEPT_BYTES) -> None:
        self._kept: OrderedDict[tuple[str, Origin], tuple[PlanState, int]] = OrderedDict()
        self.held = 0
        CacheBudget(max_bytes).share(plans=self)

    def get(self, session: str, target: Origin) -> PlanState | None:
        found = self._kept.get((session, target))
        return found[0] if found is not None else None

    def keep(self, session: str, target: Origin, state: PlanState, body: int) -> None:
        """`body`: the bytes of the request."""
        size = _SESSION_BYTES + _STEP_BYTES * len(state.transcript.steps) + _HELD * body
        self._drop((session, target))
        self._kept[session, target] = state, size
        self.held += size
        self.budget.fit()

    def drop_oldest(self) -> None:
        self._drop(next(iter(self._kept)))

    def _drop(self, key: tuple[str, Origin]) -> None:
        if (old := self._kept.pop(key, None)) is not None:
            self.held -= old[1]

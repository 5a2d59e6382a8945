"""What was planned for a session, with which the next request to the same target begins."""

from __future__ import annotations

from typing import Final, final

from segue.cache_budget import SizedCache
from segue.conversation.blocks import Origin
from segue.dialects.plan import PlanState

KEPT_BYTES: Final = 64 << 20
"""Conversations are kept whole, so only the most recent ones."""
_SESSION_BYTES: Final = 4096
_STEP_BYTES: Final = 256
_HELD: Final = 2
"""What is kept of a session takes so much, as much for each step, and its request so many times."""


@final
class KeptPlans(SizedCache[tuple[str, Origin], PlanState]):
    """What was planned last for each session and target."""

    def __init__(self, most: int = KEPT_BYTES) -> None:
        super().__init__(most)

    def keep_plan(self, session: str, target: Origin, state: PlanState, body: int) -> None:
        """`body`: the bytes of the request."""
        size = _SESSION_BYTES + _STEP_BYTES * len(state.transcript.steps) + _HELD * body
        self.keep((session, target), state, size)

"""The turn as steps, for engines that run them on many machines: the step that is due, and its outcome, as data."""

from __future__ import annotations

from segue.namespace import public_names

_HOMES = {
    "segue.chat.steps": (
        "Ask Done Limited Outcome RunTools Sleep Step TurnState Wait Woken next_step take turn_of"
    ),
    "segue.chat.stepwise": "StepwiseChat",
}
__all__, __getattr__, __dir__ = public_names(__name__, _HOMES)

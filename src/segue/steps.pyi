# Written by python -m scripts.namespaces --write

from segue.chat.steps import Ask, Done, Limited, Outcome, RunTools, Sleep, Step, TurnState, Wait, Woken, next_step, take, turn_of
from segue.chat.stepwise import StepwiseChat

__all__ = [
    "Ask",
    "Done",
    "Limited",
    "Outcome",
    "RunTools",
    "Sleep",
    "Step",
    "StepwiseChat",
    "TurnState",
    "Wait",
    "Woken",
    "next_step",
    "take",
    "turn_of",
]

"""Every target, at an address of its own."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from hypothesis import note
from hypothesis import strategies as st

from segue.dialects.registry import DIALECTS
from segue.transcript.rules import Rules

RULES: dict[str, Rules] = {name: dialect.rules for name, dialect in DIALECTS.items()}
TARGETS: dict[str, Rules] = {
    name: rules.at(provider="provider", endpoint="https://provider.invalid", model="model-1")
    for name, rules in RULES.items()
}
targets = st.sampled_from(list(TARGETS.values()))


class Replay:
    """What one example drew, drawn once and then given again to every further target.

    Drawing costs a hundred times as much as rendering, so a history made for one target, in which that target wrote
    some of the messages, is shown to all of them.
    """

    def __init__(self, data: st.DataObject) -> None:
        self._data = data
        self._drawn: list[Any] = []
        self._next = 0

    def draw(self, strategy: st.SearchStrategy[Any]) -> Any:
        if self._next == len(self._drawn):
            self._drawn.append(self._data.draw(strategy))
        self._next += 1
        return self._drawn[self._next - 1]

    def again(self) -> None:
        """From the start, but for the target itself."""
        self._next = 1


def for_every_target(law: Callable[..., None]) -> Callable[..., None]:
    """Check a law for one target of hypothesis's choice, then for all the others with the same draws."""

    @wraps(law)
    def check(data: st.DataObject) -> None:
        replay = Replay(data)
        home = replay.draw(targets)
        for rules in (home, *(rules for rules in TARGETS.values() if rules is not home)):
            replay.again()
            note(f"target: {rules.target.dialect}, drawn for {home.target.dialect}")
            law(rules, replay)

    del check.__wrapped__  # hypothesis must see our own signature
    check.__annotations__ = {"data": st.DataObject, "return": None}
    return check

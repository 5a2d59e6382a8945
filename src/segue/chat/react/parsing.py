"""A whole ReAct reply, line by line."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias, final

from msgspec import Struct

Problem: TypeAlias = Literal["bad_json", "not_an_object", "no_action_name", "cut_off", "nothing_to_do"]


@final
class Parsed(Struct, frozen=True, kw_only=True):
    """What a reply says. A final answer ends the turn, also beside an action."""

    thought: str = ""
    action: str | None = None
    action_input: dict[str, Any] | None = None
    final_answer: str | None = None
    problem: Problem | None = None
    """Why the action cannot be taken; `correction` asks the model for a better one."""
    raw_input: str = ""
    """The action input as it was written."""

    @property
    def calls(self) -> bool:
        """Whether a tool is to be called."""
        return self.action is not None and self.final_answer is None and self.problem is None


def parse_react(text: str) -> Parsed:
    raise NotImplementedError


def correction(parsed: Parsed) -> str:
    """What to tell the model about a problem, its own words quoted."""
    raise NotImplementedError

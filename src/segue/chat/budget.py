"""What a turn may cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from msgspec import Struct

from segue.errors import UsageError
from segue.limits import MAX_EXCHANGES

if TYPE_CHECKING:
    from segue.providers.models.prices import Bill


OVER_BUDGET = "over_budget"
"""The code of the warning that a turn was stopped by its budget."""


@final
class Budget(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The limits of a turn. It is held against them after each exchange."""

    max_turns: int = MAX_EXCHANGES
    """Exchanges with the model."""
    max_tokens: int | None = None
    """Of input and output together."""
    max_cost: float | None = None
    """Dollars."""
    max_corrections: int = 1
    """How often the model is asked again for an answer that does not have its type, or that its check does not accept."""

    def __post_init__(self) -> None:
        if self.max_turns < 1:
            raise UsageError(
                f"A turn of {self.max_turns} exchanges cannot be taken.",
                code="bad_budget",
                path="max_turns",
                hint="Allow at least one.",
            )

    def exceeded(self, bill: Bill) -> str:
        """Which limit was reached; empty if none was."""
        if self.max_tokens is not None and (used := bill.usage.total_tokens or 0) >= self.max_tokens:
            return f"it has used {used} of {self.max_tokens} tokens"
        if self.max_cost is not None and (cost := bill.at_least) >= self.max_cost:
            return f"it has cost {cost:.4f} of {self.max_cost:.4f} dollars"
        return ""

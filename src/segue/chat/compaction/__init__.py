"""Making a conversation shorter without splitting a call from its result."""

from __future__ import annotations

from segue.chat.compaction.compact import (
    Shortened,
    Strategy,
    Summarise,
    budget_for,
    compact,
    needs_compaction,
)

__all__ = ["Shortened", "Strategy", "Summarise", "budget_for", "compact", "needs_compaction"]

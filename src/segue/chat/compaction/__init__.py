"""Making a conversation shorter without splitting a call from its result."""

from __future__ import annotations

from segue.chat.compaction.compact import (
    CompactionResult,
    Strategy,
    Summarise,
    Summariser,
    budget_for,
    compact,
    needs_compaction,
)

__all__ = [
    "CompactionResult",
    "Strategy",
    "Summarise",
    "Summariser",
    "budget_for",
    "compact",
    "needs_compaction",
]

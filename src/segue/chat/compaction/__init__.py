"""Making a conversation shorter without splitting a call from its result."""

from __future__ import annotations

from segue.chat.compaction.compact import Shortened, Strategy, Summarise, compact, needs_compaction

__all__ = ["Shortened", "Strategy", "Summarise", "compact", "needs_compaction"]

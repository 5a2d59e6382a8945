"""The defaults that both the configuration and the library offer; each is written here and nowhere else."""

from __future__ import annotations

from typing import Final

MAX_EXCHANGES: Final = 10
"""Requests to the model within one turn."""
COMPACT_AT: Final = 0.85
"""Share of the room for input at which a conversation is compacted."""
COMPACT_TO: Final = 0.5
"""Share that is left of it afterwards. Far below `COMPACT_AT`: every compaction costs the provider's cache."""

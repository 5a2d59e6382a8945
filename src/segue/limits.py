"""The defaults that both the configuration and the library offer; each is written here and nowhere else."""

from __future__ import annotations

from typing import Final

MAX_EXCHANGES: Final = 10
"""Requests to the model within one turn."""
DEFAULT_MODEL: Final = "default"
"""The name for whichever model a provider uses where none is named."""
COMPACT_AT: Final = 0.85
"""Share of the room for input at which a conversation is compacted."""
COMPACT_TO: Final = 0.5
"""Share that is left of it afterwards. Far below `COMPACT_AT`: every compaction costs the provider's cache."""

REPLY_BYTES: Final = 128 << 20
"""Of the body of an answer, after decompression. A stream of 100,000 tokens is 30 MB, a batch of embeddings 80."""
LINE_BYTES: Final = 32 << 20
"""Of one line of a stream: a picture comes in one."""
ERROR_BYTES: Final = 64 << 10
"""Of the body of an error that are read; the rest is not."""
REPLY_CALLS: Final = 256
"""Tool calls in one reply."""

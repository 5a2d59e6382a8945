"""A deterministic estimate of tokens: four bytes of UTF-8 are one token, as the providers' own rule of thumb says."""

from __future__ import annotations

import msgspec


def count(text: str) -> int:
    return -(-len(text.encode("utf-8", "surrogatepass")) // 4)


def count_value(value: object) -> int:
    """Tokens of a JSON value as it would be written, e.g. a tool definition or a message."""
    return -(-len(msgspec.json.encode(value)) // 4)

"""A body of JSON as text to read."""

from __future__ import annotations

import msgspec


def formatted(body: bytes, most_lines: int) -> str:
    """Indented. What is no JSON stays as it is; of what is too long the first lines are shown."""
    try:
        text = msgspec.json.format(body, indent=2).decode("utf-8", "replace")
    except msgspec.DecodeError:
        text = body.decode("utf-8", "replace")
    lines = text.splitlines()
    if len(lines) > most_lines:
        return "\n".join(lines[:most_lines]) + f"\n… {len(lines) - most_lines:,} more lines"
    return text

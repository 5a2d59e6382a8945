"""Vectors in which texts that share words lie close together, of the length that was asked for (GEM-47)."""

from __future__ import annotations

import hashlib
import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from segue.emulators.gemini.typed_contents import Body


def embedding(request: Body, facts: Mapping[str, Any]) -> dict[str, Any]:
    size = int(request.get("output_dimensionality") or facts.get("embedding", 768))
    text = " ".join(part.get("text", "") for part in request.get("content", {}).get("parts", ()))
    return {"values": vector(text, min(max(size, 1), facts.get("embedding", 768)))}


def vector(text: str, size: int) -> list[float]:
    """Each word adds to a few places, chosen by its hash; the whole has length one."""
    values = [0.0] * size
    for word in text.lower().split() or [""]:
        code = hashlib.sha256(word.encode("utf-8", "surrogatepass")).digest()
        for start in range(0, len(code), 4):
            place = int.from_bytes(code[start : start + 3], "big") % size
            values[place] += 1.0 if code[start + 3] % 2 else -1.0
    length = math.sqrt(sum(value * value for value in values)) or 1.0
    return [value / length for value in values]

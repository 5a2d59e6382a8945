"""Arguments that arrive value by value, each with the path it belongs to (GEM-52)."""

from __future__ import annotations

import re
from typing import Any

_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]|\['([^']*)'\]|\[\"([^\"]*)\"\]")
_VALUES = ("stringValue", "numberValue", "boolValue", "nullValue")
_MAX_INDEX = 10_000


def add_pieces(arguments: dict[str, Any], pieces: list[dict[str, Any]]) -> None:
    """Add them to the object as far as it is known."""
    for piece in pieces:
        name = next((name for name in _VALUES if name in piece), None)
        steps = _steps(piece.get("jsonPath"))
        if name is not None and steps:
            _put(arguments, steps, None if name == "nullValue" else piece[name])


def _steps(path: Any) -> list[str | int]:
    if not isinstance(path, str):
        return []
    return [
        int(found[2]) if found[2] is not None else found[1] or found[3] or found[4] or ""
        for found in _STEP.finditer(path.removeprefix("$"))
    ]


def _put(held: Any, steps: list[str | int], value: Any) -> None:
    """Texts come in portions: what is known of one already goes in front."""
    for step, following in zip(steps, [*steps[1:], None], strict=True):
        if isinstance(step, int) and isinstance(held, list) and step < _MAX_INDEX:
            held.extend([None] * (step + 1 - len(held)))
            known = held[step]
        elif isinstance(step, str) and isinstance(held, dict):
            known = held.get(step)
        else:
            return
        if following is None:
            known = known + value if isinstance(known, str) and isinstance(value, str) else value
        elif not isinstance(known, dict | list):
            known = [] if isinstance(following, int) else {}
        held[step] = known
        held = known

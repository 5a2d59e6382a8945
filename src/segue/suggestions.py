"""Suggestions for names that are spelt nearly like a known one."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def suggestion(word: str, known: Iterable[str]) -> str:
    """The question whether the most similar known name is meant; "" if none is similar."""
    near = get_close_matches(word, sorted(known), n=1, cutoff=0.65)
    return f'Did you mean "{near[0]}"?' if near else ""

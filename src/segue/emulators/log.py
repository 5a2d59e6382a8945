"""What the emulator was asked and what it answered, so that a test can read it back."""

from __future__ import annotations

from typing import Any

from msgspec import Struct


class Entry(Struct, frozen=True, kw_only=True):
    """One request and its verdict."""

    provider: str
    method: str
    path: str
    status: int
    verdict: str
    """`accepted`, `refused`, or `fault` when the answer was spoilt on demand."""
    rule: str | None = None
    message: str | None = None
    fault: str | None = None
    body: Any = None
    """The request's JSON; None when it had none."""

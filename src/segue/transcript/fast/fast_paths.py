"""The one switch for all fast paths: shortcuts for the common case in adopting, rendering, encoding and decoding.

A fast path decides nothing: it gives exactly what the slow path would give, or it declines (None, False) and leaves the
case to the slow path. The law that both are equal is tested for all of them in one place, tests/laws/test_fast_paths.py.
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_ENABLED = ContextVar("fast_paths", default=True)


def enabled() -> bool:
    """Whether fast paths may be tried; asked once per request or history, not for every message."""
    return _ENABLED.get()


@contextmanager
def disabled() -> Iterator[None]:
    """Take the slow paths only: for tests, and to find out whether a fast path is at fault."""
    token = _ENABLED.set(False)
    try:
        yield
    finally:
        _ENABLED.reset(token)

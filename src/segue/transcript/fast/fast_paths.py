"""The one switch for all fast paths: shortcuts for the common case in adopting, rendering, encoding and decoding.

A fast path decides nothing: it gives exactly what the slow path would give, or it declines (None, False) and leaves the
case to the slow path. The law that both are equal is tested for all of them in one place, tests/laws/test_fast_paths.py.

Why there are two ways: almost every message of an agent's history is clean, and the slow path looks at each as if it were broken. Without
them, rendering 200 messages takes 3.2 to 5.3 times the instructions, and decoding such a request of Anthropic, Chat or Gemini
6.7 to 12 times, of Responses four times. Decision 27 has the figures of each one; one that no benchmark row needs is removed.
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

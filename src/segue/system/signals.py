"""Signals that end the program, handled so that nothing is lost."""

from __future__ import annotations

import asyncio
import signal
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

INTERRUPT: Final = signal.SIGINT
END: Final = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))
"""The process is ended, or its terminal was closed."""


@contextmanager
def handle(
    reactions: dict[signal.Signals, Callable[[], object]], *, ignored_too: bool = False
) -> Iterator[None]:
    """Call these instead of ending. A signal that was ignored at start (nohup) stays ignored unless `ignored_too`."""
    loop = asyncio.get_running_loop()
    added: list[signal.Signals] = []
    # Only the main thread receives signals, and only on POSIX can the loop handle them; elsewhere the caller cancels the task.
    with suppress(NotImplementedError, RuntimeError, ValueError):
        for number, react in reactions.items():
            if ignored_too or signal.getsignal(number) is not signal.SIG_IGN:
                loop.add_signal_handler(number, react)
                added.append(number)
    try:
        yield
    finally:
        with suppress(NotImplementedError, RuntimeError, ValueError):
            for number in added:
                loop.remove_signal_handler(number)

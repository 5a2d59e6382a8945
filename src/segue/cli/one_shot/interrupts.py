"""What ends a run before its time: Ctrl-C, SIGTERM, a limit. The session is whole in every case."""

from __future__ import annotations

import asyncio
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Literal, TypeAlias, final

from segue.cli import signals
from segue.cli.exit_codes import Exit
from segue.errors import SegueError, TranscriptError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Why: TypeAlias = Literal["", "interrupted", "terminated", "timeout", "cost", "loss"]


@final
class Stop:
    """Remembers why the run was stopped; the first reason counts, the second signal stops at once."""

    def __init__(self) -> None:
        self.why: Why = ""
        self.detail = ""
        self.cancel_turn: Callable[[], bool] = lambda: False
        """Stops the turn that runs and tells whether there was one."""
        self._task = asyncio.current_task()

    def __call__(self, why: Why, detail: str = "") -> None:
        again = bool(self.why)
        if not again:
            self.why, self.detail = why, detail
        running = self.cancel_turn()
        # A limit that the listener itself has noticed is told when it has heard the rest.
        if self._task is not None and (again or not running) and why not in ("cost", "loss"):
            self._task.cancel()

    def on_signals(self) -> AbstractContextManager[None]:
        ends = dict.fromkeys(signals.END, partial(self, "terminated"))
        return signals.handle({signals.INTERRUPT: partial(self, "interrupted"), **ends})

    @contextmanager
    def after(self, seconds: float | None) -> Iterator[None]:
        """A limit in time."""
        if seconds is None:
            yield
            return
        timer = asyncio.get_running_loop().call_later(seconds, self, "timeout", f"{seconds:g}")
        try:
            yield
        finally:
            timer.cancel()

    def error(self) -> SegueError | None:
        """What to say about it; a signal needs no words."""
        match self.why:
            case "timeout":
                return UsageError(
                    f"There was no whole answer within {self.detail} s.",
                    code="timed_out",
                    hint="Allow more: --timeout SECONDS.",
                )
            case "cost":
                return UsageError(
                    f"The answer has cost {self.detail} so far.",
                    code="too_expensive",
                    hint="Allow more: --max-cost USD.",
                )
            case "loss":
                return would_lose(self.detail)
            case _:
                return None

    def exit(self) -> Exit:
        return Exit.TERMINATED if self.why == "terminated" else Exit.INTERRUPTED


def would_lose(switch: str) -> TranscriptError:
    return TranscriptError(
        f"The switch was refused, because the model would be told less: {switch}.",
        code="would_lose",
        hint="Leave --strict out to go on without what is lost; the session keeps all of it.",
    )

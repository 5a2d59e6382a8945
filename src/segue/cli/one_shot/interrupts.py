"""What ends a run early: Ctrl-C, SIGTERM or a limit. The session is saved and valid in every case."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, final

from msgspec import Struct, field

from segue import signals
from segue.cli.exit_codes import Exit
from segue.errors import SegueError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

StopCause: TypeAlias = Literal["", "interrupted", "terminated", "timeout", "cost", "loss"]


@final
class Stop(Struct):
    """Stops the run and remembers why: the first cause counts, a second signal stops at once."""

    cause: StopCause = ""
    error: SegueError | None = None
    """The error to report; None for a signal."""
    cancel_turn: Callable[[], bool] = lambda: False
    """Cancels the running turn; False if there is none."""
    _task: asyncio.Task[Any] | None = field(default_factory=asyncio.current_task)

    def __call__(self, cause: StopCause, error: SegueError | None = None) -> None:
        again = bool(self.cause)
        if not again:
            self.cause, self.error = cause, error
        running = self.cancel_turn()
        # Limits found while events are handled are reported after the last event.
        if self._task is not None and (again or not running) and cause not in ("cost", "loss"):
            self._task.cancel()

    def on_signals(self) -> AbstractContextManager[None]:
        ends = dict.fromkeys(signals.END, partial(self, "terminated"))
        return signals.handle({signals.INTERRUPT: partial(self, "interrupted"), **ends})

    @contextmanager
    def after(self, seconds: float | None) -> Iterator[None]:
        """Stop when the block takes longer."""
        if seconds is None:
            yield
            return
        error = UsageError(
            f"There was no complete answer within {seconds:g} s.",
            code="timed_out",
            hint="Allow more time: --timeout SECONDS",
        )
        timer = asyncio.get_running_loop().call_later(seconds, self, "timeout", error)
        try:
            yield
        finally:
            timer.cancel()

    @property
    def exit_code(self) -> Exit:
        return Exit.TERMINATED if self.cause == "terminated" else Exit.INTERRUPTED

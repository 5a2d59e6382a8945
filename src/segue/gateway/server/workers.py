"""Several processes on one port: starts them, replaces those that die, and passes signals on."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Final, final

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Sequence

_LOG = logging.getLogger("segue.gateway")
_POLL_SECONDS: Final = 0.2
_FAST_DEATH: Final = 2.0
"""A process that dies sooner is replaced only after as long a pause: its cause is still there."""


@final
class Workers:
    """`command`: the words of each process, which gets the port as `--fd N` after them. `on_death` gets the id of each that
    died before the end."""

    def __init__(
        self,
        listener: socket.socket,
        command: Sequence[str],
        *,
        count: int,
        on_death: Callable[[int], None] | None,
    ) -> None:
        self._listener = listener
        # Only this process holds the other end open, so each worker notices when it is gone, however it ended.
        self._alive, self._held = os.pipe()
        handed = ("--fd", str(listener.fileno()), "--until-closed", str(self._alive))
        self._command = [sys.executable, "-P", "-m", "segue", *command, *handed]
        self._count = count
        self._on_death = on_death
        self._processes: dict[subprocess.Popen[bytes], float] = {}
        self._ending = False

    def run(self, drain: float) -> int:
        """Until SIGTERM or SIGINT; then they have `drain` seconds for what they serve."""
        signal.signal(signal.SIGTERM, self._end)
        signal.signal(signal.SIGINT, self._end)
        signal.signal(signal.SIGHUP, self._pass_on)
        self._listener.set_inheritable(True)
        next_start = 0.0
        while not self._ending:
            for process in [process for process in self._processes if process.poll() is not None]:
                lived = time.monotonic() - self._processes.pop(process)
                if self._on_death is not None:
                    self._on_death(process.pid)
                if not self._ending:
                    _LOG.error("A worker ended with code %s and is replaced.", process.returncode)
                    next_start = time.monotonic() + (_FAST_DEATH if lived < _FAST_DEATH else 0.0)
            while len(self._processes) < self._count and time.monotonic() >= next_start and not self._ending:
                self._start()
            time.sleep(_POLL_SECONDS)
        self._pass_on(signal.SIGTERM)
        deadline = time.monotonic() + drain + 5
        for process in self._processes:
            try:
                process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        return 0

    def _start(self) -> None:
        process = subprocess.Popen(  # noqa: S603 - this very program
            self._command, pass_fds=[self._listener.fileno(), self._alive], start_new_session=True
        )
        self._processes[process] = time.monotonic()

    def _end(self, *_: object) -> None:
        self._ending = True

    def _pass_on(self, number: int, *_: object) -> None:
        for process in list(self._processes):
            if process.poll() is None:
                process.send_signal(number)

"""The standard error of a gateway, written by a thread: whoever reads the log may be slow or hang, and no request waits for it.

A pipe holds 64 KB. Behind it are a service manager, a container's log driver or a program that started the gateway, and a write
to a full pipe, a stopped terminal or a file on a disk that hangs ends when they go on, which may be never. In the loop it would
stop every request.
"""

from __future__ import annotations

import os
import sys
import time
from contextlib import contextmanager, suppress
from threading import Event, RLock, Thread
from typing import TYPE_CHECKING, Any, Final, cast, final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import TextIO

MOST_BYTES: Final = 1 << 20
"""That wait for a slow reader; beyond them lines are lost, and counted."""
_GATHER_SECONDS: Final = 0.02
"""For which lines are gathered: a thread that wakes for each of them would cost a busy loop more than the lines."""
_CLOSE_SECONDS: Final = 2.0
_LOST: Final = "%d lines of this log are lost: whoever reads it is too slow.\n"


@final
class LogOutput:
    """A stream for text whose `write` never waits. `filtered` is what a line is turned into before it is written."""

    def __init__(self, stream: TextIO, filtered: Callable[[str], str] = str) -> None:
        self._stream = stream
        self._file = stream.fileno()
        self._filtered = filtered
        self._waiting: list[bytes] = []
        self._held = 0
        """Bytes that wait or are being written."""
        self._lost = 0
        self._lock = RLock()
        self._wake = Event()
        self._is_empty = Event()
        self._is_empty.set()
        self._thread: Thread | None = None

    def write(self, text: str) -> int:
        data = self._encoded(text)
        with self._lock:
            if self._held + len(data) > MOST_BYTES:
                self._lost += text.count("\n")
            else:
                self._waiting.append(data)
                self._held += len(data)
            self._is_empty.clear()
            if self._thread is None:
                # A daemon, which writes past all buffers of Python's: neither holds up the end of the process.
                self._thread = Thread(target=self._work, name="segue-log", daemon=True)
                self._thread.start()
        self._wake.set()
        return len(text)

    def flush(self) -> None:
        """It is written as soon as it can be."""

    def close(self) -> None:
        """Wait until all is written, how much was lost included, if that is soon."""
        self._is_empty.wait(_CLOSE_SECONDS)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def _encoded(self, text: str) -> bytes:
        return self._filtered(text).encode(self._stream.encoding, "backslashreplace")

    def _work(self) -> None:
        while self._wake.wait():
            time.sleep(_GATHER_SECONDS)
            self._wake.clear()
            with self._lock:
                data, self._waiting = b"".join(self._waiting), []
                lost, self._lost = self._lost, 0
            with suppress(OSError):  # nobody reads it any more
                _write_all(self._file, data)
                if lost:
                    _write_all(self._file, self._encoded(_LOST % lost))
            with self._lock:
                self._held -= len(data)
                if not self._waiting and not self._lost:
                    self._is_empty.set()


def _write_all(file: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(file, rest) :]


@contextmanager
def patient_log(filtered: Callable[[str], str] = str) -> Iterator[None]:
    """Whatever is written to the standard error in this block is written by the thread."""
    stream = sys.stderr
    try:
        output = LogOutput(stream, filtered)
    except (AttributeError, OSError, ValueError):  # no file: a test's, or none at all
        yield
        return
    stream.flush()
    sys.stderr = cast("TextIO", output)
    try:
        yield
    finally:
        sys.stderr = stream
        output.close()

"""Reports that a thread works on, some together, so that no request waits for what is recorded of another."""

from __future__ import annotations

import logging
import time
from copy import copy
from queue import Empty, SimpleQueue
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, Final, final

if TYPE_CHECKING:
    from collections.abc import Callable

    from segue.gateway.report import RequestReport

SECONDS: Final = 0.5
"""For which reports gather."""
MOST: Final = 2000
"""Reports that wait; beyond them the newest is dropped. A process makes far fewer in that time."""
_LOG: Final = logging.getLogger("segue.gateway")


@final
class ReportQueue:
    """Starts its thread with the first report, and needs no time without any."""

    def __init__(self, record: Callable[[RequestReport], object]) -> None:
        self._record = record
        self._waiting: SimpleQueue[RequestReport | None] = SimpleQueue()
        self._thread: Thread | None = None
        self._starting = Lock()
        self._closing = Event()

    def put(self, report: RequestReport) -> None:
        if self._waiting.qsize() >= MOST:
            return
        # The same report may serve a reply that goes on in the background.
        self._waiting.put(copy(report))
        if self._thread is None:
            with self._starting:
                if self._thread is None:
                    self._thread = Thread(target=self._work, name="segue-reports", daemon=True)
                    self._thread.start()

    def close(self) -> None:
        """Wait until all that were put before are recorded."""
        self._closing.set()
        if self._thread is not None:
            self._waiting.put(None)
            self._thread.join()

    def _work(self) -> None:
        while (report := self._waiting.get()) is not None:
            self._closing.wait(SECONDS)
            more: RequestReport | None = report
            while more is not None:
                self._record_one(more)
                time.sleep(0)  # whatever the loop has to do comes first
                try:
                    more = self._waiting.get_nowait()
                except Empty:
                    break
            else:
                return

    def _record_one(self, report: RequestReport) -> None:
        try:
            self._record(report)
        except Exception:
            _LOG.exception("Request %s was not traced.", report.request_id)

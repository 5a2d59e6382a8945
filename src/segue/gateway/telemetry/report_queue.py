"""Reports that a thread works on, some together, so that no request waits for what is recorded of another."""

from __future__ import annotations

import logging
import time
from copy import copy
from queue import SimpleQueue
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, Final, final

if TYPE_CHECKING:
    from collections.abc import Callable

    from segue.gateway.telemetry.report import RequestReport

SECONDS: Final = 1.0
"""For which reports gather: the more there are, the less each costs."""
MOST: Final = 2000
"""Reports that wait; beyond them the newest is dropped. A process makes far fewer in that time."""
_TOGETHER: Final = 10
"""Reports between which the event loop does not get its turn: for half a millisecond. A turn costs as much as a report."""
_LOG: Final = logging.getLogger("segue.gateway")


@final
class ReportQueue:
    """Starts its thread with the first report, and needs no time without any."""

    def __init__(self, record: Callable[[RequestReport], object], *, content: bool = False) -> None:
        """`content`: `record` reads what was said, too. Otherwise it is not kept in memory for that long."""
        self._record = record
        self._content = content
        self._waiting: SimpleQueue[RequestReport | None] = SimpleQueue()
        self._thread: Thread | None = None
        self._starting = Lock()
        self._closing = Event()

    def put(self, report: RequestReport) -> None:
        if self._waiting.qsize() >= MOST:
            return
        # The same report may serve a reply that goes on in the background.
        kept = copy(report)
        if not self._content:
            kept.messages, kept.answer = (), None
        self._waiting.put(kept)
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
            self._record_one(report)
            for number in range(1, self._waiting.qsize() + 1):
                if number % _TOGETHER == 0:
                    time.sleep(0)
                if (more := self._waiting.get()) is None:
                    return
                self._record_one(more)

    def _record_one(self, report: RequestReport) -> None:
        try:
            self._record(report)
        except Exception:
            _LOG.exception("Request %s was not traced.", report.request_id)

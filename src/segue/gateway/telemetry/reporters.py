"""Who gets the report of each request: the log, Prometheus, OpenTelemetry, alerts; as the settings say.

A thread works on reports, some together, so that no request waits for what is recorded of another.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from contextlib import suppress
from copy import copy
from queue import SimpleQueue
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, Final, final

from segue.errors import UsageError
from segue.gateway.telemetry.access_log import log_writer

if TYPE_CHECKING:
    from collections.abc import Callable

    from segue.config.schema import GatewaySettings
    from segue.gateway.telemetry.alerts import AlertWatch, Observation, Observe
    from segue.gateway.telemetry.report import RequestReport


SECONDS: Final = 1.0
"""For which reports gather: the more there are, the less each costs."""
MOST: Final = 2000
"""Reports that wait; beyond them the newest is dropped. A process makes far fewer in that time."""
_TOGETHER: Final = 10
"""Reports between which the event loop does not get its turn: for half a millisecond. A turn costs as much as a report."""
_LOG: Final = logging.getLogger("segue.gateway")
_CLOSE_SECONDS: Final = 5.0


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


@final
class Reporters:
    """Those of one process."""

    def __init__(self, settings: GatewaySettings) -> None:
        self.metrics: Callable[[], bytes] | None = None
        """What Prometheus reads; None if it is off."""
        self.reserve: Callable[[str, float], None] = lambda *_: None
        """A caller's running requests hold so much more of its budget, or less."""
        self._close: Callable[[], None] | None = None
        self._settings = settings
        self._measure: Callable[[Observation], object] | None = None
        self._watch: AlertWatch | None = None
        log = log_writer(settings.log)
        self._all: list[Callable[[RequestReport], object]] = [log] if log is not None else []
        if settings.telemetry.metrics:
            self._count()
        if settings.telemetry.traces:
            self._trace()

    def _count(self) -> None:
        from segue.gateway.telemetry.metrics import GatewayMetrics  # noqa: PLC0415

        metrics = GatewayMetrics()
        self.metrics, self.reserve, self._measure = metrics.text, metrics.reserve, metrics.observe
        self._all.append(metrics.record)

    def _trace(self) -> None:
        try:
            from segue.gateway.telemetry.traces import open_traces  # noqa: PLC0415 - an extra
        except ImportError as error:
            raise UsageError(
                "Traces of the gateway need the OpenTelemetry SDK.",
                code="missing_extra",
                hint='In the clone of segue run: python -m pip install ".[otel]". Or set gateway.telemetry.traces = false.',
            ) from error
        traces = open_traces()
        queue = ReportQueue(traces.record, content=traces.content)
        self._all.append(queue.put)

        def close() -> None:
            queue.close()
            traces.close()

        self._close = close

    def watch(self, observe: Observe) -> None:
        """Send alerts and measure the gateway, where either is on."""
        alerts = self._settings.alerts
        if self._measure is None and not (alerts.webhook_env and os.environ.get(alerts.webhook_env)):
            return
        from segue.gateway.telemetry.alerts import AlertWatch  # noqa: PLC0415 - few gateways need it

        self._watch = AlertWatch(alerts, observe, measure=self._measure)
        self._all.append(self._watch.record)

    def record(self, report: RequestReport) -> None:
        for each in self._all:
            each(report)

    async def close(self) -> None:
        """Send what waits, if it can be sent soon."""
        if self._watch is not None:
            await self._watch.close()
        if self._close is not None:
            with suppress(TimeoutError):
                await asyncio.wait_for(asyncio.to_thread(self._close), _CLOSE_SECONDS)

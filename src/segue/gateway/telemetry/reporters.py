"""Who gets the report of each request: the log, Prometheus, OpenTelemetry; as the settings say."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Final, final

from segue.gateway.access_log import log_writer
from segue.gateway.telemetry.report_queue import ReportQueue

if TYPE_CHECKING:
    from collections.abc import Callable

    from segue.config.schema import GatewaySettings
    from segue.gateway.report import RequestReport
    from segue.gateway.telemetry.metrics import GatewayMetrics
    from segue.gateway.telemetry.traces import GatewayTraces

_CLOSE_SECONDS: Final = 5.0


@final
class Reporters:
    """Those of one process."""

    def __init__(self, settings: GatewaySettings) -> None:
        self._metrics: GatewayMetrics | None = None
        self._traces: GatewayTraces | None = None
        self._queue: ReportQueue | None = None
        log = log_writer(settings.log)
        self._all: list[Callable[[RequestReport], object]] = [log] if log is not None else []
        if settings.telemetry.metrics:
            from segue.gateway.telemetry.metrics import GatewayMetrics  # noqa: PLC0415

            self._metrics = GatewayMetrics()
            self._all.append(self._metrics.record)
        if settings.telemetry.traces:
            from segue.gateway.telemetry.traces import open_traces  # noqa: PLC0415

            self._traces = open_traces()
            self._queue = ReportQueue(self._traces.record, content=self._traces.content)
            self._all.append(self._queue.put)

    def record(self, report: RequestReport) -> None:
        for each in self._all:
            each(report)

    def reserve(self, caller: str, dollars: float) -> None:
        """A caller's running requests hold so much more of its budget, or less."""
        if self._metrics is not None:
            self._metrics.reserve(caller, dollars)

    @property
    def metrics(self) -> Callable[[], bytes] | None:
        """What Prometheus reads; None if it is off."""
        return self._metrics.text if self._metrics is not None else None

    async def close(self) -> None:
        """Send what waits, if it can be sent soon."""
        if self._traces is not None:
            with suppress(TimeoutError):
                await asyncio.wait_for(asyncio.to_thread(self._close_traces), _CLOSE_SECONDS)

    def _close_traces(self) -> None:
        if self._queue is not None:
            self._queue.close()
        if self._traces is not None:
            self._traces.close()

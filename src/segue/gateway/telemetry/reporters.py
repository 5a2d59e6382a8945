"""Who gets the report of each request: the log, Prometheus, OpenTelemetry, alerts; as the settings say."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Final, final

from segue.errors import UsageError
from segue.gateway.telemetry.access_log import log_writer
from segue.gateway.telemetry.report_queue import ReportQueue

if TYPE_CHECKING:
    from collections.abc import Callable

    from segue.config.schema import GatewaySettings
    from segue.gateway.telemetry.alerts import AlertWatch, Observation, Observe
    from segue.gateway.telemetry.report import RequestReport

_CLOSE_SECONDS: Final = 5.0


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

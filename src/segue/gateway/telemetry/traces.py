"""Requests as OpenTelemetry spans and metrics, by its conventions for generative AI.

One `chat MODEL` span stands for what a client asked, over all retries; each attempt is a span below it. Spans are made
after the request from its report, so that tracing costs a reply nothing. Content is recorded only where
OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT asks for it: on spans, as events, or both.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final, final

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.metrics import NoOpMeterProvider
from opentelemetry.sdk.metrics import AlwaysOffExemplarFilter, MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import NonRecordingSpan, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from segue.gateway.telemetry.spans import FinishedSpan, HashedResource, SpanWriter
from segue.telemetry.conventions import (
    as_texts,
    attempt_facts,
    content_as_events,
    content_of,
    content_on_spans,
    duration_histogram,
    record_tokens,
    request_facts,
    token_histogram,
    usage_facts,
)

if TYPE_CHECKING:
    from opentelemetry._logs import Logger
    from opentelemetry._logs import LoggerProvider as EventProvider
    from opentelemetry.metrics import MeterProvider as AnyMeterProvider
    from opentelemetry.trace import SpanContext

    from segue.gateway.telemetry.report import RequestReport
    from segue.telemetry.conventions import Attributes

_EVENT: Final = "gen_ai.client.inference.operation.details"
_OPERATIONS: Final = {"chat": "chat", "generate": "text_completion", "embed": "embeddings"}
_NANO: Final = 1_000_000_000
_SCOPE: Final = "segue.gateway"


@final
class GatewayTraces:
    """Makes spans and measurements of reports."""

    def __init__(
        self,
        tracers: TracerProvider,
        meters: AnyMeterProvider | None = None,
        events: EventProvider | None = None,
        *,
        content: bool = False,
    ) -> None:
        """`content`: on spans. `events` get it where they are given."""
        self.content = content or events is not None
        self._on_spans = content
        self._tracers = tracers
        self._meters = meters
        self._events = events
        self._logger = events.get_logger(_SCOPE) if events is not None else None
        self._spans = SpanWriter(tracers, _SCOPE)
        meter = (meters or NoOpMeterProvider()).get_meter(_SCOPE)
        self._tokens = token_histogram(meter)
        self._seconds = duration_histogram(meter)

    def record(self, report: RequestReport) -> None:
        operation = _OPERATIONS.get(report.operation)
        if operation is None:
            return
        facts = request_facts(operation, report.asked, report.route)
        context = self._write_spans(report, operation, facts)
        if self._logger is not None:
            self._log_content(self._logger, report, facts, context)
        self._measure(report, facts)

    def _write_spans(self, report: RequestReport, operation: str, facts: Attributes) -> SpanContext:
        whole = FinishedSpan(
            f"{operation} {report.asked}",
            {
                **facts,
                **_report_facts(report),
                **(as_texts(content_of(report.messages, report.answer)) if self._on_spans else {}),
            },
            report.began,
            report.seconds,
            report.error,
        )
        attempts = [
            FinishedSpan(
                f"attempt {one.route}",
                attempt_facts(operation, one.route),
                one.began,
                one.seconds,
                one.error,
            )
            for one in report.tries
        ]
        return self._spans.write(whole, attempts, _context_above(report.trace_parent))

    def _log_content(
        self, logger: Logger, report: RequestReport, facts: Attributes, span: SpanContext
    ) -> None:
        logger.emit(
            timestamp=int((report.began + report.seconds) * _NANO),
            context=set_span_in_context(NonRecordingSpan(span)),
            event_name=_EVENT,
            attributes={**facts, **content_of(report.messages, report.answer)},
        )

    def _measure(self, report: RequestReport, facts: Attributes) -> None:
        failed = {"error.type": report.error} if report.error else {}
        self._seconds.record(report.seconds, {**facts, **failed})
        record_tokens(self._tokens, report.usage, facts)

    def close(self) -> None:
        """Send what waits."""
        for provider in (self._tracers, self._meters, self._events):
            shutdown = getattr(provider, "shutdown", None)
            if shutdown is not None:
                shutdown()


def open_traces() -> GatewayTraces:
    """As OpenTelemetry's own variables say: where to send them, under which name, with which headers."""
    named = os.environ.get("OTEL_SERVICE_NAME") or "service.name=" in os.environ.get(
        "OTEL_RESOURCE_ATTRIBUTES", ""
    )
    resource = Resource.create({} if named else {"service.name": "segue-gateway"})
    tracers = TracerProvider(resource=HashedResource(resource))
    tracers.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    # Examples of spans beside the measurements would double the cost of these.
    reader = PeriodicExportingMetricReader(OTLPMetricExporter())
    meters = MeterProvider([reader], resource, exemplar_filter=AlwaysOffExemplarFilter())
    events = _open_events(resource) if content_as_events() else None
    return GatewayTraces(tracers, meters, events, content=content_on_spans())


def _open_events(resource: Resource) -> EventProvider:
    # Not yet public parts of OpenTelemetry: without content they are not needed.
    from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter  # noqa: PLC0415
    from opentelemetry.sdk._logs import LoggerProvider  # noqa: PLC0415
    from opentelemetry.sdk._logs.export import BatchLogRecordProcessor  # noqa: PLC0415

    events = LoggerProvider(resource=resource)
    events.add_log_record_processor(BatchLogRecordProcessor(OTLPLogExporter()))
    return events


def _context_above(trace_parent: str) -> Context:
    """That of the client's own trace, if it sent one."""
    if not trace_parent:
        return Context()
    return TraceContextTextMapPropagator().extract({"traceparent": trace_parent}, Context())


def _report_facts(report: RequestReport) -> dict[str, Any]:
    known: dict[str, Any] = {
        **usage_facts(report.usage),
        "gen_ai.conversation.id": report.conversation or None,
        "session.id": report.conversation or None,
        "user.id": report.caller or None,
        "http.response.status_code": report.status or None,
        "segue.request_id": report.request_id,
        "segue.wire": report.wire,
        "segue.forwarded": report.forwarded or None,
        "segue.failovers": report.failovers or None,
        "segue.repairs": tuple(f"{kind}={count}" for kind, count in report.repairs.items()) or None,
        "segue.losses": tuple(f"{kind}={count}" for kind, count in report.losses.items()) or None,
    }
    return {name: value for name, value in known.items() if value is not None}

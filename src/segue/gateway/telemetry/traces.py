"""Requests as OpenTelemetry spans and metrics, by its conventions for generative AI.

One `chat MODEL` span stands for what a client asked, over all retries; each attempt is a span below it. Spans are made
after the request from its report, so that tracing costs a reply nothing. Content is recorded only where
OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT asks for it: on spans, as events, or both.
"""

from __future__ import annotations

import os
import tomllib
from functools import cache, lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final, final

import msgspec
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

from segue.conversation.blocks import Media, Reasoning, Text, ToolCall, ToolResult
from segue.gateway.telemetry.spans import FinishedSpan, HashedResource, SpanWriter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opentelemetry._logs import Logger
    from opentelemetry._logs import LoggerProvider as EventProvider
    from opentelemetry.metrics import MeterProvider as AnyMeterProvider
    from opentelemetry.trace import SpanContext

    from segue.conversation.blocks import Block
    from segue.conversation.message import Message
    from segue.gateway.report import RequestReport
    from segue.gateway.telemetry.spans import Attributes

CONTENT: Final = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
_ON_SPANS: Final = ("SPAN_ONLY", "SPAN_AND_EVENT", "TRUE")
_AS_EVENTS: Final = ("EVENT_ONLY", "SPAN_AND_EVENT")
_EVENT: Final = "gen_ai.client.inference.operation.details"
_OPERATIONS: Final = {"chat": "chat", "generate": "text_completion", "embed": "embeddings"}
_TOKEN_BOUNDS: Final = [4**power for power in range(14)]
_SECOND_BOUNDS: Final = [0.01 * 2**power for power in range(14)]
_NANO: Final = 1_000_000_000
_SCOPE: Final = "segue.gateway"
_MOST_KEPT: Final = 1000


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
        self._tokens = meter.create_histogram(
            "gen_ai.client.token.usage", "{token}", explicit_bucket_boundaries_advisory=_TOKEN_BOUNDS
        )
        self._seconds = meter.create_histogram(
            "gen_ai.client.operation.duration", "s", explicit_bucket_boundaries_advisory=_SECOND_BOUNDS
        )

    def record(self, report: RequestReport) -> None:
        operation = _OPERATIONS.get(report.operation)
        if operation is None:
            return
        facts = _facts(operation, report.asked, report.route)
        context = self._write_spans(report, operation, facts)
        if self._logger is not None:
            self._log_content(self._logger, report, facts, context)
        self._measure(report, facts)

    def _write_spans(self, report: RequestReport, operation: str, facts: Attributes) -> SpanContext:
        whole = FinishedSpan(
            f"{operation} {report.asked}",
            {**facts, **_request_facts(report), **(_content_texts(report) if self._on_spans else {})},
            report.began,
            report.seconds,
            report.error,
        )
        attempts = [
            FinishedSpan(
                f"attempt {one.route}",
                _attempt_facts(operation, one.route),
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
            attributes={**facts, **_content(report)},
        )

    def _measure(self, report: RequestReport, facts: Attributes) -> None:
        failed = {"error.type": report.error} if report.error else {}
        self._seconds.record(report.seconds, {**facts, **failed})
        for kind, count in (("input", report.usage.input_tokens), ("output", report.usage.output_tokens)):
            if count is not None:
                self._tokens.record(count, {**facts, "gen_ai.token.type": kind})

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
    asked = os.environ.get(CONTENT, "").upper()
    events = _open_events(resource) if asked in _AS_EVENTS else None
    return GatewayTraces(tracers, meters, events, content=asked in _ON_SPANS)


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


@cache
def _provider_names() -> dict[str, str]:
    return tomllib.loads(files(__package__).joinpath("provider_names.toml").read_text("utf-8"))


@lru_cache(_MOST_KEPT)
def _route_facts(route: str) -> Attributes:
    provider, _, model = route.partition("/")
    named = _provider_names().get(provider, provider)
    return {"gen_ai.provider.name": named, "gen_ai.response.model": model} if route else {}


@lru_cache(_MOST_KEPT)
def _facts(operation: str, asked: str, route: str) -> Attributes:
    """What the span of a request and its measurements have."""
    return {"gen_ai.operation.name": operation, "gen_ai.request.model": asked, **_route_facts(route)}


@lru_cache(_MOST_KEPT)
def _attempt_facts(operation: str, route: str) -> Attributes:
    return {"gen_ai.operation.name": operation, **_route_facts(route)}


def _request_facts(report: RequestReport) -> dict[str, Any]:
    usage = report.usage
    known: dict[str, Any] = {
        "gen_ai.usage.input_tokens": usage.input_tokens,
        "gen_ai.usage.output_tokens": usage.output_tokens,
        "gen_ai.usage.cache_read.input_tokens": usage.cached_tokens,
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


def _content(report: RequestReport) -> dict[str, Any]:
    answer = [report.answer] if report.answer is not None else []
    return {
        "gen_ai.input.messages": _messages(report.messages),
        "gen_ai.output.messages": _messages(answer),
    }


def _content_texts(report: RequestReport) -> dict[str, str]:
    """As JSON: attributes of spans hold no structures."""
    return {name: msgspec.json.encode(value).decode() for name, value in _content(report).items()}


def _messages(messages: Sequence[Message]) -> list[dict[str, Any]]:
    return [
        {
            "role": "assistant" if message.speaker == "model" else "user",
            "parts": [part for block in message.blocks if (part := _part(block)) is not None],
        }
        for message in messages
    ]


def _part(block: Block) -> dict[str, Any] | None:
    match block:
        case Text():
            return {"type": "text", "content": block.text}
        case Reasoning():
            return {"type": "reasoning", "content": block.text}
        case ToolCall():
            return {"type": "tool_call", "id": block.id, "name": block.name, "arguments": block.arguments}
        case ToolResult():
            response = block.output if block.error is None else block.error
            return {"type": "tool_call_response", "id": block.call_id, "response": response}
        case Media():
            return {"type": "blob", "mime_type": block.mime, "modality": block.kind}
        case _:
            return None

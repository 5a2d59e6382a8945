"""Spans that are made in one step: exporters see nothing but what the SDK's own tracer would have made."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.trace import Span, SpanContext, SpanKind, Status, StatusCode, Tracer, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from segue.gateway.telemetry.spans import FinishedSpan, HashedResource, SpanWriter

NAME = "segue.gateway"
NANO = 1_000_000_000
BEGAN = 1_800_000_000.25
FACTS = {"a.model": "m" * 9, "a.count": 3, "a.list": ("x=1", "y=2")}
FAILED = FinishedSpan("attempt p/m", {"a.model": "m"}, BEGAN + 0.1, 0.2, "overloaded_error")
PARTS = (FAILED, FinishedSpan("attempt q/m", {"a.model": "m"}, BEGAN + 0.4, 1.0))
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-"
SETTINGS: dict[str, dict[str, str]] = {
    "all": {},
    "two attributes": {"OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT": "2"},
    "short attributes": {"OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT": "5"},
    "always off": {"OTEL_TRACES_SAMPLER": "always_off"},
    "as the parent": {"OTEL_TRACES_SAMPLER": "parentbased_always_off"},
    "half of them": {"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0.5"},
    "disabled": {"OTEL_SDK_DISABLED": "true"},
}

Write = Callable[[TracerProvider, FinishedSpan, Context], SpanContext]


class SameIds(RandomIdGenerator):
    """The same for each request in each run, whether or not those before it were sampled."""

    def begin(self, request: int) -> None:
        self._random = random.Random(request)

    def generate_span_id(self) -> int:
        return self._random.getrandbits(64)

    def generate_trace_id(self) -> int:
        return self._random.getrandbits(128)


def by_steps(tracers: TracerProvider, whole: FinishedSpan, above: Context) -> SpanContext:
    """As OpenTelemetry says."""
    tracer = tracers.get_tracer(NAME)
    span = _started(tracer, whole, above)
    inside = set_span_in_context(span, above)
    for part in PARTS:
        _end(_started(tracer, part, inside), part)
    _end(span, whole)
    return span.get_span_context()


def _started(tracer: Tracer, span: FinishedSpan, context: Context) -> Span:
    began = int(span.began * NANO)
    return tracer.start_span(span.name, context, SpanKind.CLIENT, span.attributes, start_time=began)


def _end(span: Span, known: FinishedSpan) -> None:
    if known.error:
        span.set_attribute("error.type", known.error)
        span.set_status(Status(StatusCode.ERROR, known.error))
    span.end(int((known.began + known.seconds) * NANO))


def at_once(tracers: TracerProvider, whole: FinishedSpan, above: Context) -> SpanContext:
    return SpanWriter(tracers, NAME).write(whole, PARTS, above)


def exported(write: Write, flags: str, error: str) -> tuple[list[tuple[int, int, bool]], int, bytes]:
    """Of ten requests: where their events belong, how many spans arrive, and as which bytes."""
    exporter, ids = InMemorySpanExporter(), SameIds()
    resource = HashedResource(Resource.create({"service.name": "s"}))
    tracers = TracerProvider(id_generator=ids, resource=resource)
    tracers.add_span_processor(BatchSpanProcessor(exporter))
    headers = {"traceparent": PARENT + flags} if flags else {}
    above = TraceContextTextMapPropagator().extract(headers, Context())
    whole = FinishedSpan("chat m", FACTS, BEGAN, 1.5, error)
    contexts = []
    for request in range(10):
        ids.begin(request)
        contexts.append(write(tracers, whole, above))
    tracers.shutdown()
    spans = exporter.get_finished_spans()
    places = [(one.trace_id, one.span_id, one.trace_flags.sampled) for one in contexts]
    return places, len(spans), encode_spans(spans).SerializeToString()


@pytest.mark.parametrize("error", ["", "api_error"])
@pytest.mark.parametrize("flags", ["", "00", "01"])
@pytest.mark.parametrize("settings", SETTINGS)
def test_spans_made_at_once_are_those_that_the_sdk_makes_by_steps(
    settings: str, flags: str, error: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in SETTINGS[settings].items():
        monkeypatch.setenv(name, value)
    assert exported(at_once, flags, error) == exported(by_steps, flags, error)


@pytest.mark.parametrize(
    ("settings", "flags", "spans"),
    [
        ("all", "", 30),
        ("all", "00", 0),
        ("as the parent", "01", 30),
        ("as the parent", "", 0),
        ("disabled", "", 0),
    ],
)
def test_the_sampler_and_the_client_say_which_requests_are_traced(
    settings: str, flags: str, spans: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in SETTINGS[settings].items():
        monkeypatch.setenv(name, value)
    assert exported(at_once, flags, "")[1] == spans


def test_a_resource_that_knows_its_hash_is_the_same_as_before() -> None:
    resource = Resource.create({"service.name": "s"})
    assert HashedResource(resource) == resource
    assert hash(HashedResource(resource)) == hash(resource)

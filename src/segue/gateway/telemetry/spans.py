"""Spans of what is over, made in one step.

OpenTelemetry's own way to make a span is for work that is still running: it locks, checks and copies with each step. All
of a request is known when its spans are made, so they are handed as finished ones to the processors that the SDK would
hand them to. The SDK keeps its word in everything that can be set: the sampler, ids, the resource, limits and exports.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, final

from opentelemetry.attributes import BoundedAttributes
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanLimits, Tracer
from opentelemetry.sdk.trace.sampling import Decision
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags, get_current_span

if TYPE_CHECKING:
    from collections.abc import Iterable

    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import TracerProvider

    from segue.telemetry.conventions import Attributes

_NANO: Final = 1_000_000_000
_NO_STATUS: Final = Status(StatusCode.UNSET)
_SAMPLED: Final = TraceFlags(TraceFlags.SAMPLED)
_NOT_SAMPLED: Final = TraceFlags(TraceFlags.DEFAULT)


@final
class HashedResource(Resource):
    """Exporters look it up with each span. To hash it, OpenTelemetry writes it as JSON each time."""

    def __init__(self, resource: Resource) -> None:
        super().__init__(resource.attributes, resource.schema_url)
        self._hash = super().__hash__()

    def __hash__(self) -> int:
        return self._hash


class FinishedSpan(NamedTuple):
    """One call of another service."""

    name: str
    attributes: Attributes
    began: float
    """Seconds since 1970."""
    seconds: float
    error: str = ""


@final
class SpanWriter:
    """Under one name, to the processors of one provider."""

    def __init__(self, tracers: TracerProvider, name: str) -> None:
        tracer = tracers.get_tracer(name)
        self._tracers = tracers
        # It is another one where OTEL_SDK_DISABLED is set.
        self._tracer = tracer if isinstance(tracer, Tracer) else None
        self._scope = InstrumentationScope(name, "")
        self._limits = SpanLimits()

    def write(self, whole: FinishedSpan, parts: Iterable[FinishedSpan], above: Context) -> SpanContext:
        """A span and those directly below it, if the sampler wants them; it is asked once for all of them."""
        parent = get_current_span(above).get_span_context()
        tracer = self._tracer
        if tracer is None:
            return parent
        ids = tracer.id_generator
        trace_id = parent.trace_id if parent.is_valid else ids.generate_trace_id()
        sampling = tracer.sampler.should_sample(
            above, trace_id, whole.name, SpanKind.CLIENT, whole.attributes, ()
        )
        flags = _SAMPLED if sampling.decision is Decision.RECORD_AND_SAMPLE else _NOT_SAMPLED

        def new_context() -> SpanContext:
            return SpanContext(trace_id, ids.generate_span_id(), False, flags, sampling.trace_state)  # noqa: FBT003 - not remote

        context = new_context()
        if sampling.decision is not Decision.DROP:
            end = tracer.span_processor.on_end
            for part in parts:
                end(self._readable(part, part.attributes, new_context(), context))
            end(self._readable(whole, sampling.attributes, context, parent if parent.is_valid else None))
        return context

    def _readable(
        self, span: FinishedSpan, attributes: Attributes, context: SpanContext, parent: SpanContext | None
    ) -> ReadableSpan:
        return ReadableSpan(
            span.name,
            context,
            parent,
            self._tracers.resource,
            self._within_limits({**attributes, "error.type": span.error} if span.error else attributes),
            kind=SpanKind.CLIENT,
            status=Status(StatusCode.ERROR, span.error) if span.error else _NO_STATUS,
            start_time=int(span.began * _NANO),
            end_time=int((span.began + span.seconds) * _NANO),
            instrumentation_scope=self._scope,
        )

    def _within_limits(self, attributes: Attributes) -> Attributes:
        most, longest = self._limits.max_span_attributes, self._limits.max_span_attribute_length
        if longest is None and (most is None or len(attributes) <= most):
            return attributes
        return BoundedAttributes(most, attributes, max_value_len=longest)

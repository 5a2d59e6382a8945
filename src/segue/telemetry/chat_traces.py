"""What chats do as OpenTelemetry spans and metrics, by its conventions for generative AI.

`invoke_agent NAME` is a turn, `chat MODEL` an exchange over all its retries with a span below it for each attempt,
`execute_tool NAME` a call. They are live: whatever a tool does while it runs stands below its call, the turn of a subagent too.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, final

from opentelemetry import metrics, trace
from opentelemetry.trace import SpanKind, Status, StatusCode

from segue.conversation.blocks import status_of
from segue.telemetry.conventions import (
    as_texts,
    attempt_facts,
    content_of,
    content_on_spans,
    duration_histogram,
    record_tokens,
    request_facts,
    token_histogram,
    usage_facts,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opentelemetry.metrics import Histogram, MeterProvider
    from opentelemetry.trace import Span, Tracer, TracerProvider

    from segue.conversation.blocks import ToolCall, ToolResult
    from segue.conversation.message import Message
    from segue.conversation.usage import Usage
    from segue.errors import SegueError

_SCOPE: Final = "segue.chat"
_NANO: Final = 1_000_000_000
_MODEL_OPERATION: Final = "chat"


@final
class ChatTraces:
    """Makes spans and measurements of what chats do."""

    def __init__(self, tracers: TracerProvider | None = None, meters: MeterProvider | None = None) -> None:
        self.tracer = trace.get_tracer(_SCOPE, tracer_provider=tracers)
        meter = metrics.get_meter(_SCOPE, meter_provider=meters)
        self.tokens = token_histogram(meter)
        self.seconds = duration_histogram(meter)
        self.content = content_on_spans()

    @contextmanager
    def turn(self, *, agent: str, session: str, model: str) -> Iterator[_Seen]:
        facts = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": agent or None,
            "gen_ai.conversation.id": session,
            "gen_ai.request.model": model,
        }
        with self._span(f"invoke_agent {agent}".rstrip(), SpanKind.INTERNAL, facts) as seen:
            yield seen

    @contextmanager
    def exchange(self, *, asked: str, session: str) -> Iterator[_Seen]:
        facts = {
            "gen_ai.operation.name": _MODEL_OPERATION,
            "gen_ai.request.model": asked,
            "gen_ai.conversation.id": session,
        }
        with self._span(f"{_MODEL_OPERATION} {asked}", SpanKind.CLIENT, facts) as seen:
            yield seen

    @contextmanager
    def call(self, call: ToolCall, session: str) -> Iterator[_Seen]:
        facts = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": call.name,
            "gen_ai.tool.call.id": call.id,
            "gen_ai.tool.type": "function",
            "gen_ai.conversation.id": session,
        }
        if self.content:
            facts |= as_texts({"gen_ai.tool.call.arguments": call.arguments})
        with self._span(f"execute_tool {call.name}", SpanKind.INTERNAL, facts) as seen:
            yield seen

    @contextmanager
    def _span(self, name: str, kind: SpanKind, facts: dict[str, Any]) -> Iterator[_Seen]:
        known = {key: value for key, value in facts.items() if value is not None}
        began = time.perf_counter()
        # An exception of ours is no failure by itself: a turn that is cancelled raises too.
        with self.tracer.start_as_current_span(name, kind=kind, attributes=known) as span:
            seen = _Seen(self.tracer, span, known, content=self.content)
            try:
                yield seen
            finally:
                seen.measure(self.seconds, self.tokens, time.perf_counter() - began)


@final
class _Seen:
    """One span while it is open."""

    def __init__(self, tracer: Tracer, span: Span, facts: dict[str, Any], *, content: bool) -> None:
        self._tracer = tracer
        self._span = span
        self._facts = facts
        self._content = content
        self._error = ""
        self._usage: Usage | None = None

    def turn_ended(self, *, model: str, usage: Usage, finish: str, error: SegueError | None) -> None:
        self._set({"gen_ai.response.model": model or None, "segue.finish": finish, **usage_facts(usage)})
        self._fail(error)

    def attempt_ended(self, route: str, seconds: float, error: SegueError | None) -> None:
        ended = time.time_ns()
        facts = attempt_facts(_MODEL_OPERATION, route)
        span = self._tracer.start_span(
            f"attempt {route}",
            kind=SpanKind.CLIENT,
            attributes={**facts, "error.type": error.code} if error is not None else facts,
            start_time=ended - int(seconds * _NANO),
        )
        if error is not None:
            span.set_status(Status(StatusCode.ERROR, error.code))
        span.end(ended)

    def exchange_ended(
        self,
        *,
        route: str,
        usage: Usage,
        finish: str,
        messages: tuple[Message, ...],
        answer: Message | None,
        error: SegueError | None,
    ) -> None:
        facts = request_facts(_MODEL_OPERATION, self._facts["gen_ai.request.model"], route)
        self._facts = {**facts}
        self._usage = usage
        self._set({**facts, **usage_facts(usage), "gen_ai.response.finish_reasons": (finish,)})
        if self._content:
            self._set(as_texts(content_of(messages, answer)))
        self._fail(error)

    def call_ended(self, result: ToolResult) -> None:
        if self._content:
            self._set(as_texts({"gen_ai.tool.call.result": result.output}))
        if status_of(result) != "complete":
            self._end_badly(result.reason or "tool_error")

    def measure(self, seconds: Histogram, tokens: Histogram, passed: float) -> None:
        labels = {
            name: value
            for name, value in self._facts.items()
            if name not in ("gen_ai.conversation.id", "gen_ai.tool.call.id")
            and not name.startswith("gen_ai.tool.call.")
        }
        seconds.record(passed, {**labels, "error.type": self._error} if self._error else labels)
        if self._usage is not None:
            record_tokens(tokens, self._usage, labels)

    def _set(self, facts: dict[str, Any]) -> None:
        self._span.set_attributes({name: value for name, value in facts.items() if value is not None})

    def _fail(self, error: SegueError | None) -> None:
        if error is not None:
            self._end_badly(error.code)

    def _end_badly(self, why: str) -> None:
        self._error = why
        self._span.set_attribute("error.type", why)
        self._span.set_status(Status(StatusCode.ERROR, why))

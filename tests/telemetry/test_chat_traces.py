"""What chats report to OpenTelemetry: spans that nest, names by the conventions, measurements; and nothing while it is off."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

import segue.telemetry
from segue import Agent, Chat, ScriptedProvider
from segue.errors import InvalidRequestError, OverloadError
from segue.providers import calls, says
from segue.telemetry import instrument, uninstrument
from segue.telemetry.conventions import CONTENT


class Watched:
    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.tracers = TracerProvider()
        self.tracers.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.reader = InMemoryMetricReader()
        self.meters = MeterProvider([self.reader])
        instrument(self.tracers, self.meters)

    @property
    def spans(self) -> dict[str, ReadableSpan]:
        return {span.name: span for span in self.exporter.get_finished_spans()}

    def parents(self) -> dict[str, str | None]:
        finished = self.exporter.get_finished_spans()
        names = {span.context.span_id: span.name for span in finished if span.context is not None}
        return {span.name: names[span.parent.span_id] if span.parent else None for span in finished}

    def measured(self) -> dict[str, list[dict[str, Any]]]:
        data = self.reader.get_metrics_data()
        assert data is not None
        return {
            metric.name: [dict(point.attributes or {}) for point in metric.data.data_points]
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
        }


@pytest.fixture
def watched() -> Iterator[Watched]:
    made = Watched()
    yield made
    uninstrument()
    made.tracers.shutdown()
    made.meters.shutdown()


def facts(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def test_turns_exchanges_calls_and_subagents_are_spans_below_each_other(watched: Watched) -> None:
    def weather(city: str) -> str:
        """The weather of a city."""
        with watched.tracers.get_tracer("mine").start_as_current_span("satellite"):
            return f"rain in {city}"

    provider = ScriptedProvider(
        [calls(("scout", {"task": "Look."})), says("Take an umbrella.")], name="scripted"
    )
    child = ScriptedProvider([calls(("weather", {"city": "Oslo"})), says("Rain.")], name="child")
    scout = Agent("child/c", name="scout", description="Looks.", tools=[weather])
    agent = Agent("scripted/any", name="guide", tools=[scout.as_tool()])
    made = agent.chat(session="s", providers={"scripted": provider, "child": child})
    with watched.tracers.get_tracer("mine").start_as_current_span("request"), made.blocking() as chat:
        chat.send("Umbrella?")
    assert watched.parents() == {
        "request": None,
        "invoke_agent guide": "request",
        "chat any": "invoke_agent guide",
        "attempt scripted/any": "chat any",
        "execute_tool scout": "invoke_agent guide",
        "invoke_agent scout": "execute_tool scout",
        "chat c": "invoke_agent scout",
        "attempt child/c": "chat c",
        "execute_tool weather": "invoke_agent scout",
        "satellite": "execute_tool weather",
    }
    turn = watched.spans["invoke_agent guide"]
    assert facts(turn)["gen_ai.operation.name"] == "invoke_agent"
    assert facts(turn)["gen_ai.agent.name"] == "guide"
    assert facts(turn)["gen_ai.conversation.id"] == "s"
    exchange = watched.spans["chat any"]
    assert exchange.kind is SpanKind.CLIENT
    assert facts(exchange)["gen_ai.provider.name"] == "scripted"
    assert facts(exchange)["gen_ai.response.model"] == "any"
    assert facts(exchange)["gen_ai.response.finish_reasons"] == ("stop",)
    call = facts(watched.spans["execute_tool weather"])
    assert (call["gen_ai.tool.name"], call["gen_ai.tool.type"]) == ("weather", "function")
    assert call["gen_ai.tool.call.id"]
    assert not any(
        "messages" in name or "arguments" in name for span in watched.spans.values() for name in facts(span)
    )


def test_each_attempt_and_each_failure_is_seen(watched: Watched) -> None:
    def broken() -> str:
        """Fail."""
        raise LookupError("nothing there")

    provider = ScriptedProvider(
        [
            [OverloadError("Busy.", status=529)],
            calls(("broken", {})),
            [InvalidRequestError("No.", status=400)],
        ]
    )
    with Chat("scripted/any", tools=[broken], providers={"scripted": provider}).blocking() as chat:
        answer = chat.send("Go.", raises=False)
    assert answer.error is not None
    finished = watched.exporter.get_finished_spans()
    attempts = [facts(span).get("error.type") for span in finished if span.name.startswith("attempt")]
    assert attempts == ["overload", None, "invalid_request"]
    assert [span.status.status_code for span in finished if span.name == "chat any"] == [
        StatusCode.UNSET,
        StatusCode.ERROR,
    ]
    assert facts(watched.spans["execute_tool broken"])["error.type"] == "tool_error"
    assert facts(watched.spans["invoke_agent"])["error.type"] == "invalid_request"
    assert facts(watched.spans["invoke_agent"])["segue.finish"] == "error"


def test_durations_and_tokens_are_measured_without_ids(watched: Watched) -> None:
    def look() -> str:
        """Look."""
        return "seen"

    provider = ScriptedProvider([calls(("look", {})), says("Yes.")])
    with Chat("scripted/any", tools=[look], providers={"scripted": provider}).blocking() as chat:
        chat.send("Go.")
    measured = watched.measured()
    operations = sorted(
        point["gen_ai.operation.name"] for point in measured["gen_ai.client.operation.duration"]
    )
    assert operations == ["chat", "execute_tool", "invoke_agent"]
    for points in measured.values():
        assert not any("conversation.id" in name or "call.id" in name for point in points for name in point)
    tokens = measured.get("gen_ai.client.token.usage", [])
    assert {point["gen_ai.token.type"] for point in tokens} <= {"input", "output"}


def test_content_is_recorded_only_where_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CONTENT, "SPAN_ONLY")
    made = Watched()

    def look(at: str) -> str:
        """Look."""
        return f"{at} seen"

    try:
        provider = ScriptedProvider([calls(("look", {"at": "it"})), says("Yes.")])
        with Chat("scripted/any", tools=[look], providers={"scripted": provider}).blocking() as chat:
            chat.send("Go.")
    finally:
        uninstrument()
    assert '"Yes."' in facts(made.spans["chat any"])["gen_ai.output.messages"]
    assert '"role":"tool"' in facts(made.spans["chat any"])["gen_ai.input.messages"]
    assert facts(made.spans["execute_tool look"])["gen_ai.tool.call.arguments"] == '{"at":"it"}'
    assert facts(made.spans["execute_tool look"])["gen_ai.tool.call.result"] == '"it seen"'


def test_nothing_of_opentelemetry_is_loaded_while_it_is_off() -> None:
    program = """
import sys
from segue import Chat, ScriptedProvider
from segue.providers import says
with Chat("scripted/any", providers={"scripted": ScriptedProvider([says("Yes.")])}).blocking() as chat:
    chat.send("Yes?")
assert not any(name.startswith("opentelemetry") for name in sys.modules), "loaded"
"""
    subprocess.run([sys.executable, "-c", program], check=True)  # noqa: S603


def test_without_providers_the_global_ones_are_used() -> None:
    instrument()
    try:
        assert not trace.get_current_span().is_recording()
        with Chat(
            "scripted/any", providers={"scripted": ScriptedProvider([says("Yes.")])}
        ).blocking() as chat:
            assert chat.send("Yes?").text == "Yes."
    finally:
        uninstrument()


def test_all_names_are_those_of_the_conventions() -> None:
    attributes = pytest.importorskip("opentelemetry.semconv._incubating.attributes.gen_ai_attributes")
    measurements = pytest.importorskip("opentelemetry.semconv._incubating.metrics.gen_ai_metrics")
    if not hasattr(attributes, "GEN_AI_USAGE_REASONING_OUTPUT_TOKENS"):
        pytest.skip("the conventions that are installed are older than the names")
    known = {value for of in (attributes, measurements) for value in vars(of).values() if type(value) is str}
    folder = Path(segue.telemetry.__file__).parent
    named = re.compile(r'"(gen_ai\.[a-z_.]+[a-z])"')
    written = {name for file in folder.glob("*.py") for name in named.findall(file.read_text("utf-8"))}
    assert len(written) > 15
    assert written <= known

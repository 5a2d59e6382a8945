"""What operators' systems get of each request: Prometheus and OpenTelemetry, without content unless it is asked for."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client.parser import text_string_to_metric_families

from gateway.world import GatewayWorld
from segue.config.schema import CallerSettings, GatewaySettings, TelemetrySettings
from segue.emulators.faults import Fault
from segue.gateway.accounts.account import digest_of
from segue.gateway.doors.control import open_control
from segue.gateway.telemetry.metrics import GatewayMetrics
from segue.gateway.telemetry.reporters import Reporters
from segue.gateway.telemetry.traces import GatewayTraces

CHAT = "/v1/chat/completions"
WORDS = "the word of the day is xylophone"


def chat(model: str = "fast") -> dict[str, Any]:
    return {"model": model, "messages": [{"role": "user", "content": WORDS}]}


def sample(text: bytes, name: str, **labels: str) -> float:
    return sum(
        one.value
        for family in text_string_to_metric_families(text.decode())
        for one in family.samples
        if one.name == name and labels.items() <= one.labels.items()
    )


def test_metrics_count_requests_tokens_and_cost_for_operators() -> None:
    async def story() -> None:
        world = GatewayWorld()
        metrics = GatewayMetrics()
        world.gateway._on_report = metrics.record
        world.gateway._control = open_control(
            world.config,
            world.gateway.names._providers,
            world.store,
            metrics.text,
            world.gateway.memory.recent,
        )
        for _ in range(3):
            assert (await world.ask(CHAT, chat())).status == 200
        assert (await world.ask(CHAT, chat("nobody/knows"))).status == 404
        shown = await world.ask("/metrics", method="GET")
        assert shown.status == 200
        assert shown.headers["content-type"].startswith("text/plain")
        route = {"route": "openai/gpt-4.1", "caller": "local"}
        assert sample(shown.body, "segue_requests_total", status="200", **route) == 3
        assert sample(shown.body, "segue_requests_total", status="404") == 1
        assert sample(shown.body, "segue_tokens_total", kind="output", **route) > 0
        assert 0 < sample(shown.body, "segue_cost_dollars_total", **route) < 0.01
        assert sample(shown.body, "segue_request_seconds_count", **route) == 3
        assert sample(shown.body, "segue_first_token_seconds_count", **route) == 3
        assert sample(shown.body, "segue_errors_total", code="model_not_found") == 1
        assert b"knows" not in shown.body, "no label holds what a client made up"

    asyncio.run(story())


def test_metrics_are_for_operators_only() -> None:
    async def story() -> None:
        world = GatewayWorld(callers={"ann": CallerSettings(key_sha256=digest_of("key"))})
        world.gateway._control = open_control(
            world.config,
            world.gateway.names._providers,
            world.store,
            GatewayMetrics().text,
            world.gateway.memory.recent,
        )
        assert (await world.ask("/metrics", method="GET")).status == 401
        refused = await world.ask("/metrics", method="GET", headers={"authorization": "Bearer key"})
        assert refused.status == 403

    asyncio.run(story())


def traced(
    world: GatewayWorld, *, content: bool = False
) -> tuple[InMemorySpanExporter, InMemoryMetricReader]:
    exporter, reader = InMemorySpanExporter(), InMemoryMetricReader()
    tracers = TracerProvider()
    tracers.add_span_processor(SimpleSpanProcessor(exporter))
    world.gateway._on_report = GatewayTraces(tracers, MeterProvider([reader]), content=content).record
    return exporter, reader


def test_one_span_covers_a_request_and_each_attempt_is_below_it() -> None:
    async def story() -> None:
        world = GatewayWorld(
            profiles={"team": {"members": ["anthropic/claude-sonnet-4-6", "openai/gpt-4.1"]}}
        )
        exporter, reader = traced(world)
        world.emulator.faults.append(Fault(status=529, provider="anthropic"))
        parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
        headers = {"traceparent": parent, "x-session-id": "s1"}
        assert (
            await world.ask("/v1/messages", {"max_tokens": 9, **chat("team")}, headers=headers)
        ).status == 200
        first, second, whole = exporter.get_finished_spans()
        assert [first.name, second.name, whole.name] == [
            "attempt anthropic/claude-sonnet-4-6",
            "attempt openai/gpt-4.1",
            "chat team",
        ]
        for attempt in (first, second):
            assert attempt.parent == whole.context
        assert first.attributes is not None
        assert first.attributes["error.type"] == "overloaded_error"
        assert not first.status.is_ok
        assert whole.status.is_ok or whole.status.is_unset
        assert whole.parent is not None
        assert f"{whole.parent.trace_id:032x}" == parent[3:35]
        facts = dict(whole.attributes or {})
        assert facts["gen_ai.operation.name"] == "chat"
        assert facts["gen_ai.request.model"] == "team"
        assert facts["gen_ai.provider.name"] == "openai"
        assert facts["gen_ai.response.model"] == "gpt-4.1"
        assert facts["user.id"] == "local"
        assert len(str(facts["session.id"])) < 200
        assert facts["segue.failovers"] == 1
        assert facts["gen_ai.usage.output_tokens"]
        assert WORDS not in str([span.to_json() for span in exporter.get_finished_spans()])
        data = reader.get_metrics_data()
        assert data is not None
        names = {one.name for scope in data.resource_metrics[0].scope_metrics for one in scope.metrics}
        assert names == {"gen_ai.client.token.usage", "gen_ai.client.operation.duration"}

    asyncio.run(story())


def test_content_is_recorded_only_when_asked_for() -> None:
    async def story() -> None:
        world = GatewayWorld()
        exporter, _ = traced(world, content=True)
        await world.ask(CHAT, chat())
        facts = dict(exporter.get_finished_spans()[-1].attributes or {})
        asked = json.loads(str(facts["gen_ai.input.messages"]))
        assert asked == [{"role": "user", "parts": [{"type": "text", "content": WORDS}]}]
        assert "I know: 0 results." in str(facts["gen_ai.output.messages"])

    asyncio.run(story())


def test_content_is_an_event_of_its_span_where_events_are_asked_for() -> None:
    async def story() -> None:
        world = GatewayWorld()
        exporter = InMemorySpanExporter()
        events = InMemoryLogRecordExporter()  # type: ignore[no-untyped-call]
        tracers, loggers = TracerProvider(), LoggerProvider()
        tracers.add_span_processor(SimpleSpanProcessor(exporter))
        loggers.add_log_record_processor(SimpleLogRecordProcessor(events))
        world.gateway._on_report = GatewayTraces(tracers, events=loggers).record
        await world.ask(CHAT, chat())
        span = exporter.get_finished_spans()[-1]
        assert "gen_ai.input.messages" not in (span.attributes or {})
        (event,) = events.get_finished_logs()
        record = event.log_record
        assert record.event_name == "gen_ai.client.inference.operation.details"
        assert span.context is not None
        assert (record.trace_id, record.span_id) == (span.context.trace_id, span.context.span_id)
        facts = dict(record.attributes or {})
        assert WORDS in str(facts["gen_ai.input.messages"])
        assert "I know: 0 results." in str(facts["gen_ai.output.messages"])
        assert facts["gen_ai.request.model"] == "fast"

    asyncio.run(story())


def test_metrics_show_what_is_kept_for_next_requests_and_what_running_ones_hold() -> None:
    async def story() -> None:
        world, metrics = GatewayWorld(), GatewayMetrics()
        world.gateway._on_report = metrics.record
        assert (await world.ask(CHAT, chat())).status == 200
        text = metrics.text()
        kinds = ("histories", "plans", "conversations", "replies")
        assert all(sample(text, "segue_warm_bytes", kind=kind) > 0 for kind in kinds)
        assert sample(text, "segue_warm_bytes") < world.config.gateway.limits.warm_bytes
        assert b"segue_held_bytes" in text

    asyncio.run(story())


def test_metrics_count_seals_the_known_prefix_and_what_is_reserved() -> None:
    async def story() -> None:
        settings = {
            "callers": {"ann": CallerSettings(key_sha256=digest_of("segue-ann"), dollars_per_day=1.0)}
        }
        world = GatewayWorld(**settings)
        metrics = GatewayMetrics()
        world.gateway._on_report = metrics.record
        reserved: list[float] = []

        def reserve(caller: str, dollars: float) -> None:
            metrics.reserve(caller, dollars)
            reserved.append(sample(metrics.text(), "segue_budget_reserved_dollars", caller="ann"))

        world.gateway.accounts._reservations._on_reserve = reserve
        body, headers = chat(), {"authorization": "Bearer segue-ann"}
        answered = await world.ask(CHAT, body, headers=headers)
        body["messages"] += [
            json.loads(answered.body)["choices"][0]["message"],
            {"role": "user", "content": "And?"},
        ]
        assert (await world.ask(CHAT, body, headers=headers)).status == 200
        body["messages"] += [
            {"role": "assistant", "content": "Written elsewhere."},
            {"role": "user", "content": "So?"},
        ]
        assert (await world.ask(CHAT, body, headers=headers)).status == 200
        assert len(reserved) == 6
        assert min(reserved[::2]) > 0
        assert max(map(abs, reserved[1::2])) < 1e-9
        assert sample(metrics.text(), "segue_seals_total", result="restored") == 2
        assert sample(metrics.text(), "segue_seals_total", result="missing") == 1
        assert sample(metrics.text(), "segue_prefix_messages_total", result="read") == 5
        assert sample(metrics.text(), "segue_prefix_messages_total", result="reused") == 4

    asyncio.run(story())


def test_nothing_is_loaded_where_telemetry_is_off() -> None:
    program = (
        "import sys; from segue.config.schema import GatewaySettings;"
        "from segue.gateway.telemetry.reporters import Reporters; Reporters(GatewaySettings());"
        "import segue.gateway.app;"
        "print([name for name in sys.modules if name.startswith(('opentelemetry', 'prometheus'))])"
    )
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)  # noqa: S603
    assert shown.stdout == "[]\n"


def test_spans_reach_a_real_collector(monkeypatch: pytest.MonkeyPatch) -> None:
    receiver = Path(__file__).with_name("otlp_receiver.py")
    with subprocess.Popen([sys.executable, receiver], stdout=subprocess.PIPE, text=True) as process:  # noqa: S603
        try:
            assert process.stdout is not None
            port = int(process.stdout.readline())
            monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{port}")

            async def story() -> None:
                world = GatewayWorld()
                reporters = Reporters(GatewaySettings(log="off", telemetry=TelemetrySettings(traces=True)))
                world.gateway._on_report = reporters.record
                await world.ask(CHAT, chat())
                await reporters.close()

            asyncio.run(story())
            arrived = [json.loads(process.stdout.readline()) for _ in range(2)]
        finally:
            process.kill()
    assert {name for name, _, _ in arrived} == {"attempt openai/gpt-4.1", "chat fast"}
    assert {service for _, service, _ in arrived} == {"segue-gateway"}
    assert not any("messages" in name for _, _, names in arrived for name in names)


def test_every_metric_of_the_dashboard_exists() -> None:
    board = json.loads((Path(__file__).parents[3] / "deploy/grafana/segue-gateway.json").read_text())
    asked = {
        name
        for panel in board["panels"]
        for target in panel["targets"]
        for name in re.findall(r"segue_\w+", target["expr"])
    }
    families = text_string_to_metric_families(GatewayMetrics().text().decode())
    known = {f"{family.name}{ending}" for family in families for ending in ("", "_total", "_bucket")}
    assert asked <= known

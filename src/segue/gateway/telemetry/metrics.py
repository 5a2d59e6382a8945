"""Counts of all requests for Prometheus, as `GET /metrics` shows them. Several workers are counted together.

Labels have few values: routes, callers, wires and kinds, never a name that a client could make up.
"""

from __future__ import annotations

import os
from functools import cache
from time import monotonic
from typing import TYPE_CHECKING, Final, final

from segue.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from segue.gateway.telemetry.alerts import Observation
    from segue.gateway.telemetry.report import RequestReport

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
SHARED_FOLDER: Final = "PROMETHEUS_MULTIPROC_DIR"
"""The variable that names the folder in which several workers count together."""
_SECONDS: Final = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80, 160, 320, 640)
_MOST_CODES: Final = 100
_TOKENS: Final = ("input_tokens", "output_tokens", "cached_tokens", "cache_write_tokens", "reasoning_tokens")


@final
class GatewayMetrics:
    """The counters of one process."""

    def __init__(self) -> None:
        try:
            from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram  # noqa: PLC0415 - an extra
        except ImportError as error:
            raise UsageError(
                "The metrics of the gateway need prometheus-client.",
                code="missing_extra",
                hint='In the clone of segue run: python -m pip install ".[metrics]". Or set gateway.telemetry.metrics = false.',
            ) from error
        registry = self._registry = CollectorRegistry()
        self._codes: set[str] = set()

        # To look a series up by its labels takes ten times as long as to count, so they are kept.
        def counter(name: str, purpose: str, *labels: str) -> Callable[..., Counter]:
            return cache(Counter(f"segue_{name}", purpose, labels, registry=registry).labels)

        def seconds(name: str, purpose: str, *labels: str) -> Callable[..., Histogram]:
            whole = Histogram(f"segue_{name}_seconds", purpose, labels, registry=registry, buckets=_SECONDS)
            return cache(whole.labels)

        self._requests = counter("requests", "Requests", "wire", "operation", "route", "caller", "status")
        self._errors = counter("errors", "Errors that clients got, by code", "code", "route")
        self._tokens = counter("tokens", "Tokens that providers counted", "kind", "route", "caller")
        self._cost = counter("cost_dollars", "Cost, as far as prices are known", "route", "caller")
        self._duration = seconds("request", "Whole requests", "route", "caller")
        self._first = seconds(
            "first_token", "Until the provider sent something of the reply", "route", "caller"
        )
        self._store = Histogram(
            "segue_store_seconds", "Remembering a reply", registry=registry, buckets=_SECONDS
        )
        self._repairs = counter("repairs", "What was changed to make requests valid", "kind")
        self._losses = counter("losses", "What a provider did not get", "kind")
        self._seals = counter(
            "seals",
            "Replies of clients' histories, by whether their originals with all seals were restored, are missing, or could "
            "not be read because the store failed",
            "result",
        )
        self._prefix = counter(
            "prefix_messages",
            "Messages of clients' histories, by whether they were reused from the last request or read",
            "result",
        )
        reserved = Gauge(
            "segue_budget_reserved_dollars",
            "What running requests of callers with limits may come to",
            ("caller",),
            registry=registry,
            multiprocess_mode="livesum",
        )
        self._reserved = cache(reserved.labels)
        warm = Gauge(
            "segue_warm_bytes",
            "Kept for the next requests of conversations, within gateway.limits.warm_bytes; large requests beside it",
            ("kind",),
            registry=registry,
            multiprocess_mode="livesum",
        )
        self._warm = cache(warm.labels)
        left = Gauge(
            "segue_headroom_left",
            "What a provider has said to be left of a rate limit, in its last reply",
            ("route", "kind"),
            registry=registry,
            multiprocess_mode="livemostrecent",
        )
        self._left = cache(left.labels)
        resets = Gauge(
            "segue_headroom_reset_seconds",
            "Seconds from that reply until the limit is whole again",
            ("route", "kind"),
            registry=registry,
            multiprocess_mode="livemostrecent",
        )
        self._resets = cache(resets.labels)
        self._held = Gauge(
            "segue_held_bytes",
            "Held by running requests and background replies, within gateway.limits.held_bytes",
            registry=registry,
            multiprocess_mode="livesum",
        )
        used = Gauge(
            "segue_budget_used_ratio",
            "The part of a caller's budget that is spent, by day and month",
            ("caller", "window"),
            registry=registry,
            multiprocess_mode="livemostrecent",
        )
        self._used = cache(used.labels)
        rests = Gauge(
            "segue_route_resting",
            "1 while a member of a profile is not asked, since it failed several times",
            ("route",),
            registry=registry,
            multiprocess_mode="livemax",
        )
        self._rests = cache(rests.labels)
        stores = Gauge(
            "segue_store_up",
            "1 if the store answers, 0 if not",
            ("store",),
            registry=registry,
            multiprocess_mode="livemin",
        )
        self._stores = cache(stores.labels)
        self._faults = counter(
            "stream_faults", "Streams that failed, before or after the first content", "phase"
        )
        self._failovers, self._gone, self._forwarded = (
            Counter(f"segue_{name}", purpose, registry=registry)
            for name, purpose in (
                ("failovers", "Requests that went on to another route"),
                ("client_disconnects", "Clients that left before the end"),
                ("forwarded", "Requests whose bytes went through unchanged"),
            )
        )

    def record(self, report: RequestReport) -> None:
        route, caller = report.route, report.caller
        self._requests(report.wire, report.operation, route, caller, str(report.status)).inc()
        if report.error:
            self._errors(self._known_code(report.error), route).inc()
        if not report.operation:
            return
        self._measure(report)
        self._measure_memory(report)
        self._measure_headroom(report)
        for expense in report.expenses:
            for kind in _TOKENS:
                if count := getattr(expense.usage, kind):
                    self._tokens(kind.removesuffix("_tokens"), expense.route, caller).inc(count)
            if expense.dollars:
                self._cost(expense.route, caller).inc(expense.dollars)
        for kind, number in report.repairs.items():
            self._repairs(kind).inc(number)
        for kind, number in report.losses.items():
            self._losses(kind).inc(number)
        self._count_history(report)
        if report.stream and report.error:
            self._faults("before" if report.first_content is None else "after").inc()
        for counter, number in (
            (self._failovers, report.failovers),
            (self._gone, int(report.client_gone)),
            (self._forwarded, int(report.forwarded)),
        ):
            if number:
                counter.inc(number)

    def _count_history(self, report: RequestReport) -> None:
        lost = "failed" if report.store_failed else "missing"
        read = len(report.messages) - report.known_messages
        for counter, result, number in (
            (self._seals, "restored", report.restored),
            (self._seals, lost, report.missing),
            (self._prefix, "reused", report.known_messages),
            (self._prefix, "read", read),
        ):
            if number:
                counter(result).inc(number)

    def reserve(self, caller: str, dollars: float) -> None:
        """A caller's running requests hold so much more of its budget, or less."""
        self._reserved(caller).inc(dollars)

    def observe(self, seen: Observation) -> None:
        """How the gateway is, apart from any request."""
        for budget in seen.budgets:
            self._used(budget.caller, budget.window).set(budget.share)
        for route, error in seen.routes.items():
            self._rests(route).set(bool(error))
        for store, answers in seen.stores.items():
            self._stores(store).set(answers)

    def _known_code(self, code: str) -> str:
        """A provider could make up as many codes as it likes."""
        if len(self._codes) < _MOST_CODES:
            self._codes.add(code)
        return code if code in self._codes else "other"

    def _measure_headroom(self, report: RequestReport) -> None:
        for route, limits in report.headroom.items():
            for limit in limits:
                self._left(route, limit.kind).set(limit.left)
                self._resets(route, limit.kind).set(max(0.0, limit.resets_at - monotonic()))

    def _measure_memory(self, report: RequestReport) -> None:
        if not report.warm_bytes:
            return  # a reply in the background
        self._held.set(report.held_bytes)
        for kind, size in report.warm_bytes.items():
            self._warm(kind).set(size)

    def _measure(self, report: RequestReport) -> None:
        self._duration(report.route, report.caller).observe(report.seconds)
        if report.first_content is not None:
            self._first(report.route, report.caller).observe(report.first_content)
        if report.store_seconds:
            self._store.observe(report.store_seconds)

    def text(self) -> bytes:
        """In the form that Prometheus reads."""
        from prometheus_client import CollectorRegistry, generate_latest  # noqa: PLC0415

        registry = self._registry
        if os.environ.get(SHARED_FOLDER):
            from prometheus_client.multiprocess import MultiProcessCollector  # noqa: PLC0415

            registry = CollectorRegistry()
            MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        return generate_latest(registry)


def forget_process(pid: int) -> None:
    """A worker has ended: its counters stay, what its requests held does not."""
    from prometheus_client.multiprocess import mark_process_dead  # noqa: PLC0415 - an extra

    mark_process_dead(pid)  # type: ignore[no-untyped-call]

"""Alerts: each is sent once to a webhook and measured for Prometheus; that something is over is sent, too."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import Any

import msgspec
import pytest

from gateway.world import ROUTES, GatewayWorld
from segue.config.schema import AlertSettings, CallerSettings
from segue.emulators.faults import Fault
from segue.errors import JournalError
from segue.gateway.accounts.account import digest_of
from segue.gateway.telemetry.alerts import AlertWatch, BudgetUse, Observation, alerts_for
from segue.gateway.telemetry.metrics import GatewayMetrics
from segue.gateway.telemetry.observation import observe
from segue.routing import BreakerSettings
from segue.transports.asgi import AsgiTransport

SECRET = "https://hooks.example.com/services/T0SECRET"  # noqa: S105
KEY = {"authorization": "Bearer key-of-ann"}
CHAT = "/v1/chat/completions"


class Webhook:
    """Keeps what it gets, and answers with the status that it is given."""

    def __init__(self) -> None:
        self.status = 200
        self.got: list[dict[str, Any]] = []

    async def __call__(self, _scope: Any, receive: Any, send: Any) -> None:
        body = (await receive())["body"]
        if self.status < 300:
            self.got.append(msgspec.json.decode(body))
        await send({"type": "http.response.start", "status": self.status, "headers": []})
        await send({"type": "http.response.body", "body": b""})


def watched(
    world: GatewayWorld, hook: Webhook, monkeypatch: pytest.MonkeyPatch, metrics: GatewayMetrics | None = None
) -> AlertWatch:
    monkeypatch.setenv("SEGUE_ALERT_WEBHOOK", SECRET)
    return AlertWatch(
        AlertSettings(),
        partial(observe, world.gateway),
        measure=None if metrics is None else metrics.observe,
        transport=AsgiTransport(hook),
        seconds=3600,
    )


def budget(spent: float) -> Observation:
    use = BudgetUse(caller="ann", window="day", began="2026-11-18", spent=spent, limit=10.0)
    return Observation(budgets=(use,))


def test_the_highest_mark_that_a_budget_has_passed_is_the_alert() -> None:
    assert not alerts_for(budget(7.99), (80, 100))
    assert list(alerts_for(budget(8.0), (80, 100))) == ["budget/ann/2026-11-18/80"]
    assert list(alerts_for(budget(10.5), (80, 100))) == ["budget/ann/2026-11-18/100"]
    (spent,) = alerts_for(budget(10.5), (80, 100)).values()
    assert spent.text == (
        "ann has spent $10.50 of its budget of $10.00 of today (105%). "
        "Its requests are refused until the day ends (UTC)."
    )


def test_a_spent_budget_is_reported_once_to_the_webhook_and_to_prometheus(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story() -> None:
        world, hook, metrics = GatewayWorld(callers={"ann": _caller()}), Webhook(), GatewayMetrics()
        watch = watched(world, hook, monkeypatch, metrics)
        body = {"model": "fast", "messages": [{"role": "user", "content": "Hello."}]}
        for _ in range(2):
            answer = await world.ask(CHAT, body, headers=KEY)
            watch.record(world.reports[-1])
            await world.gateway.settle()
            await watch.look()
        assert answer.status == 429, answer.body
        await watch.close()
        assert [(one["caller"], one["percent"], one["window"]) for one in hook.got] == [("ann", 100, "day")]
        shown = metrics.text().decode()
        assert 'segue_budget_used_ratio{caller="ann",window="day"}' in shown
        assert 'segue_store_up{store="accounts"} 1.0' in shown

    asyncio.run(story())


def _caller() -> CallerSettings:
    return CallerSettings(key_sha256=digest_of("key-of-ann"), dollars_per_day=0.000001)


def test_a_route_that_rests_is_reported_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        profile = {"members": [ROUTES["anthropic"], ROUTES["chat"]], "breaker": BreakerSettings(failures=1)}
        world, hook, metrics = GatewayWorld(profiles={"team": profile}), Webhook(), GatewayMetrics()
        watch = watched(world, hook, monkeypatch, metrics)
        world.emulator.faults.append(Fault(kind="status", status=529, provider="anthropic"))
        body = {"model": "team", "messages": [{"role": "user", "content": "Hello."}]}
        assert (await world.ask(CHAT, body)).status == 200
        await watch.look()
        await watch.look()
        assert [one["route"] for one in hook.got] == [ROUTES["anthropic"]]
        assert "Overloaded" in hook.got[0]["text"]
        shown = metrics.text().decode()
        assert f'segue_route_resting{{route="{ROUTES["anthropic"]}"}} 1.0' in shown
        assert f'segue_route_resting{{route="{ROUTES["chat"]}"}} 0.0' in shown

    asyncio.run(story())


def test_that_a_route_or_a_store_is_back_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        monkeypatch.setenv("SEGUE_ALERT_WEBHOOK", SECRET)
        looks = [
            ({"a/b": "Overloaded"}, True),
            ({"a/b": ""}, False),
            ({"a/b": ""}, True),
            ({"a/b": "No"}, True),
        ]
        seen = iter(Observation(routes=routes, stores={"memory": answers}) for routes, answers in looks)

        async def look(_callers: object) -> Observation:
            return next(seen)

        hook = Webhook()
        watch = AlertWatch(AlertSettings(), look, transport=AsgiTransport(hook))
        for _ in looks:
            await watch.look()
        assert [(one["id"], one.get("resolved", False)) for one in hook.got] == [
            ("route/a/b", False),
            ("store/memory", False),
            ("route/a/b", True),
            ("store/memory", True),
            ("route/a/b", False),
        ]

    asyncio.run(story())


def test_a_store_that_does_not_answer_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        world, hook = GatewayWorld(), Webhook()
        watch = watched(world, hook, monkeypatch)

        async def fails() -> None:
            raise JournalError("The disk is full.", code="store_failed")

        monkeypatch.setattr(world.gateway.accounts.store, "check", fails)
        await watch.look()
        assert [one["store"] for one in hook.got] == ["accounts"]
        assert hook.got[0]["text"] == "The accounts store of the gateway does not answer."

    asyncio.run(story())


def test_an_alert_that_cannot_be_sent_waits_and_the_address_is_never_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        hook = Webhook()
        monkeypatch.setenv("SEGUE_ALERT_WEBHOOK", SECRET)

        async def seen(_callers: object) -> Observation:
            return budget(9.0)

        watch = AlertWatch(AlertSettings(), seen, transport=AsgiTransport(hook))
        hook.status = 503
        await watch.look()
        assert not hook.got
        hook.status = 200
        await watch.look()
        await watch.look()
        assert [one["id"] for one in hook.got] == ["budget/ann/2026-11-18/80"]

    with caplog.at_level(logging.WARNING):
        asyncio.run(story())
    assert "HTTP 503" in caplog.text
    assert "T0SECRET" not in caplog.text


def test_of_several_workers_one_sends(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    async def story() -> None:
        monkeypatch.setenv("SEGUE_ALERT_WEBHOOK", SECRET)
        monkeypatch.setenv("SEGUE_ALERT_LOCK", str(tmp_path / "lock"))
        hook = Webhook()

        async def seen(_callers: object) -> Observation:
            return budget(9.0)

        first, second = (AlertWatch(AlertSettings(), seen, transport=AsgiTransport(hook)) for _ in range(2))
        await first.look()
        await second.look()
        assert len(hook.got) == 1
        await first.close()
        await second.look()
        assert len(hook.got) == 2, "the next one takes over when the sender ends"
        await second.close()

    asyncio.run(story())

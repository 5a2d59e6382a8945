"""Attacks on callers: keys that are forged, expired, revoked or somebody else's; call ids of others; keys where none belongs."""

from __future__ import annotations

import asyncio
import json
import logging
from pathlib import Path
from typing import Any

import psycopg
import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from gateway.crashes import TOOL, signatures_in
from gateway.world import ROUTES, GatewayWorld, providers_at
from postgres_server import run_server, schema_url
from segue.config.schema import AccountSettings, Allowance, CallerSettings
from segue.databases.postgres.address import read_address
from segue.emulators.faults import Fault
from segue.gateway.accounts.account import digest_of
from segue.gateway.accounts.postgres_store import PostgresAccountStore
from segue.gateway.accounts.register import Accounts
from segue.gateway.accounts.sqlite_store import SQLiteAccountStore
from segue.gateway.app import Gateway
from segue.gateway.memory.installation_key import InstallationKey
from segue.gateway.memory.memory import Memory
from segue.gateway.memory.postgres_store import PostgresMemoryStore
from segue.gateway.memory.sqlite_store import SQLiteMemoryStore
from segue.gateway.telemetry.access_log import json_line, text_line
from segue.gateway.telemetry.metrics import GatewayMetrics
from segue.gateway.telemetry.traces import GatewayTraces

ANN, BOB = "segue-Key-of-ann-0f5c3a9d7e1b48265d90", "segue-Key-of-bob-77aa3a9d7e1b48265d90"
CHAT = "/v1/chat/completions"
CALLERS = {
    name: CallerSettings(key_sha256=digest_of(key), dollars_per_day=1.0)
    for name, key in (("ann", ANN), ("bob", BOB))
}


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


def hello(model: str = "fast") -> dict[str, Any]:
    return {"model": model, "messages": [{"role": "user", "content": "Hello."}]}


@pytest.mark.parametrize(
    "forged",
    [
        "",
        "segue-",
        "ann",
        ANN[:-1],
        ANN + "x",
        ANN.lower(),
        ANN.replace("-", "_"),
        f"{ANN},{BOB}",
        f'"{ANN}"',
        digest_of(ANN),
        digest_of(ANN).upper(),
        "sk-emulated",
        "%00" + ANN,
        "' OR '1'='1",
        "*",
    ],
)
def test_a_forged_key_opens_no_door_and_is_not_repeated(forged: str) -> None:
    async def story() -> None:
        world = GatewayWorld(callers=CALLERS)
        paths: list[tuple[str, Any]] = [
            (CHAT, hello()),
            ("/v1/messages", {"max_tokens": 9, **hello()}),
            ("/v1/responses", {"model": "fast", "input": "Hello."}),
            ("/v1beta/models/fast:generateContent", {"contents": [{"parts": [{"text": "Hello."}]}]}),
            ("/segue/v1/callers", {"name": "eve", "admin": True}),
        ]
        for path, body in paths:
            for header in ("authorization", "x-api-key", "x-goog-api-key"):
                value = f"Bearer {forged}" if header == "authorization" else forged
                refused = await world.ask(path, body, headers={header: value})
                assert refused.status == 401, (path, header)
                assert len(forged) < 8 or forged.encode() not in refused.body
        assert not world.emulator.log

    asyncio.run(story())


def test_a_key_that_was_rotated_or_revoked_is_as_good_as_none(tmp_path: Path) -> None:
    async def story() -> None:
        world = GatewayWorld()
        store = SQLiteAccountStore(tmp_path / "accounts.db")
        accounts = Accounts(store, {}, AccountSettings())
        world.gateway.accounts = accounts
        first = await accounts.administration.create("eve", Allowance(), labels={})
        assert (await world.ask(CHAT, hello(), headers=bearer(first))).status == 200
        second = await accounts.administration.rotate("eve")
        accounts._keys._checked = 0.0
        assert (await world.ask(CHAT, hello(), headers=bearer(first))).status == 401
        assert (await world.ask(CHAT, hello(), headers=bearer(second))).status == 200
        await accounts.administration.revoke("eve")
        accounts._keys._checked = 0.0
        for key in (first, second):
            assert (await world.ask(CHAT, hello(), headers=bearer(key))).status == 401
        assert (await world.ask(CHAT, hello())).status == 401, "no caller is left, and still nobody is let in"
        await accounts.close()

    asyncio.run(story())


def test_the_call_ids_of_one_caller_give_another_nothing() -> None:
    async def story() -> None:
        profiles = {"team": {"members": [ROUTES["gemini"], ROUTES["anthropic"]], "policy": "failover"}}
        world = GatewayWorld(callers=CALLERS, profiles=profiles)
        tools = [{"type": "function", "function": {**TOOL, "name": "weather"}}]
        question = {"role": "user", "content": "Please look it up."}
        body = {
            "model": ROUTES["anthropic"],
            "reasoning_effort": "high",
            "tools": tools,
            "messages": [question],
        }
        answered = await world.ask(CHAT, body, headers=bearer(ANN))
        reply = answered.json()["choices"][0]["message"]
        results = [
            {"role": "tool", "tool_call_id": call["id"], "content": "sunny"} for call in reply["tool_calls"]
        ]
        continued = {**body, "messages": [question, reply, *results]}
        stolen = await world.ask(CHAT, continued, headers=bearer(BOB))
        assert stolen.status == 200
        assert signatures_in(world.asked(ROUTES["anthropic"])[-1].body) == 0, "bob gets none of ann's seals"
        elsewhere = await world.ask(CHAT, {**continued, "model": "team"}, headers=bearer(BOB))
        assert elsewhere.headers["x-segue-route"] == ROUTES["gemini"], "nor the route of her turn"
        assert elsewhere.headers["x-segue-conversation"] != answered.headers["x-segue-conversation"]
        own = await world.ask(CHAT, {**continued, "model": "team"}, headers=bearer(ANN))
        assert own.headers["x-segue-route"] == ROUTES["anthropic"]
        assert signatures_in(world.asked(ROUTES["anthropic"])[-1].body) == 1, "ann gets hers"

    asyncio.run(story())


@pytest.mark.parametrize("to", ["", f"?to={ROUTES['anthropic']}"])
def test_what_a_target_would_get_is_shown_only_for_models_that_the_caller_may_use(to: str) -> None:
    async def story() -> None:
        callers = {"ann": CallerSettings(key_sha256=digest_of(ANN), models=["fast"])}
        world = GatewayWorld(callers=callers)
        asked = hello("fast" if to else ROUTES["anthropic"])
        refused = await world.ask(f"/segue/v1/explain{to}", asked, headers=bearer(ANN))
        assert refused.status == 403
        assert b"may not use the model" in refused.body
        assert (await world.ask("/segue/v1/explain", hello(), headers=bearer(ANN))).status == 200

    asyncio.run(story())


def test_what_a_target_would_get_is_shown_within_the_limits_of_the_caller() -> None:
    async def story() -> None:
        callers = {"ann": CallerSettings(key_sha256=digest_of(ANN), requests_per_minute=3)}
        world = GatewayWorld(callers=callers)
        statuses = [
            (await world.ask("/segue/v1/explain", hello(), headers=bearer(ANN))).status for _ in range(5)
        ]
        assert statuses == [200, 200, 200, 429, 429]
        assert (await world.ask(CHAT, hello(), headers=bearer(ANN))).status == 429, "the same limit"
        await world.gateway.settle()

    asyncio.run(story())


def test_a_caller_switches_no_conversation_of_another_and_an_operator_any(tmp_path: Path) -> None:
    async def story() -> None:
        world = GatewayWorld()
        accounts = Accounts(SQLiteAccountStore(tmp_path / "accounts.db"), {}, AccountSettings())
        world.gateway.accounts = accounts
        ann, bob, boss = [
            await accounts.administration.create(name, Allowance(), labels={}, admin=name == "boss")
            for name in ("ann", "bob", "boss")
        ]
        answered = await world.ask(CHAT, hello(), headers={**bearer(ann), "x-session-id": "s"})
        conversation = answered.headers["x-segue-conversation"]
        await world.gateway.settle()
        path = f"/segue/v1/conversations/{conversation}/switch"
        wanted = {"model": ROUTES["anthropic"]}
        assert (await world.ask(path, wanted, headers=bearer(bob))).status == 404
        assert (await world.ask(path, wanted, headers=bearer(boss))).status == 200
        switched = await world.ask(CHAT, hello(), headers={**bearer(ann), "x-session-id": "s"})
        assert switched.headers["x-segue-route"] == ROUTES["anthropic"]
        await accounts.close()

    asyncio.run(story())


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_no_key_is_in_a_log_a_trace_a_metric_an_error_or_the_database(
    kind: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    url = schema_url(tmp_path)
    shown: list[str] = []
    made: list[str] = []

    async def story() -> None:
        world = GatewayWorld(callers=CALLERS)
        exporter, metrics = InMemorySpanExporter(), GatewayMetrics()
        tracers = TracerProvider()
        tracers.add_span_processor(SimpleSpanProcessor(exporter))
        traces = GatewayTraces(tracers, content=True)
        if kind == "postgres":
            store: Any = PostgresAccountStore(url)
            memory: Any = PostgresMemoryStore(url)
        else:
            store = SQLiteAccountStore(tmp_path / "accounts.db")
            memory = SQLiteMemoryStore(tmp_path / "memory.db")
        accounts = Accounts(store, CALLERS, AccountSettings())

        def report(one: Any) -> None:
            shown.extend((json_line(one, 0.0), text_line(one, 0.0), repr(one)))
            metrics.record(one)
            traces.record(one)

        gateway = Gateway(
            world.config,
            providers_at(world.app),
            Memory(memory, InstallationKey(b"k" * 32)),
            accounts=accounts,
            on_report=report,
        )
        made.append(await accounts.administration.create("eve", Allowance(dollars_per_day=1.0), labels={}))
        for key in (ANN, BOB, *made, ANN + "-forged"):
            world.emulator.faults.append(Fault(status=401, message="Wrong key: sk-emulated."))
            for path in (CHAT, f"/v1beta/models/fast:generateContent?key={key}", f"/nowhere?key={key}"):
                body = hello() if path == CHAT else {"contents": [{"parts": [{"text": "Hello."}]}]}
                answered = await world.ask(path, body, headers=bearer(key), app=gateway)
                shown.append(str(answered))
        shown.append(metrics.text().decode())
        shown.extend(str(span.to_json()) for span in exporter.get_finished_spans())
        shown.extend(map(repr, (store, memory, accounts, await store.accounts())))
        await gateway.close()

    asyncio.run(story())
    shown.append(caplog.text)
    stored = _dump(url) if kind == "postgres" else b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert digest_of(made[0]).encode() in stored, "only what cannot be turned back"
    for key in (ANN, BOB, *made, "sk-emulated"):
        assert key.encode() not in stored
        assert not [text[:300] for text in shown if key in text]


def _dump(url: str) -> bytes:
    """Every row of every table, as text."""
    rows: list[object] = []
    schema = read_address(url).schema
    with psycopg.connect(host=str(run_server()), user="segue", dbname="postgres") as connection:
        tables = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = %s", [schema])
        for (name,) in tables.fetchall():
            every = f'SELECT t::text FROM "{schema}"."{name}" t'  # noqa: S608 - names of ours
            rows += connection.execute(every.encode()).fetchall()
    return json.dumps(rows).encode()

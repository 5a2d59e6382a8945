"""Callers with limits and budgets through the gateway, on every wire."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest

from gateway.world import AgentModel, GatewayWorld
from postgres_server import schema_url
from segue.config.schema import AccountSettings, Allowance, CallerSettings
from segue.conversation.usage import Usage
from segue.emulators.model.model_reply import Prompt, Reply, Say
from segue.errors import CredentialsError, JournalError
from segue.gateway.accounts.account import Account, digest_of
from segue.gateway.accounts.budget_rules import Reserved
from segue.gateway.accounts.postgres_store import PostgresAccountStore
from segue.gateway.accounts.register import ANYONE, Accounts
from segue.gateway.accounts.sqlite_store import SQLiteAccountStore
from segue.providers.models.prices import cost_of
from segue.transports.asgi import AsgiTransport
from segue.transports.transport import WireRequest

KEY = "segue-key-of-ann"
BODIES: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "chat": ("/v1/chat/completions", {"messages": [{"role": "user", "content": "Hello"}]}),
    "responses": ("/v1/responses", {"input": "Hello"}),
    "anthropic": ("/v1/messages", {"max_tokens": 50, "messages": [{"role": "user", "content": "Hello"}]}),
    "mistral": ("/mistral/v1/chat/completions", {"messages": [{"role": "user", "content": "Hello"}]}),
    "ollama": ("/api/chat", {"stream": False, "messages": [{"role": "user", "content": "Hello"}]}),
    "gemini": (
        "/v1beta/models/{}:generateContent",
        {"contents": [{"role": "user", "parts": [{"text": "Hello"}]}]},
    ),
}


def world_of(**limits: Any) -> GatewayWorld:
    return GatewayWorld(
        callers={
            "ann": CallerSettings(key_sha256=digest_of(KEY), **limits),
            "bob": CallerSettings(key_sha256=digest_of("segue-key-of-bob")),
        }
    )


async def ask(world: GatewayWorld, wire: str = "chat", model: str = "fast", *, key: str = KEY) -> Any:
    path, body = BODIES[wire]
    headers = {"authorization": f"Bearer {key}", "x-goog-api-key": key, "x-api-key": key}
    answered = await world.ask(path.format(model), {"model": model, **body}, headers=headers)
    await world.gateway.settle()
    return answered


@pytest.mark.parametrize(
    ("wire", "status", "kind"),
    [
        ("chat", 429, "insufficient_quota"),
        ("responses", 429, "insufficient_quota"),
        ("anthropic", 429, "billing_error"),
        ("mistral", 402, ""),
        ("ollama", 402, ""),
        ("gemini", 429, ""),
    ],
)
def test_a_spent_budget_answers_as_the_wire_expects(wire: str, status: int, kind: str) -> None:
    async def story() -> None:
        world = world_of(dollars_per_day=0.000_001)
        assert (await ask(world)).status == 200, "some is left, so one request may be dearer"
        refused = await ask(world, wire)
        assert refused.status == status, refused.body
        assert "budget of $1e-06" in refused.body.decode()
        assert kind in refused.body.decode()
        if wire in ("anthropic", "chat", "responses"):
            assert refused.headers["x-should-retry"] == "false"
        assert (await ask(world, wire, key="segue-key-of-bob")).status == 200, "others have their own money"

    asyncio.run(story())


def test_real_usage_is_settled_and_warned_about() -> None:
    async def story() -> None:
        world = world_of(dollars_per_day=0.01, dollars_per_month=100.0)
        warned = False
        for _ in range(400):
            answered = await ask(world, "anthropic")
            if answered.status != 200:
                break
            warned = warned or answered.headers.get("anthropic-ratelimit-unified-status") == "allowed_warning"
        assert warned
        standing, reserved = await world.gateway.accounts.store.standing("ann")
        assert reserved == Reserved()
        assert 10_000 <= standing.day_spent < 11_000
        assert standing.month_spent == standing.day_spent
        today = time.strftime("%Y-%m-%d", time.gmtime())
        rows = await world.gateway.accounts.store.usage(today, today)
        assert sum(row.micros for row in rows) == standing.day_spent
        assert {row.route for row in rows} == {"openai/gpt-4.1"}

    asyncio.run(story())


def test_summaries_and_vectors_are_charged_as_their_provider_counts_them() -> None:
    async def story() -> None:
        world = world_of(tokens_per_minute=1_000_000)
        headers = {"authorization": f"Bearer {KEY}"}
        said = {
            "type": "message",
            "role": "user",
            "content": [{"type": "input_text", "text": "word " * 4000}],
        }
        asked = {"model": "anthropic/claude-sonnet-4-6", "input": [said]}
        trigger = {**asked, "input": [said, {"type": "compaction_trigger"}]}
        texts = {"model": "openai/text-embedding-3-small", "input": ["word " * 4000]}
        for path, body in (
            ("/v1/responses/compact", asked),
            ("/v1/responses", trigger),
            ("/v1/embeddings", texts),
        ):
            answered = await world.ask(path, body, headers=headers)
            assert answered.status == 200, answered.body
            await world.gateway.settle()
            counted = answered.json()["usage"]
            report = world.reports[-1]
            assert report.usage.input_tokens == counted.get("input_tokens", counted.get("prompt_tokens"))
            assert (report.usage.input_tokens or 0) > 1000
            assert report.route == body["model"]
        today = time.strftime("%Y-%m-%d", time.gmtime())
        rows = await world.gateway.accounts.store.usage(today, today)
        assert all(row.input_tokens for row in rows)
        assert sum(row.requests for row in rows) == 3

    asyncio.run(story())


def test_counting_tokens_costs_a_caller_nothing() -> None:
    async def story() -> None:
        world = world_of(dollars_per_day=1.0, tokens_per_minute=100)
        body = {
            "model": "anthropic/claude-sonnet-4-6",
            "messages": [{"role": "user", "content": "word " * 4000}],
        }
        for _ in range(3):
            headers = {"x-api-key": KEY, "anthropic-version": "2023-06-01"}
            counted = await world.ask("/v1/messages/count_tokens", body, headers=headers)
            assert counted.status == 200, counted.body
            assert counted.json()["input_tokens"] > 1000
            await world.gateway.settle()
        standing, _ = await world.gateway.accounts.store.standing("ann")
        assert standing.day_spent == 0
        today = time.strftime("%Y-%m-%d", time.gmtime())
        rows = await world.gateway.accounts.store.usage(today, today)
        assert [(row.requests, row.micros) for row in rows] == [(3, 0)]

    asyncio.run(story())


def test_a_client_that_leaves_is_charged_and_its_reservation_ends() -> None:
    async def story() -> None:
        world = world_of(dollars_per_day=1.0, concurrent=1)
        path, body = BODIES["chat"]
        asking = asyncio.ensure_future(
            world.ask(
                path, {"model": "fast", "stream": True, **body}, headers={"authorization": f"Bearer {KEY}"}
            )
        )
        await asyncio.sleep(0.01)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        await world.gateway.settle()
        assert (await world.gateway.accounts.store.standing("ann"))[1] == Reserved()
        assert (await ask(world)).status == 200

    asyncio.run(story())


@pytest.mark.parametrize(
    "model", ["anthropic/claude-sonnet-4-6", "openai/gpt-4.1", "gemini/gemini-3.5-flash"]
)
@pytest.mark.parametrize("wire", ["chat", "anthropic"])
@pytest.mark.parametrize("leaves", [True, False])
def test_whoever_leaves_before_the_end_or_asks_for_no_counts_pays_for_what_came(
    wire: str, model: str, leaves: bool
) -> None:
    class Talkative(AgentModel):
        def reply(self, prompt: Prompt) -> Reply:
            return Reply(pieces=(Say("word " * 8000),))

    async def story() -> None:
        world = GatewayWorld(
            responder=Talkative(),
            callers={"ann": CallerSettings(key_sha256=digest_of(KEY), dollars_per_day=10.0)},
        )
        path, body = BODIES[wire]
        request = WireRequest(
            method="POST",
            url=f"http://127.0.0.1{path}",
            headers={"authorization": f"Bearer {KEY}", "x-api-key": KEY},
            body=json.dumps({**body, "model": model, "stream": True, "max_tokens": 30_000}).encode(),
        )
        words = 0
        async with AsgiTransport(world.gateway)(request) as answer:
            async for portion in answer.portions():
                words += portion.count(b"word")
                if leaves and words > 4000:
                    break
        while not world.reports:
            await asyncio.sleep(0.01)
        await world.gateway.settle()
        (report,) = world.reports
        assert report.client_gone == leaves
        standing, reserved = await world.gateway.accounts.store.standing("ann")
        assert reserved == Reserved()
        provider, _, name = model.partition("/")
        least = cost_of(Usage(input_tokens=0, output_tokens=words // 2), provider, name)
        assert least is not None
        assert standing.day_spent > least * 1_000_000, (words, report.usage)

    asyncio.run(story())


def test_a_model_without_a_price_is_refused_to_those_with_a_budget() -> None:
    async def story() -> None:
        world = world_of(dollars_per_day=1.0)
        refused = await ask(world, model="kimi/kimi-unheard-of")
        assert refused.status == 403
        assert "price" in refused.body.decode()
        assert (await ask(world, model="kimi/kimi-unheard-of", key="segue-key-of-bob")).status != 403

    asyncio.run(story())


def test_a_profile_with_a_member_without_a_price_is_refused_to_those_with_a_budget() -> None:
    async def story() -> None:
        world = GatewayWorld(
            callers={"ann": CallerSettings(key_sha256=digest_of(KEY), dollars_per_day=1.0)},
            profiles={
                "team": {"members": ["openai/gpt-4.1", "kimi/kimi-unheard-of"], "policy": "round_robin"},
                "local": {"members": ["openai/gpt-4.1", "ollama/qwen3"]},
            },
        )
        for _ in range(2):
            refused = await ask(world, model="team")
            assert refused.status == 403
            assert "The price of kimi/kimi-unheard-of is not known" in refused.body.decode()
        assert (await ask(world, model="local")).status == 200, "what costs nothing has a price"

    asyncio.run(story())


def test_the_dearest_member_of_a_profile_is_reserved() -> None:
    async def story() -> None:
        members = ["ollama/qwen3", "anthropic/claude-sonnet-4-6"]
        world = GatewayWorld(
            callers={"ann": CallerSettings(key_sha256=digest_of(KEY), dollars_per_day=0.000_001)},
            profiles={"team": {"members": members, "policy": "round_robin"}},
        )
        replies = await asyncio.gather(*(ask(world, model="team") for _ in range(4)))
        assert sorted(reply.status for reply in replies) == [200, 429, 429, 429]

    asyncio.run(story())


@pytest.mark.parametrize(
    ("models", "asked", "allowed"),
    [
        (["fast"], "fast", True),
        (["openai/*"], "fast", True),
        (["openai/*"], "openai/gpt-4.1", True),
        (["anthropic/*"], "fast", False),
        (["openai/gpt-5*"], "openai/gpt-4.1", False),
    ],
)
def test_a_caller_uses_the_models_it_may(models: list[str], asked: str, allowed: bool) -> None:
    async def story() -> None:
        answered = await ask(world_of(models=models), model=asked)
        assert answered.status == (200 if allowed else 403)

    asyncio.run(story())


@pytest.mark.parametrize(
    ("routes", "allowed"),
    [
        (["openai/one", "openai/two"], True),
        (["openai/one", "anthropic/two"], False),
        (["anthropic/two", "openai/one"], False),
        (["anthropic/two"], False),
        ([], False),
    ],
)
def test_a_name_may_be_asked_for_if_every_route_that_it_leads_to_is_allowed(
    routes: list[str], *, allowed: bool
) -> None:
    ann = Account(name="ann", allowance=Allowance(models=["openai/*"]))
    assert ann.may_use("fast", routes) is allowed
    assert Account(name="bob").may_use("fast", routes)


@pytest.mark.parametrize("models", [["fast"], ["openai/gpt-4*"]])
def test_a_caller_is_shown_the_models_it_may_use(models: list[str]) -> None:
    async def story() -> None:
        world = world_of(models=models)
        headers = {"authorization": f"Bearer {KEY}"}
        listed = await world.ask("/v1/models", method="GET", headers=headers)
        names = [model["id"] for model in listed.json()["data"]]
        assert names[0] == "fast"
        assert all(fnmatch(name, models[0]) for name in names[1:]), names
        for name, status in (
            ("fast", 200),
            ("openai/gpt-4.1", 200 if len(names) > 1 else 403),
            ("kimi/k", 403),
        ):
            shown = await world.ask(f"/v1/models/{name}", method="GET", headers=headers)
            assert shown.status == status, (name, shown.body)
        bob = await world.ask(
            "/v1/models", method="GET", headers={"authorization": "Bearer segue-key-of-bob"}
        )
        assert len(bob.json()["data"]) > 20

    asyncio.run(story())


def test_a_caller_lists_its_own_conversations_however_many_others_have() -> None:
    async def story() -> None:
        world = world_of()
        mine = await ask(world)
        for _ in range(3):
            await ask(world, key="segue-key-of-bob")
        headers = {"authorization": f"Bearer {KEY}"}
        shown = await world.ask("/segue/v1/conversations?limit=1", method="GET", headers=headers)
        assert [info["id"] for info in shown.json()["conversations"]] == [
            mine.headers["x-segue-conversation"]
        ]

    asyncio.run(story())


def test_a_key_expires() -> None:
    async def story() -> None:
        assert (await ask(world_of(expires="2020-01-01"))).status == 401
        assert (await ask(world_of(expires="2999-01-01T12:00:00+02:00"))).status == 200

    asyncio.run(story())


def test_where_others_can_reach_it_a_gateway_without_accounts_serves_nobody() -> None:
    async def story() -> None:
        here = Accounts(SQLiteAccountStore(), {}, AccountSettings())
        assert await here.find([]) is ANYONE
        public = Accounts(SQLiteAccountStore(), {}, AccountSettings(), local=False)
        for keys in ([], ["any"]):
            with pytest.raises(CredentialsError):
                await public.find(keys)

    asyncio.run(story())


class AwayStore:
    """A store that cannot be reached."""

    def __getattr__(self, name: str) -> Any:
        if name == "close":
            return lambda: asyncio.sleep(0)
        if name == "revision":
            return self._revision
        return self._fail

    async def _revision(self) -> int:
        return -1

    async def _fail(self, *_: object, **__: object) -> Any:
        raise JournalError("gone")


def test_without_the_store_limits_refuse_or_allow_by_setting() -> None:
    async def story() -> None:
        world = world_of(requests_per_minute=10)
        accounts, away = world.gateway.accounts, AwayStore()
        accounts._keys._store = accounts._reservations._store = accounts._settlements._store = away
        accounts._keys._adopt(())
        refused = await ask(world)
        assert (refused.status, refused.headers["retry-after"]) == (503, "5")
        assert (await ask(world, key="segue-key-of-bob")).status == 200, "nobody counts for it"

    asyncio.run(story())


def test_operators_manage_keys_over_http_and_callers_do_not() -> None:
    async def story() -> None:
        world = GatewayWorld()
        page = {"origin": "https://evil.example"}
        stolen = await world.ask("/segue/v1/callers", {"name": "root", "admin": True}, headers=page)
        assert stolen.status == 403, "a page in the browser of this machine's user is no operator"
        made = await world.ask("/segue/v1/callers", {"name": "root", "admin": True})
        admin = {"authorization": f"Bearer {made.json()['key']}"}
        world.gateway.accounts._keys._checked = 0.0
        assert (await world.ask("/segue/v1/callers", method="GET")).status == 401
        limits = {"name": "eve", "allowance": {"requests_per_minute": 1}}
        eve = (await world.ask("/segue/v1/callers", limits, headers=admin)).json()["key"]
        world.gateway.accounts._keys._checked = 0.0
        listed = await world.ask("/segue/v1/callers", method="GET", headers=admin)
        assert [one["name"] for one in listed.json()["callers"]] == ["eve", "root"]
        assert eve.encode() not in listed.body
        for path, method in (
            ("/segue/v1/callers", "GET"),
            ("/segue/v1/usage", "GET"),
            ("/segue/v1/callers/root/revoke", "POST"),
        ):
            asked = await world.ask(path, method=method, headers={"authorization": f"Bearer {eve}"})
            assert asked.status == 403, path
        again = await world.ask("/segue/v1/callers", limits, headers=admin)
        assert again.status == 409
        bad = await world.ask(
            "/segue/v1/callers", {"name": "x", "allowance": {"dollars_per_day": -1}}, headers=admin
        )
        assert bad.status == 400
        assert (await world.ask("/segue/v1/callers/eve/revoke", {}, headers=admin)).status == 200
        world.gateway.accounts._keys._checked = 0.0
        assert (await ask(world, key=eve)).status == 401
        own = {"authorization": f"Bearer {eve}"}
        assert (await world.ask("/segue/v1/callers/eve", method="DELETE", headers=own)).status == 401
        removed = await world.ask("/segue/v1/callers/eve", method="DELETE", headers=admin)
        assert (removed.status, removed.json()["name"]) == (200, "eve")
        gone = await world.ask("/segue/v1/callers/eve", method="DELETE", headers=admin)
        assert gone.status == 404
        assert (await world.ask("/segue/v1/callers", limits, headers=admin)).status == 200, "the name is free"

    asyncio.run(story())


def test_the_first_requests_of_a_gateway_wait_until_its_accounts_are_read(tmp_path: Path) -> None:
    """Before that nobody is known: a caller would be refused, and without any in the settings everybody let in."""

    async def story() -> None:
        url = schema_url(tmp_path)
        settings = {"ann": CallerSettings(key_sha256=digest_of(KEY))}
        accounts = Accounts(PostgresAccountStore(url), settings, AccountSettings())
        found = await asyncio.gather(*(accounts.find([KEY]) for _ in range(8)))
        assert {account.name for account in found} == {"ann"}
        made = await accounts.administration.create("bob", Allowance(), labels={})
        other = Accounts(PostgresAccountStore(url), {}, AccountSettings())
        asked = await asyncio.gather(*(other.find([]) for _ in range(8)), return_exceptions=True)
        assert all(isinstance(error, CredentialsError) for error in asked), asked
        assert (await other.find([made])).name == "bob"
        await accounts.store.close()
        await other.store.close()

    asyncio.run(story())

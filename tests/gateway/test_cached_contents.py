"""Cached contents of Gemini's wire: made here once, and seen by every model that a request which names them reaches."""

from __future__ import annotations

import asyncio
import json
from hashlib import sha256
from itertools import product
from typing import Any

import pytest

from gateway.world import ROUTES, GatewayWorld
from segue.config.schema import CallerSettings
from segue.emulators.faults import Fault
from segue.gateway.memory.sqlite_store import SQLiteMemoryStore

SYSTEM = "Answer like a captain."
DOCUMENT = "The ship sails at noon."
CACHED: dict[str, Any] = {
    "contents": [{"role": "user", "parts": [{"text": DOCUMENT}]}],
    "systemInstruction": {"parts": [{"text": SYSTEM}]},
    "tools": [{"functionDeclarations": [{"name": "harbour", "description": "Where the ship is."}]}],
    "ttl": "600s",
    "displayName": "papers",
}
QUESTION = "When does it sail?"
ASKED: dict[str, Any] = {"contents": [{"role": "user", "parts": [{"text": QUESTION}]}]}
CONFLICT = "CachedContent can not be used with GenerateContent request setting system_instruction"


async def create(world: GatewayWorld, model: str, **fields: Any) -> dict[str, Any]:
    made = await world.ask("/v1beta/cachedContents", {"model": f"models/{model}", **CACHED, **fields})
    assert made.status == 200, made.body
    return made.json()  # type: ignore[no-any-return]


def path(model: str, *, stream: bool = False, version: str = "v1") -> str:
    return f"/{version}/models/{model}:" + ("streamGenerateContent?alt=sse" if stream else "generateContent")


@pytest.mark.parametrize("target", ROUTES)
@pytest.mark.parametrize("made_for", ["gemini", "anthropic"])
def test_every_model_sees_what_is_cached(target: str, made_for: str) -> None:
    async def main() -> None:
        for stream, strict in product((False, True), repeat=2):
            world, route = GatewayWorld(), ROUTES[target]
            made = await create(world, ROUTES[made_for])
            headers = {"x-segue-strict": "true"} if strict else {}
            body = {**ASKED, "cachedContent": made["name"]}
            reply = await world.ask(path(route, stream=stream), body, headers=headers)
            assert reply.status == 200, reply.body
            sent = json.dumps(world.emulator.log[-1].body)
            assert QUESTION in sent
            if target == made_for == "gemini":
                assert made["name"] in sent
                assert DOCUMENT not in sent
            else:
                assert "cachedContents/" not in sent
                assert sent.count(DOCUMENT) == sent.count(SYSTEM) == 1
                assert "harbour" in sent
                assert sent.index(DOCUMENT) < sent.index(QUESTION)
            assert not world.refusals()

    asyncio.run(main())


@pytest.mark.parametrize("target", ROUTES)
def test_a_name_that_nobody_made_here_goes_to_gemini_alone(target: str) -> None:
    async def main() -> None:
        for stream, strict in product((False, True), repeat=2):
            world = GatewayWorld()
            body = {**ASKED, "cachedContent": "cachedContents/unknown"}
            headers = {"x-segue-strict": "true"} if strict else {}
            reply = await world.ask(path(ROUTES[target], stream=stream), body, headers=headers)
            error = reply.json()
            error = (error[0] if isinstance(error, list) else error)["error"]
            if target == "gemini":
                assert reply.status >= 400
                assert len(world.emulator.log) == 1
                assert "CachedContent not found" in error["message"]
            else:
                assert (reply.status, error["status"]) == (400, "INVALID_ARGUMENT")
                assert not world.emulator.log

    asyncio.run(main())


@pytest.mark.parametrize("target", ["gemini", "anthropic", "responses"])
@pytest.mark.parametrize(
    "fields", [{name: CACHED[name]} for name in ("systemInstruction", "tools")] + [{"tool_config": {}}]
)
def test_what_is_cached_is_not_said_again(target: str, fields: dict[str, Any]) -> None:
    async def main() -> None:
        world, route = GatewayWorld(), ROUTES[target]
        made = await create(world, route)
        reply = await world.ask(path(route), {**ASKED, "cachedContent": made["name"], **fields})
        assert reply.status == 400
        assert reply.json()["error"]["message"].startswith(CONFLICT)

    asyncio.run(main())


@pytest.mark.parametrize("target", ["gemini", "anthropic", "chat"])
def test_it_is_shown_listed_extended_and_deleted_but_never_read_back(target: str) -> None:
    async def main() -> None:
        world, route = GatewayWorld(), ROUTES[target]
        first, second = await create(world, route), await create(world, route, displayName="others")
        assert first["model"] == f"models/{route}"
        shown = await world.ask(f"/v1/{first['name']}", method="GET")
        assert shown.json() == first
        assert DOCUMENT not in shown.body.decode()
        listed = (await world.ask("/v1beta/cachedContents", method="GET")).json()["cachedContents"]
        assert listed == [first, second]
        page = (await world.ask("/v1beta/cachedContents?pageSize=1", method="GET")).json()
        rest = await world.ask(f"/v1beta/cachedContents?pageToken={page['nextPageToken']}", method="GET")
        assert [*page["cachedContents"], *rest.json()["cachedContents"]] == listed
        longer = await world.ask(f"/v1/{first['name']}", {"ttl": "7200s"}, method="PATCH")
        assert longer.json()["expireTime"] > first["expireTime"]
        assert (await world.ask(f"/v1/{first['name']}", method="DELETE")).json() == {}
        gone = await world.ask(f"/v1/{first['name']}", method="GET")
        assert (gone.status, gone.json()["error"]["status"]) == (403, "PERMISSION_DENIED")
        left = (await world.ask("/v1beta/cachedContents", method="GET")).json()["cachedContents"]
        assert left == [second]
        if target == "gemini":  # and so at Google
            held = world.emulator.memory("gemini")["cached_contents"]
            assert list(held) == [second["name"]]

    asyncio.run(main())


def test_a_switch_away_from_gemini_and_back_keeps_what_is_cached() -> None:
    """A: by its name. B: the content. A again, with a reply of B: the content."""

    async def main() -> None:
        world = GatewayWorld(models={"captain": ROUTES["gemini"]})
        made = await create(world, "captain")
        contents = [*ASKED["contents"]]
        for number, model in enumerate(("captain", ROUTES["anthropic"], "captain", "captain")):
            reply = await world.ask(path(model), {"contents": contents, "cachedContent": made["name"]})
            assert reply.status == 200, reply.body
            contents.append(reply.json()["candidates"][0]["content"])
            contents.append({"role": "user", "parts": [{"text": f"And then? {number}"}]})
            sent = json.dumps(world.emulator.log[-1].body)
            assert (made["name"] in sent) == (number == 0)
            assert (DOCUMENT in sent) == (number > 0)
        assert not world.refusals()

    asyncio.run(main())


@pytest.mark.parametrize("stream", [False, True])
def test_what_google_has_lost_is_sent(stream: bool) -> None:
    async def main() -> None:
        world, route = GatewayWorld(), ROUTES["gemini"]
        made = await create(world, route)
        world.emulator.memory("gemini")["cached_contents"].clear()
        body = {**ASKED, "cachedContent": made["name"]}
        reply = await world.ask(path(route, stream=stream), body)
        assert reply.status == 200, reply.body
        lost, whole = list(world.emulator.log)[-2:]
        assert lost.rule == "CCH-02"
        assert DOCUMENT in json.dumps(whole.body)
        kept = await world.ask(f"/v1/{made['name']}", {"ttl": "60s"}, method="PATCH")
        assert kept.status == 200

    asyncio.run(main())


def test_what_is_over_is_not_put_in() -> None:
    async def main() -> None:
        world = GatewayWorld()
        made = await create(world, ROUTES["anthropic"], ttl="0.2s")
        await asyncio.sleep(0.25)
        reply = await world.ask(path(ROUTES["anthropic"]), {**ASKED, "cachedContent": made["name"]})
        assert reply.status == 400
        assert (await world.ask("/v1beta/cachedContents", method="GET")).json() == {}

    asyncio.run(main())


def test_tokens_are_those_of_the_whole() -> None:
    """What the model reads is counted, wherever it came from."""

    async def main() -> None:
        for target in ("gemini", "anthropic"):
            world, route = GatewayWorld(), ROUTES[target]
            made = await create(world, route)
            inline = {name: CACHED[name] for name in ("systemInstruction", "tools")}
            whole = {**inline, "contents": [*CACHED["contents"], *ASKED["contents"]]}
            body = {**ASKED, "cachedContent": made["name"]}
            counts = []
            for asked in (body, whole):
                request = {"generateContentRequest": {"model": f"models/{route}", **asked}}
                counted = await world.ask(f"/v1beta/models/{route}:countTokens", request)
                counts.append(counted.json()["totalTokens"])
                reply = await world.ask(path(route), asked)
                counts.append(reply.json()["usageMetadata"]["promptTokenCount"])
            assert counts[:2] == counts[2:]
            assert 0 < made["usageMetadata"]["totalTokenCount"] < counts[0]

    asyncio.run(main())


def test_another_caller_finds_nothing() -> None:
    async def main() -> None:
        keys = {"ann": "sk-ann-0123456789abcdef", "ben": "sk-ben-0123456789abcdef"}
        world = GatewayWorld(
            callers={
                name: CallerSettings(key_sha256=sha256(key.encode()).hexdigest())
                for name, key in keys.items()
            }
        )
        headers = [{"x-goog-api-key": key} for key in keys.values()]
        body = {"model": ROUTES["gemini"], **CACHED}
        made = (await world.ask("/v1beta/cachedContents", body, headers=headers[0])).json()
        assert (await world.ask(f"/v1/{made['name']}", method="GET", headers=headers[0])).status == 200
        for method in ("GET", "DELETE"):
            assert (await world.ask(f"/v1/{made['name']}", method=method, headers=headers[1])).status == 403
        assert (await world.ask("/v1/cachedContents", method="GET", headers=headers[1])).json() == {}
        asked = {**ASKED, "cachedContent": made["name"]}
        for target in ("gemini", "anthropic"):
            refused = await world.ask(path(ROUTES[target]), asked, headers=headers[1])
            assert refused.status == 403
        assert len(world.emulator.log) == 1

    asyncio.run(main())


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"ttl": "soon"}, "ttl"),
        ({"ttl": "0s"}, "future"),
        ({"expireTime": "2031-01-01T00:00:00Z"}, "both"),
        ({"contents": [], "systemInstruction": None, "tools": []}, "no content"),
        ({"contents": [{"role": "user", "parts": 7}]}, "contents[0]"),
    ],
)
@pytest.mark.parametrize("target", ["anthropic", "gemini"])
def test_what_cannot_be_cached_is_refused(fields: dict[str, Any], says: str, target: str) -> None:
    async def main() -> None:
        world = GatewayWorld()
        body = {"model": ROUTES[target], **CACHED, **fields}
        reply = await world.ask("/v1beta/cachedContents", body)
        assert reply.status == 400, reply.body
        assert says in reply.json()["error"]["message"]
        assert reply.json()["error"]["status"] == "INVALID_ARGUMENT"

    asyncio.run(main())


def test_what_google_refuses_to_hold_is_refused() -> None:
    async def main() -> None:
        world = GatewayWorld()
        small = "Cached content is too small. total_token_count=12, min_total_token_count=1024"
        world.emulator.faults.append(Fault(kind="status", status=400, message=small, provider="gemini"))
        reply = await world.ask("/v1beta/cachedContents", {"model": ROUTES["gemini"], **CACHED})
        assert (reply.status, reply.json()["error"]["message"]) == (400, small)
        assert (await world.ask("/v1beta/cachedContents", method="GET")).json() == {}

    asyncio.run(main())


def test_a_restart_and_a_second_gateway_know_it() -> None:
    async def main() -> None:
        world = GatewayWorld()
        assert isinstance(world.store, SQLiteMemoryStore)
        made = await create(world, ROUTES["responses"])
        world.restart()
        reply = await world.ask(path(ROUTES["responses"]), {**ASKED, "cachedContent": made["name"]})
        assert reply.status == 200
        assert DOCUMENT in json.dumps(world.emulator.log[-1].body)

    asyncio.run(main())

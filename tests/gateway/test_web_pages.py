"""Pages in the browser of a gateway's user may not spend the user's money, unless they are allowed to."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest

from gateway.world import ROUTES, GatewayResponse, GatewayWorld
from segue.config.schema import CallerSettings

BODY = {"model": ROUTES["chat"], "messages": [{"role": "user", "content": "Hello."}]}
PAGE = "https://app.example.com"
PREFLIGHT = {
    "access-control-request-method": "POST",
    "access-control-request-headers": "authorization,content-type",
}


def send(
    headers: Mapping[str, str], *, method: str = "POST", world: GatewayWorld | None = None
) -> GatewayResponse:
    served = world or GatewayWorld(origins=[PAGE, "http://localhost:*"])
    body = BODY if method == "POST" else None
    reply = asyncio.run(served.ask("/v1/chat/completions", body, method=method, headers=headers))
    if reply.status != 200:
        assert list(served.emulator.log) == []
    return reply


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": "https://app.example.com.evil.example"},
        {"sec-fetch-site": "cross-site"},
        {"host": "evil.example:8484"},
        {"origin": "http://evil.example:8484", "host": "evil.example:8484"},
    ],
)
def test_a_page_that_is_not_allowed_is_refused_before_a_provider_is_asked(headers: Mapping[str, str]) -> None:
    reply = send({**headers, "content-type": "text/plain"})
    assert reply.status == 403
    assert reply.json()["error"]["message"]
    assert "access-control-allow-origin" not in reply.headers


@pytest.mark.parametrize("host", ["127.0.0.1:8484", "localhost:8484", "[::1]:8484", "segue.localhost"])
def test_programs_on_this_machine_are_served(host: str) -> None:
    assert send({"host": host}).status == 200


@pytest.mark.parametrize("origin", [PAGE, "http://localhost:3000"])
def test_a_page_that_is_allowed_may_ask_and_read_the_reply(origin: str) -> None:
    asked = send({"origin": origin, **PREFLIGHT}, method="OPTIONS")
    assert asked.status == 204
    assert asked.headers["access-control-allow-origin"] == origin
    assert asked.headers["access-control-allow-headers"] == "authorization,content-type"
    reply = send({"origin": origin, "sec-fetch-site": "cross-site"})
    assert reply.status == 200
    assert reply.headers["access-control-allow-origin"] == origin
    assert "x-segue-route" in reply.headers["access-control-expose-headers"]


def test_a_browser_that_asks_for_a_page_that_is_not_allowed_is_refused() -> None:
    refused = send({"origin": "https://evil.example", **PREFLIGHT}, method="OPTIONS")
    assert refused.status == 403
    assert "access-control-allow-origin" not in refused.headers


def test_whoever_has_a_key_is_no_page_that_only_knows_the_address() -> None:
    digest = "2bd806c97f0e00af1a1fc3328fa763a9269723c8db8fac4f93af71db186d6e90"  # of "alice"
    world = GatewayWorld(callers={"alice": CallerSettings(key_sha256=digest)})
    desktop = {"origin": "app://desktop", "host": "gateway.example"}
    assert send({**desktop, "authorization": "Bearer alice"}, world=world).status == 200
    assert send(desktop, world=GatewayWorld(callers=world.config.gateway.callers)).status == 401


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/segue/v1/conversations"),
        ("POST", "/segue/v1/conversations/{}/switch"),
        ("POST", "/segue/v1/explain"),
        ("GET", "/segue/v1/usage"),
        ("OPTIONS", "/segue/v1/conversations/{}/switch"),
    ],
)
def test_a_page_that_may_ask_models_gets_no_operators_paths(method: str, path: str) -> None:
    async def main() -> None:
        world = GatewayWorld(origins=[PAGE])
        page = {"origin": PAGE}
        begun = await world.ask("/v1/chat/completions", BODY, headers={**page, "x-session-id": "one"})
        conversation = begun.headers["x-segue-conversation"]
        await world.gateway.settle()
        body = {**BODY, "model": ROUTES["anthropic"]} if "explain" in path else {"model": ROUTES["anthropic"]}
        preflight = PREFLIGHT if method == "OPTIONS" else {}
        reply = await world.ask(
            path.format(conversation),
            body if method == "POST" else None,
            method=method,
            headers={**page, **preflight},
        )
        assert reply.status == 403
        assert "access-control-allow-origin" not in reply.headers
        assert await world.gateway.memory.switched("local", conversation) == ("", True)

    asyncio.run(main())

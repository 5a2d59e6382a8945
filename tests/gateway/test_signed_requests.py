"""Clients of Bedrock at a gateway with callers: their key as a bearer's, or a signature that is made with it."""

from __future__ import annotations

import asyncio
import hashlib
import json
import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gateway.world import ROUTES, GatewayResponse, GatewayWorld
from segue.config.schema import CallerSettings
from segue.dialects.sigv4 import SigningKeys, sign
from segue.gateway.accounts.account import digest_of
from segue.gateway.requests.large_bodies import LARGE

KEY = "segue-key-of-ann"
PATH = "/model/openai%2Fgpt-4.1/converse"
BODY = json.dumps({"messages": [{"role": "user", "content": [{"text": "Hello"}]}]}).encode()


def world() -> GatewayWorld:
    return GatewayWorld(callers={"ann": CallerSettings(key_sha256=digest_of(KEY))})


def signed(
    access_key: str = KEY, secret: str = KEY, *, body: bytes = BODY, at: datetime | None = None
) -> dict[str, str]:
    moment = (at or datetime.now(UTC)).strftime("%Y%m%dT%H%M%SZ")
    headers = {"content-type": "application/json"}
    credentials = SigningKeys(access_key, secret)
    url = f"http://127.0.0.1{PATH}"
    made = sign("POST", url, headers, body, credentials, region="r", service="bedrock", moment=moment)
    return {"host": "127.0.0.1", **headers, **made}


def ask(headers: dict[str, str], body: bytes = BODY) -> GatewayResponse:
    async def main() -> GatewayResponse:
        return await world().ask(PATH, body, headers=headers)

    return asyncio.run(main())


def test_a_key_as_a_bearers_and_a_signature_with_it_are_accepted() -> None:
    for headers in ({"authorization": f"Bearer {KEY}"}, signed()):
        reply = ask(headers)
        assert reply.status == 200, reply.body
        assert reply.json()["output"]["message"]["content"][0]["text"]


@pytest.mark.parametrize(
    "headers",
    [
        signed(KEY, "another"),
        signed("AKIDUNKNOWN", KEY),
        signed("AKIDUNKNOWN", "another"),
        {**signed(), "authorization": signed()["authorization"][:-4] + "0000"},
        {**signed(), "x-amz-date": "20200101T000000Z"},
        signed(at=datetime.now(UTC) - timedelta(hours=2)),
        {"authorization": "AWS4-HMAC-SHA256 nonsense"},
        {"authorization": f"AWS4-HMAC-SHA256 Credential={KEY}/20261118/r/s/aws4_request"},
    ],
)
def test_a_signature_that_is_not_made_with_a_callers_key_is_refused_with_a_hint(
    headers: dict[str, str],
) -> None:
    reply = ask(headers)
    assert reply.status == 403, reply.body
    assert reply.headers["x-amzn-errortype"] == "AccessDeniedException"
    message = reply.json()["message"]
    assert "AWS_ACCESS_KEY_ID" in message
    assert "AWS_BEARER_TOKEN_BEDROCK" in message
    assert KEY not in message


def test_a_body_that_was_changed_on_its_way_is_refused() -> None:
    changed = BODY.replace(b"Hello", b"Help!")
    assert ask(signed(), changed).status == 403


def test_a_wrong_key_is_refused_as_bedrock_refuses_it() -> None:
    reply = ask({"authorization": "Bearer wrong"})
    assert reply.status == 403
    assert reply.headers["x-amzn-errortype"] == "AccessDeniedException"


@pytest.mark.parametrize("route", ROUTES.values())
def test_every_model_answers_a_client_of_bedrock(route: str) -> None:
    async def main() -> Any:
        at = GatewayWorld()
        reply = await at.ask(f"/model/{route}/converse", BODY)
        counted = await at.ask(
            f"/model/{route}/count-tokens",
            {"input": {"converse": json.loads(BODY)}},
            headers={"x-segue-estimate": "true"},
        )
        return reply, counted

    reply, counted = asyncio.run(main())
    assert reply.status == 200, reply.body
    assert reply.json()["stopReason"] == "end_turn"
    assert reply.json()["usage"]["totalTokens"] > 0
    assert counted.status == 200, counted.body
    assert counted.json()["inputTokens"] > 0


def test_the_models_are_listed_as_bedrock_lists_them() -> None:
    async def main() -> Any:
        return await GatewayWorld().ask("/foundation-models", method="GET")

    listed = asyncio.run(main())
    assert listed.status == 200
    assert "modelSummaries" in listed.json()


def test_the_signature_of_a_large_body_is_checked_beside_the_event_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    threads: set[int] = set()

    def hashed(data: bytes) -> Any:
        if len(data) > LARGE:
            threads.add(threading.get_ident())
        return hashlib.sha256(data)

    large = json.dumps({"messages": [{"role": "user", "content": [{"text": "a" * (LARGE + 1)}]}]}).encode()
    headers = signed(body=large)
    monkeypatch.setattr("segue.dialects.sigv4.sha256", hashed)
    assert ask(headers, large).status == 200
    assert ask(headers, large.replace(b"aaa", b"bbb", 1)).status == 403
    assert threads
    assert threading.get_ident() not in threads


@pytest.mark.parametrize("service", ["bedrock", "bedrock-mantle", "aws-external-anthropic"])
@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/anthropic/v1/messages", {"max_tokens": 9, "messages": [{"role": "user", "content": "Hello."}]}),
        ("/v1/messages", {"max_tokens": 9, "messages": [{"role": "user", "content": "Hello."}]}),
        ("/openai/v1/responses", {"input": "Hello."}),
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "Hello."}]}),
        (
            "/model/openai%2Fgpt-4.1/invoke",
            {
                "anthropic_version": "bedrock-2023-05-31",
                "max_tokens": 9,
                "messages": [{"role": "user", "content": "Hello."}],
            },
        ),
    ],
)
def test_a_signature_is_checked_on_every_wire_that_aws_serves(path: str, body: Any, service: str) -> None:
    async def main() -> None:
        named = body if path.endswith("invoke") else {"model": "openai/gpt-4.1", **body}
        sent = json.dumps(named).encode()
        moment = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
        marks = {"content-type": "application/json", "anthropic-version": "2023-06-01"}
        for secret, statuses in ((KEY, (200,)), ("another", (401, 403))):  # each wire has its own
            keys = SigningKeys(KEY, secret)
            made = sign(
                "POST",
                f"http://127.0.0.1{path}",
                marks,
                sent,
                keys,
                region="r",
                service=service,
                moment=moment,
            )
            answer = await world().ask(path, sent, headers={"host": "127.0.0.1", **marks, **made})
            assert answer.status in statuses, answer.body

    asyncio.run(main())

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from segue.dialects.registry import DIALECTS
from segue.errors import InvalidRequestError, ProtocolError
from segue.providers.endpoint import Endpoint
from segue.transports.asgi import AsgiTransport

KEY = "a-key-nobody-may-see"


def endpoint(status: int, body: bytes, seen: list[Any] | None = None, **fields: Any) -> Endpoint:
    async def application(scope: Any, receive: Any, send: Any) -> None:
        if seen is not None:
            seen.append((scope, (await receive())["body"]))
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": body})

    return Endpoint(
        provider="somewhere",
        dialect=DIALECTS["openai_chat"],
        base_url="http://host.test/v1",
        headers=lambda: {"authorization": f"Bearer {KEY}"},
        transport=AsgiTransport(application),
        **fields,
    )


def test_a_question_and_its_answer_are_json() -> None:
    seen: list[Any] = []
    place = endpoint(200, b'{"a": 1}', seen, query={"api-version": "1 & 2"})
    assert asyncio.run(place.json("POST", "/x?y=1", {"q": True})) == {"a": 1}
    scope, body = seen[0]
    assert body == b'{"q":true}'
    assert scope["path"] == "/v1/x"
    assert scope["query_string"] == b"y=1&api-version=1+%26+2"
    assert dict(scope["headers"])[b"content-type"] == b"application/json"


def test_an_empty_answer_is_nothing() -> None:
    assert asyncio.run(endpoint(204, b"").json("DELETE", "/x")) is None


def test_an_answer_that_is_no_json_names_the_address() -> None:
    with pytest.raises(ProtocolError) as caught:
        asyncio.run(endpoint(200, b"<html>").json("GET", "/x"))
    assert caught.value.code == "not_json"
    assert "http://host.test/v1" in caught.value.hint


def test_a_refusal_is_raised_without_the_key_it_repeats() -> None:
    body = b'{"error": {"message": "bad key %b"}}' % KEY.encode()
    with pytest.raises(InvalidRequestError) as caught:
        asyncio.run(endpoint(400, body).json("GET", "/x"))
    assert caught.value.message == "bad key [redacted]"
    assert KEY.encode() not in caught.value.body
    assert KEY not in repr(caught.value)


def test_a_version_is_no_secret() -> None:
    body = b'{"error": {"message": "2024-10-21 is no version"}}'
    with pytest.raises(InvalidRequestError) as caught:
        asyncio.run(endpoint(400, body, query={"api-version": "2024-10-21"}).json("GET", "/x"))
    assert caught.value.message == "2024-10-21 is no version"


def test_an_endpoint_shows_no_key_and_can_be_moved() -> None:
    place = endpoint(200, b"")
    assert KEY not in repr(place)
    assert place.at("http://other.test/").url("/x") == "http://other.test/x"

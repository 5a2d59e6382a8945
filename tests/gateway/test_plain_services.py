"""Completions of a prompt and moderation: passed on to a provider of the client's own wire, refused for all others."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from gateway.upstream import body_in
from segue.gateway import gateway_app
from segue.gateway.asgi import GatewayApplication
from segue.providers.config import ProviderConfig
from segue.providers.credentials.keys import Secret
from segue.providers.registry import default_registry
from segue.transports.asgi import AsgiTransport
from segue.transports.transport import WireRequest

USAGE = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
FRAMES = (
    b'data: {"id":"cmpl-1","choices":[{"text":"Hel","index":0}]}\n\n'
    b'data: {"id":"cmpl-1","choices":[{"text":"lo","index":0}]}\n\n'
    b'data: {"id":"cmpl-1","choices":[],"usage":%b}\n\n'
    b"data: [DONE]\n\n"
) % json.dumps(USAGE).encode()


class OlderServices:
    """A provider with both of them, which keeps what it was sent."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, dict[str, Any]]] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        body = json.loads(await body_in(receive))
        self.sent.append((scope["path"], body))
        answer, kind = self._answer(scope["path"], body)
        headers = [(b"content-type", kind)]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": answer, "more_body": False})

    def _answer(self, path: str, body: dict[str, Any]) -> tuple[bytes, bytes]:
        if path.endswith("/moderations"):
            return json.dumps({"id": "modr-1", "results": [{"flagged": False}]}).encode(), b"application/json"
        if body.get("stream"):
            return FRAMES, b"text/event-stream"
        whole = {"id": "cmpl-1", "choices": [{"text": "Hello"}], "usage": USAGE}
        return json.dumps(whole).encode(), b"application/json"


class World:
    def __init__(self) -> None:
        self.upstream = OlderServices()
        configs = {
            name: ProviderConfig(base_url=f"http://{name}.invalid/v1", api_key=Secret("sk-any"))
            for name in ("openai", "anthropic", "groq")
        }
        registry = default_registry(configs, {}, AsgiTransport(self.upstream), keyring=False)
        self.app: GatewayApplication = gateway_app(providers=registry)

    def ask(self, path: str, **body: Any) -> tuple[int, dict[str, str], bytes]:
        async def main() -> tuple[int, dict[str, str], bytes]:
            request = WireRequest(
                url=f"http://localhost{path}",
                headers={"content-type": "application/json"},
                body=json.dumps(body).encode(),
            )
            async with AsgiTransport(self.app)(request) as answer:
                return answer.status, dict(answer.headers), await answer.read()

        return asyncio.run(main())


@pytest.mark.parametrize(("provider", "model"), [("openai", "gpt-3.5-turbo-instruct"), ("groq", "any")])
def test_a_completion_goes_to_a_provider_of_the_same_wire(provider: str, model: str) -> None:
    world = World()
    status, headers, body = world.ask("/v1/completions", model=f"{provider}/{model}", prompt="Say hello", n=1)
    assert status == 200
    assert headers["x-segue-route"] == f"{provider}/{model}"
    assert "x-segue-usage" not in headers, "the provider has counted"
    assert json.loads(body)["choices"] == [{"text": "Hello"}]
    [(path, sent)] = world.upstream.sent
    assert path.endswith("/completions")
    assert sent == {"model": model, "prompt": "Say hello", "n": 1}


@pytest.mark.parametrize("asked", [False, True])
def test_a_stream_of_completions_shows_its_counts_to_those_who_asked(asked: bool) -> None:
    world = World()
    options = {"stream_options": {"include_usage": True}} if asked else {}
    status, headers, body = world.ask(
        "/v1/completions", model="openai/gpt-3.5-turbo-instruct", prompt="Hi", stream=True, **options
    )
    assert status == 200
    assert headers["content-type"] == "text/event-stream"
    assert body == (FRAMES if asked else FRAMES.replace(FRAMES.split(b"\n\n")[2] + b"\n\n", b""))
    assert world.upstream.sent[0][1]["stream_options"] == {"include_usage": True}


@pytest.mark.parametrize(
    "model", [{}, {"model": "omni-moderation-latest"}, {"model": "openai/omni-moderation-latest"}]
)
def test_moderation_goes_to_openai(model: dict[str, str]) -> None:
    world = World()
    status, _, body = world.ask("/v1/moderations", input="Hello", **model)
    assert status == 200
    assert json.loads(body)["results"] == [{"flagged": False}]
    assert world.upstream.sent[0][1] == {"input": "Hello", "model": "omni-moderation-latest"}


@pytest.mark.parametrize("path", ["/v1/completions", "/v1/moderations", "/completions"])
def test_a_model_of_another_wire_has_none(path: str) -> None:
    world = World()
    status, _, body = world.ask(path, model="anthropic/claude-sonnet-4-6", prompt="Hi", input="Hi")
    assert status == 404
    error = json.loads(body)["error"]
    assert "has no /" in error["message"]
    assert error["code"] == "not_found"
    assert world.upstream.sent == []

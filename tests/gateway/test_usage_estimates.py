"""Where a provider reports no usage, clients get an estimate that is marked as one."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from gateway.clients import AGENTS
from gateway.world import ROUTES, GatewayWorld, providers_at
from segue.conversation.blocks import Origin
from segue.conversation.events import fold
from segue.conversation.usage import Usage
from segue.dialects import DIALECTS
from segue.gateway.app import Gateway
from segue.gateway.memory.installation_key import InstallationKey
from segue.gateway.memory.memory import Memory
from segue.gateway.telemetry.report import RequestReport
from segue.providers.config import ProviderConfig
from segue.providers.credentials.keys import Secret
from segue.providers.registry import default_registry
from transports.raw_server import unreached

WORDS = "It rains in Rome and in Oslo. " * 10


class Upstream:
    """A server of the Chat wire that counts nothing."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        while (await receive()).get("more_body"):
            pass
        chunks = [({"role": "assistant", "content": WORDS}, None), ({}, "stop")]
        frames = [
            {
                "id": "one",
                "model": "m",
                "choices": [{"index": 0, "delta": delta, "finish_reason": reason}],
            }
            for delta, reason in chunks
        ]
        body = b"".join(b"data: " + msgspec.json.encode(frame) + b"\n\n" for frame in frames)
        headers = [(b"content-type", b"text/event-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body + b"data: [DONE]\n\n", "more_body": False})


@pytest.mark.parametrize("wire", ["anthropic", "openai_responses", "gemini", "ollama"])
@pytest.mark.parametrize("stream", [True, False])
def test_usage_that_nobody_reported_is_estimated_and_marked(wire: str, *, stream: bool) -> None:
    async def main() -> None:
        world = GatewayWorld()
        memory = Memory(world.store, InstallationKey(b"k" * 32))
        providers = providers_at(Upstream())  # type: ignore[arg-type]
        world.gateway = Gateway(world.config, providers, memory, on_report=world.reports.append)
        agent = AGENTS[wire](world, ROUTES["chat"], stream=stream)
        agent.add_user("Tell me about the weather. " * 20)
        reply = await agent.send()
        assert reply.status == 200, reply.body
        dialect = DIALECTS[wire]
        decoder = dialect.new_decoder()
        events = [*decoder.feed(reply.body), *decoder.close()] if stream else dialect.decode_reply(reply.body)
        usage = fold(events, Origin(wire)).usage
        assert 100 < (usage.input_tokens or 0) < 400
        assert 50 < (usage.output_tokens or 0) < 150
        if not stream:
            assert reply.headers["x-segue-usage"] == "estimate"
        elif dialect.server.keep_alive.startswith(b":"):
            assert b": x-segue-usage: estimate\n\n" in reply.body
        assert world.reports[-1].usage_estimated
        assert world.reports[-1].usage.total_tokens == usage.total_tokens

    asyncio.run(main())


def test_usage_that_was_reported_is_no_estimate() -> None:
    async def main() -> None:
        world = GatewayWorld()
        agent = AGENTS["anthropic"](world, ROUTES["gemini"])
        agent.add_user("Hello.")
        reply = await agent.send()
        assert "x-segue-usage" not in reply.headers
        assert not world.reports[-1].usage_estimated

    asyncio.run(main())


@pytest.mark.parametrize("route", ["anthropic", "gemini", "ollama", "responses", "chat"])
@pytest.mark.parametrize("whole", [True, False])
def test_a_chat_stream_has_a_chunk_without_choices_only_for_clients_that_ask_for_the_counts(
    route: str, *, whole: bool
) -> None:
    async def main() -> None:
        world = GatewayWorld()
        if whole:  # the provider sends no streams, whatever it is asked for
            world.emulator.sends_whole = True
        for asked in (None, {"include_usage": False}, {"include_usage": True}):
            body = {"model": ROUTES[route], "stream": True, "messages": [{"role": "user", "content": "Hi."}]}
            reply = await world.ask(
                "/v1/chat/completions", {**body, "stream_options": asked} if asked else body
            )
            assert reply.status == 200, reply.body
            lines = [line[6:] for line in reply.body.split(b"\n") if line.startswith(b"data: {")]
            chunks = [msgspec.json.decode(line) for line in lines]
            counted = [chunk for chunk in chunks if not chunk["choices"]]
            if asked == {"include_usage": True}:
                assert counted == chunks[-1:]
                assert counted[0]["usage"]["total_tokens"] > 0
            else:
                assert counted == []
            assert world.reports[-1].usage.total_tokens

    asyncio.run(main())


@pytest.mark.parametrize(
    "path",
    ["/v1/messages", "/v1/chat/completions", "/v1/completions"],
    ids=["translated", "forwarded", "completion"],
)
def test_a_client_that_leaves_before_its_provider_is_reached_is_charged_nothing(path: str) -> None:
    async def main(url: str) -> RequestReport:
        world = GatewayWorld(model=ROUTES["chat"])
        there = ProviderConfig(base_url=url, api_key=Secret("sk-emulated"))
        providers = default_registry({"openai": there}, environ={}, keyring=False)
        memory = Memory(world.store, InstallationKey(b"k" * 32))
        gateway = Gateway(world.config, providers, memory, on_report=world.reports.append)
        said = [{"role": "user", "content": WORDS}]
        body = {"model": "any", "max_tokens": 9, "stream": True, "messages": said, "prompt": WORDS}
        messages = [{"type": "http.request", "body": msgspec.json.encode(body), "more_body": False}]

        async def receive() -> dict[str, Any]:
            if messages:
                return messages.pop()
            await asyncio.sleep(0.3)
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            raise AssertionError(message)

        await gateway({"type": "http", "method": "POST", "path": path, "headers": []}, receive, send)
        await gateway.close()
        return world.reports[-1]

    with unreached() as url:
        report = asyncio.run(main(url))
    assert report.client_gone
    assert len(report.tries) == 1
    assert (report.usage, report.usage_estimated) == (Usage(), False)

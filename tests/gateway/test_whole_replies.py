"""Replies that come whole, from models and servers that do not stream: clients that stream get frames all the same."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest
import uvicorn

from gateway.clients import AGENTS
from gateway.world import ADDRESSES, ROUTES, GatewayResponse, GatewayWorld
from segue.config.schema import GatewayLimits
from segue.dialects import DIALECTS
from segue.emulators.server import serve
from segue.gateway.app import Gateway
from segue.gateway.memory.installation_key import InstallationKey
from segue.gateway.memory.memory import Memory
from segue.providers.config import ProviderConfig
from segue.providers.credentials.keys import Secret
from segue.providers.registry import default_registry
from segue.transports.asgi import AsgiTransport
from segue.transports.http import HttpTransport
from segue.transports.transport import Timeouts, Transport, WireRequest

OPENAI = ("chat", "responses")
KEPT_OPEN = ("openai_chat", "openai_responses", "anthropic")


class HttpWorld(GatewayWorld):
    """With sockets on both sides of the gateway."""

    address = ""

    @contextmanager
    def opened(self) -> Iterator[None]:
        transport = HttpTransport()
        with serve(emulator=self.emulator) as api:
            connect_providers(self, transport, f"{api.base_url}/", Timeouts())
            config = uvicorn.Config(self.gateway, host="127.0.0.1", port=0, log_level="error", ws="none")
            server = uvicorn.Server(config)
            thread = threading.Thread(target=server.run, daemon=True)
            thread.start()
            deadline = time.monotonic() + 10
            while not server.started and time.monotonic() < deadline:
                time.sleep(0.01)
            self.address = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
            try:
                yield
            finally:
                server.should_exit = True
                thread.join(5)

    async def ask(
        self,
        path: str,
        body: Any = None,
        *,
        method: str = "POST",
        headers: Mapping[str, str] | None = None,
        app: Any = None,
    ) -> GatewayResponse:
        async def carry(scope: Any, receive: Any, send: Any) -> None:
            """From the client's side to the gateway's port."""
            sent = {name.decode(): value.decode() for name, value in scope["headers"]}
            request = WireRequest(
                method=scope["method"],
                url=self.address + scope["raw_path"].decode() + "?" + scope["query_string"].decode(),
                headers={
                    name: value for name, value in sent.items() if name not in ("host", "content-length")
                },
                body=(await receive())["body"],
            )
            transport = HttpTransport()
            async with transport(request) as answer:
                start = [(name.encode(), value.encode()) for name, value in answer.headers.items()]
                await send({"type": "http.response.start", "status": answer.status, "headers": start})
                await send({"type": "http.response.body", "body": await answer.read()})
            await transport.close()

        return await super().ask(path, body, method=method, headers=headers, app=app or carry)


def connect_providers(world: GatewayWorld, transport: Transport, base: str, timeouts: Timeouts) -> None:
    """A gateway whose providers are elsewhere than this world's."""
    configs = {
        name: ProviderConfig(
            base_url=url.replace("http://emulator/", base), api_key=Secret("sk-emulated"), timeouts=timeouts
        )
        for name, url in ADDRESSES.items()
    }
    known = default_registry(configs, environ={}, transport=transport, keyring=False)
    memory = Memory(world.store, InstallationKey(b"k" * 32))
    world.gateway = Gateway(world.config, known, memory, on_report=world.reports.append)


def slowed(world: GatewayWorld, timeouts: Timeouts, seconds: float) -> GatewayWorld:
    """The same world with providers that take their time before they answer."""

    async def slow(scope: Any, receive: Any, send: Any) -> None:
        await asyncio.sleep(seconds)
        await world.app(scope, receive, send)

    connect_providers(world, AsgiTransport(slow), "http://emulator/", timeouts)
    return world


def unverified(world: GatewayWorld) -> GatewayWorld:
    """Nobody may stream OpenAI's models."""
    world.emulator.unstreamed = ("gpt-*",)
    return world


def test_a_forwarded_whole_reply_is_waited_for_longer_than_the_first_byte_of_a_stream() -> None:
    async def main() -> None:
        world = slowed(GatewayWorld(), Timeouts(first_byte=0.05, whole_reply=5), 0.2)
        whole = AGENTS["openai_chat"](world, ROUTES["chat"])
        assert await whole.turn("Hello.") == "I know: 0 results."
        assert world.reports[-1].forwarded
        streamed = AGENTS["openai_chat"](world, ROUTES["chat"], stream=True)
        streamed.add_user("Hello.")
        assert (await streamed.send()).status == 502
        assert world.reports[-1].error == "first_byte_timeout"

    asyncio.run(main())


@pytest.mark.parametrize("wire", ["openai_chat", "openai_responses", "anthropic"])
@pytest.mark.parametrize("model", OPENAI)
@pytest.mark.parametrize("stream", [True, False])
def test_over_http_a_model_that_may_not_be_streamed_serves_every_client(
    wire: str, model: str, *, stream: bool
) -> None:
    world = HttpWorld()
    unverified(world)
    with world.opened():
        agent = AGENTS[wire](world, ROUTES[model], stream=stream)

        async def main() -> None:
            for _ in range(2):
                assert await agent.turn("Please look.") == "I know: 2 results."

        asyncio.run(main())
    kind = DIALECTS[wire].server.stream_type if stream else "application/json"
    assert {reply.headers["content-type"] for reply in agent.replies} == {kind}
    assert all(report.usage.output_tokens for report in world.reports)
    # A reply that its client wants as a whole is asked for as a whole: nothing refuses it.
    assert [entry.rule for entry in world.refusals()] == (["OAI-08"] if stream else [])


@pytest.mark.parametrize(
    ("model", "settings", "streamed"),
    [
        (ROUTES["chat"], {}, False),
        (ROUTES["chat"], {"whole_replies": "streamed"}, True),
        ("either", {}, True),  # the other one could take over
    ],
)
def test_a_reply_that_is_wanted_whole_is_asked_for_as_a_whole_where_nobody_could_take_over(
    model: str, settings: dict[str, Any], streamed: bool
) -> None:
    async def main() -> None:
        members = (ROUTES["chat"], ROUTES["gemini"])
        world = GatewayWorld(profiles={"either": {"members": members}}, **settings)
        agent = AGENTS["anthropic"](world, model)
        assert await agent.turn("Please look.") == "I know: 2 results."
        asked = [bool(entry.body.get("stream")) for entry in world.asked(ROUTES["chat"])]
        assert asked == [streamed] * len(asked)
        assert asked
        assert not world.refusals()

    asyncio.run(main())


@pytest.mark.parametrize("wire", AGENTS)
@pytest.mark.parametrize("model", OPENAI)
def test_a_refused_stream_is_asked_for_as_a_whole_once_and_then_at_once(wire: str, model: str) -> None:
    async def main() -> None:
        world = unverified(GatewayWorld())
        for _ in range(2):
            agent = AGENTS[wire](world, ROUTES[model], stream=True)
            assert await agent.turn("Please look.") == "I know: 2 results."
            agent.add_user("Thank you.")
            left = await agent.at_home()
            assert left.status == 200, left.body
        asked = [
            entry.body.get("stream") for entry in world.asked(ROUTES[model]) if entry.verdict == "accepted"
        ]
        assert True not in asked
        assert [entry.rule for entry in world.refusals()] == ["OAI-08"]
        assert not any(report.forwarded for report in world.reports)
        assert not any(report.failovers for report in world.reports)

    asyncio.run(main())


@pytest.mark.parametrize("wire", ["openai_chat", "openai_responses"])
def test_forwarded_streams_that_are_refused_at_the_same_time_are_all_answered(wire: str) -> None:
    async def main() -> None:
        world = unverified(GatewayWorld())
        model = {"openai_chat": "chat", "openai_responses": "responses"}[wire]
        agents = [AGENTS[wire](world, ROUTES[model], stream=True) for _ in range(6)]
        told = await asyncio.gather(*(agent.turn("Hello.") for agent in agents))
        assert told == ["I know: 0 results."] * 6
        assert len(world.refusals()) == 6

    asyncio.run(main())


@pytest.mark.parametrize("model", ROUTES)
@pytest.mark.parametrize("wire", AGENTS)
@pytest.mark.parametrize("stream", [True, False])
def test_a_server_that_knows_no_streams_serves_every_client(wire: str, model: str, *, stream: bool) -> None:
    async def main() -> None:
        world = GatewayWorld()
        world.emulator.sends_whole = True
        agent = AGENTS[wire](world, ROUTES[model], stream=stream)
        for _ in range(2):
            assert "results" in await agent.turn("Please look.")
        assert not world.refusals()
        if DIALECTS[wire].name == {"chat": "openai_chat", "responses": "openai_responses"}.get(model, model):
            assert any(report.forwarded for report in world.reports)
        if stream:
            kind = DIALECTS[wire].server.stream_type
            assert {reply.headers["content-type"] for reply in agent.replies} == {kind}
        agent.add_user("Thank you.")
        left = await agent.at_home()
        assert left.status == 200, left.body

    asyncio.run(main())


@pytest.mark.parametrize("wire", KEPT_OPEN)
@pytest.mark.parametrize("sends_whole", [True, False])
def test_a_stream_is_kept_open_while_a_whole_reply_is_waited_for(wire: str, *, sends_whole: bool) -> None:
    async def main() -> None:
        world = GatewayWorld(limits=GatewayLimits(keep_alive=0.05))
        world.emulator.sends_whole = sends_whole
        world.emulator.unstreamed = () if sends_whole else ("*",)
        slowed(world, Timeouts(), 0.3)
        agent = AGENTS[wire](world, ROUTES["chat"], stream=True)
        agent.add_user("Hello.")
        reply = await agent.send()
        assert reply.status == 200
        frame = DIALECTS[wire].server.keep_alive
        assert reply.body.startswith(frame)
        reply.body = reply.body.replace(frame, b"")
        assert agent.text(agent.whole(reply)) == "I know: 0 results."

    asyncio.run(main())


def test_a_field_of_the_wrong_type_is_no_refusal_to_stream() -> None:
    async def main() -> None:
        world = GatewayWorld()
        body = {"model": ROUTES["chat"], "messages": [{"role": "user", "content": "Hello."}]}
        assert (await world.ask("/v1/chat/completions", {**body, "stream": "yes"})).status == 400
        agent = AGENTS["openai_chat"](world, ROUTES["chat"], stream=True)
        await agent.turn("Hello.")
        assert world.reports[-1].forwarded

    asyncio.run(main())

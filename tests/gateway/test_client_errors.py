"""What a client of the gateway is told of a failing provider: who failed and how, but no address and no class of ours."""

from __future__ import annotations

import asyncio
import json
import re
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NoReturn

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.clients import AGENTS
from gateway.world import ADDRESSES, ROUTES, GatewayWorld
from segue.dialects import DIALECTS
from segue.dialects.registry import WIRES
from segue.emulators.faults import Fault
from segue.gateway.app import Gateway
from segue.gateway.memory.installation_key import InstallationKey
from segue.gateway.memory.memory import Memory
from segue.gateway.requests.client_errors import error_response
from segue.providers.config import ProviderConfig
from segue.providers.credentials.keys import Secret
from segue.providers.registry import default_registry
from segue.transports.asgi import AsgiTransport
from segue.transports.http import HttpTransport
from segue.transports.transport import Timeouts, Transport, WireRequest

CHUNK = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "gpt-4.1"}
HELLO = {**CHUNK, "choices": [{"index": 0, "delta": {"content": "Hello"}, "finish_reason": None}]}
CONTENT = f"data: {json.dumps(HELLO)}\n\n".encode()
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
CHUNKED = HEAD + b"transfer-encoding: chunked\r\n\r\n" + b"%x\r\n%b\r\n" % (len(CONTENT), CONTENT)
ANSWERS = {
    "cut_after_content": CHUNKED,
    "cut_before_content": HEAD + b"transfer-encoding: chunked\r\n\r\n",
    "ended_without_an_end": CHUNKED + b"0\r\n\r\n",
    "no_http": b"I am no server\r\n\r\n",
    "closed_at_once": b"",
    "broken_chunk": HEAD + b"transfer-encoding: chunked\r\n\r\nzz\r\n",
    "short_body": HEAD + b"content-length: 100000\r\n\r\n" + CONTENT,
    "not_gzip": HEAD + b"content-encoding: gzip\r\ncontent-length: 5\r\n\r\nhello",
    "unknown_encoding": HEAD + b"content-encoding: br\r\ncontent-length: 5\r\n\r\nhello",
    "no_body": HEAD + b"content-length: 0\r\n\r\n",
    "no_stream": HEAD + b"content-length: 5\r\n\r\nhello",
    "redirect": b"HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n",
}
CLASS_NAME = re.compile(r"\b[A-Z][A-Za-z]*(?:Error|Exception|Exit|Refused|Timeout|Reset)\b")


@asynccontextmanager
async def server(answer: bytes) -> AsyncIterator[int]:
    """Answers every request with the same bytes, and hangs up."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        size = re.search(rb"content-length: (\d+)", head.lower())
        await reader.readexactly(int(size[1]) if size else 0)
        writer.write(answer)
        await writer.drain()
        writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with listening:
        yield listening.sockets[0].getsockname()[1]


def world_at(port: int, transport: Transport) -> GatewayWorld:
    """A gateway whose provider is behind a real socket."""
    world = GatewayWorld(profiles={"gpt-4.1": {"members": ("openai/gpt-4.1",)}})
    config = ProviderConfig(
        base_url=f"http://user:pass@127.0.0.1:{port}/v1",
        api_key=Secret("sk-real"),
        timeouts=Timeouts(first_byte=0.3, idle=0.3),
    )
    providers = default_registry({"openai": config}, environ={}, transport=transport, keyring=False)
    memory = Memory(world.store, InstallationKey(b"k" * 32))
    world.gateway = Gateway(world.config, providers, memory, on_report=world.reports.append)
    return world


def check(told: str, provider: str = "openai") -> None:
    assert "127.0.0.1" not in told
    assert "http:" not in told
    assert not CLASS_NAME.search(told), told
    assert provider in told, told


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("wire", ["openai_chat", "anthropic"])
@pytest.mark.parametrize("fault", ANSWERS)
def test_a_provider_that_fails_is_named_without_its_address(fault: str, wire: str, *, stream: bool) -> None:
    async def main() -> None:
        transport = HttpTransport()
        async with server(ANSWERS[fault]) as port:
            world = world_at(port, transport)
            # On the provider's own wire its bytes go through as they are; other wires are translated.
            agent = AGENTS[wire](world, "gpt-4.1", stream=stream)
            agent.add_user("Hello.")
            reply = await agent.send()
            assert world.reports[-1].error, reply.body
            told = reply.body.decode()
            check(told.partition("Hello")[2] or told)
        await transport.close()

    asyncio.run(main())


def test_a_provider_that_cannot_be_reached_is_named_without_its_address() -> None:
    async def main() -> None:
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            transport = HttpTransport()
            world = world_at(unused.getsockname()[1], transport)
            for _ in range(6):  # in the end it is left alone, which has a text of its own
                agent = AGENTS["openai_chat"](world, "gpt-4.1")
                agent.add_user("Hello.")
                check((await agent.send()).body.decode())
            embedded = await world.ask(
                "/v1/embeddings", {"model": "openai/text-embedding-3-small", "input": "a"}
            )
            check(embedded.body.decode())
            await transport.close()

    asyncio.run(main())


@pytest.mark.parametrize("answer", [b"no json", b'{"data": 1}'])
def test_other_services_name_the_provider_without_its_address(answer: bytes) -> None:
    async def main() -> None:
        transport = HttpTransport()
        head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(
            answer
        )
        async with server(head + answer) as port:
            world = world_at(port, transport)
            asked = {"model": "openai/text-embedding-3-small", "input": "a"}
            reply = await world.ask("/v1/embeddings", asked)
            assert reply.status >= 400
            check(reply.body.decode())
        await transport.close()

    asyncio.run(main())


@pytest.mark.parametrize("wire", ["openai_chat", "anthropic"])
def test_a_defect_is_told_without_the_words_of_python(wire: str) -> None:
    def broken(_: WireRequest) -> NoReturn:
        raise ZeroDivisionError("at http://127.0.0.1:1/v1 with the content of a message")

    async def main() -> None:
        world = world_at(1, broken)  # type: ignore[arg-type]  # it never answers
        agent = AGENTS[wire](world, "gpt-4.1")
        agent.add_user("Hello.")
        told = (await agent.send()).body.decode()
        check(told)
        assert "content of a message" not in told

    asyncio.run(main())


def test_a_defect_of_the_gateway_itself_is_told_without_the_words_of_python() -> None:
    class BrokenMemory:
        def __getattr__(self, name: str) -> NoReturn:
            raise ZeroDivisionError("the content of a message")

    async def main() -> None:
        world = GatewayWorld()
        world.gateway.memory = BrokenMemory()  # type: ignore[assignment]
        agent = AGENTS["openai_chat"](world, "openai/gpt-4.1")
        agent.add_user("Hello.")
        reply = await agent.send()
        assert reply.status == 500
        assert not CLASS_NAME.search(reply.body.decode()), reply.body
        assert b"content of a message" not in reply.body

    asyncio.run(main())


@pytest.mark.parametrize("wire", AGENTS)
@pytest.mark.parametrize(
    ("first", "second", "remedy", "waits"),
    [
        (400, 400, "fix", False),
        (429, 429, "wait", True),
        (503, 429, "go_elsewhere", True),
        (400, 503, "go_elsewhere", True),
        (401, 401, "go_elsewhere", False),
        (400, 401, "go_elsewhere", False),
    ],
)
def test_what_all_members_have_against_a_request_is_what_its_client_gets(
    wire: str, first: int, second: int, remedy: str, waits: bool
) -> None:
    async def main() -> None:
        world = GatewayWorld(profiles={"team": {"members": [ROUTES["kimi"], "deepseek/deepseek-v4"]}})
        deepseek = ProviderConfig(base_url="http://emulator/deepseek", api_key=Secret("sk-emulated"))
        kimi = ProviderConfig(base_url=ADDRESSES["kimi"], api_key=Secret("sk-emulated"))
        providers = default_registry(
            {"kimi": kimi, "deepseek": deepseek},
            environ={},
            transport=AsgiTransport(world.app),
            keyring=False,
        )
        world.gateway = Gateway(world.config, providers, world.gateway.memory)
        agent = AGENTS[wire](world, "team")
        agent.add_user("Hello.")
        # Clients of the same wire are tried a second time where they are refused.
        world.emulator.faults += [Fault(kind="status", status=first, provider="kimi")] * 2
        world.emulator.faults += [Fault(kind="status", status=second, provider="deepseek")] * 2
        reply = await agent.send()
        assert reply.status >= 400
        error = DIALECTS[wire].decode_error(reply.status, reply.headers, reply.body)
        assert (error.remedy, "retry-after" in reply.headers) == (remedy, waits), reply.body
        assert "kimi/" in error.message

    asyncio.run(main())


# What a provider's error holds besides

ANY_JSON = st.recursive(
    st.none() | st.text(st.characters(codec="utf-8")) | st.integers(-(2**63), 2**63 - 1),
    lambda inner: (
        st.lists(inner) | st.dictionaries(st.sampled_from(("error", "message", "type", "x")), inner)
    ),
)
_NEW = {"kind_of_limit": "newer_than_we_are", "limit": 3}


def _envelope(wire: str, *, note: str = "") -> bytes:
    error: dict[str, Any] = {"message": "Not so.", "details": {**_NEW, "note": note}}
    match wire:
        case "gemini":
            error = {**error, "code": 400, "status": "INVALID_ARGUMENT", "details": [error["details"]]}
        case "ollama":
            return msgspec.json.encode({"error": "Not so.", "details": error["details"]})
        case "converse":
            return msgspec.json.encode({**error, "beside": _NEW})
        case "mistral":
            return msgspec.json.encode({"object": "error", "type": "invalid_request_error", **error})
        case _:
            error = {**error, "type": "invalid_request_error"}
    return msgspec.json.encode({"type": "error", "error": error, "beside": _NEW})


@pytest.mark.parametrize("wire", WIRES)
def test_members_of_an_error_that_we_do_not_know_reach_clients_of_its_wire(wire: str) -> None:
    error = DIALECTS[wire].decode_error(400, {}, _envelope(wire))
    assert b"newer_than_we_are" in error_response(error, DIALECTS[wire]).body
    for other in WIRES:
        if other != wire:
            assert b"newer_than_we_are" not in error_response(error, DIALECTS[other]).body


@pytest.mark.parametrize("wire", WIRES)
def test_they_hold_no_key_and_no_address(wire: str) -> None:
    key = "sk-ant-api03-" + "Abcd1234" * 6
    error = DIALECTS[wire].decode_error(400, {}, _envelope(wire, note=f"key {key}"))
    assert key.encode() not in error_response(error, DIALECTS[wire]).body
    error = DIALECTS[wire].decode_error(400, {}, _envelope(wire, note="at http://10.0.0.7:8000/v1"))
    error.address, error.provider = "http://10.0.0.7:8000", "inside"
    assert b"10.0.0.7" not in error_response(error, DIALECTS[wire]).body


@pytest.mark.parametrize("wire", WIRES)
@given(body=st.binary(max_size=200) | ANY_JSON.map(msgspec.json.encode))
def test_any_error_is_written_for_clients_of_its_wire(wire: str, body: bytes) -> None:
    error = DIALECTS[wire].decode_error(400, {}, body)
    assert isinstance(msgspec.json.decode(error_response(error, DIALECTS[wire]).body), dict)

"""OpenAI's models at Microsoft: other addresses, another header for the key, a version in the query; over real HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from segue.conversation.events import Finished, TextDelta
from segue.conversation.message import Conversation, user
from segue.dialects.registry import DIALECTS
from segue.providers.adapter import ChatRequest
from segue.providers.config import ProviderConfig
from segue.providers.factory import connect

KEY = "0123456789abcdef0123456789abcdef"


class Azure:
    """Answers everything and remembers how it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, Mapping[str, str], Any]] = []

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().rstrip().split("\r\n")
        headers = {name.lower(): value for name, value in (told.split(": ", 1) for told in lines)}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        self.asked.append((line, headers, msgspec.json.decode(body) if body else None))
        said = self._stream(line) if body else b'{"data": [{"id": "mine"}]}'
        writer.write(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n" + said)
        writer.close()

    @staticmethod
    def _stream(line: str) -> bytes:
        dialect = DIALECTS["openai_responses" if "/responses" in line else "openai_chat"]
        encoder = dialect.new_encoder("mine")
        events = (TextDelta(0, "Good day."), Finished("stop"))
        return b"".join([*(encoder.feed(event) for event in events), encoder.close()])


async def talk(config: Mapping[str, Any], path: str, model: str) -> Azure:
    azure = Azure()
    server = await asyncio.start_server(azure, "127.0.0.1", 0)
    async with server:
        base_url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}{path}"
        provider = connect(
            "azure",
            ProviderConfig(**config),
            environ={"AZURE_OPENAI_ENDPOINT": base_url, "AZURE_OPENAI_API_KEY": KEY},
            keyring=False,
        )
        request = ChatRequest(model=model, conversation=Conversation().append(user("Hi.")))
        events = [event async for event in provider.chat_stream(request)]
        assert events[-1] == Finished("stop", "completed") or events[-1] == Finished("stop", "stop"), events
        assert (await provider.health()).status == "healthy"
        assert provider.validate_config() == []
    return azure


@pytest.mark.parametrize(
    ("config", "path", "model", "asked"),
    [
        ({}, "", "gpt-4.1", "/openai/v1/chat/completions"),
        ({}, "/", "gpt-5.6", "/openai/v1/responses"),
        ({"api_version": "preview"}, "", "mine", "/openai/v1/chat/completions?api-version=preview"),
        (
            {"api_version": "2024-10-21"},
            "/openai/deployments/mine",
            "mine",
            "/openai/deployments/mine/chat/completions?api-version=2024-10-21",
        ),
    ],
)
def test_a_deployment_is_asked_at_its_own_address_with_its_own_header(
    config: dict[str, Any], path: str, model: str, asked: str
) -> None:
    azure = asyncio.run(talk(config, path, model))
    line, headers, body = azure.asked[0]
    assert line == f"POST {asked} HTTP/1.1"
    assert headers["api-key"] == KEY
    assert "authorization" not in headers
    assert body["model"] == model
    assert azure.asked[1][0].startswith("GET ")
    assert "/models" in azure.asked[1][0]

"""Our clients of the clouds against aimock: binary frames of Bedrock, Vertex and Azure as others understood them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from typing import Any, Final

import pytest

from opinions.aimock_server import fetched_aimock, running
from segue.conversation.blocks import ToolCall, ToolResult
from segue.conversation.events import Failed, Finished, Reply
from segue.conversation.message import Conversation, tool, user
from segue.conversation.options import Options
from segue.conversation.tools import ToolSpec
from segue.errors import RateLimitError
from segue.providers.adapter import ChatRequest, fold_stream
from segue.providers.config import ProviderConfig
from segue.providers.factory import connect
from segue.providers.provider import Provider

pytestmark = [
    pytest.mark.skipif(
        os.environ.get("SEGUE_SECOND_OPINIONS") != "1",
        reason="fetches aimock; asked for by SEGUE_SECOND_OPINIONS=1, as `make opinions` does",
    ),
    pytest.mark.timeout(300),
]
ANSWER: Final = "Hello from somebody else, in several frames."
SLOW_DOWN: Final = {"error": {"message": "Slow down.", "type": "rate_limit_error"}, "status": 429}
FIXTURES: Final[list[dict[str, Any]]] = [
    {"match": {"userMessage": "too often"}, "response": SLOW_DOWN},
    {"match": {"userMessage": "look", "hasToolResult": True}, "response": {"content": "It rains."}},
    {
        "match": {"userMessage": "look"},
        "response": {"toolCalls": [{"name": "weather", "arguments": '{"city": "Rome"}'}]},
    },
    {"match": {"userMessage": "Hello"}, "response": {"content": ANSWER}},
]
WEATHER: Final = ToolSpec(
    "weather", "The weather.", {"type": "object", "properties": {"city": {"type": "string"}}}
)
CLAUDE: Final = "us.anthropic.claude-sonnet-4-5-20250929-v1:0"
VERTEX: Final = "/v1/projects/p/locations/global/publishers"
PLACES: Final[dict[str, tuple[str, str, str, dict[str, Any]]]] = {
    "converse": ("bedrock", "", CLAUDE, {}),
    "nova": ("bedrock", "", "us.amazon.nova-lite-v1:0", {}),
    "invoke": ("bedrock-invoke", "", CLAUDE, {}),
    "vertex": ("vertex", f"{VERTEX}/google", "gemini-2.5-flash", {}),
    "azure deployments": (
        "azure-openai",
        "/openai/deployments/gpt-4.1",
        "gpt-4.1",
        {"api_version": "2024-10-21"},
    ),
    "messages": ("anthropic", "", "claude-sonnet-4-6", {}),
    "responses": ("openai", "/v1", "gpt-5.5", {}),
}
"""What aimock serves of the clouds, and the homes of two wires. It has neither Claude at Vertex nor Azure's v1."""
CASES: Final = [
    (place, stream)
    for place in PLACES
    for stream in (True, False)
    # Its frames of InvokeModel hold the events themselves, where botocore's service model has base64 in `bytes`.
    if (place, stream) != ("invoke", True)
]
SIGNING: Final = {
    "AWS_ACCESS_KEY_ID": "AKIDEXAMPLE",
    "AWS_SECRET_ACCESS_KEY": "secret",
    "AWS_REGION": "us-east-1",
}


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("aimock")
    with running(fetched_aimock(folder), folder, FIXTURES) as url:
        yield url


def provider(address: str, place: str) -> tuple[Provider, str]:
    name, path, model, fields = PLACES[place]
    key: dict[str, Any] = {} if name.startswith("bedrock") else {"api_key": "sk-other"}
    config = ProviderConfig(base_url=address + path, **key, **fields)
    return connect(name, config, environ=SIGNING, keyring=False), model


def ask(at: Provider, model: str, said: Conversation, *, stream: bool, **fields: Any) -> Reply:
    async def main() -> Reply:
        request = ChatRequest(model=model, conversation=said, options=Options(stream=stream), **fields)
        events = [event async for event in at.chat_stream(request)]
        assert isinstance(events[-1], Finished | Failed)
        return fold_stream(events)

    return asyncio.run(main())


@pytest.mark.parametrize(("place", "stream"), CASES)
def test_a_reply_is_read_as_it_was_meant(address: str, place: str, stream: bool) -> None:
    at, model = provider(address, place)
    reply = ask(at, model, Conversation().append(user("Hello.")), stream=stream)
    assert reply.error is None, reply.error
    assert reply.message.text == ANSWER


@pytest.mark.parametrize(("place", "stream"), CASES)
def test_a_call_and_its_result_go_there_and_back(address: str, place: str, stream: bool) -> None:
    at, model = provider(address, place)
    said = Conversation().append(user("Please look."))
    reply = ask(at, model, said, stream=stream, tools=(WEATHER,))
    assert reply.error is None, reply.error
    (call,) = [block for block in reply.message.blocks if isinstance(block, ToolCall)]
    assert (call.name, call.arguments) == ("weather", {"city": "Rome"})
    said = said.append(reply.message).append(tool(ToolResult(call.id, call.name, "Rain.", complete=True)))
    assert ask(at, model, said, stream=stream, tools=(WEATHER,)).message.text == "It rains."


@pytest.mark.parametrize("place", PLACES)
def test_a_refusal_is_the_error_that_it_says(address: str, place: str) -> None:
    at, model = provider(address, place)
    reply = ask(at, model, Conversation().append(user("You ask too often.")), stream=True)
    assert isinstance(reply.error, RateLimitError), reply.error

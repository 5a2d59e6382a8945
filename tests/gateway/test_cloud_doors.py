"""The clouds' clients of the official SDKs over real HTTP, with models of other wires behind the gateway."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from hashlib import sha256
from typing import Any

import pytest
import uvicorn

from gateway.clients import SCHEMA
from gateway.test_sdks import ANSWER, TOOL, imported
from gateway.world import EVERY_ROUTE, ROUTES, GatewayWorld
from segue.config.schema import CallerSettings
from segue.dialects.streams.amazon_event_stream import EventFrameDecoder
from segue.emulators.faults import Fault

KEY = "sk-segue-of-a-caller-0123456789"
GOOGLE_TOKEN = "ya29.a0AfH6SMBx-of-somebody"  # noqa: S105 - nobody's
ENTRA_TOKEN = "eyJ0eXAiOiJKV1QifQ.eyJhdWQiOiJhaSJ9.c2lnbmF0dXJl"  # noqa: S105 - nobody's


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """A gateway with one caller, on a port of its own."""
    world = GatewayWorld(
        models={"vectors": "openai/text-embedding-3-small"},
        callers={"ada": CallerSettings(key_sha256=sha256(KEY.encode()).hexdigest())},
    )
    config = uvicorn.Config(world.gateway, host="127.0.0.1", port=0, log_level="error", ws="none")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    deadline = time.monotonic() + 10
    while not server.started and time.monotonic() < deadline:
        time.sleep(0.01)
    host, port = server.servers[0].sockets[0].getsockname()[:2]
    yield f"http://{host}:{port}"
    server.should_exit = True
    thread.join(5)


def vertex_genai(address: str, key: str) -> Any:
    genai, types = imported("google.genai"), imported("google.genai.types")
    credentials = imported("google.oauth2.credentials")
    return genai.Client(
        vertexai=True,
        project="p",
        location="eu",
        credentials=credentials.Credentials(token=key),
        http_options=types.HttpOptions(base_url=address),
    )


@pytest.mark.parametrize("route", [ROUTES["anthropic"], ROUTES["gemini"], "vertex/gemini-3.5-flash"])
def test_google_genai_for_vertex(address: str, route: str) -> None:
    types = imported("google.genai.types")
    client = vertex_genai(address, KEY)
    tool = types.Tool(function_declarations=[types.FunctionDeclaration(**{**TOOL, "parameters": SCHEMA})])
    config = types.GenerateContentConfig(
        tools=[tool], automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True)
    )
    asked = [types.Content(role="user", parts=[types.Part(text="Please look.")])]
    reply = client.models.generate_content(model=route, contents=asked, config=config)
    assert [call.name for call in reply.function_calls] == ["weather", "weather"]
    # VTX-02: whoever gets an id returns it, and Vertex refuses it.
    assert [call.id for call in reply.function_calls] == [None, None]
    results = [
        types.Part.from_function_response(name=call.name, response={"output": "Sunny."})
        for call in reply.function_calls
    ]
    asked += [reply.candidates[0].content, types.Content(role="user", parts=results)]
    said = client.models.generate_content(model=route, contents=asked, config=config)
    assert said.text == "I know: 2 results."
    chunks = client.models.generate_content_stream(model=route, contents="Hello.")
    assert "".join(chunk.text or "" for chunk in chunks) == ANSWER
    assert client.models.count_tokens(model=route, contents="Hello.").total_tokens > 0
    client.close()


def test_google_genai_in_express_mode(address: str) -> None:
    genai, types = imported("google.genai"), imported("google.genai.types")
    client = genai.Client(vertexai=True, api_key=KEY, http_options=types.HttpOptions(base_url=address))
    assert client.models.generate_content(model=ROUTES["chat"], contents="Hello.").text == ANSWER
    client.close()


@pytest.mark.parametrize("route", [ROUTES["chat"], ROUTES["anthropic"], "vertex-anthropic/claude-sonnet-4-6"])
def test_anthropics_client_for_vertex(address: str, route: str) -> None:
    anthropic = imported("anthropic")
    client = anthropic.AnthropicVertex(
        project_id="p", region="eu", access_token=KEY, base_url=f"{address}/v1", max_retries=0
    )
    tool = {"name": "weather", "description": "The weather.", "input_schema": SCHEMA}
    asked: dict[str, Any] = {
        "model": route,
        "max_tokens": 500,
        "messages": [{"role": "user", "content": "Please look."}],
        "tools": [tool],
    }
    whole = client.messages.create(**asked)
    calls = [block for block in whole.content if block.type == "tool_use"]
    assert [call.name for call in calls] == ["weather", "weather"]
    results = [{"type": "tool_result", "tool_use_id": call.id, "content": "Sunny."} for call in calls]
    asked["messages"] += [
        {"role": "assistant", "content": whole.content},
        {"role": "user", "content": results},
    ]
    with client.messages.stream(**asked) as stream:
        assert stream.get_final_text() == "I know: 2 results."
    counted = client.messages.count_tokens(model=route, messages=[{"role": "user", "content": "Hello."}])
    assert counted.input_tokens > 0
    client.close()


@pytest.mark.parametrize("route", [ROUTES["anthropic"], ROUTES["responses"], "azure-openai/gpt-5.5"])
@pytest.mark.parametrize("way", ["key", "token", "v1"])
def test_openais_client_for_azure(address: str, route: str, way: str) -> None:
    openai = imported("openai")
    if way == "v1":
        client = openai.OpenAI(api_key=KEY, base_url=f"{address}/openai/v1/", max_retries=0)
    else:
        signed = {"api_key": KEY} if way == "key" else {"azure_ad_token": KEY}
        client = openai.AzureOpenAI(
            azure_endpoint=address, api_version="2025-04-01-preview", max_retries=0, **signed
        )
    asked: dict[str, Any] = {
        "model": route,
        "messages": [{"role": "user", "content": "Please look."}],
        "tools": [{"type": "function", "function": TOOL}],
    }
    whole = client.chat.completions.create(**asked)
    assert [call.function.name for call in whole.choices[0].message.tool_calls] == ["weather", "weather"]
    chunks = client.chat.completions.create(
        model=route, messages=[{"role": "user", "content": "Hello."}], stream=True
    )
    said = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert said == ANSWER
    assert client.responses.create(model=route, input="Hello.").output_text == ANSWER
    assert client.embeddings.create(model="vectors", input="a").data[0].embedding
    client.close()


def test_a_token_of_a_cloud_opens_nothing_and_its_sender_is_told_what_does(address: str) -> None:
    openai, anthropic, errors = imported("openai"), imported("anthropic"), imported("google.genai.errors")
    azure = openai.AzureOpenAI(
        azure_endpoint=address, api_version="2025-04-01-preview", azure_ad_token=ENTRA_TOKEN, max_retries=0
    )
    with pytest.raises(openai.AuthenticationError) as refused:
        azure.chat.completions.create(model=ROUTES["chat"], messages=[{"role": "user", "content": "Hello."}])
    assert "token of Microsoft" in str(refused.value)
    assert "key of a caller" in str(refused.value)
    assert ENTRA_TOKEN not in str(refused.value)
    claude = anthropic.AnthropicVertex(
        project_id="p", region="eu", access_token=GOOGLE_TOKEN, base_url=f"{address}/v1", max_retries=0
    )
    with pytest.raises(anthropic.AuthenticationError, match="token of Google"):
        claude.messages.create(
            model=ROUTES["chat"], max_tokens=9, messages=[{"role": "user", "content": "Hello."}]
        )
    gemini = vertex_genai(address, GOOGLE_TOKEN)
    with pytest.raises(errors.ClientError, match="token of Google") as found:
        gemini.models.generate_content(model=ROUTES["chat"], contents="Hello.")
    assert found.value.code == 401
    unknown = openai.AzureOpenAI(
        azure_endpoint=address, api_version="2025-04-01-preview", api_key="wrong", max_retries=0
    )
    with pytest.raises(openai.AuthenticationError, match="does not know this key"):
        unknown.chat.completions.create(
            model=ROUTES["chat"], messages=[{"role": "user", "content": "Hello."}]
        )
    for client in (azure, claude, gemini, unknown):
        client.close()


def test_every_cloud_is_among_the_targets_of_the_laws() -> None:
    assert {route.partition("/")[0] for route in EVERY_ROUTE} >= {
        "azure-openai",
        "vertex",
        "vertex-anthropic",
    }


@pytest.mark.parametrize("route", ["vertex-anthropic/claude-sonnet-4-6", "azure-anthropic/claude-sonnet-4-6"])
def test_a_beta_that_a_cloud_refuses_is_dropped_from_a_forwarded_request_too(route: str) -> None:
    async def main() -> None:
        world = GatewayWorld()
        world.emulator.withheld = frozenset({"context-management-2025-06-27", "context_management"})
        body = {
            "model": route,
            "max_tokens": 50,
            "messages": [{"role": "user", "content": "Hello."}],
            "context_management": {"edits": []},
        }
        headers = {"anthropic-version": "2023-06-01", "anthropic-beta": "context-management-2025-06-27"}
        for _ in range(2):
            answer = await world.ask("/v1/messages", body, headers=headers)
            assert answer.status == 200, answer.body
        assert [entry.verdict for entry in world.emulator.log] == ["refused", "accepted", "accepted"]

    asyncio.run(main())


@pytest.mark.parametrize(("provider", "own"), [("vertex", True), ("gemini", False)])
def test_a_client_of_a_cloud_is_given_the_seals_of_that_cloud_and_of_no_other(
    provider: str, *, own: bool
) -> None:
    """What a translated reply holds must be accepted by the cloud without us, which refuses seals of the same models elsewhere."""
    # Without a seal, so that the request is not forwarded as it came.
    call = {"functionCall": {"name": "weather", "args": {"city": "Rome"}}}
    result = {"functionResponse": {"name": "weather", "response": {"result": "rain"}}}
    contents: list[Any] = [
        {"role": "user", "parts": [{"text": "Please look."}]},
        {"role": "model", "parts": [call]},
        {"role": "user", "parts": [result]},
        {"role": "model", "parts": [{"text": "Rain."}]},
        {"role": "user", "parts": [{"text": "Please look."}]},
    ]
    tools = [{"functionDeclarations": [{"name": "weather", "parametersJsonSchema": SCHEMA}]}]

    async def main() -> None:
        world = GatewayWorld()
        place = "/v1/projects/p/locations/global/publishers"
        path = f"{place}/{provider}/models/gemini-3.5-flash:generateContent"
        answer = await world.ask(path, {"contents": contents, "tools": tools})
        assert answer.status == 200, answer.body
        reply = answer.json()["candidates"][0]["content"]
        called = next(part for part in reply["parts"] if "functionCall" in part)
        assert (called["thoughtSignature"] != "skip_thought_signature_validator") is own

    asyncio.run(main())


def anthropic_clients(address: str) -> dict[str, Any]:
    """Of AWS: in Messages at mantle and at Claude Platform, and by InvokeModel, whose streams are binary frames."""
    anthropic = imported("anthropic")
    fixed: dict[str, Any] = {"api_key": KEY, "aws_region": "us-east-1", "max_retries": 0}
    return {
        "invoke": anthropic.AnthropicBedrock(base_url=address, **fixed),
        "mantle": anthropic.AnthropicBedrockMantle(base_url=f"{address}/anthropic", **fixed),
        "platform": anthropic.AnthropicAWS(base_url=address, workspace_id="w", **fixed),
    }


@pytest.mark.parametrize(
    "route",
    [ROUTES["chat"], ROUTES["anthropic"], "bedrock-invoke/us.anthropic.claude-sonnet-4-5-20250929-v1:0"],
)
@pytest.mark.parametrize("kind", ["invoke", "mantle", "platform"])
def test_anthropics_clients_for_aws(address: str, route: str, kind: str) -> None:
    client = anthropic_clients(address)[kind]
    tool = {"name": "weather", "description": "The weather.", "input_schema": SCHEMA}
    asked: dict[str, Any] = {
        "model": route,
        "max_tokens": 500,
        "messages": [{"role": "user", "content": "Please look."}],
        "tools": [tool],
    }
    whole = client.messages.create(**asked)
    calls = [block for block in whole.content if block.type == "tool_use"]
    assert [call.name for call in calls] == ["weather", "weather"]
    results = [{"type": "tool_result", "tool_use_id": call.id, "content": "Sunny."} for call in calls]
    asked["messages"] += [
        {"role": "assistant", "content": whole.content},
        {"role": "user", "content": results},
    ]
    with client.messages.stream(**asked) as stream:
        assert stream.get_final_text() == "I know: 2 results."
    client.close()


def test_betas_of_invoke_model_reach_a_provider_of_the_same_wire() -> None:
    """AWS-04: they are in the body there, and in a header at Anthropic's own API."""

    async def main() -> None:
        world = GatewayWorld()
        world.emulator.withheld = frozenset({"context-management-2025-06-27"})
        body = {
            "anthropic_version": "bedrock-2023-05-31",
            "anthropic_beta": ["context-management-2025-06-27"],
            "max_tokens": 50,
            "messages": [{"role": "user", "content": "Hello."}],
        }
        route = "vertex-anthropic%2Fclaude-sonnet-4-6"
        answer = await world.ask(f"/model/{route}/invoke", body)
        assert answer.status == 200, answer.body
        # It was named to a host that refuses it, and left out then.
        assert [entry.rule for entry in world.emulator.log] == ["VTX-06", None]
        assert "anthropic_beta" not in world.emulator.log[-1].body

    asyncio.run(main())


def test_an_error_behind_the_first_event_ends_the_frames_of_invoke_model_with_an_exception() -> None:
    async def main() -> None:
        world = GatewayWorld()
        world.emulator.faults.append(Fault(kind="cut", at_byte=800, provider="anthropic"))
        body = {
            "anthropic_version": "bedrock-2023-05-31",
            "max_tokens": 50,
            "messages": [{"role": "user", "content": "Hello."}],
        }
        route = "anthropic%2Fclaude-sonnet-4-6"
        answer = await world.ask(f"/model/{route}/invoke-with-response-stream", body)
        assert answer.headers["content-type"] == "application/vnd.amazon.eventstream"
        frames = EventFrameDecoder().feed(answer.body)
        assert [frame.headers[":message-type"] for frame in frames[:-1]] == ["event"] * (len(frames) - 1)
        assert frames[-1].headers[":message-type"] == "exception"

    asyncio.run(main())

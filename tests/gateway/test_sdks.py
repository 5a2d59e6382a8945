"""The official SDKs over real HTTP, streamed and whole, with a model of another wire behind the gateway."""

from __future__ import annotations

import asyncio
import threading
import time
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import uvicorn

from gateway.clients import SCHEMA
from gateway.world import ROUTES, GatewayWorld

ANSWER = "I know: 0 results."


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """A gateway on a port of its own."""
    world = GatewayWorld(models={"vectors": "openai/text-embedding-3-small"})
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


def imported(name: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip(name, reason="the SDK is not installed")


TOOL = {"name": "weather", "description": "The weather of a city.", "parameters": SCHEMA}


def test_openai_chat(address: str) -> None:
    openai = imported("openai")
    client = openai.OpenAI(api_key="any", base_url=f"{address}/v1", max_retries=0)
    asked: dict[str, Any] = {
        "model": ROUTES["anthropic"],
        "messages": [{"role": "user", "content": "Please look."}],
        "tools": [{"type": "function", "function": TOOL}],
    }
    whole = client.chat.completions.create(**asked)
    calls = whole.choices[0].message.tool_calls
    assert [call.function.name for call in calls] == ["weather", "weather"]
    assert whole.usage.total_tokens > 0
    asked["messages"] += [
        whole.choices[0].message,
        *({"role": "tool", "tool_call_id": call.id, "content": "rain"} for call in calls),
    ]
    chunks = list(
        client.chat.completions.create(stream=True, stream_options={"include_usage": True}, **asked)
    )
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == "I know: 2 results."
    assert chunks[-1].usage.total_tokens > 0
    assert {chunk.model for chunk in chunks} == {ROUTES["anthropic"]}
    vectors = client.embeddings.create(model="vectors", input=["a", "b"])
    assert len(vectors.data) == 2
    assert "fast" in [model.id for model in client.models.list()]
    with pytest.raises(openai.NotFoundError):
        client.chat.completions.create(model="nobody", messages=asked["messages"][:1])
    client.close()


def test_openai_responses(address: str) -> None:
    openai = imported("openai")
    client = openai.OpenAI(api_key="any", base_url=f"{address}/v1", max_retries=0)
    tools = [{"type": "function", "strict": False, **TOOL}]
    first = client.responses.create(model=ROUTES["gemini"], input="Please look.", tools=tools)
    calls = [item for item in first.output if item.type == "function_call"]
    results = [{"type": "function_call_output", "call_id": call.call_id, "output": "rain"} for call in calls]
    with client.responses.stream(
        model=ROUTES["gemini"], input=results, tools=tools, previous_response_id=first.id
    ) as stream:
        final = stream.get_final_response()
    assert final.output_text == "I know: 2 results."
    assert client.responses.retrieve(final.id).id == final.id
    assert client.responses.input_items.list(final.id).data
    client.responses.delete(final.id)
    client.close()


def test_anthropic(address: str) -> None:
    anthropic = imported("anthropic")
    client = anthropic.Anthropic(api_key="any", base_url=address, max_retries=0)
    asked: dict[str, Any] = {
        "model": ROUTES["responses"],
        "max_tokens": 500,
        "messages": [{"role": "user", "content": "Please look."}],
        "tools": [{"name": "weather", "input_schema": SCHEMA}],
    }
    with client.messages.stream(**asked) as stream:
        first = stream.get_final_message()
    uses = [block for block in first.content if block.type == "tool_use"]
    assert len(uses) == 2
    assert first.stop_reason == "tool_use"
    results = [{"type": "tool_result", "tool_use_id": use.id, "content": "rain"} for use in uses]
    asked["messages"] += [
        {"role": "assistant", "content": first.content},
        {"role": "user", "content": results},
    ]
    last = client.messages.create(**asked)
    assert last.content[-1].text == "I know: 2 results."
    assert last.usage.output_tokens > 0
    assert [model.id for model in client.models.list()] != []
    client.close()


THREADED = ("anthropic", "responses", "chat", "gemini", "mistral")


@pytest.mark.parametrize("route", THREADED)
@pytest.mark.parametrize("stream", [False, True])
def test_the_tool_runner_of_anthropic_finishes_with_any_model(address: str, route: str, stream: bool) -> None:
    """By default it sends only what is new, and the whole conversation again where nobody holds the rest."""
    anthropic = imported("anthropic")
    client = anthropic.Anthropic(api_key="any", base_url=address, max_retries=0)

    @anthropic.beta_tool  # type: ignore[untyped-decorator]
    def weather(city: str) -> str:
        """The weather of a city."""
        return f"rain in {city}"

    runner = client.beta.messages.tool_runner(
        model=ROUTES[route],
        max_tokens=500,
        tools=[weather],
        messages=[{"role": "user", "content": "Please look."}],
        stream=stream,
    )
    replies = [reply.get_final_message() if stream else reply for reply in runner]
    assert replies[-1].content[-1].text.startswith("I know: ")
    assert "0 results" not in replies[-1].content[-1].text, "the model saw a part of the conversation"
    client.close()


@pytest.mark.parametrize("route", THREADED)
def test_a_thread_of_anthropic_is_answered_turn_by_turn_by_any_model(address: str, route: str) -> None:
    anthropic = imported("anthropic")
    client = anthropic.Anthropic(api_key="any", base_url=address, max_retries=0)
    thread = client.beta.messages.thread(model=ROUTES[route], max_tokens=500, system="Be brief.")
    for said in ("My name is Ada.", "What is my name?", "And now?"):
        assert thread.send({"role": "user", "content": said}).content[-1].text == ANSWER
    client.close()


def test_google_genai(address: str) -> None:
    genai = imported("google.genai")
    types = imported("google.genai.types")
    client = genai.Client(api_key="any", http_options=types.HttpOptions(base_url=address))
    tool = types.Tool(function_declarations=[types.FunctionDeclaration(**{**TOOL, "parameters": SCHEMA})])
    config = types.GenerateContentConfig(
        tools=[tool], automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True)
    )
    reply = client.models.generate_content(model=ROUTES["anthropic"], contents="Please look.", config=config)
    assert [call.name for call in reply.function_calls] == ["weather", "weather"]
    chunks = client.models.generate_content_stream(model=ROUTES["anthropic"], contents="Hello.")
    assert "".join(chunk.text or "" for chunk in chunks) == ANSWER
    vectors = client.models.embed_content(model="vectors", contents="a")
    assert vectors.embeddings[0].values
    client.close()


@pytest.mark.parametrize("version", ["v1beta", "v1"])
@pytest.mark.parametrize("target", ["gemini", "anthropic"])
def test_google_genai_caches(address: str, version: str, target: str) -> None:
    genai = imported("google.genai")
    types = imported("google.genai.types")
    options = types.HttpOptions(base_url=address, api_version=version)
    client = genai.Client(api_key="any", http_options=options)
    config = types.CreateCachedContentConfig(
        contents=["A long document."], system_instruction="Be brief.", ttl="300s", display_name="papers"
    )
    made = client.caches.create(model=ROUTES[target], config=config)
    assert made.usage_metadata.total_token_count > 0
    assert client.caches.get(name=made.name).expire_time == made.expire_time
    longer = client.caches.update(name=made.name, config=types.UpdateCachedContentConfig(ttl="900s"))
    assert longer.expire_time > made.expire_time
    assert made.name in [one.name for one in client.caches.list()]
    asked = types.GenerateContentConfig(cached_content=made.name)
    for model in (ROUTES["gemini"], ROUTES["anthropic"], ROUTES["responses"]):
        reply = client.models.generate_content(model=model, contents="Hello.", config=asked)
        assert reply.text == ANSWER
        chunks = client.models.generate_content_stream(model=model, contents="Hello.", config=asked)
        assert "".join(chunk.text or "" for chunk in chunks) == ANSWER
    client.caches.delete(name=made.name)
    errors = imported("google.genai.errors")
    with pytest.raises(errors.ClientError, match="not found"):
        client.caches.get(name=made.name)
    client.close()


def test_mistral(address: str) -> None:
    mistralai = imported("mistralai.client")
    with mistralai.Mistral(api_key="any", server_url=address) as client:
        asked: dict[str, Any] = {
            "model": ROUTES["anthropic"],
            "messages": [{"role": "user", "content": "Please look."}],
            "tools": [{"type": "function", "function": TOOL}],
        }
        whole = client.chat.complete(**asked)
        calls = whole.choices[0].message.tool_calls
        assert [len(call.id) for call in calls] == [9, 9]
        words = client.chat.stream(
            model=ROUTES["anthropic"], messages=[{"role": "user", "content": "Hello."}]
        )
        text = "".join(str(event.data.choices[0].delta.content or "") for event in words)
        assert text == ANSWER


def test_ollama(address: str) -> None:
    ollama = imported("ollama")
    client = ollama.Client(host=address)
    asked: dict[str, Any] = {
        "model": ROUTES["anthropic"],
        "messages": [{"role": "user", "content": "Please look."}],
    }
    whole = client.chat(tools=[{"type": "function", "function": TOOL}], **asked)
    assert [call.function.arguments["city"] for call in whole.message.tool_calls] == ["Rome", "Oslo"]
    parts = client.chat(stream=True, **asked)
    assert "".join(part.message.content for part in parts) == ANSWER
    assert client.generate(model="fast", prompt="Hello.").response == ANSWER
    assert client.embed(model="vectors", input="a").embeddings
    assert "fast" in [model.model for model in client.list().models]
    assert "tools" in client.show("fast").capabilities
    client._client.close()  # it has no way of its own


def test_many_clients_at_once(address: str) -> None:
    openai = imported("openai")

    async def main() -> None:
        client = openai.AsyncOpenAI(api_key="any", base_url=f"{address}/v1", max_retries=0)
        messages = [{"role": "user", "content": "Hello."}]
        routes = list(ROUTES.values()) * 3
        replies = await asyncio.gather(
            *(client.chat.completions.create(model=route, messages=messages) for route in routes)
        )
        assert {reply.choices[0].message.content for reply in replies} == {ANSWER}
        assert [reply.model for reply in replies] == routes
        await client.close()

    asyncio.run(main())


@pytest.mark.parametrize("route", ["chat", "gemini", "anthropic", "converse"])
def test_bedrock(address: str, route: str) -> None:
    """botocore is what boto3 sends with."""
    session = imported("botocore.session").Session()
    session.set_credentials("any", "any")
    config = imported("botocore.config").Config(retries={"total_max_attempts": 1})
    client = session.create_client(
        "bedrock-runtime", region_name="us-east-1", endpoint_url=address, config=config
    )
    spec = {"name": "weather", "description": "The weather of a city.", "inputSchema": {"json": SCHEMA}}
    asked: dict[str, Any] = {
        "modelId": ROUTES[route],
        "messages": [{"role": "user", "content": [{"text": "Please look."}]}],
        "toolConfig": {"tools": [{"toolSpec": spec}]},
    }
    whole = client.converse(**asked)
    content = whole["output"]["message"]["content"]
    calls = [block["toolUse"] for block in content if "toolUse" in block]
    assert [call["name"] for call in calls] == ["weather", "weather"]
    assert whole["stopReason"] == "tool_use"
    assert whole["usage"]["totalTokens"] > 0
    results = [
        {"toolResult": {"toolUseId": call["toolUseId"], "content": [{"text": "rain"}]}} for call in calls
    ]
    asked["messages"] += [whole["output"]["message"], {"role": "user", "content": results}]
    events = list(client.converse_stream(**asked)["stream"])
    said = "".join(
        event["contentBlockDelta"]["delta"].get("text", "")
        for event in events
        if "contentBlockDelta" in event
    )
    assert said == "I know: 2 results."
    assert list(events[-1]) == ["metadata"]
    counted = (
        client.count_tokens(
            modelId=ROUTES[route],
            input={"converse": {"messages": asked["messages"], "toolConfig": asked["toolConfig"]}},
        )
        if route in ("gemini", "anthropic", "converse")
        else {"inputTokens": 1}
    )
    assert counted["inputTokens"] > 0
    with pytest.raises(client.exceptions.ClientError) as caught:
        client.converse(modelId="nobody/nothing", messages=asked["messages"][:1])
    assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 404


def test_conversations_of_mistral_are_refused_in_its_words(address: str) -> None:
    mistralai = imported("mistralai.client")
    errors = imported("mistralai.client.errors")
    with mistralai.Mistral(api_key="any", server_url=address) as client:
        held: Any = client.beta.conversations
        asked: list[tuple[Any, dict[str, Any]]] = [
            (held.start, {"model": ROUTES["anthropic"], "inputs": "Hello."}),
            (held.append, {"conversation_id": "conv_1", "inputs": "Hello."}),
            (held.get_history, {"conversation_id": "conv_1"}),
        ]
        for ask, fields in asked:
            with pytest.raises(errors.MistralError) as refused:
                ask(**fields)
            assert refused.value.status_code == 404
            assert '"object":"error"' in refused.value.body
            assert "not served here" in refused.value.body

"""The gateway in a program of one's own: under the official SDKs without a server, and mounted below a path."""

from __future__ import annotations

import asyncio
import json
import threading
import warnings
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from gateway.clients import SCHEMA
from gateway.in_process_world import SEALING, InProcessWorld, ThinkingModel, no_sockets
from gateway.world import ROUTES
from segue.emulators.emulator import Emulator
from segue.emulators.faults import Fault
from segue.emulators.model.responder import ScriptedResponder
from segue.errors import UsageError
from segue.gateway import GatewayApplication, gateway_app, in_process_transport
from segue.providers import ScriptedProvider, says
from segue.testing import emulated_providers
from segue.transports.asgi import AsgiTransport
from segue.transports.transport import WireRequest

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    anthropic = pytest.importorskip("anthropic", reason="the SDK is not installed")
    httpx = pytest.importorskip("httpx", reason="httpx is not installed")
    httpx2 = pytest.importorskip("httpx2", reason="httpx2 is not installed")
    openai = pytest.importorskip("openai", reason="the SDK is not installed")
    genai = pytest.importorskip("google.genai", reason="the SDK is not installed")
    from google.genai import types

TOOL: dict[str, Any] = {"name": "weather", "description": "The weather of a city.", "parameters": SCHEMA}
OTHER = ROUTES["anthropic"]


@pytest.fixture
def world() -> Iterator[InProcessWorld]:
    with InProcessWorld() as world:
        yield world


def openai_client(world: InProcessWorld, library: Any = httpx2) -> Any:
    return openai.OpenAI(http_client=library.Client(transport=world.transport), api_key="any", max_retries=0)


# One conversation on each wire: a turn takes the client's history, the model and the words, and answers in text.


def chat_turns(world: InProcessWorld) -> Callable[[str, str], str]:
    client = openai_client(world)
    messages: list[Any] = []

    def turn(model: str, words: str) -> str:
        messages.append({"role": "user", "content": words})
        while True:
            with client.chat.completions.stream(
                model=model, messages=messages, tools=[{"type": "function", "function": TOOL}]
            ) as stream:
                reply = stream.get_final_completion().choices[0].message
            messages.append(reply.model_dump(exclude_none=True, exclude={"parsed"}))
            if not reply.tool_calls:
                return str(reply.content)
            messages.extend(
                {"role": "tool", "tool_call_id": call.id, "content": "rain"} for call in reply.tool_calls
            )

    return turn


def responses_turns(world: InProcessWorld) -> Callable[[str, str], str]:
    client = openai_client(world)
    items: list[Any] = []

    def turn(model: str, words: str) -> str:
        items.append({"role": "user", "content": words})
        while True:
            reply = client.responses.create(
                model=model,
                input=items,
                tools=[{"type": "function", "strict": False, **TOOL}],
                store=False,
                include=["reasoning.encrypted_content"],
            )
            items.extend(item.model_dump(exclude_none=True) for item in reply.output)
            calls = [item for item in reply.output if item.type == "function_call"]
            if not calls:
                return str(reply.output_text)
            items.extend(
                {"type": "function_call_output", "call_id": call.call_id, "output": "rain"} for call in calls
            )

    return turn


def messages_turns(world: InProcessWorld) -> Callable[[str, str], str]:
    client = anthropic.Anthropic(http_client=httpx2.Client(transport=world.transport), api_key="any")
    messages: list[Any] = []

    def turn(model: str, words: str) -> str:
        messages.append({"role": "user", "content": words})
        while True:
            with client.messages.stream(
                model=model,
                max_tokens=500,
                messages=messages,
                tools=[{"name": "weather", "input_schema": SCHEMA}],
            ) as stream:
                reply = stream.get_final_message()
            messages.append({"role": "assistant", "content": reply.content})
            uses = [block for block in reply.content if block.type == "tool_use"]
            if not uses:
                return str(reply.content[-1].text)
            results = [{"type": "tool_result", "tool_use_id": use.id, "content": "rain"} for use in uses]
            messages.append({"role": "user", "content": results})

    return turn


def google_client(world: InProcessWorld) -> Any:
    options = types.HttpOptions(httpx_client=httpx.Client(transport=world.transport))
    return genai.Client(api_key="any", http_options=options)


def google_turns(world: InProcessWorld) -> Callable[[str, str], str]:
    client = google_client(world)
    tool = types.Tool(function_declarations=[types.FunctionDeclaration(**TOOL)])
    config = types.GenerateContentConfig(
        tools=[tool], automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True)
    )
    contents: list[Any] = []

    def turn(model: str, words: str) -> str:
        contents.append(types.UserContent(words))
        while True:
            reply = client.models.generate_content(model=model, contents=contents, config=config)
            contents.append(reply.candidates[0].content)
            if not reply.function_calls:
                return str(reply.text)
            parts = [
                types.Part(
                    function_response=types.FunctionResponse(
                        id=call.id, name=call.name, response={"result": "rain"}
                    )
                )
                for call in reply.function_calls
            ]
            contents.append(types.UserContent(parts))

    return turn


CLIENTS = {
    "chat": chat_turns,
    "responses": responses_turns,
    "messages": messages_turns,
    "google": google_turns,
}


@pytest.mark.parametrize("home", SEALING.values(), ids=SEALING)
@pytest.mark.parametrize("client", CLIENTS)
def test_an_sdk_goes_to_another_model_and_back_with_all_seals_and_without_a_socket(
    world: InProcessWorld, client: str, home: str
) -> None:
    turn = CLIENTS[client](world)
    with no_sockets():
        assert turn(home, "Please look.") == "I know: 2 results."
        sealed = world.thoughts_of(home)
        assert turn(OTHER, "Please look again.") == "I know: 2 results."
        assert turn(home, "Thank you.") == "I know: 0 results."
    world.check_return(home, before=sealed)
    assert len(world.requests_to(OTHER)) == 2


def test_a_socket_is_noticed() -> None:
    import socket

    with pytest.raises(AssertionError), no_sockets(), pytest.raises(PermissionError):
        socket.socket(socket.AF_INET)


@pytest.mark.parametrize("library", [httpx, httpx2], ids=lambda library: library.__name__)
def test_clients_of_both_libraries_that_wait_and_that_do_not_share_one_gateway(
    world: InProcessWorld, library: Any
) -> None:
    client = openai_client(world, library)
    asked = {"model": OTHER, "messages": [{"role": "user", "content": "Hello."}]}
    whole = client.chat.completions.create(**asked)
    assert whole.choices[0].message.content == "I know: 0 results."
    chunks = list(client.chat.completions.create(stream=True, **asked))
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == "I know: 0 results."
    assert len(chunks) > 2, "the reply arrives piece by piece"

    async def main() -> str:
        later = openai.AsyncOpenAI(
            http_client=library.AsyncClient(transport=world.transport), api_key="any", max_retries=0
        )
        stream = await later.chat.completions.create(stream=True, **asked)
        pieces = [chunk.choices[0].delta.content or "" async for chunk in stream]
        await later.close()
        return "".join(pieces)

    # Each run has an event loop of its own; the gateway outlives them.
    assert [asyncio.run(main()) for _ in range(2)] == ["I know: 0 results."] * 2
    client.close()
    assert openai_client(world, library).chat.completions.create(**asked).choices


def test_structured_output_is_parsed() -> None:
    pydantic = pytest.importorskip("pydantic")

    class City(pydantic.BaseModel):  # type: ignore[misc, name-defined]
        name: str
        people: int

    with InProcessWorld(responder=ScriptedResponder()) as world:
        client = openai_client(world)
        parsed = client.chat.completions.parse(
            model=OTHER, messages=[{"role": "user", "content": "Which city?"}], response_format=City
        )
        assert isinstance(parsed.choices[0].message.parsed, City)
        answer = client.responses.parse(model=OTHER, input="Which city?", text_format=City)
        assert isinstance(answer.output_parsed, City)
        assert world.refusals() == []


@pytest.mark.parametrize("home", SEALING.values(), ids=SEALING)
def test_the_tool_runner_of_anthropic_finishes(world: InProcessWorld, home: str) -> None:
    client = anthropic.Anthropic(http_client=httpx2.Client(transport=world.transport), api_key="any")

    @anthropic.beta_tool  # type: ignore[untyped-decorator]
    def weather(city: str) -> str:
        """The weather of a city."""
        return f"rain in {city}"

    runner = client.beta.messages.tool_runner(
        model=home,
        max_tokens=500,
        tools=[weather],
        messages=[{"role": "user", "content": "Please look."}],
    )
    with no_sockets():
        assert runner.until_done().content[-1].text == "I know: 2 results."
    assert world.refusals() == []


def test_google_streams_and_its_asynchronous_client_works(world: InProcessWorld) -> None:
    client = google_client(world)
    chunks = client.models.generate_content_stream(model=OTHER, contents="Hello.")
    assert "".join(chunk.text or "" for chunk in chunks) == "I know: 0 results."

    async def main() -> str:
        options = types.HttpOptions(httpx_async_client=httpx.AsyncClient(transport=world.transport))
        later = genai.Client(api_key="any", http_options=options)
        reply = await later.aio.models.generate_content(model=OTHER, contents="Hello.")
        return str(reply.text)

    assert asyncio.run(main()) == "I know: 0 results."


def test_errors_are_those_of_the_sdk(world: InProcessWorld) -> None:
    client = openai_client(world).with_options(max_retries=0)
    asked = {"model": OTHER, "messages": [{"role": "user", "content": "Hello."}]}
    with pytest.raises(openai.NotFoundError, match='There is no model "nobody"'):
        client.chat.completions.create(**{**asked, "model": "nobody"})
    world.emulator.faults += [Fault(kind="status", status=429, provider="anthropic", retry_after=99.0)] * 9
    with pytest.raises(openai.RateLimitError):
        client.chat.completions.create(**asked)
    world.emulator.faults.clear()
    world.emulator.faults.append(Fault(kind="silence", seconds=30, provider="anthropic"))
    with pytest.raises(openai.APITimeoutError):
        client.with_options(timeout=0.3).chat.completions.create(**asked)


def test_a_client_that_leaves_a_stream_ends_the_reply(world: InProcessWorld) -> None:
    async def main() -> None:
        client = openai.AsyncOpenAI(http_client=httpx2.AsyncClient(transport=world.transport), api_key="any")
        world.emulator.faults.append(Fault(kind="silence", seconds=30, provider="anthropic"))
        asked = client.chat.completions.create(
            model=OTHER, messages=[{"role": "user", "content": "Hello."}], stream=True
        )
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asked, 0.3)
        gateway = world.app._gateway
        assert gateway is not None
        for _ in range(100):
            if not gateway.running:
                return
            await asyncio.sleep(0.05)
        raise AssertionError("the gateway still waits for a reply that nobody wants")

    asyncio.run(main())


def test_a_client_that_waits_is_refused_in_the_loop_of_the_gateway(world: InProcessWorld) -> None:
    async def main() -> None:
        async with world.app:
            with pytest.raises(UsageError, match="it would block the gateway"):
                httpx2.Client(transport=world.transport).get("http://any/healthz")
            answer = await httpx2.AsyncClient(transport=world.transport).get("http://any/healthz")
            assert answer.text == "ok\n"
            waited = await asyncio.to_thread(
                httpx2.Client(transport=world.transport).get, "http://any/healthz"
            )
            assert waited.status_code == 200

    asyncio.run(main())


def test_a_transport_of_its_own_closes_its_gateway_and_opens_it_again() -> None:
    before = threading.active_count()
    transport = in_process_transport()
    with httpx2.Client(transport=transport) as client:
        assert client.get("http://any/healthz").text == "ok\n"
    assert threading.active_count() == before
    with httpx2.Client(transport=transport) as client:
        assert client.get("http://any/healthz").text == "ok\n"
    assert threading.active_count() == before


# Mounted


async def get(
    app: Any, path: str, *, client: str = "127.0.0.1", root: str = "", body: Any = None
) -> tuple[int, Any]:
    """One request as a server gives it to an application."""
    sent: list[Any] = []
    scope = {
        "type": "http",
        "method": "POST" if body else "GET",
        "path": path,
        "raw_path": path.encode(),
        "root_path": root,
        "query_string": b"",
        "headers": [(b"host", b"localhost"), (b"content-type", b"application/json")],
        "client": (client, 1234),
    }
    gone = asyncio.Event()
    waiting = [
        {"type": "http.request", "body": json.dumps(body).encode() if body else b"", "more_body": False}
    ]

    async def receive() -> Any:
        if waiting:
            return waiting.pop()
        await gone.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    await app(scope, receive, send)
    whole = b"".join(message.get("body", b"") for message in sent)
    return sent[0]["status"], whole


CHAT: dict[str, Any] = {"model": "scripted/any", "messages": [{"role": "user", "content": "Hello."}]}


def scripted_app(config: Any = None, *, memory: Any = None, replies: int = 4) -> GatewayApplication:
    return gateway_app(
        config, providers={"scripted": ScriptedProvider([says("Good day.")] * replies)}, memory=memory
    )


@pytest.mark.parametrize(
    ("root", "path"),
    [
        ("", "/v1/chat/completions"),
        ("/models", "/models/v1/chat/completions"),
        ("/models/", "/models/v1/chat/completions"),
        ("/a/b", "/a/b/chat/completions"),
        ("/proxy/a/llm", "/a/llm/v1/chat/completions"),
        ("/models", "/v1/chat/completions"),
    ],
)
def test_it_answers_below_the_path_where_it_is_mounted(root: str, path: str) -> None:
    status, body = asyncio.run(get(scripted_app(), path, root=root, body=CHAT))
    assert status == 200
    assert json.loads(body)["choices"][0]["message"]["content"] == "Good day."


def test_it_is_mounted_in_starlette_and_lives_as_long_as_the_application() -> None:
    applications = pytest.importorskip("starlette.applications")
    routing = pytest.importorskip("starlette.routing")
    app = scripted_app()

    @asynccontextmanager
    async def lifespan(_: Any) -> AsyncIterator[None]:
        async with app:
            yield

    site = applications.Starlette(routes=[routing.Mount("/llm", app=app)], lifespan=lifespan)

    async def main() -> None:
        async with site.router.lifespan_context(site):
            status, body = await get(site, "/llm/v1/chat/completions", body=CHAT)
            assert (status, "Good day." in body.decode()) == (200, True)
            assert (await get(site, "/llm/healthz"))[1] == b"ok\n"
            assert (await get(site, "/elsewhere"))[0] == 404
            assert repr(app) == "GatewayApplication(open)"
        assert repr(app) == "GatewayApplication(closed)"

    asyncio.run(main())


def test_another_machine_gets_no_answer_without_callers() -> None:
    async def main() -> None:
        app = scripted_app()
        status, body = await get(app, "/v1/chat/completions", client="203.0.113.7", body=CHAT)
        assert status == 401
        assert "answers this machine alone" in json.loads(body)["error"]["message"]
        assert (await get(app, "/v1/messages", client="203.0.113.7", body=CHAT))[0] == 401

    asyncio.run(main())


def test_another_machine_is_answered_with_the_key_of_a_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEAM_KEY", "sk-team-0123456789abcdef")
    app = scripted_app({"gateway": {"callers": {"team": {"key_env": "TEAM_KEY"}}}})

    async def main() -> None:
        refused = await get(app, "/v1/chat/completions", client="203.0.113.7", body=CHAT)
        assert refused[0] == 401
        assert "does not know this key" in refused[1].decode()

    asyncio.run(main())
    client = openai.OpenAI(
        http_client=httpx2.Client(transport=in_process_transport(app)), api_key="sk-team-0123456789abcdef"
    )
    assert client.chat.completions.create(**CHAT).choices[0].message.content == "Good day."
    app.close()


def lifespan_messages(app: Any) -> list[Any]:
    sent: list[Any] = []
    waiting = [{"type": "lifespan.shutdown"}, {"type": "lifespan.startup"}]

    async def receive() -> Any:
        return waiting.pop()

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(app({"type": "lifespan"}, receive, send))
    return sent


def test_a_server_opens_and_closes_it_by_its_lifespan(tmp_path: Path) -> None:
    app = scripted_app(memory=tmp_path)
    assert [message["type"] for message in lifespan_messages(app)] == [
        "lifespan.startup.complete",
        "lifespan.shutdown.complete",
    ]
    assert (tmp_path / "memory.db").exists()
    (tmp_path / "file").write_text("")
    [failed] = lifespan_messages(scripted_app(memory=tmp_path / "file"))
    assert failed["type"] == "lifespan.startup.failed"
    assert failed["message"]


def test_a_second_server_is_refused_while_the_first_one_runs(world: InProcessWorld) -> None:
    world.app.home()
    with pytest.raises(UsageError, match="another event loop"):
        asyncio.run(get(world.app, "/healthz"))


def test_only_given_providers_are_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-any")
    status, body = asyncio.run(
        get(scripted_app(), "/v1/chat/completions", body={**CHAT, "model": "openai/gpt-4.1"})
    )
    assert status == 404
    assert "There is no model" in body.decode()


def test_settings_are_checked_at_once(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"gateway\.modls"):
        gateway_app({"gateway": {"modls": {}}})
    file = tmp_path / "gateway.toml"
    file.write_text('[gateway.models]\n"gpt-*" = "nobody/gpt"\n')
    with pytest.raises(UsageError, match='There is no provider "nobody"'):
        gateway_app(file)
    file.write_text('[gateway.models]\n"*" = "scripted/any"\n')
    status, _ = asyncio.run(get(scripted_app(file), "/v1/chat/completions", body={**CHAT, "model": "x"}))
    assert status == 200


def test_nothing_is_written_without_a_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    with scripted_app() as app:
        client = httpx2.Client(transport=in_process_transport(app))
        assert client.post("http://any/v1/chat/completions", json=CHAT).status_code == 200
    assert list(tmp_path.rglob("*")) == []


def test_a_memory_in_a_folder_outlives_the_program(tmp_path: Path) -> None:
    emulator = Emulator(strict=True, responder=ThinkingModel(), log_size=1000)
    messages: list[Any] = [{"role": "user", "content": "Please look."}]
    for _ in range(2):
        app = gateway_app(providers=emulated_providers(emulator), memory=tmp_path)
        client = openai.OpenAI(http_client=httpx2.Client(transport=in_process_transport(app)), api_key="any")
        reply = client.chat.completions.create(
            model=SEALING["gemini"], messages=messages, tools=[{"type": "function", "function": TOOL}]
        )
        message = reply.choices[0].message
        messages.append(message.model_dump(exclude_none=True))
        messages += [
            {"role": "tool", "tool_call_id": call.id, "content": "rain"} for call in message.tool_calls or ()
        ]
        app.close()
    assert [entry.message for entry in emulator.log if entry.verdict == "refused"] == []
    assert "thoughtSignature" in json.dumps(emulator.log[-1].body)


def test_requests_of_a_transport_reach_an_application_that_any_caller_can_mount() -> None:
    """The scope of a request is that of a server, but for the mark of this process."""
    seen: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.append(scope["extensions"])
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async def main() -> None:
        async with AsgiTransport(app)(WireRequest(url="http://any/")) as answer:
            assert answer.status == 204

    asyncio.run(main())
    assert seen == [{}]

"""Official SDKs in a program that send only what is new: threads, conversations, earlier replies, interactions. No socket is opened."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from gateway.clients import SCHEMA
from gateway.in_process_world import SEALING, InProcessWorld, no_sockets
from gateway.world import ROUTES
from segue.gateway import gateway_app, in_process_transport
from segue.providers import ScriptedProvider, says

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    anthropic = pytest.importorskip("anthropic", reason="the SDK is not installed")
    httpx = pytest.importorskip("httpx", reason="httpx is not installed")
    httpx2 = pytest.importorskip("httpx2", reason="httpx2 is not installed")
    openai = pytest.importorskip("openai", reason="the SDK is not installed")
    genai = pytest.importorskip("google.genai", reason="the SDK is not installed")

OTHER = ROUTES["anthropic"]
TOOL: dict[str, Any] = {"name": "weather", "description": "The weather of a city.", "parameters": SCHEMA}
Turn = Callable[[str, str], str]


@pytest.fixture
def world() -> Iterator[InProcessWorld]:
    with InProcessWorld() as world:
        yield world


def threads(world: InProcessWorld) -> Turn:
    """Anthropic's SDK: the thread is held where the reply was given."""
    client = anthropic.Anthropic(http_client=httpx2.Client(transport=world.transport), api_key="any")
    thread: dict[str, str] = {"type": "create"}

    def turn(model: str, words: str) -> str:
        nonlocal thread
        new: list[Any] = [{"role": "user", "content": words}]
        while True:
            begins = {"tools": [{"name": "weather", "input_schema": SCHEMA}]} if len(thread) == 1 else {}
            with client.beta.messages.stream(
                model=model,
                max_tokens=500,
                messages=new,
                thread=thread,
                betas=["message-threads-2026-08-12"],
                **begins,
            ) as stream:
                reply = stream.get_final_message()
            thread = {"type": "continue", "previous_message_id": reply.id}
            uses = [block for block in reply.content if block.type == "tool_use"]
            if not uses:
                return str(reply.content[-1].text)
            results = [{"type": "tool_result", "tool_use_id": use.id, "content": "rain"} for use in uses]
            new = [{"role": "user", "content": results}]

    return turn


def _responses(world: InProcessWorld, *, conversation: bool) -> Turn:
    client = openai.OpenAI(http_client=httpx2.Client(transport=world.transport), api_key="any", max_retries=0)
    held: dict[str, str] = {"conversation": client.conversations.create().id} if conversation else {}

    def turn(model: str, words: str) -> str:
        new: Any = words
        while True:
            reply = client.responses.create(
                model=model, input=new, tools=[{"type": "function", "strict": False, **TOOL}], **held
            )
            if not conversation:
                held["previous_response_id"] = reply.id
            calls = [item for item in reply.output if item.type == "function_call"]
            if not calls:
                return str(reply.output_text)
            new = [
                {"type": "function_call_output", "call_id": call.call_id, "output": "rain"} for call in calls
            ]

    return turn


def interactions(world: InProcessWorld) -> Turn:
    """Google's SDK: each interaction names the one before it."""
    options = genai.types.HttpOptions(httpx_client=httpx2.Client(transport=world.transport))
    client = genai.Client(api_key="any", http_options=options)
    held: dict[str, str] = {}

    def turn(model: str, words: str) -> str:
        new: Any = words
        while True:
            reply = client.interactions.create(
                model=model, input=new, tools=[{"type": "function", **TOOL}], **held
            )
            held["previous_interaction_id"] = reply.id
            calls = [step for step in reply.steps if step.type == "function_call"]
            if not calls:
                return "".join(
                    content.text
                    for step in reply.steps
                    if step.type == "model_output"
                    for content in step.content
                )
            new = [
                {"type": "function_result", "call_id": call.id, "name": call.name, "result": "rain"}
                for call in calls
            ]

    return turn


CLIENTS: dict[str, Callable[[InProcessWorld], Turn]] = {
    "threads": threads,
    "conversations": lambda world: _responses(world, conversation=True),
    "previous_response_id": lambda world: _responses(world, conversation=False),
    "interactions": interactions,
}


@pytest.mark.parametrize("home", SEALING.values(), ids=SEALING)
@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_that_sends_only_what_is_new_goes_to_another_model_and_back_with_all_seals(
    world: InProcessWorld, client: str, home: str
) -> None:
    with no_sockets():
        turn = CLIENTS[client](world)
        assert turn(home, "Please look.") == "I know: 2 results."
        sealed = world.thoughts_of(home)
        assert turn(OTHER, "Please look again.") == "I know: 2 results."
        assert turn(home, "Thank you.") == "I know: 0 results."
    world.check_return(home, before=sealed)
    assert len(world.requests_to(OTHER)) == 2


@pytest.mark.parametrize("home", SEALING.values(), ids=SEALING)
def test_the_tool_runner_of_anthropic_goes_to_another_model_and_back(
    world: InProcessWorld, home: str
) -> None:
    client = anthropic.Anthropic(http_client=httpx2.Client(transport=world.transport), api_key="any")

    @anthropic.beta_tool  # type: ignore[untyped-decorator]
    def weather(city: str) -> str:
        """The weather of a city."""
        return f"rain in {city}"

    messages: list[Any] = []

    def turn(model: str, words: str) -> str:
        messages.append({"role": "user", "content": words})
        runner = client.beta.messages.tool_runner(
            model=model, max_tokens=500, tools=[weather], messages=messages
        )
        for reply in runner:
            messages.append({"role": "assistant", "content": reply.content})
            if (results := runner.generate_tool_call_response()) is not None:
                messages.append(results)
        return str(messages[-1]["content"][-1].text)

    with no_sockets():
        assert turn(home, "Please look.") == "I know: 2 results."
        sealed = world.thoughts_of(home)
        assert turn(OTHER, "Please look again.") == "I know: 2 results."
        assert turn(home, "Thank you.") == "I know: 0 results."
    world.check_return(home, before=sealed)


def test_asynchronous_clients_of_all_sdks_ask_at_once(world: InProcessWorld) -> None:
    """Ten requests at once of each, in one loop, in streams and whole."""

    async def main() -> list[str]:
        carrier = httpx2.AsyncClient(transport=world.transport)
        chat = openai.AsyncOpenAI(http_client=carrier, api_key="any")
        claude = anthropic.AsyncAnthropic(http_client=carrier, api_key="any")
        options = genai.types.HttpOptions(httpx_async_client=carrier)
        google = genai.Client(api_key="any", http_options=options)
        hello: list[Any] = [{"role": "user", "content": "Hello."}]

        async def of_chat() -> str:
            reply = await chat.chat.completions.create(model=OTHER, messages=hello)
            return str(reply.choices[0].message.content)

        async def of_responses() -> str:
            async with chat.responses.stream(model=OTHER, input="Hello.") as stream:
                return str((await stream.get_final_response()).output_text)

        async def of_messages() -> str:
            async with claude.messages.stream(model=OTHER, max_tokens=99, messages=hello) as stream:
                return str(await stream.get_final_text())

        async def of_google() -> str:
            reply = await google.aio.models.generate_content(model=OTHER, contents="Hello.")
            return str(reply.text)

        kinds = (of_chat, of_responses, of_messages, of_google)
        with no_sockets():
            return list(await asyncio.gather(*(kind() for kind in kinds for _ in range(10))))

    assert asyncio.run(main()) == ["I know: 0 results."] * 40
    assert world.refusals() == []


def test_several_applications_in_one_process_keep_apart() -> None:
    def application(name: str) -> Any:
        return gateway_app(
            {"aliases": {"fast": "scripted/any"}},
            providers={"scripted": ScriptedProvider([says(name), says(name)])},
        )

    with application("first") as first, application("second") as second:
        clients = [
            openai.OpenAI(http_client=library.Client(transport=in_process_transport(app)), api_key="any")
            for app, library in ((first, httpx), (second, httpx2))
        ]
        replies = [client.responses.create(model="fast", input="Who?") for client in clients]
        assert [reply.output_text for reply in replies] == ["first", "second"]
        with pytest.raises(openai.BadRequestError, match="not found"):
            clients[1].responses.create(model="fast", input="And?", previous_response_id=replies[0].id)


def test_sdks_reach_a_gateway_that_is_mounted_below_a_path(world: InProcessWorld) -> None:
    """Through the whole application, as a server would give it the request."""
    applications = pytest.importorskip("starlette.applications")
    routing = pytest.importorskip("starlette.routing")
    inner = applications.Starlette(routes=[routing.Mount("/llm", app=world.app)])
    site = applications.Starlette(routes=[routing.Mount("/api/v2", app=inner)])

    async def main() -> None:
        async with world.app, httpx2.AsyncClient(transport=httpx2.ASGITransport(site)) as carrier:
            base = "http://localhost/api/v2/llm"
            client = openai.AsyncOpenAI(http_client=carrier, base_url=f"{base}/v1", api_key="any")
            first = await client.responses.create(model=OTHER, input="Hello.")
            reply = await client.responses.create(
                model=SEALING["gemini"], input="And?", previous_response_id=first.id
            )
            assert reply.output_text == "I know: 0 results."
            assert (await client.responses.retrieve(reply.id)).id == reply.id
            claude = anthropic.AsyncAnthropic(http_client=carrier, base_url=base, api_key="any")
            async with claude.messages.stream(
                model=OTHER, max_tokens=99, messages=[{"role": "user", "content": "Hello."}]
            ) as stream:
                assert await stream.get_final_text() == "I know: 0 results."
            options = genai.types.HttpOptions(httpx_async_client=carrier, base_url=base)
            google = genai.Client(api_key="any", http_options=options)
            reply = await google.aio.models.generate_content(model=OTHER, contents="Hello.")
            assert reply.text == "I know: 0 results."

    asyncio.run(main())
    assert world.refusals() == []

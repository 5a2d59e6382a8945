"""Ollama's models and windows: what the machine has, what it fetches, and how much of a request it reads."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.chat.chat import Chat
from segue.conversation.message import Conversation, model, user
from segue.conversation.options import Options
from segue.conversation.tools import ToolSpec
from segue.dialects.card import ModelCard
from segue.dialects.registry import DIALECTS
from segue.emulators.faults import Fault
from segue.emulators.server import Served
from segue.errors import InvalidRequestError, OverloadError, TransportError
from segue.providers.adapter import ChatRequest
from segue.providers.capabilities import PullProgress
from segue.providers.config import ProviderConfig
from segue.providers.endpoint import Endpoint
from segue.providers.factory import connect
from segue.providers.services import services_of
from segue.providers.services.ollama import (
    SMALLEST,
    Windows,
    delete_model,
    list_models,
    pull_model,
    running_models,
    show_model,
    window_for,
)
from segue.routing.profiles import Profile, build_router
from segue.routing.route import Route, facts_from
from strategies.endpoints import closing, emulated, endpoint_at, saying

T = TypeVar("T")


def at_ollama(served: Served, use: Callable[[Endpoint], Awaitable[T]]) -> T:
    async def main() -> T:
        return await closing(emulated(served, "ollama"), use)

    return asyncio.run(main())


def test_the_models_of_the_machine_are_listed_with_size_and_details(segue_emulator_server: Served) -> None:
    models = at_ollama(segue_emulator_server, list_models)
    found = next(one for one in models if one.id == "nomic-embed-text:latest")
    assert found.size_bytes == 274_302_450
    assert found.modified_at.endswith("Z")
    assert found.details["family"] == "nomic-bert"


def test_a_model_tells_what_it_can_do_and_how_much_it_reads(segue_emulator_server: Served) -> None:
    shown = at_ollama(segue_emulator_server, lambda at: show_model(at, "qwen3"))
    assert shown.capabilities == ("reasoning", "tools")
    assert shown.context == 40_960
    shown = at_ollama(segue_emulator_server, lambda at: show_model(at, "nomic-embed-text"))
    assert (shown.type, shown.dimensions, shown.context) == ("embedding", 768, 2048)


@pytest.mark.requirement("Property 11")
def test_only_this_wire_fetches_and_deletes_models() -> None:
    assert services_of("ollama").pull_model is not None
    for dialect in DIALECTS:
        if dialect != "ollama":
            assert services_of(dialect).pull_model is None
            assert services_of(dialect).delete_model is None


def test_a_model_is_fetched_with_progress_and_deleted_again(segue_emulator_server: Served) -> None:
    heard: list[PullProgress] = []

    async def use(at: Endpoint) -> None:
        await pull_model(at, "llama3.2", heard.append)
        assert "llama3.2:latest" in [one.id for one in await list_models(at)]
        await delete_model(at, "llama3.2")
        assert "llama3.2:latest" not in [one.id for one in await list_models(at)]

    at_ollama(segue_emulator_server, use)
    assert heard[0] == PullProgress("pulling manifest")
    assert heard[-1] == PullProgress("success")
    assert any(one.total and one.completed == one.total for one in heard)


@pytest.mark.parametrize("size", [1, 7, 64])
def test_progress_is_understood_wherever_it_is_cut(size: int, segue_emulator_server: Served) -> None:
    whole: list[PullProgress] = []
    at_ollama(segue_emulator_server, lambda at: pull_model(at, "llama3.2", whole.append))
    segue_emulator_server.emulator.faults.append(Fault(kind="drip", size=size, seconds=0.0))
    heard: list[PullProgress] = []
    at_ollama(segue_emulator_server, lambda at: pull_model(at, "llama3.2", heard.append))
    assert heard == whole


def test_an_error_inside_a_successful_answer_is_an_error(segue_emulator_server: Served) -> None:
    with pytest.raises(
        InvalidRequestError, match=r'Pulling "nobody-made-this" to ollama .* file does not exist'
    ):
        at_ollama(segue_emulator_server, lambda at: pull_model(at, "nobody-made-this"))
    assert segue_emulator_server.emulator.log[-1].status == 200


def test_a_download_that_ends_too_soon_is_an_error(segue_emulator_server: Served) -> None:
    with pytest.raises(TransportError) as caught:
        at_ollama(
            segue_emulator_server,
            lambda at: pull_model(_answering(at, b'{"status":"pulling manifest"}\n'), "llama3.2"),
        )
    assert caught.value.code == "pull_incomplete"
    assert '"pulling manifest"' in caught.value.message
    segue_emulator_server.emulator.faults.append(Fault(kind="cut", at_byte=60))
    with pytest.raises(TransportError):
        at_ollama(segue_emulator_server, lambda at: pull_model(at, "llama3.2"))


def test_a_last_line_counts_without_its_end_and_garbled_ones_are_skipped(
    segue_emulator_server: Served,
) -> None:
    heard: list[PullProgress] = []
    at_ollama(
        segue_emulator_server,
        lambda at: pull_model(
            _answering(at, b'{"status":"pulling manifest"}\n\n{"status":"success"}'), "m", heard.append
        ),
    )
    assert heard == [PullProgress("pulling manifest"), PullProgress("success")]
    garbled = b'{"status":"pulling manifest"}\n{"stat\n\xff\n[1]\n{"status":7}\n{"status":"success"}\n'
    heard.clear()
    at_ollama(segue_emulator_server, lambda at: pull_model(_answering(at, garbled), "m", heard.append))
    assert heard == [PullProgress("pulling manifest"), PullProgress("success")]
    with pytest.raises(TransportError) as caught:
        at_ollama(segue_emulator_server, lambda at: pull_model(_answering(at, b'{"status":\n'), "m"))
    assert caught.value.code == "pull_incomplete"


def _answering(endpoint: Endpoint, body: bytes) -> Endpoint:
    """The same place, which answers everything with these bytes."""
    return msgspec.structs.replace(endpoint, transport=saying(body))


@pytest.mark.parametrize(
    "ask",
    [
        list_models,
        running_models,
        lambda at: show_model(at, "qwen3"),
        lambda at: pull_model(at, "qwen3"),
        lambda at: delete_model(at, "qwen3"),
    ],
    ids=["tags", "ps", "show", "pull", "delete"],
)
def test_a_failing_server_is_never_taken_for_success(
    ask: Callable[[Endpoint], Awaitable[Any]], segue_emulator_server: Served
) -> None:
    segue_emulator_server.emulator.faults.append(Fault(status=500))
    with pytest.raises(OverloadError) as caught:
        at_ollama(segue_emulator_server, ask)
    assert caught.value.status == 500


@pytest.mark.parametrize("ask", [show_model, delete_model], ids=["show", "delete"])
def test_a_model_that_is_not_there_is_an_error(
    ask: Callable[[Endpoint, str], Awaitable[Any]], segue_emulator_server: Served
) -> None:
    with pytest.raises(InvalidRequestError, match="'nothing' not found"):
        at_ollama(segue_emulator_server, lambda at: ask(at, "nothing"))


@pytest.mark.parametrize("dialect", ["ollama", "ollama_v1"])
def test_tools_for_a_model_without_tools_have_a_code_of_their_own(
    dialect: str, segue_emulator_server: Served
) -> None:
    tool = {
        "type": "function",
        "function": {"name": "look", "description": "", "parameters": {"type": "object"}},
    }
    body = {"model": "gemma3:4b", "messages": [{"role": "user", "content": "hi"}], "tools": [tool]}
    path = "/api/chat" if dialect == "ollama" else "/chat/completions"

    async def main() -> Any:
        return await closing(emulated(segue_emulator_server, dialect), lambda at: at.json("POST", path, body))

    with pytest.raises(InvalidRequestError, match="does not support tools") as caught:
        asyncio.run(main())
    assert caught.value.code == "tools_unsupported"


# The window


def _request(*said: str, session: str = "s", **options: Any) -> ChatRequest:
    told = [user(text) if place % 2 == 0 else model(text) for place, text in enumerate(said)]
    return ChatRequest(
        model="qwen3", conversation=Conversation(tuple(told)), options=Options(**options), session=session
    )


def _window(options: Options) -> int:
    assert options.extra is not None
    window = options.extra["num_ctx"]
    assert isinstance(window, int)
    return window


def test_a_long_request_is_read_in_full(segue_emulator_server: Served) -> None:
    """Unasked, the server would drop its beginning and say nothing: 200, and a small count."""
    request = _request("The password is mellon. " + "And so on and so forth. " * 1500, "Yes.", "What was it?")
    card = ModelCard(context=40_960)

    async def counted(at: Endpoint, options: Options) -> int:
        from segue.transcript.render import render

        rules = at.dialect.rules
        transcript = render(request.conversation, None, rules)
        body = at.dialect.encode_request(transcript, (), options, card).body
        answer = await at.json("POST", "/api/chat", msgspec.json.decode(body))
        return int(answer["prompt_eval_count"])

    asked = Options(model="qwen3")
    fitted = msgspec.structs.replace(Windows()(request, card), model="qwen3")
    cut = at_ollama(segue_emulator_server, lambda at: counted(at, asked))
    whole = at_ollama(segue_emulator_server, lambda at: counted(at, fitted))
    assert cut < 100
    assert whole > 8_000
    running = at_ollama(segue_emulator_server, running_models)
    assert [(one.id, one.context) for one in running] == [("qwen3:latest", _window(fitted))]


def test_a_window_holds_the_request_and_the_answer() -> None:
    long_answer = Windows()(_request("hi", max_tokens=10_000), ModelCard())
    assert _window(long_answer) == 12_288


def test_a_window_that_will_do_is_left_alone() -> None:
    """The server may have a larger one by default, and would load the model anew for a smaller."""
    request = _request("hi")
    assert Windows()(request, ModelCard()) is request.options


def test_a_model_that_thinks_gets_room_for_it() -> None:
    assert _window(Windows()(_request("hi"), ModelCard(thinking="switch"))) == 8192
    assert Windows()(_request("hi", effort="none"), ModelCard(thinking="switch")).extra is None


def test_a_window_depends_on_the_request_alone() -> None:
    card = ModelCard(context=131_072)
    requests = [_request(words, session="one") for words in ("word " * 20_000, "hi", "word " * 9_000, "hi")]
    windows = Windows()
    assert [windows(one, card) for one in requests] == [Windows()(one, card) for one in requests]
    assert _window(Windows()(requests[0], card)) > 20_000
    for number in range(70):
        windows(_request("hi", session=str(number)), card)
    assert windows(requests[0], card) == Windows()(requests[0], card)


def test_a_window_that_the_user_has_set_is_the_one_that_is_asked_for() -> None:
    request = msgspec.structs.replace(_request("hi"), context=16_384)
    assert _window(Windows()(request, ModelCard(context=131_072))) == 16_384
    long = msgspec.structs.replace(_request("word " * 20_000), context=8192)
    assert _window(Windows()(long, ModelCard(context=131_072))) == 8192


@pytest.mark.parametrize("place", ["route", "provider", "profile"])
def test_the_context_of_a_route_a_provider_or_a_profile_is_the_window(
    place: str, segue_emulator_server: Served
) -> None:
    url = segue_emulator_server.url("ollama")
    config = ProviderConfig(base_url=url, context=12_000 if place == "provider" else None)
    provider = connect("ollama", config, environ={}, keyring=False)
    providers = {"ollama": provider}
    model: Any = Route(provider="ollama", model="qwen3", context=12_000 if place == "route" else None)
    if place == "profile":
        profile = Profile(name="local", members=("ollama/qwen3", "ollama/llama3.1"), context=12_000)
        model = build_router(profile, facts_from(providers))

    async def main() -> None:
        async with Chat(model, providers=providers) as chat:
            assert (await chat.send("hi")).error is None
            assert chat.router.context_limit == 12_000

    asyncio.run(main())
    sent = [entry.body for entry in segue_emulator_server.emulator.log if entry.path.endswith("/api/chat")]
    assert [body["options"]["num_ctx"] for body in sent if body] == [12_000]


def test_a_window_is_never_wider_than_the_model() -> None:
    assert _window(Windows()(_request("word " * 20_000), ModelCard(context=8192))) == 8192


@pytest.mark.parametrize("extra", [{"num_ctx": 100}, {"options": {"num_ctx": 100}}])
def test_a_window_that_was_asked_for_stands(extra: dict[str, Any]) -> None:
    request = _request("hi", extra=extra)
    assert Windows()(request, ModelCard()) is request.options


def test_tools_count_too() -> None:
    schema = {"type": "object", "properties": {f"field{n}": {"type": "string"} for n in range(1500)}}
    request = msgspec.structs.replace(_request("hi"), tools=(ToolSpec("big", "", schema),))
    assert _window(Windows()(request, ModelCard())) > 8_192


@given(
    need=st.integers(0, 10**7),
    more=st.integers(0, 10**5),
    most=st.none() | st.integers(SMALLEST, 10**6),
)
def test_windows_are_wide_enough_and_change_seldom(need: int, more: int, most: int | None) -> None:
    window = window_for(need, most)
    assert window >= min(need, most or need)
    assert most is None or window <= most
    assert window_for(need + more, most) >= window
    assert window <= max(SMALLEST, need * 1.5 + 1)


def test_nobody_listening_is_told_with_the_address() -> None:
    async def main() -> None:
        await closing(endpoint_at("http://127.0.0.1:9", "ollama"), lambda at: pull_model(at, "qwen3"))

    with pytest.raises(TransportError, match=r"127\.0\.0\.1:9") as caught:
        asyncio.run(main())
    assert caught.value.code == "CONNECTION_FAILED"

"""The real engine with a real, very small model: what it says is not to be relied on, how it says it is."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from pathlib import Path
from typing import Any

import jsonschema_rs
import msgspec
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from msgspec import structs

from providers.embedded.schemas import SCHEMAS, Schema
from segue.conversation.blocks import Media, ToolResult
from segue.conversation.events import (
    ArgumentsDelta,
    CallStarted,
    Failed,
    Finished,
    Reply,
    ReplyStarted,
    TextDelta,
    UsageReported,
)
from segue.conversation.message import Conversation, tool, user
from segue.conversation.options import Options
from segue.conversation.tools import Named, ToolChoice, ToolSpec
from segue.errors import ContextLengthError, SegueError, UsageError
from segue.providers.adapter import ChatRequest, RequestSent, StreamEvent, fold_stream
from segue.providers.embedded.provider import EmbeddedProvider
from segue.providers.embedded.weights import Folder

BRIEF = Options(max_tokens=6, temperature=0.0)
LONG = Options(max_tokens=400, temperature=0.0)
STORY = "Tell me a very long story about a lighthouse."
BOOKING = ToolSpec(
    "book",
    "Books a table.",
    {
        "type": "object",
        "properties": {
            "guests": {"type": "integer", "minimum": 1, "maximum": 8},
            "place": {"enum": ["inside", "outside"]},
            "name": {"type": "string", "minLength": 1, "maxLength": 8},
            "extras": {"type": "array", "items": {"enum": ["cake", "wine"]}, "maxItems": 2},
        },
        "required": ["guests", "place", "name"],
        "additionalProperties": False,
    },
)


def test_a_request_without_options_is_sampled_as_its_model_does_best(tmp_path: Path) -> None:
    provider = EmbeddedProvider(folder=tmp_path, model="smollm2")
    body = msgspec.json.decode(provider.preview(_request("Hello.", Options())).body)
    assert body["temperature"] == 0.0
    assert body["messages"][0]["role"] == "system"
    own = Conversation(messages=(user("Hello."),), system="Be rude.")
    body = msgspec.json.decode(provider.preview(_request(own, Options(temperature=0.7))).body)
    assert body["temperature"] == 0.7
    assert body["messages"][0]["content"] == "Be rude."


def test_a_model_that_finds_no_end_is_stopped_as_at_a_limit_of_tokens(models: Path) -> None:
    provider = EmbeddedProvider(folder=models, model="smollm2", context=512)
    engine = provider._engine("smollm2")
    engine.settings = structs.replace(engine.settings, seconds=0.2)
    reply = asyncio.run(_reply(provider, _request(STORY, LONG)))
    provider.close()
    assert reply.finish == "length"
    assert reply.message.text


def _request(said: str | Conversation, options: Options = BRIEF, **more: Any) -> ChatRequest:
    conversation = Conversation(messages=(user(said),)) if isinstance(said, str) else said
    return ChatRequest(model="", conversation=conversation, options=options, **more)


async def _events(provider: EmbeddedProvider, request: ChatRequest) -> list[StreamEvent]:
    return [event async for event in provider.chat_stream(request)]


async def _reply(provider: EmbeddedProvider, request: ChatRequest) -> Reply:
    return fold_stream(await _events(provider, request))


async def _error(provider: EmbeddedProvider, request: ChatRequest) -> SegueError:
    *_, last = await _events(provider, request)
    assert isinstance(last, Failed)
    return last.error


def test_a_model_in_this_process_answers_token_by_token_and_tells_what_it_cost(
    provider: EmbeddedProvider,
) -> None:
    sent, *events = asyncio.run(_events(provider, _request("Say hello.")))
    assert isinstance(events[0], ReplyStarted)
    assert events[0].model == "smollm2"
    assert len([event for event in events if isinstance(event, TextDelta)]) >= 4
    assert isinstance(events[-2], UsageReported)
    assert events[-2].usage.output_tokens == 6
    assert (events[-2].usage.input_tokens or 0) > 5
    assert events[-1] == Finished("length", "length")
    assert isinstance(sent, RequestSent)
    assert sent.origin.provider == "embedded"


def test_the_whole_reply_is_one_record(provider: EmbeddedProvider) -> None:
    response = asyncio.run(provider.generate_chat(_request("Say hello.")))
    assert response["content"]
    assert response["finish_reason"] == "length"


def test_at_temperature_zero_the_same_question_gets_the_same_answer(provider: EmbeddedProvider) -> None:
    async def main() -> None:
        first, second = [await _reply(provider, _request("Name a colour.")) for _ in range(2)]
        assert first.message.text == second.message.text != ""

    asyncio.run(main())


def test_an_abort_ends_the_stream_with_one_cancelled_finish_and_frees_the_slot(
    provider: EmbeddedProvider,
) -> None:
    async def main() -> None:
        abort = asyncio.Event()
        heard: list[StreamEvent] = []
        async for event in provider.chat_stream(_request(STORY, LONG, abort=abort)):
            heard.append(event)
            if len(heard) == 5:
                abort.set()
        assert heard[-1] == Finished("cancelled")
        assert len(heard) < 10
        await _answers_soon(provider)

    asyncio.run(main())


def test_closing_the_stream_stops_the_model_and_frees_the_slot(provider: EmbeddedProvider) -> None:
    async def main() -> None:
        stream = provider.chat_stream(_request(STORY, LONG))
        while not isinstance(await anext(stream), TextDelta):
            pass
        await stream.aclose()  # type: ignore[attr-defined]
        await _answers_soon(provider)

    asyncio.run(main())


async def _answers_soon(provider: EmbeddedProvider) -> None:
    """Were the model still busy with 400 tokens, this would take longer than all of them."""
    used = time.process_time()
    reply = await _reply(provider, _request("Hi", Options(max_tokens=1)))
    assert reply.usage.output_tokens == 1
    assert time.process_time() - used < 5


def test_an_abort_also_ends_the_wait_for_the_slot(provider: EmbeddedProvider) -> None:
    async def main() -> None:
        busy, abort = asyncio.Event(), asyncio.Event()
        first = provider.chat_stream(_request(STORY, LONG, abort=busy))
        while not isinstance(await anext(first), TextDelta):
            pass
        second = asyncio.create_task(_events(provider, _request("Hi", abort=abort)))
        await asyncio.sleep(0.05)
        abort.set()
        assert (await second)[1:] == [Finished("cancelled")]
        busy.set()
        assert [event async for event in first][-1] == Finished("cancelled")

    asyncio.run(main())


def test_closing_the_provider_ends_what_runs_and_what_waits(models: Path) -> None:
    async def main() -> None:
        provider = EmbeddedProvider(folder=models, model="smollm2", context=512)
        running = provider.chat_stream(_request(STORY, LONG))
        while not isinstance(await anext(running), TextDelta):
            pass
        waiting = asyncio.create_task(_events(provider, _request("Hi")))
        await asyncio.sleep(0.05)
        await asyncio.to_thread(provider.close)
        assert isinstance([event async for event in running][-1], Failed)
        assert isinstance((await waiting)[-1], Failed)

    asyncio.run(main())


def test_reading_a_long_prompt_can_be_stopped_too(models: Path) -> None:
    async def main() -> None:
        provider = EmbeddedProvider(folder=models, model="smollm2", context=4096)
        await _reply(provider, _request("Hi", Options(max_tokens=1)))
        abort = asyncio.Event()
        asyncio.get_running_loop().call_later(0.3, abort.set)
        used = time.process_time()
        events = await _events(provider, _request("words and words " * 1200, abort=abort))
        provider.close()
        assert events[-1] == Finished("cancelled")
        assert time.process_time() - used < 5
        assert not [event for event in events if isinstance(event, TextDelta)]

    asyncio.run(main())


def test_a_conversation_that_is_too_long_is_a_context_error(provider: EmbeddedProvider) -> None:
    error = asyncio.run(_error(provider, _request("word " * 600)))
    assert isinstance(error, ContextLengthError)
    assert error.remedy == "shrink"
    assert "512" in error.message


def test_an_image_is_told_in_words_and_reported(provider: EmbeddedProvider) -> None:
    shown = Conversation(messages=(user("What is this?", Media("image", "image/png", "AAAA")),))
    events = asyncio.run(_events(provider, _request(shown)))
    assert fold_stream(events).error is None
    sent = events[0]
    assert isinstance(sent, RequestSent)
    assert b"AAAA" not in sent.body
    assert sent.repairs


def test_two_requests_at_a_time_wait_for_one_another_and_both_are_answered(
    provider: EmbeddedProvider,
) -> None:
    async def main() -> None:
        replies = await asyncio.gather(
            *(_reply(provider, _request(said)) for said in ("Say hello.", "Name a fish."))
        )
        assert all(reply.message.text and reply.usage.output_tokens == 6 for reply in replies)

    asyncio.run(main())


def test_the_loop_goes_on_while_the_model_thinks(provider: EmbeddedProvider) -> None:
    async def main() -> None:
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                ticks += 1
                await asyncio.sleep(0.001)

        ticking = asyncio.create_task(tick())
        await _reply(provider, _request("Count to ten.", Options(max_tokens=10)))
        ticking.cancel()
        assert ticks > 20

    asyncio.run(main())


def test_a_forced_call_is_valid_for_its_schema_even_from_a_model_that_cannot_call(
    provider: EmbeddedProvider,
) -> None:
    async def main() -> None:
        choices: tuple[ToolChoice, ...] = ("required", Named("book"))
        for seed, choice in enumerate(choices):
            options = Options(max_tokens=80, temperature=1.5, seed=seed, tool_choice=choice)
            events = await _events(provider, _request("A table, please!", options, tools=(BOOKING,)))
            assert events[-1] == Finished("tool_calls", "stop")
            started = [event for event in events if isinstance(event, CallStarted)]
            arguments = "".join(event.text for event in events if isinstance(event, ArgumentsDelta))
            assert [event.name for event in started] == ["book"]
            assert len(started[0].native_id) == 9
            jsonschema_rs.validate(BOOKING.parameters or {}, msgspec.json.decode(arguments))

    asyncio.run(main())


@settings(max_examples=8, deadline=None, phases=[Phase.generate])
@given(schema=SCHEMAS, seed=st.integers(0, 1000))
def test_whatever_the_schema_an_answer_fits_it_or_was_cut_off(
    provider: EmbeddedProvider, schema: Schema, seed: int
) -> None:
    options = Options(max_tokens=16, temperature=1.0, seed=seed, response_schema=schema)
    reply = asyncio.run(_reply(provider, _request("Go!", options)))
    assert reply.error is None
    if reply.finish == "stop":
        jsonschema_rs.validator_for(schema).validate(msgspec.json.decode(reply.message.text))


def test_a_call_its_result_and_the_answer_go_round(provider: EmbeddedProvider) -> None:
    async def main() -> None:
        said = Conversation(messages=(user("A table, please!"),))
        forced = Options(max_tokens=80, temperature=0.0, tool_choice="required")
        said = said.append((await _reply(provider, _request(said, forced, tools=(BOOKING,)))).message)
        (call,) = said.messages[-1].calls
        said = said.append(tool(ToolResult(call.id, call.name, "Table 7")))
        reply = await _reply(provider, _request(said, BRIEF, tools=(BOOKING,)))
        assert reply.error is None
        assert reply.message.blocks

    asyncio.run(main())


def test_with_free_choice_the_reply_is_words_or_a_whole_call(provider: EmbeddedProvider) -> None:
    reply = asyncio.run(_reply(provider, _request("Hello!", BRIEF, tools=(BOOKING,))))
    assert reply.error is None
    assert reply.message.text
    assert not reply.message.calls


def test_react_thinks_aloud_and_then_calls(models: Path) -> None:
    async def main() -> None:
        provider = EmbeddedProvider(folder=models, model="smollm2", context=512, form="react")
        options = Options(max_tokens=60, temperature=0.0, tool_choice="required")
        reply = await _reply(provider, _request("A table, please!", options, tools=(BOOKING,)))
        provider.close()
        if reply.finish != "length":
            (call,) = reply.message.calls
            jsonschema_rs.validate(BOOKING.parameters or {}, call.arguments)
        assert reply.message.blocks

    asyncio.run(main())


def test_an_answer_follows_the_schema_it_was_asked_for(provider: EmbeddedProvider) -> None:
    schema = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}
    options = Options(max_tokens=20, response_schema=schema)
    reply = asyncio.run(_reply(provider, _request("Are you well?", options)))
    assert set(msgspec.json.decode(reply.message.text)) == {"ok"}


def test_tokens_are_counted_as_the_engine_counts_them(provider: EmbeddedProvider) -> None:
    async def main() -> None:
        for request in (_request("Say hello."), _request("Hello!", BRIEF, tools=(BOOKING,))):
            reply = await _reply(provider, request)
            assert await provider.count_tokens(request) == reply.usage.input_tokens

    asyncio.run(main())


def test_vectors_keep_their_order_and_their_size(provider: EmbeddedProvider) -> None:
    async def main() -> None:
        texts = [f"text number {number}" for number in range(18)]
        told: list[tuple[int, int]] = []
        vectors = await provider.embed(texts, on_progress=lambda *done: told.append(done))
        assert {len(vector) for vector in vectors} == {576}
        assert told == [(16, 18), (18, 18)]
        alone = await provider.embed([texts[17]])
        assert sum(a * b for a, b in zip(alone[0], vectors[17], strict=True)) > 0.999
        assert sum(a * a for a in alone[0]) == pytest.approx(1.0, abs=1e-3)
        assert await provider.embed([]) == []
        with pytest.raises(UsageError, match="576 dimensions"):
            await provider.embed(["a"], dimensions=10)
        with pytest.raises(ContextLengthError, match="too large"):
            await provider.embed(["word " * 2000])

    asyncio.run(main())


def test_its_capabilities_are_everything_but_facts_of_a_server(provider: EmbeddedProvider) -> None:
    missing = {name for name, value in vars(provider.capabilities).items() if value is None}
    assert provider.card("smollm2") is None
    assert missing == {
        "batches",
        "cached_contents",
        "push",
        "running_models",
        "embedding_dimensions",
        "forward",
    }


def test_models_tell_whether_they_are_here(provider: EmbeddedProvider) -> None:
    async def main() -> None:
        listed = {model.id: model for model in await provider.list_models()}
        assert listed["smollm2"].details["installed"] is True
        assert listed["smollm2"].dimensions == 576
        assert (await provider.show_model("smollm2")).size_bytes == 98_362_432
        assert (await provider.health()).status == "healthy"
        with pytest.raises(UsageError, match='Did you mean "smollm2"'):
            await provider.show_model("smolm2")

    asyncio.run(main())


def test_all_that_is_wrong_with_the_settings_is_told_at_once(tmp_path: Path) -> None:
    wrong = EmbeddedProvider(folder=tmp_path, model="smolm2", threads=0, context=4)
    assert [problem.field for problem in wrong.validate_config()] == ["threads", "context", "model"]
    assert not wrong.is_available()
    assert EmbeddedProvider(folder=tmp_path).validate_config() == []


def test_nothing_is_loaded_to_tell_that_it_is_available(models: Path, tmp_path: Path) -> None:
    assert EmbeddedProvider(folder=models, model="smollm2").is_available()
    assert not EmbeddedProvider(folder=tmp_path).is_available()


def test_a_model_that_is_not_here_says_how_to_fetch_it(tmp_path: Path) -> None:
    async def main() -> None:
        provider = EmbeddedProvider(folder=tmp_path)
        error = await _error(provider, _request("Hi"))
        assert error.code == "weights_missing"
        assert "segue models pull embedded/smollm2" in str(error)
        assert (await provider.health()).status == "unhealthy"

    asyncio.run(main())


def test_without_the_engine_the_error_names_the_command(
    models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    provider = EmbeddedProvider(folder=models, model="smollm2")
    error = asyncio.run(_error(provider, _request("Hi")))
    assert error.code == "engine_missing"
    assert "python -m pip install '.[embedded]'" in str(error)


def test_a_file_of_the_wrong_size_is_damaged_and_one_of_garbage_is_not_loaded(tmp_path: Path) -> None:
    async def main() -> None:
        file = tmp_path / "smollm2.gguf"
        file.write_bytes(b"GGUF")
        assert (await _error(EmbeddedProvider(folder=tmp_path), _request("Hi"))).code == "weights_damaged"
        os.truncate(file, 98_362_432)
        provider = EmbeddedProvider(folder=tmp_path)
        assert (await _error(provider, _request("Hi"))).code == "engine_failed"
        provider.close()

    asyncio.run(main())


def test_a_file_put_into_the_folder_is_a_model_too(models: Path, tmp_path: Path) -> None:
    async def main() -> None:
        (tmp_path / "mine.gguf").symlink_to(models / "smollm2.gguf")
        provider = EmbeddedProvider(folder=tmp_path, model="mine", context=256)
        assert (await _reply(provider, _request("Hi"))).model == "mine"
        with pytest.raises(UsageError, match="by hand"):
            await provider.pull_model("mine")
        await provider.delete_model("mine")
        assert [model.id for model in await provider.list_models() if model.id == "mine"] == []

    asyncio.run(main())


def test_the_first_known_model_that_is_here_is_meant_by_no_name(tmp_path: Path) -> None:
    assert Folder(tmp_path).default() == "smollm2"

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.emulators.app import App
from segue.emulators.in_process import ask_now
from segue.emulators.model.model_reply import (
    Call,
    Offer,
    Prompt,
    Reply,
    Say,
    Think,
    calls_of,
    limited,
    portions,
    text_of,
)
from segue.emulators.model.responder import ScriptedResponder, ToolCallingResponder

ANSWER = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "degrees": {"type": "integer"}},
    "required": ["city", "degrees"],
    "additionalProperties": False,
}
WEATHER = Offer(
    "get_weather",
    {
        "type": "object",
        "properties": {
            "city": {"type": "string", "minLength": 3, "maxLength": 12},
            "unit": {"enum": ["c", "f"]},
            "days": {"type": "array", "items": {"$ref": "#/$defs/day"}, "minItems": 2},
            "level": {"type": "integer", "minimum": 5, "maximum": 6},
        },
        "required": ["city", "unit", "days", "level"],
        "$defs": {"day": {"type": "object", "properties": {"n": {"type": "number"}}, "required": ["n"]}},
    },
)


@pytest.mark.parametrize("seed", range(20))
def test_the_agent_calls_with_arguments_that_the_schema_accepts(seed: int) -> None:
    reply = ToolCallingResponder(seed).reply(Prompt(provider="p", text="Weather?", tools=(WEATHER,)))
    calls = calls_of(reply)
    assert calls
    for call in calls:
        jsonschema.validate(call.arguments, WEATHER.schema)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    "more",
    [
        {"type": "array", "items": {"$ref": "#"}},
        {"type": "array", "items": {"$ref": "#/$defs/tree"}},
        {"anyOf": [{"$ref": "#"}, {"type": "null"}]},
    ],
)
def test_an_answer_to_a_schema_that_refers_to_itself_fits_it(seed: int, more: dict[str, object]) -> None:
    tree = {
        "type": "object",
        "properties": {"name": {"type": "string"}, "more": more},
        "required": ["name", "more"],
    }
    schema = {**tree, "$defs": {"tree": tree}}
    reply = ToolCallingResponder(seed).reply(Prompt(provider="p", text="A tree?", schema=schema))
    jsonschema.validate(msgspec.json.decode(text_of(reply)), schema)


@pytest.mark.parametrize("seed", range(20))
def test_the_agent_finishes(seed: int) -> None:
    agent = ToolCallingResponder(seed)
    results: tuple[str, ...] = ()
    for _ in range(10):
        reply = agent.reply(Prompt(provider="p", text="Weather?", tools=(WEATHER,), results=results))
        if not calls_of(reply):
            break
        results += ("18",) * len(calls_of(reply))
    assert any(isinstance(piece, Say) for piece in reply.pieces)


def test_the_same_seed_says_the_same() -> None:
    prompt = Prompt(provider="p", text="Weather?", tools=(WEATHER,))
    assert [ToolCallingResponder(7).reply(prompt) for _ in range(2)] == [
        ToolCallingResponder(7).reply(prompt)
    ] * 2


def test_the_agent_calls_when_it_must_and_thinks_when_it_may() -> None:
    prompt = Prompt(
        provider="p", text="?", tools=(WEATHER,), must_call=True, results=("1",) * 9, thinking=True
    )
    reply = ToolCallingResponder().reply(prompt)
    assert isinstance(reply.pieces[0], Think)
    assert calls_of(reply)


def test_without_parallel_calls_there_is_one() -> None:
    offers = tuple(Offer(f"t{n}") for n in range(5))
    for seed in range(10):
        reply = ToolCallingResponder(seed).reply(Prompt(provider="p", tools=offers, parallel=False))
        assert len(calls_of(reply)) == 1


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(
    st.dictionaries(
        st.sampled_from(
            [
                "type",
                "properties",
                "required",
                "items",
                "enum",
                "const",
                "anyOf",
                "oneOf",
                "$ref",
                "minItems",
                "minimum",
                "maximum",
            ]
        ),
        json_values,
    )
)
def test_the_agent_survives_any_schema(schema: dict[str, Any]) -> None:
    reply = ToolCallingResponder().reply(Prompt(provider="p", tools=(Offer("t", schema),)))
    assert all(isinstance(call.arguments, dict) for call in calls_of(reply))


def test_queued_replies_come_first_then_rules_then_the_agent() -> None:
    queued, ruled = Reply(pieces=(Say("queued"),)), Reply(pieces=(Say("ruled"),))
    responder = ScriptedResponder([queued], [("weather", ruled)])
    about = Prompt(provider="p", text="the weather?")
    assert [responder.reply(about), responder.reply(about)] == [queued, ruled]
    assert responder.reply(Prompt(provider="p", text="other")) not in (queued, ruled)
    after_results = Prompt(provider="p", text="the weather?", results=("18",))
    assert responder.reply(after_results) != ruled
    responder.reset()
    assert responder.reply(about) == queued


@given(st.text(), st.integers(0, 50))
def test_portions_make_up_the_text(text: str, size: int) -> None:
    assert "".join(portions(text, size)) == text


@given(st.integers(0, 60))
def test_a_limited_reply_never_exceeds_its_limit(most: int) -> None:
    reply = Reply(pieces=(Think("abc" * 20), Say("déjà vu " * 10), Call("f", {"a": "b" * 40})))
    cut = limited(reply, most)
    assert (cut.finish == "length") == (cut.pieces != reply.pieces)
    assert limited(reply, None) is reply


@pytest.mark.parametrize(
    ("path", "body", "text_of"),
    [
        (
            "/openai/v1/chat/completions",
            {"model": "gpt-4.1", "messages": [{"role": "user", "content": "?"}]}
            | {"response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": ANSWER}}},
            lambda reply: reply["choices"][0]["message"]["content"],
        ),
        (
            "/openai/v1/responses",
            {"model": "gpt-4.1", "input": "?"}
            | {"text": {"format": {"type": "json_schema", "name": "a", "schema": ANSWER}}},
            lambda reply: reply["output"][0]["content"][0]["text"],
        ),
        (
            "/anthropic/v1/messages",
            {"model": "claude-opus-4-6", "max_tokens": 99, "messages": [{"role": "user", "content": "?"}]}
            | {"output_config": {"format": {"type": "json_schema", "schema": ANSWER}}},
            lambda reply: reply["content"][0]["text"],
        ),
        (
            "/gemini/v1beta/models/gemini-2.0-flash:generateContent",
            {"contents": [{"role": "user", "parts": [{"text": "?"}]}]}
            | {"generationConfig": {"responseMimeType": "application/json", "responseJsonSchema": ANSWER}},
            lambda reply: reply["candidates"][0]["content"]["parts"][0]["text"],
        ),
        (
            "/mistral/v1/chat/completions",
            {"model": "mistral-large-latest", "messages": [{"role": "user", "content": "?"}]}
            | {"response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": ANSWER}}},
            lambda reply: reply["choices"][0]["message"]["content"],
        ),
    ],
    ids=["chat", "responses", "anthropic", "gemini", "mistral"],
)
def test_the_built_in_responder_answers_by_the_schema_that_was_asked_for(
    path: str, body: dict[str, Any], text_of: Callable[[Any], str]
) -> None:
    headers = {"authorization": "Bearer k", "x-api-key": "k", "x-goog-api-key": "k"}
    answer = ask_now(App(), "POST", path, json=body, headers={**headers, "anthropic-version": "2023-06-01"})
    assert answer.status == 200, answer.body
    assert set(msgspec.json.decode(text_of(answer.json()))) >= {"city", "degrees"}

from __future__ import annotations

from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.emulators.model_reply import Call, Offer, Prompt, Reply, Say, Think, calls_of, limited, portions
from segue.emulators.responder import ScriptedResponder
from segue.emulators.tool_calling import ToolCallingResponder

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

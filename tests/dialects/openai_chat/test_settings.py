"""Tools and options in the words of each server; what it cannot be told is noted."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dialects.neutral import neutral_options, neutral_tools
from segue.conversation.message import Conversation, user
from segue.conversation.options import Options
from segue.conversation.tools import Named, ToolSpec
from segue.dialects.card import UNKNOWN, ModelCard
from segue.dialects.registry import DIALECTS
from segue.errors import TranscriptError
from segue.transcript.policy import Policy
from segue.transcript.render import render

WEATHER = ToolSpec(
    "get.weather",
    "Weather by city",
    {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
)
CLOCK = ToolSpec("clock")


def sent(
    name: str, *tools: ToolSpec, card: ModelCard = UNKNOWN, **options: Any
) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    dialect = DIALECTS[name]
    policy = Policy(tool_names=tuple(tool.name for tool in tools))
    transcript = render(Conversation().append(user("hi")), None, dialect.rules, policy)
    encoded = dialect.encode_request(transcript, tools, Options(model="m", **options), card)
    body = json.loads(encoded.body)
    del body["messages"], body["model"]
    return body, [(repair.kind, repair.path) for repair in encoded.repairs]


@pytest.mark.requirement("Scenario: Pass tools to OpenAI API")
def test_tools_are_offered_as_functions_and_the_choice_is_free() -> None:
    body, repairs = sent("openai_chat", WEATHER, CLOCK)
    weather, clock = body["tools"]
    assert weather["type"] == "function"
    assert weather["function"]["description"] == "Weather by city"
    assert weather["function"]["parameters"] == WEATHER.parameters
    assert "." not in weather["function"]["name"]
    assert clock == {"type": "function", "function": {"name": "clock"}}
    assert body["tool_choice"] == "auto"
    assert repairs == []


@pytest.mark.parametrize("name", ["vllm", "llama_cpp", "ollama_v1"])
def test_chat_templates_find_a_description_and_parameters_on_every_tool(name: str) -> None:
    (clock,) = sent(name, CLOCK)[0]["tools"]
    assert clock["function"]["description"] == ""
    assert clock["function"]["parameters"]["type"] == "object"


@pytest.mark.requirement("Scenario: OpenAI without tools")
def test_without_tools_nothing_is_said_about_them() -> None:
    body, repairs = sent("openai_chat", tool_choice="none", parallel_calls=False)
    assert (body, repairs) == ({}, [])


def test_a_named_tool_is_named_as_the_target_knows_it() -> None:
    body, _ = sent("openai_chat", WEATHER, tool_choice=Named("get.weather"))
    assert body["tool_choice"]["function"]["name"] == body["tools"][0]["function"]["name"]


def test_a_model_that_cannot_be_made_to_call_one_tool_must_call_any() -> None:
    body, repairs = sent(
        "kimi", CLOCK, card=ModelCard(match="k*", named_choice=False), tool_choice=Named("clock")
    )
    assert body["tool_choice"] == "required"
    assert repairs == [("choice_weakened", "tool_choice")]


def test_a_choice_that_cannot_be_forced_is_asked_for_and_noted() -> None:
    for name, card in (("glm", UNKNOWN), ("kimi", ModelCard(match="k*", forced_choice=False))):
        body, repairs = sent(name, CLOCK, card=card, tool_choice="required")
        assert body["tool_choice"] == "auto"
        assert repairs == [("choice_weakened", "tool_choice")]


def test_where_tools_cannot_be_forbidden_they_are_not_offered() -> None:
    assert sent("ollama_v1", CLOCK, tool_choice="none") == ({}, [("option_not_sent", "tools")])


def test_minimax_sees_a_schema_also_where_there_is_none() -> None:
    body, _ = sent("minimax", CLOCK)
    assert body["tools"][0]["function"]["parameters"] == {"type": "object", "properties": {}}
    assert body["reasoning_split"] is True


def test_kimi_is_told_schemas_in_its_own_flavour_and_losses_are_noted() -> None:
    wide = ToolSpec("f", "", {"type": "object", "properties": {"a": {"not": {"type": "null"}}}})
    body, repairs = sent("kimi", wide)
    assert "not" not in json.dumps(body["tools"])
    assert repairs == [("schema_reduced", "tools[0]")]


def test_strictness_is_asked_for_only_where_the_schema_allows_it() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"type": "string"}},
        "required": ["a"],
        "additionalProperties": False,
    }
    body, repairs = sent("openai_chat", ToolSpec("f", "", schema, strict=True))
    assert (body["tools"][0]["function"]["strict"], repairs) == (True, [])
    body, repairs = sent("openai_chat", ToolSpec("f", "", WEATHER.parameters, strict=True))
    assert "strict" not in body["tools"][0]["function"]
    assert repairs == [("option_not_sent", "tools[0].strict")]


def test_too_many_tools_are_refused_before_the_provider_refuses_them() -> None:
    with pytest.raises(TranscriptError, match="at most 128"):
        sent("openai_chat", *(ToolSpec(f"t{number}") for number in range(129)))


def test_a_model_without_tools_on_this_wire_is_refused_with_a_way_out() -> None:
    with pytest.raises(TranscriptError, match="openai_responses"):
        sent("openai_chat", CLOCK, card=ModelCard(match="m", chat_tools=False))


def test_tools_on_a_model_that_must_not_think_here_say_so_aloud() -> None:
    card = ModelCard(match="m", chat_effort_none=True, thinking="effort", efforts=("none", "low"))
    body, repairs = sent("openai_chat", CLOCK, card=card, effort="low")
    assert body["reasoning_effort"] == "none"
    assert repairs == [("option_not_sent", "effort")]
    assert sent("openai_chat", card=card, effort="low") == ({"reasoning_effort": "low"}, [])


def test_zero_is_a_temperature_and_a_stream_tells_its_usage() -> None:
    body, _ = sent("openai_chat", temperature=0.0, stream=True, seed=0, stop=("x",))
    assert body == {
        "temperature": 0.0,
        "stream": True,
        "stream_options": {"include_usage": True},
        "seed": 0,
        "stop": ["x"],
    }


def test_the_limit_has_the_name_that_the_server_looks_at() -> None:
    assert sent("openai_chat", max_tokens=9)[0] == {"max_completion_tokens": 9}
    assert sent("ollama_v1", max_tokens=9)[0] == {"max_tokens": 9}


def test_options_that_a_server_or_a_model_does_not_take_are_noted_not_sent() -> None:
    fixed = ModelCard(match="m", sampling=False)
    assert sent("kimi", card=fixed, temperature=0.5) == ({}, [("option_not_sent", "temperature")])
    assert sent("openai_chat", top_k=4, repeat_penalty=1.1) == (
        {},
        [("option_not_sent", "top_k"), ("option_not_sent", "repeat_penalty")],
    )
    assert sent("vllm", top_k=4, repeat_penalty=1.1)[0] == {"top_k": 4, "repetition_penalty": 1.1}
    assert sent("llama_cpp", repeat_penalty=1.1)[0] == {"repeat_penalty": 1.1}
    assert sent("xai", stop=("x",))[1] == [("option_not_sent", "stop")]
    body, repairs = sent("openai_chat", extra={"user": "ann", "min_p": 0.1})
    assert (body, repairs) == ({"user": "ann"}, [("option_not_sent", "extra.min_p")])
    assert sent("vllm", extra={"min_p": 0.1})[0] == {"min_p": 0.1}


@pytest.mark.parametrize(
    ("name", "card", "effort", "body"),
    [
        ("openai_chat", UNKNOWN, "low", {"reasoning_effort": "low"}),
        ("openrouter", UNKNOWN, "high", {"reasoning": {"effort": "high"}}),
        ("kimi", ModelCard(match="k", thinking="switch"), "none", {"thinking": {"type": "disabled"}}),
        (
            "kimi",
            ModelCard(match="k", thinking="effort", efforts=("low", "max")),
            "max",
            {"reasoning_effort": "max"},
        ),
        ("qwen", UNKNOWN, "none", {"enable_thinking": False}),
        ("llama_cpp", UNKNOWN, "none", {"chat_template_kwargs": {"enable_thinking": False}}),
        (
            "deepseek",
            ModelCard(match="d", thinking="switch", efforts=("low", "high")),
            "high",
            {"thinking": {"type": "enabled"}, "reasoning_effort": "high"},
        ),
    ],
)
def test_thinking_is_asked_for_in_each_servers_way(
    name: str, card: ModelCard, effort: str, body: dict[str, Any]
) -> None:
    assert sent(name, card=card, effort=effort) == (body, [])


def test_an_effort_that_a_model_lacks_becomes_the_nearest_one_and_is_noted() -> None:
    card = ModelCard(match="m", thinking="effort", efforts=("low", "high"))
    assert sent("openai_chat", card=card, effort="max") == (
        {"reasoning_effort": "high"},
        [("option_not_sent", "effort")],
    )
    known = ModelCard(match="m", dialects=("openai_chat",))
    assert sent("openai_chat", card=known, effort="low") == ({}, [("option_not_sent", "effort")])
    assert sent("openai_chat", card=known, effort="none") == ({}, [])


def test_an_answer_of_a_certain_shape_is_asked_for() -> None:
    schema = {"type": "object", "properties": {}, "additionalProperties": False}
    assert sent("openai_chat", response_schema=schema)[0] == {
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "answer", "schema": schema, "strict": True},
        }
    }
    assert sent("deepseek", response_schema=schema) == (
        {"response_format": {"type": "json_object"}},
        [("option_not_sent", "response_schema")],
    )


def test_what_was_asked_for_is_read_and_the_targets_own_fields_are_kept() -> None:
    decoded = DIALECTS["openai_chat"].decode_request(
        {
            "model": "m",
            "messages": [{"role": "user", "content": "hi"}],
            "tools": [
                {"type": "function", "function": {"name": "f", "description": "d", "strict": True}},
                {"type": "builtin_function", "function": {"name": "$web_search"}},
            ],
            "tool_choice": {"type": "function", "function": {"name": "f"}},
            "parallel_tool_calls": False,
            "stream": True,
            "stream_options": {"include_usage": True},
            "max_completion_tokens": 7,
            "temperature": 0,
            "stop": "x",
            "reasoning_effort": "low",
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "n", "schema": {"type": "object"}},
            },
            "user": "ann",
            "n": None,
        }
    )
    function, served = decoded.tools
    assert neutral_tools([function]) == (ToolSpec("f", "d", strict=True),)
    assert served.kind == "server"
    assert neutral_options(decoded.options) == Options(
        model="m",
        stream=True,
        max_tokens=7,
        temperature=0,
        stop=("x",),
        tool_choice=Named("f"),
        parallel_calls=False,
        effort="low",
        response_schema={"type": "object"},
        extra={"user": "ann"},
    )


@pytest.mark.parametrize(
    ("fields", "effort", "budget", "extra"),
    [
        ({"thinking": {"type": "disabled"}}, "none", None, None),
        (
            {"thinking": {"type": "enabled", "keep": "all"}},
            None,
            None,
            {"thinking": {"type": "enabled", "keep": "all"}},
        ),
        ({"enable_thinking": False, "thinking_budget": 9}, "none", 9, None),
        ({"reasoning": {"effort": "high", "max_tokens": 5}}, "high", 5, None),
        ({"reasoning": {"exclude": True}}, None, None, {"reasoning": {"exclude": True}}),
        ({"reasoning_effort": "ultra"}, None, None, {"reasoning_effort": "ultra"}),
    ],
)
def test_thinking_is_read_in_each_servers_way(
    fields: dict[str, Any], effort: str | None, budget: int | None, extra: dict[str, Any] | None
) -> None:
    options = (
        DIALECTS["qwen"].decode_request({"messages": [{"role": "user", "content": ""}], **fields}).options
    )
    assert (options.effort, options.thinking_budget, neutral_options(options).extra) == (
        effort,
        budget,
        extra,
    )


def test_settings_survive_the_way_out_and_back() -> None:
    asked = Options(
        model="m",
        max_tokens=5,
        temperature=0.5,
        top_p=0.9,
        stop=("a", "b"),
        tool_choice="required",
        seed=3,
        effort="low",
    )
    dialect = DIALECTS["openai_chat"]
    transcript = render(Conversation().append(user("hi")), None, dialect.rules)
    body = json.loads(dialect.encode_request(transcript, (CLOCK,), asked, UNKNOWN).body)
    decoded = dialect.decode_request(body)
    assert (neutral_options(decoded.options), neutral_tools(decoded.tools)) == (asked, (CLOCK,))


def test_fixed_sampling_takes_stop_words_with_it_only_on_openai() -> None:
    fixed = ModelCard(match="m", sampling=False)
    assert sent("openai_chat", card=fixed, stop=("x",)) == ({}, [("option_not_sent", "stop")])
    assert sent("kimi", card=fixed, stop=("x",)) == ({"stop": ["x"]}, [])


def test_a_wish_without_its_object_is_noted() -> None:
    assert sent("openai_chat", tool_choice="required") == ({}, [("option_not_sent", "tool_choice")])
    assert sent("openai_chat", thinking_budget=9) == ({}, [("option_not_sent", "thinking_budget")])
    assert sent("qwen", thinking_budget=9) == ({"thinking_budget": 9}, [])
    assert sent("glm", CLOCK, parallel_calls=False)[1] == [("option_not_sent", "parallel_calls")]
    assert sent("minimax", effort="low")[1] == [("option_not_sent", "effort")]
    assert sent("qwen", effort="low") == ({"enable_thinking": True}, [("option_not_sent", "effort")])
    assert sent("openai_chat", card=ModelCard(match="m", thinking="always"), effort="none")[1] == [
        ("option_not_sent", "effort")
    ]


def test_fields_of_the_targets_own_do_not_contradict_what_is_said() -> None:
    body, repairs = sent(
        "vllm",
        CLOCK,
        temperature=0.5,
        extra={"temperature": 1, "stream_options": {}, "tools": [{"type": "x"}]},
    )
    assert (body["temperature"], body["tools"][1:]) == (0.5, [{"type": "x"}])
    assert repairs == [("option_not_sent", "extra.temperature"), ("option_not_sent", "extra.stream_options")]


def test_a_model_without_tools_is_not_shown_any() -> None:
    assert sent("vllm", CLOCK, card=ModelCard(match="m", tools=False)) == ({}, [("option_not_sent", "tools")])


@pytest.mark.parametrize(
    ("choice", "read", "extra"),
    [
        ("any", "required", None),
        (None, None, None),
        (
            {"type": "allowed_tools", "allowed_tools": {}},
            None,
            {"tool_choice": {"type": "allowed_tools", "allowed_tools": {}}},
        ),
    ],
)
def test_a_choice_is_read_or_kept(choice: Any, read: Any, extra: dict[str, Any] | None) -> None:
    options = DIALECTS["vllm"].decode_request({"messages": [], "tool_choice": choice, "stop": ["a"]}).options
    assert (options.tool_choice, neutral_options(options).extra, options.stop) == (read, extra, ("a",))


def test_an_unknown_choice_is_refused_and_other_answer_formats_are_kept() -> None:
    with pytest.raises(TranscriptError, match="sometimes"):
        DIALECTS["vllm"].decode_request({"messages": [], "tool_choice": "sometimes"})
    asked = {"messages": [], "response_format": {"type": "json_object"}, "stream_options": {"x": 1}}
    assert neutral_options(DIALECTS["vllm"].decode_request(asked).options).extra == {
        "response_format": {"type": "json_object"},
        "stream_options": {"x": 1},
    }
    plain = DIALECTS["vllm"].decode_request({"messages": [], "response_format": {"type": "text"}})
    assert neutral_options(plain.options).extra is None

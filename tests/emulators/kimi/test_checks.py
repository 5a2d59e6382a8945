"""One request per rule that breaks it and nothing else, in Moonshot's words."""

from __future__ import annotations

from typing import Any

import pytest

from emulators.judge import Judge
from segue.emulators.kimi.checks import complaints

KIMI = Judge(complaints, "kimi", "kimi-k2.6")
USER = {"role": "user", "content": "Weather in Paris?"}


def call(call_id: str = "get_weather:0", arguments: Any = '{"city":"Paris"}') -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": "get_weather", "arguments": arguments}}


def calling(*calls: dict[str, Any], **extra: Any) -> dict[str, Any]:
    return {"role": "assistant", "reasoning_content": "", "tool_calls": list(calls or (call(),)), **extra}


def result(call_id: str = "get_weather:0", content: Any = "18C") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "name": "get_weather", "content": content}


def chat(*messages: dict[str, Any], model: str = "kimi-k2.6", **extra: Any) -> dict[str, Any]:
    return {"model": model, "messages": list(messages or (USER,)), **extra}


def tool(parameters: Any, name: str = "get_weather") -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


def schema(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


WEATHER = tool(schema(city={"type": "string"}))


@pytest.mark.rule("KIM-04")
def test_an_id_is_used_once_in_the_whole_request() -> None:
    body = chat(USER, calling(), result(), USER, calling(), result())
    KIMI.refuses(body, "KIM-04", "Invalid request: tool call id get_weather:0 is duplicated")


@pytest.mark.rule("KIM-05")
def test_every_call_is_answered_at_once() -> None:
    body = chat(USER, calling(call(), call("Read:158")), result(), USER)
    KIMI.refuses(
        body,
        "KIM-05",
        "an assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. "
        "The following tool_call_ids did not have response messages: Read:158",
    )


@pytest.mark.rule("KIM-05")
def test_calls_at_the_end_are_unanswered_too() -> None:
    first, second = call(), call("get_weather:1")
    context = KIMI.context(None)
    (refusal,) = complaints(chat(USER, calling(first, second)), context)
    assert refusal.message.endswith(": get_weather:0, get_weather:1")


@pytest.mark.rule("KIM-06")
@pytest.mark.parametrize(
    ("call_id", "text"),
    [("other:1", "tool_call_id other:1 is not found"), ("", "tool_call_id  is not found")],
)
def test_a_result_answers_a_call_right_before_it(call_id: str, text: str) -> None:
    KIMI.refuses(chat(USER, calling(), result(), result(call_id)), "KIM-06", text)


@pytest.mark.rule("KIM-06")
def test_a_result_behind_the_user_is_not_found() -> None:
    body = chat(USER, calling(), result(), USER, result())
    KIMI.refuses(body, "KIM-06", "tool_call_id get_weather:0 is not found")


@pytest.mark.rule("KIM-07")
@pytest.mark.parametrize("model", ["kimi-k2.5", "kimi-k2.6", "kimi-k2.7-code", "kimi-k3", "kimi-k2-thinking"])
def test_a_thinking_model_wants_its_reasoning_back_with_every_call(model: str) -> None:
    silent = {"role": "assistant", "tool_calls": [call()]}
    KIMI.refuses(
        chat(USER, silent, result(), model=model),
        "KIM-07",
        "thinking is enabled but reasoning_content is missing in assistant tool call message at index 1",
    )


@pytest.mark.rule("KIM-07")
def test_without_thinking_no_reasoning_is_wanted() -> None:
    silent = {"role": "assistant", "tool_calls": [call()]}
    KIMI.accepts(chat(USER, silent, result(), thinking={"type": "disabled"}))
    KIMI.accepts(chat(USER, silent, result(), model="moonshot-v1-128k"))


@pytest.mark.rule("KIM-07")
@pytest.mark.parametrize("reasoning", ["", " ", "I need a lookup."])
def test_any_reasoning_is_good_enough_even_none_at_all(reasoning: str) -> None:
    KIMI.accepts(chat(USER, calling(reasoning_content=reasoning), result()))


@pytest.mark.rule("KIM-08")
def test_thinking_and_effort_are_not_said_together() -> None:
    body = chat(model="kimi-k3", thinking={"type": "enabled"}, reasoning_effort="high")
    KIMI.refuses(body, "KIM-08", "cannot specify both 'thinking' and 'reasoning_effort'")


@pytest.mark.rule("KIM-08")
def test_only_some_models_keep_all_thoughts() -> None:
    keep = {"type": "enabled", "keep": "all"}
    KIMI.accepts(chat(thinking=keep))
    KIMI.refuses(
        chat(model="kimi-k2.5", thinking=keep),
        "KIM-08",
        "Invalid request: thinking.keep is not supported by model kimi-k2.5",
    )


@pytest.mark.rule("KIM-09")
@pytest.mark.parametrize(
    ("choice", "word"),
    [("required", "required"), ({"type": "function", "function": {"name": "get_weather"}}, "specified")],
)
def test_a_thinking_model_is_not_forced_to_call(choice: Any, word: str) -> None:
    body = chat(tools=[WEATHER], tool_choice=choice)
    KIMI.refuses(body, "KIM-09", f"tool_choice '{word}' is incompatible with thinking enabled")
    KIMI.accepts({**body, "thinking": {"type": "disabled"}})


@pytest.mark.rule("KIM-09")
def test_the_newest_model_may_be_required_to_call() -> None:
    KIMI.accepts(chat(model="kimi-k3", tools=[WEATHER], tool_choice="required"))


@pytest.mark.rule("KIM-10")
def test_a_text_part_is_not_empty() -> None:
    body = chat({"role": "user", "content": [{"type": "text", "text": ""}]})
    KIMI.refuses(body, "KIM-10", "text content is empty")


@pytest.mark.rule("KIM-10")
@pytest.mark.rule("KIM-23")
@pytest.mark.parametrize("extra", [{}, {"reasoning_content": "hm"}])
def test_an_assistant_message_says_something(extra: dict[str, str]) -> None:
    body = chat(USER, {"role": "assistant", "content": "", **extra}, USER)
    KIMI.refuses(body, "KIM-10", "message at position 1 with role 'assistant' must not be empty")


@pytest.mark.rule("KIM-11")
def test_sound_is_no_part_of_a_message() -> None:
    body = chat({"role": "user", "content": [{"type": "input_audio", "input_audio": {}}]})
    KIMI.refuses(body, "KIM-11", "Invalid request: unsupported content type input_audio", strict=True)


@pytest.mark.rule("KIM-12")
def test_the_temperature_is_fixed() -> None:
    KIMI.refuses(
        chat(temperature=0.2), "KIM-12", "invalid temperature: only 1 is allowed for this model", strict=True
    )
    KIMI.accepts(chat(temperature=1))


@pytest.mark.rule("KIM-13")
@pytest.mark.parametrize("name", ["21st_magic", "a.b", "a b", "", "x" * 65])
def test_a_tool_s_name_starts_with_a_letter(name: str) -> None:
    KIMI.refuses(
        chat(tools=[tool(schema(), name)]),
        "KIM-13",
        "function name is invalid, must start with a letter and can contain letters, numbers, underscores, and dashes",
    )


@pytest.mark.rule("KIM-13")
def test_a_builtin_tool_has_a_dollar_in_front() -> None:
    KIMI.accepts(chat(tools=[{"type": "builtin_function", "function": {"name": "$web_search"}}]))


@pytest.mark.rule("KIM-14")
@pytest.mark.parametrize("parameters", [None, {}, {"properties": {}}, {"type": "string"}, "x"])
def test_parameters_are_an_object(parameters: Any) -> None:
    KIMI.refuses(
        chat(tools=[tool(parameters)]),
        "KIM-14",
        'tools.function.parameters.type is required and must be "object"',
    )


ANY_OF = "when using anyOf, type should be defined in anyOf items instead of the parent schema"
USER_SCHEMA = {"type": "object", "description": "somebody", "properties": {"name": {"type": "string"}}}
MISTAKES = [
    (schema(city={}), "properties.city", "type is not defined"),
    (schema(city={"enum": ["a"]}), "properties.city", "type is not defined"),
    (schema(city={"type": "string", "anyOf": [{"type": "string"}]}), "properties.city", ANY_OF),
    ({"type": "object", "anyOf": [{"type": "object"}]}, "root", ANY_OF),
    (
        {**schema(user={"$ref": "#/$defs/User", "description": "who"}), "$defs": {"User": USER_SCHEMA}},
        "properties.user",
        "conflicting keywords found after $ref expansion: description",
    ),
    (schema(user={"$ref": "#/definitions/User"}), "properties.user", "references must start with #/$defs/"),
    (
        {**schema(user={"$ref": "#/$defs/User", "minLength": 1}), "$defs": {"User": USER_SCHEMA}},
        "properties.user",
        "keyword 'minLength' is not allowed at the same level as $ref",
    ),
    (
        schema(pair={"anyOf": [{"type": "string"}], "minItems": 2}),
        "properties.pair",
        "keyword 'minItems' is not allowed at the same level as anyOf",
    ),
    (
        schema(pair={"type": "array", "items": [{"type": "string"}]}),
        "properties.pair",
        "items must be an object",
    ),
    (
        {**schema(city={"type": "string"}), "required": ["town"]},
        "root",
        "required property 'town' is not defined in properties",
    ),
    ({**schema(city={"type": "string"}), "required": "city"}, "root", "required must be an array"),
    (schema(city={"type": "string", "enum": "Paris"}), "properties.city", "enum must be an array"),
    (
        schema(city={"type": "string", "enum": [True]}),
        "properties.city.enum",
        "enum value (true) does not match any type in [string]",
    ),
    (schema(city=True), "properties", "property schema for 'city' must be an object"),
    ({"type": "object", "properties": []}, "root", "properties must be an object"),
    (
        schema(kinds={"anyOf": [{"type": "array", "items": {"enum": ["a"]}}]}),
        "properties.kinds.anyOf.items",
        "type is not defined",
    ),
]


@pytest.mark.rule("KIM-15")
@pytest.mark.parametrize(("parameters", "place", "what"), MISTAKES)
def test_tool_schemas_are_moonshot_flavored(parameters: Any, place: str, what: str) -> None:
    KIMI.refuses(
        chat(tools=[tool(parameters)]),
        "KIM-15",
        "tools.function.parameters is not a valid moonshot flavored json schema, "
        f"details: <At path '{place}': {what}>",
    )


@pytest.mark.rule("KIM-15")
@pytest.mark.parametrize(
    "parameters",
    [
        schema(**{f"p{n}": {"type": "string"} for n in range(101)}),
        schema(a={"anyOf": [{"type": "string"}] * 11}),
        schema(a={"type": "integer", "enum": list(range(501))}),
        schema(required={"type": "string"}),
        schema(a=schema(b=schema(c=schema(d=schema(e=schema(f={"type": "string"})))))),
    ],
    ids=["properties", "branches", "values", "names", "depth"],
)
def test_the_limits_of_the_dialect_hold_under_strict(parameters: Any) -> None:
    body = chat(tools=[tool(parameters)])
    KIMI.accepts(body, strict=False)
    context = KIMI.context(body, strict=True)
    assert {refusal.rule for refusal in complaints(body, context)} == {"KIM-15"}


@pytest.mark.rule("KIM-15")
def test_a_good_schema_is_accepted() -> None:
    good = {
        **schema(
            user={"$ref": "#/$defs/User"},
            kind={"type": ["string", "null"], "enum": ["a", None]},
            either={"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "integer"}}]},
            free={"type": "object", "additionalProperties": {}},
        ),
        "required": ["user"],
        "$defs": {"User": {"type": "object", "properties": {"name": {"type": "string"}}}},
    }
    KIMI.accepts(chat(tools=[tool(good)]))


@pytest.mark.rule("KIM-16")
def test_an_empty_list_of_tools_is_left_out() -> None:
    KIMI.refuses(chat(tools=[]), "KIM-16", "Invalid request: tools must not be empty", strict=True)


@pytest.mark.rule("KIM-21")
def test_a_request_fits_into_the_model() -> None:
    body = chat({"role": "user", "content": "word" * 9_000}, model="moonshot-v1-8k")
    KIMI.refuses(
        body, "KIM-21", "Invalid request: Your request exceeded model token limit: 8192 (requested: 9004)"
    )


@pytest.mark.rule("KIM-02")
@pytest.mark.parametrize("call_id", ["functions.get_weather:0", "search:0", "call_abc", "aB3dE5f7G", "pwd_0"])
def test_any_unique_id_is_accepted(call_id: str) -> None:
    KIMI.accepts(chat(USER, calling(call(call_id)), result(call_id)))


@pytest.mark.rule("KIM-18")
def test_system_messages_stand_anywhere() -> None:
    system = {"role": "system", "content": "be kind"}
    KIMI.accepts(chat(system, USER, calling(), result(), system, USER))


@pytest.mark.parametrize(
    "body",
    [
        None,
        [],
        {},
        {"model": "m"},
        {"model": "m", "messages": [3]},
        {"model": "m", "messages": [{"role": "developer"}]},
        {"model": "m", "messages": [{"role": "assistant", "tool_calls": [call(arguments={})]}]},
        {"model": "m", "messages": [USER], "tools": "x"},
        {"model": "m", "messages": [USER], "tools": [3]},
    ],
)
def test_nonsense_is_refused_not_crashed_upon(body: object) -> None:
    context = KIMI.context(None)
    assert next(refusal.rule for refusal in complaints(body, context)) == "KIM-00"

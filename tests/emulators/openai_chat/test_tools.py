from __future__ import annotations

from typing import Any

import pytest

from emulators.openai_chat.requests import NAME_PATTERN, USER, body, call, calling, judge, result, tool


@pytest.mark.rule("CHAT-21")
def test_a_tool_name_has_a_pattern() -> None:
    judge.refuses(
        body(USER, tools=[tool(name="get weather")]),
        "CHAT-21",
        "Invalid 'tools[0].function.name': string does not match pattern. Expected a string that matches the pattern "
        f"'{NAME_PATTERN}'.",
        code="invalid_value",
        param="tools[0].function.name",
    )


@pytest.mark.rule("CHAT-21")
def test_a_tool_name_has_64_characters_at_most() -> None:
    judge.refuses(
        body(USER, tools=[tool(name="x" * 65)]),
        "CHAT-21",
        "Invalid 'tools[0].function.name': string too long. Expected a string with maximum length 64, "
        "but got a string with length 65 instead.",
        code="string_above_max_length",
    )


@pytest.mark.rule("CHAT-21")
def test_a_name_in_the_history_is_not_empty() -> None:
    judge.refuses(
        body(USER, calling(call(name="")), result()),
        "CHAT-21",
        "Invalid 'messages[1].tool_calls[0].function.name': empty string. Expected a string with minimum length 1, "
        "but got an empty string instead.",
        code="empty_string",
    )


@pytest.mark.rule("CHAT-30")
def test_an_empty_list_of_tools_is_refused_when_strict() -> None:
    judge.refuses(
        body(USER, tools=[]),
        "CHAT-30",
        "Invalid 'tools': empty array. Expected an array with minimum length 1, but got an empty array instead.",
        code="empty_array",
        strict=True,
    )


@pytest.mark.rule("CHAT-31")
def test_128_tools_are_the_limit() -> None:
    judge.accepts(body(USER, tools=[tool(name=f"t{n}") for n in range(128)]))
    judge.refuses(
        body(USER, tools=[tool(name=f"t{n}") for n in range(150)]),
        "CHAT-31",
        "Invalid 'tools': array too long. Expected an array with maximum length 128, but got an array with length 150 instead.",
        code="array_above_max_length",
    )


@pytest.mark.rule("CHAT-32")
def test_parameters_are_an_object_schema() -> None:
    judge.refuses(
        body(USER, tools=[tool(parameters={"properties": {}})]),
        "CHAT-32",
        "Invalid schema for function 'get_weather': schema must be a JSON Schema of 'type: \"object\"', got 'type: \"None\"'.",
        code="invalid_function_parameters",
        param="tools[0].function.parameters",
    )


@pytest.mark.rule("CHAT-33")
@pytest.mark.parametrize("combinator", ["oneOf", "anyOf", "allOf", "enum", "const", "not"])
def test_the_top_of_a_schema_has_no_combinator(combinator: str) -> None:
    judge.refuses(
        body(USER, tools=[tool(parameters={"type": "object", combinator: []})]),
        "CHAT-33",
        "Invalid schema for function 'get_weather': schema must have type 'object' and not have "
        "'oneOf'/'anyOf'/'allOf'/'enum'/'const'/'not' at the top level.",
        code="invalid_function_parameters",
    )


@pytest.mark.rule("CHAT-34")
def test_parameters_are_not_a_string() -> None:
    judge.refuses(
        body(USER, tools=[tool(parameters="{}")]),
        "CHAT-34",
        "Invalid type for 'tools[0].function.parameters': expected an object, but got a string instead.",
        code="invalid_type",
        strict=True,
    )


@pytest.mark.rule("CHAT-35")
@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        (
            {"type": "object", "properties": {}, "required": []},
            "In context=(), 'additionalProperties' is required to be supplied and to be false.",
        ),
        (
            {"type": "object", "properties": {"name": {"type": "string"}}, "additionalProperties": False},
            (
                "In context=(), 'required' is required to be supplied and to be an array including every key in "
                "properties. Missing 'name'."
            ),
        ),
        (
            {
                "type": "object",
                "properties": {"a": {"allOf": [{"type": "string"}]}},
                "required": ["a"],
                "additionalProperties": False,
            },
            "In context=('properties', 'a'), 'allOf' is not permitted.",
        ),
        *(
            (
                {
                    "type": "object",
                    "properties": {"a": inner},
                    "required": ["a"],
                    "additionalProperties": False,
                },
                f"In context=('properties', 'a'), {reason}",
            )
            for inner, reason in (
                ({"$ref": "#", "description": "A."}, "$ref cannot have keywords {'description'}."),
                ({"oneOf": [{"type": "string"}]}, "'oneOf' is not permitted."),
                ({"enum": ["a"]}, "schema must have a 'type' key."),
                ({}, "schema must have a 'type' key."),
                ({"type": "string", "format": "uri"}, "'uri' is not a valid format."),
                (
                    {"type": "array", "items": {"type": "string"}, "uniqueItems": True},
                    "'uniqueItems' is not permitted.",
                ),
                ({"type": "array"}, "array schema missing items."),
            )
        ),
    ],
)
def test_a_strict_schema_closes_every_object(schema: dict[str, Any], reason: str) -> None:
    judge.accepts(body(USER, tools=[tool(parameters=schema)]))
    judge.refuses(
        body(USER, tools=[tool(parameters=schema, strict=True)]),
        "CHAT-35",
        f"Invalid schema for function 'get_weather': {reason}",
        code="invalid_function_parameters",
        param="tools[0].function.parameters",
    )


def test_a_description_may_be_long() -> None:
    judge.accepts(body(USER, tools=[tool(description="x" * 20_000)]))


@pytest.mark.rule("CHAT-37", "CHAT-38")
@pytest.mark.parametrize(
    ("rule", "name", "value"), [("CHAT-37", "tool_choice", "auto"), ("CHAT-38", "parallel_tool_calls", True)]
)
def test_tool_settings_need_tools(rule: str, name: str, value: object) -> None:
    judge.refuses(
        body(USER, **{name: value}),
        rule,
        f"Invalid value for '{name}': '{name}' is only allowed when 'tools' are specified.",
        param=name,
    )


@pytest.mark.rule("CHAT-37")
def test_an_unknown_tool_choice_is_refused() -> None:
    judge.refuses(
        body(USER, tools=[tool()], tool_choice="any"),
        "CHAT-37",
        "Invalid value: 'any'. Supported values are: 'none', 'auto', and 'required'.",
        code="invalid_value",
    )


@pytest.mark.rule("CHAT-39")
def test_a_history_with_calls_needs_no_tools() -> None:
    judge.accepts(body(USER, calling(call()), result()))

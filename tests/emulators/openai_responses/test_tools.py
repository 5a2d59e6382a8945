from __future__ import annotations

from typing import Any

import pytest

from emulators.openai_responses.requests import USER, body, call, judge, output


@pytest.mark.rule("RESP-30", "RESP-34")
def test_a_tool_in_the_shape_of_chat_has_no_name() -> None:
    judge.refuses(
        body(USER, tools=[{"type": "function", "function": {"name": "f"}}]),
        "RESP-30",
        "Missing required parameter: 'tools[0].name'.",
        code="missing_required_parameter",
    )


@pytest.mark.rule("RESP-30")
def test_a_tool_name_has_its_pattern() -> None:
    judge.refuses(
        body(USER, tools=[{"type": "function", "name": "a.b"}]),
        "RESP-30",
        "Invalid 'tools[0].name': string does not match pattern. Expected a string that matches the pattern "
        "'^[a-zA-Z0-9_-]+$'.",
        code="invalid_value",
    )


@pytest.mark.rule("RESP-31")
def test_strict_is_tried_and_only_an_explicit_true_refuses() -> None:
    loose = {"type": "object", "properties": {}}
    judge.accepts(body(USER, tools=[{"type": "function", "name": "f", "parameters": loose}]))
    judge.refuses(
        body(USER, tools=[{"type": "function", "name": "f", "parameters": loose, "strict": True}]),
        "RESP-31",
        "Invalid schema for function 'f': In context=(), 'additionalProperties' is required to be supplied and to be "
        "false.",
        code="invalid_function_parameters",
        param="tools[0].parameters",
    )


@pytest.mark.rule("RESP-31")
def test_the_schema_of_an_answer_is_held_to_the_same_rules_where_it_is_strict() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"enum": ["x"]}},
        "required": ["a"],
        "additionalProperties": False,
    }
    loose: dict[str, Any] = {"type": "json_schema", "name": "answer", "schema": schema}
    judge.accepts(body(USER, text={"format": loose}))
    judge.refuses(
        body(USER, text={"format": {**loose, "strict": True}}),
        "RESP-31",
        "Invalid schema for response_format 'answer': In context=('properties', 'a'), schema must have a 'type' key.",
        code="invalid_json_schema",
        param="text.format.schema",
    )


@pytest.mark.rule("RESP-32")
def test_schemas_obey_the_rules_of_chat_and_names_are_not_empty() -> None:
    judge.refuses(
        body(USER, tools=[{"type": "function", "name": "f", "parameters": {"type": "string"}}]),
        "RESP-32",
        "Invalid schema for function 'f': schema must be a JSON Schema of 'type: \"object\"', got 'type: \"string\"'.",
        code="invalid_function_parameters",
        param="tools[0].parameters",
    )
    judge.refuses(
        body(USER, call(name=""), output()),
        "RESP-32",
        "Invalid 'input[1].name': empty string. Expected a string with minimum length 1, but got an empty string instead.",
        code="empty_string",
    )


@pytest.mark.rule("RESP-33")
def test_an_unknown_tool_choice_is_refused() -> None:
    judge.refuses(
        body(USER, tool_choice="any"),
        "RESP-33",
        "Invalid value: 'any'. Supported values are: 'none', 'auto', and 'required'.",
        code="invalid_value",
    )

from __future__ import annotations

from typing import Any

import pytest

from emulators.judging import Judge
from segue.emulators.context import Context
from segue.emulators.openai_chat.checks import complaints
from segue.emulators.openai_chat.profile import Profile

judge = Judge(complaints, "openai", "gpt-4.1")
USER = {"role": "user", "content": "Weather in Paris and Rome?"}
NAME_PATTERN = "^[a-zA-Z0-9_-]+$"


def body(*messages: Any, **more: Any) -> dict[str, Any]:
    return {"model": "gpt-4.1", "messages": list(messages), **more}


def call(call_id: str = "call_a1", **function: Any) -> dict[str, Any]:
    return {
        "id": call_id,
        "type": "function",
        "function": {"name": "get_weather", "arguments": "{}", **function},
    }


def calling(*calls: Any, **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": None, "tool_calls": list(calls), **more}


def result(call_id: str = "call_a1", content: Any = "18") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def tool(**function: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": "get_weather", **function}}


VALID = body(
    {"role": "developer", "content": "You are terse."},
    USER,
    {
        "role": "assistant",
        "content": "Checking both.",
        "tool_calls": [
            call("call_a1", arguments='{"city":"Paris"}'),
            call("call_a2", arguments='{"city":"Rome"}'),
        ],
    },
    result("call_a1", '{"c":18}'),
    result("call_a2", "Error: timeout contacting weather service"),
    {"role": "assistant", "content": "Paris 18C; Rome unavailable."},
    {"role": "user", "content": "Thanks. Tomorrow?"},
    stream=True,
    stream_options={"include_usage": True},
    parallel_tool_calls=True,
    tool_choice="auto",
    tools=[
        tool(
            description="Weather by city",
            strict=True,
            parameters={
                "type": "object",
                "properties": {"city": {"type": "string"}},
                "required": ["city"],
                "additionalProperties": False,
            },
        )
    ],
)


def test_the_valid_transcript_of_the_rulebook_is_accepted() -> None:
    judge.accepts(VALID)


@pytest.mark.rule("CHAT-01")
def test_system_and_developer_messages_may_stand_anywhere_and_nothing_must_alternate() -> None:
    judge.accepts(
        body({"role": "assistant", "content": "a"}, USER, USER, {"role": "system", "content": "s"}, USER)
    )


@pytest.mark.rule("CHAT-01")
def test_an_unknown_role_is_refused() -> None:
    judge.refuses(
        body({"role": "model", "content": "x"}),
        "CHAT-01",
        "Invalid value: 'model'. Supported values are: 'system', 'assistant', 'user', 'function', 'tool', and 'developer'.",
        code="invalid_value",
        param="messages[0].role",
    )


@pytest.mark.rule("CHAT-00")
def test_a_body_that_is_no_object_is_refused() -> None:
    judge.refuses(
        [],
        "CHAT-00",
        "Invalid type for request body: expected an object, but got an array instead.",
        code="invalid_type",
    )


@pytest.mark.rule("CHAT-00")
def test_the_model_must_be_named() -> None:
    judge.refuses({"messages": [USER]}, "CHAT-00", "you must provide a model parameter")


@pytest.mark.rule("CHAT-00")
def test_scalars_have_their_types_and_ranges() -> None:
    judge.refuses(
        body(USER, stream="yes"),
        "CHAT-00",
        "Invalid type for 'stream': expected a boolean, but got a string instead.",
        code="invalid_type",
        param="stream",
    )
    judge.refuses(
        body(USER, temperature=-1),
        "CHAT-00",
        "Invalid 'temperature': decimal below minimum value. Expected a value >= 0, but got -1 instead.",
        code="decimal_below_min_value",
    )


@pytest.mark.rule("CHAT-00")
def test_an_unknown_parameter_is_refused_when_strict() -> None:
    judge.refuses(
        body(USER, input="x"), "CHAT-00", "Unknown parameter: 'input'.", code="unknown_parameter", strict=True
    )


@pytest.mark.rule("CHAT-02")
def test_messages_are_not_empty() -> None:
    judge.refuses(
        body(),
        "CHAT-02",
        "Invalid 'messages': empty array. Expected an array with minimum length 1, but got an empty array instead.",
        code="empty_array",
        param="messages",
    )


@pytest.mark.rule("CHAT-02")
def test_messages_are_not_left_out() -> None:
    judge.refuses(
        {"model": "gpt-4.1"},
        "CHAT-02",
        "Missing required parameter: 'messages'.",
        code="missing_required_parameter",
    )


@pytest.mark.rule("CHAT-03")
def test_content_parts_are_not_empty_but_a_string_may_be() -> None:
    judge.accepts(body({"role": "user", "content": ""}))
    judge.refuses(
        body({"role": "user", "content": []}),
        "CHAT-03",
        "Invalid 'messages[0].content': empty array. Expected an array with minimum length 1, but got an empty array instead.",
        code="empty_array",
        param="messages[0].content",
    )


@pytest.mark.rule("CHAT-04")
@pytest.mark.parametrize("silent", [{"role": "user", "content": None}, {"role": "assistant"}])
def test_only_a_message_that_calls_may_go_without_content(silent: dict[str, Any]) -> None:
    judge.refuses(
        body(USER, silent),
        "CHAT-04",
        "Invalid value for 'content': expected a string, got null.",
        param="messages.[1].content",
    )


@pytest.mark.rule("CHAT-06")
def test_the_first_reasoning_models_take_no_system_message() -> None:
    judge.refuses(
        body({"role": "system", "content": "s"}, USER, model="o1-mini"),
        "CHAT-06",
        "Unsupported value: 'messages[0].role' does not support 'system' with this model.",
        code="unsupported_value",
        strict=True,
    )


@pytest.mark.rule("CHAT-07")
def test_one_text_has_ten_mebibytes_at_most() -> None:
    content = "x" * 10_485_761
    assert [
        refusal.message
        for refusal in complaints(body({"role": "user", "content": content}), Context(model="m", strict=True))
        if refusal.rule == "CHAT-07"
    ] == [
        (
            "Invalid 'messages[0].content': string too long. Expected a string with maximum length 10485760, but got a "
            "string with length 10485761 instead."
        )
    ]


UNANSWERED = (
    "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. "
    "The following tool_call_ids did not have response messages: "
)


@pytest.mark.rule("CHAT-10", "CHAT-19")
def test_a_call_at_the_end_is_refused() -> None:
    judge.refuses(body(USER, calling(call())), "CHAT-10", UNANSWERED + "call_a1", param="messages.[2].role")


@pytest.mark.rule("CHAT-10", "CHAT-19")
def test_every_call_is_answered_before_anybody_else_speaks() -> None:
    judge.refuses(
        body(USER, calling(call("call_a1"), call("call_a2"), call("call_a3")), result("call_a2"), USER),
        "CHAT-10",
        UNANSWERED + "call_a1, call_a3",
        param="messages.[3].role",
    )


@pytest.mark.rule("CHAT-10")
def test_results_may_come_in_any_order() -> None:
    judge.accepts(body(USER, calling(call("a"), call("b")), result("b"), result("a")))


@pytest.mark.rule("CHAT-15")
def test_parallel_calls_sit_in_one_message() -> None:
    found = [
        refusal.rule
        for refusal in complaints(
            body(USER, calling(call("a")), calling(call("b")), result("a"), result("b")), Context(model="m")
        )
    ]
    assert found[0] == "RESP-51"
    assert found[1] == "CHAT-10"


@pytest.mark.rule("CHAT-11")
@pytest.mark.parametrize("before", [USER, {"role": "assistant", "content": "x"}])
def test_a_result_without_calls_before_it_is_refused(before: dict[str, Any]) -> None:
    judge.refuses(
        body(before, result()),
        "CHAT-11",
        "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'.",
        param="messages.[1].role",
    )


@pytest.mark.rule("CHAT-12")
def test_a_result_for_a_call_that_was_not_made_is_refused() -> None:
    judge.refuses(
        body(USER, calling(call()), result(), result("call_X")),
        "CHAT-12",
        "Invalid parameter: 'tool_call_id' of 'call_X' not found in 'tool_calls' of previous message.",
        param="messages.[3].tool_call_id",
        strict=True,
    )


@pytest.mark.rule("CHAT-13")
def test_two_results_for_one_call_are_refused() -> None:
    judge.refuses(
        body(USER, calling(call()), result(), result()),
        "CHAT-13",
        "Invalid parameter: Duplicate value for 'tool_call_id' of 'call_a1', in messages[2] and messages[3].",
        param="messages.[3].tool_call_id",
    )


@pytest.mark.rule("CHAT-14")
def test_a_result_names_its_call() -> None:
    found = [
        (refusal.rule, refusal.message)
        for refusal in complaints(
            body(USER, calling(call()), {"role": "tool", "content": "18"}), Context(model="m")
        )
    ]
    assert (
        "CHAT-14",
        "Missing parameter 'tool_call_id': messages with role 'tool' must have a 'tool_call_id'.",
    ) in found


@pytest.mark.rule("CHAT-17")
def test_an_empty_list_of_calls_is_refused() -> None:
    judge.refuses(
        body(USER, {"role": "assistant", "content": "x", "tool_calls": []}),
        "CHAT-17",
        "Invalid 'messages[1].tool_calls': empty array. Expected an array with minimum length 1, but got an empty array instead.",
        code="empty_array",
        param="messages[1].tool_calls",
    )


@pytest.mark.rule("CHAT-18")
def test_a_result_holds_text_only() -> None:
    judge.accepts(body(USER, calling(call()), result(content=[{"type": "text", "text": "18"}])))
    judge.refuses(
        body(USER, calling(call()), result(content=[{"type": "file", "file": {"file_id": "f"}}])),
        "CHAT-18",
        "Invalid value: 'file'. Supported values are: 'text'.",
        code="invalid_value",
    )


@pytest.mark.rule("CHAT-20")
def test_a_call_id_has_64_characters_at_most() -> None:
    long = "c" * 65
    found = list(complaints(body(USER, calling(call(long)), result(long)), judge.context(VALID)))
    assert found[0].message == (
        "Invalid 'messages[1].tool_calls[0].id': string too long. Expected a string with maximum length 64, "
        "but got a string with length 65 instead."
    )
    assert {(refusal.rule, refusal.code) for refusal in found} == {("CHAT-20", "string_above_max_length")}


@pytest.mark.rule("CHAT-20")
def test_older_deployments_take_40_characters() -> None:
    found = complaints(
        body(USER, calling(call("c" * 43)), result("c" * 43)), Context(), Profile(tool_id_max=40)
    )
    assert any("maximum length 40, but got a string with length 43" in refusal.message for refusal in found)


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


@pytest.mark.rule("CHAT-22")
def test_arguments_are_a_string() -> None:
    judge.refuses(
        body(USER, calling(call(arguments={"city": "Paris"})), result()),
        "CHAT-22",
        "Invalid type for 'messages[1].tool_calls[0].function.arguments': expected a string, but got an object instead.",
        code="invalid_type",
    )


@pytest.mark.rule("CHAT-23")
def test_openai_does_not_read_old_arguments_again_but_others_do() -> None:
    broken = body(USER, calling(call(arguments='{"city":')), result())
    judge.accepts(broken)
    strict = Context(strict=True)
    found = complaints(broken, strict, Profile(reparse_arguments=True, model_checks=False))
    assert [refusal.message for refusal in found] == [
        "messages.1.tool_calls.0.function.arguments: arguments must be a valid JSON object string"
    ]


@pytest.mark.rule("CHAT-24")
def test_every_call_has_a_type() -> None:
    judge.refuses(
        body(
            USER, calling({"id": "call_a1", "function": {"name": "get_weather", "arguments": "{}"}}), result()
        ),
        "CHAT-24",
        "Missing required parameter: 'messages[1].tool_calls[0].type'.",
        code="missing_required_parameter",
    )


@pytest.mark.rule("CHAT-24")
def test_a_custom_call_carries_free_text() -> None:
    custom = {"id": "call_a1", "type": "custom", "custom": {"name": "shell", "input": "ls"}}
    judge.accepts(body(USER, calling(custom), result()))


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


@pytest.mark.rule("CHAT-36")
def test_a_description_has_1024_characters_at_most_when_strict() -> None:
    judge.refuses(
        body(USER, tools=[tool(description="x" * 1025)]),
        "CHAT-36",
        "Invalid 'tools[0].function.description': string too long. Expected a string with maximum length 1024, "
        "but got a string with length 1025 instead.",
        code="string_above_max_length",
        strict=True,
    )


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


@pytest.mark.rule("CHAT-40")
@pytest.mark.parametrize("effort", [None, "low"])
def test_reasoning_models_call_functions_on_chat_only_without_reasoning(effort: str | None) -> None:
    more = {} if effort is None else {"reasoning_effort": effort}
    judge.refuses(
        body(USER, tools=[tool()], model="gpt-5.6-terra", **more),
        "CHAT-40",
        "Function tools with reasoning_effort are not supported for gpt-5.6-terra in /v1/chat/completions. "
        "To use function tools, use /v1/responses or set reasoning_effort to 'none'.",
        param="reasoning_effort",
    )
    judge.accepts(body(USER, tools=[tool()], model="gpt-5.6-terra", reasoning_effort="none"))


@pytest.mark.rule("CHAT-40")
def test_a_model_that_cannot_stop_reasoning_calls_no_functions_on_chat() -> None:
    found = judge.context(body(model="gpt-6-astra"))
    request = body(USER, tools=[tool()], model="gpt-6-astra", reasoning_effort="none")
    assert [refusal.rule for refusal in complaints(request, found)] == ["CHAT-40"]


@pytest.mark.rule("CHAT-41")
def test_reasoning_models_refuse_max_tokens() -> None:
    judge.refuses(
        body(USER, model="o3", max_tokens=10),
        "CHAT-41",
        "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
        code="unsupported_parameter",
    )


@pytest.mark.rule("CHAT-41")
def test_reasoning_models_refuse_a_temperature() -> None:
    judge.refuses(
        body(USER, model="o3", temperature=0.2),
        "CHAT-41",
        "Unsupported value: 'temperature' does not support 0.2 with this model. Only the default (1) value is supported.",
        code="unsupported_value",
    )


@pytest.mark.rule("CHAT-50")
def test_reasoning_does_not_come_back_on_chat() -> None:
    judge.refuses(
        body(USER, {"role": "assistant", "content": "a", "reasoning_content": "b"}, USER),
        "CHAT-50",
        "Unknown parameter: 'messages[1].reasoning_content'.",
        code="unknown_parameter",
        strict=True,
    )


@pytest.mark.rule("CHAT-51")
def test_a_compatible_server_may_want_the_reasoning_back() -> None:
    profile = Profile(reasoning_fields=True, needs_reasoning_content=True, model_checks=False)
    request = body(USER, calling(call()), result())
    assert [refusal.message for refusal in complaints(request, Context(), profile)] == [
        "The `reasoning_content` in the thinking mode must be passed back to the API."
    ]
    kept = body(USER, calling(call(), reasoning_content=""), result())
    assert list(complaints(kept, Context(), profile)) == []


@pytest.mark.rule("CHAT-52")
def test_a_tool_shows_no_image() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
    judge.accepts(body({"role": "user", "content": [image]}))
    judge.refuses(
        body(USER, calling(call()), result(content=[image])),
        "CHAT-52",
        "Invalid 'messages[2]'. Image URLs are only allowed for messages with role 'user', but this message with "
        "role 'tool' contains an image URL.",
    )


@pytest.mark.rule("CHAT-53")
def test_files_come_from_the_user_only() -> None:
    file = {"type": "file", "file": {"file_id": "file-1"}}
    judge.accepts(body({"role": "user", "content": [file]}))
    judge.refuses(
        body(USER, {"role": "assistant", "content": [file]}),
        "CHAT-53",
        "Invalid value: 'file'. Supported values are: 'text' and 'refusal'.",
        code="invalid_value",
    )


@pytest.mark.rule("CHAT-53")
def test_a_file_has_no_other_keys() -> None:
    file = {"type": "file", "file": {"file_id": "f", "data": "x"}}
    judge.refuses(
        body({"role": "user", "content": [file]}),
        "CHAT-53",
        "Unknown parameter: 'messages[0].content[0].file.data'.",
        code="unknown_parameter",
    )


@pytest.mark.rule("CHAT-63")
def test_stream_options_need_a_stream() -> None:
    judge.refuses(
        body(USER, stream_options={"include_usage": True}),
        "CHAT-63",
        "The 'stream_options' parameter is only allowed when 'stream' is enabled.",
        param="stream_options",
    )


@pytest.mark.rule("CHAT-70")
def test_the_context_has_an_end() -> None:
    judge.refuses(
        body({"role": "user", "content": "x" * 4 * 8192}, model="gpt-4"),
        "CHAT-70",
        "This model's maximum context length is 8192 tokens. However, your messages resulted in 8195 tokens. "
        "Please reduce the length of the messages.",
        code="context_length_exceeded",
        param="messages",
    )


@pytest.mark.rule("CHAT-71")
def test_the_answer_has_a_limit() -> None:
    judge.refuses(
        body(USER, model="gpt-4o", max_tokens=999_999),
        "CHAT-71",
        "max_tokens is too large: 999999. This model supports at most 16384 completion tokens, whereas you provided 999999.",
        code="invalid_value",
        param="max_tokens",
        strict=True,
    )


@pytest.mark.rule("RESP-51")
def test_an_unknown_model_is_refused_when_strict() -> None:
    judge.refuses(
        body(USER, model="gpt-4.1-nano-wrong"),
        "RESP-51",
        "The model `gpt-4.1-nano-wrong` does not exist or you do not have access to it.",
        status=404,
        code="model_not_found",
        strict=True,
    )


@pytest.mark.rule("REC-01")
def test_old_models_write_no_json_schema() -> None:
    judge.refuses(
        body(USER, model="gpt-4", response_format={"type": "json_schema", "json_schema": {"name": "x"}}),
        "REC-01",
        "Invalid parameter: 'response_format' of type 'json_schema' is not supported with this model. Learn more "
        "about supported models at the Structured Outputs guide: "
        "https://platform.openai.com/docs/guides/structured-outputs",
    )


@pytest.mark.rule("REC-02")
def test_not_every_model_searches_the_web() -> None:
    judge.refuses(
        body(USER, web_search_options={}),
        "REC-02",
        "Web search options not supported with this model.",
        param="web_search_options",
    )

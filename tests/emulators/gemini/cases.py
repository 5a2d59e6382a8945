"""One request per rule that breaks it and nothing else, with the words of the refusal."""

from __future__ import annotations

from typing import Any

import pytest

from emulators.gemini.requests import (
    NEWEST,
    OLD,
    SCHEMA,
    THREE,
    ask,
    call,
    model,
    response,
    signed,
    text,
    tools,
    user,
)

CALL_TURN = "Please ensure that function call turn comes immediately after a user turn or after a function response turn."
RESPONSE_TURN = "Please ensure that function response turn comes immediately after a function call turn."
RESPONSE_COUNT = (
    "Please ensure that the number of function response parts is equal to the number of function call parts of the"
    " function call turn."
)
UNKNOWN = "Invalid JSON payload received. Unknown name"
PARAMETERS = "tools[0].function_declarations[0].parameters"
TYPE = "type.googleapis.com/google.ai.generativelanguage.v1beta"
BAD_NAME = (
    "Invalid function name. Must start with a letter or an underscore. Must be alphameric (a-z, A-Z, 0-9),"
    " underscores (_), dots (.), colons (:), or dashes (-), with a maximum length of 64.\n"
)
NO_SIGNATURE = (
    "Function call is missing a thought_signature in functionCall parts. This is required for tools to work"
    " correctly, and missing thought_signature may lead to degraded model performance. Additional data, function call"
    " `default_api:get_weather` , position 1. Please refer to"
    " https://ai.google.dev/gemini-api/docs/thought-signatures for more details."
)


def case(sentence: str, rule: str, body: Any, message: str, name: str = OLD, **extra: Any) -> Any:
    return pytest.param(
        rule, body, message, name, extra, marks=pytest.mark.rule(rule), id=sentence.replace(" ", "-")
    )


def schema(**changes: Any) -> dict[str, Any]:
    return ask(**tools(parameters={**SCHEMA, **changes}))


def config(**settings: Any) -> dict[str, Any]:
    return ask(generationConfig=settings)


CASES = [
    case(
        "an unknown role",
        "GEM-01",
        ask({"role": "system", "parts": [text()]}, user()),
        "Please use a valid role: user, model.",
    ),
    case("a call at the start", "GEM-02", ask(model(call()), user(response())), CALL_TURN),
    case(
        "a call after the model", "GEM-02", ask(user(), model(), model(call()), user(response())), CALL_TURN
    ),
    case("a result without a call", "GEM-03", ask(user(), model(), user(response())), RESPONSE_TURN),
    case("too few results", "GEM-04", ask(user(), model(call(), call()), user(response())), RESPONSE_COUNT),
    case("no result at all", "GEM-04", ask(user(), model(call()), user()), RESPONSE_COUNT),
    case(
        "a result twice, in contents of their own",
        "GEM-04",
        ask(user(), model(call()), user(response()), user(response())),
        RESPONSE_COUNT,
    ),
    case(
        "a model turn at the end",
        "GEM-07",
        ask(user(), model()),
        "Requests ending with a model turn are not supported.",
        NEWEST,
    ),
    case("no contents", "GEM-10", {}, "* GenerateContentRequest.contents: contents is not specified"),
    case(
        "no parts",
        "GEM-10",
        ask(user(), {"role": "model", "parts": []}, user()),
        "* GenerateContentRequest.contents[1].parts: contents.parts must not be empty.",
    ),
    case(
        "an empty part",
        "GEM-10",
        ask(user(), model({}), user()),
        "* GenerateContentRequest.contents[1].parts[0].data: required oneof field 'data' must have one initialized"
        " field",
    ),
    case(
        "an empty text on Vertex",
        "GEM-10",
        ask(user(text(""))),
        "Unable to submit request because it has an empty text parameter. Add a value to the parameter and try again."
        " Learn more: https://cloud.google.com/vertex-ai/generative-ai/docs/model-reference/gemini",
        platform="vertex",
    ),
    case("an unknown field", "GEM-11", ask(messages=[]), f'{UNKNOWN} "messages": Cannot find field.'),
    case(
        "an unknown field in a part",
        "GEM-11",
        ask(user(text(type="text"))),
        f"{UNKNOWN} \"type\" at 'contents[0].parts[0]': Cannot find field.",
    ),
    case(
        "two unknown fields at once",
        "GEM-11",
        ask(user(text(a=1)), b=2),
        f'{UNKNOWN} "a" at \'contents[0].parts[0]\': Cannot find field.\n{UNKNOWN} "b": Cannot find field.',
    ),
    case(
        "a text that is a number",
        "GEM-11",
        ask(user({"text": 5})),
        "Invalid value at 'contents[0].parts[0].text' (TYPE_STRING), 5",
    ),
    case(
        "a result without a name",
        "GEM-13",
        ask(user(), model(call()), user(response(name=""))),
        "* GenerateContentRequest.contents[2].parts[0].function_response.name: Name cannot be empty.",
    ),
    case(
        "a result that is a string",
        "GEM-14",
        ask(user(), model(call()), user(response(value="18C"))),
        "Invalid value at 'contents[2].parts[0].function_response.response'"
        ' (type.googleapis.com/google.protobuf.Struct), "18C"',
    ),
    case(
        "arguments that are a string",
        "GEM-15",
        ask(user(), model(call(args='{"city": "Paris"}')), user(response())),
        "Invalid value at 'contents[1].parts[0].function_call.args' (type.googleapis.com/google.protobuf.Struct),"
        ' "{\\"city\\": \\"Paris\\"}"',
    ),
    case(
        "a call without its signature",
        "GEM-21",
        ask(user(), model(call()), user(response())),
        NO_SIGNATURE,
        THREE,
    ),
    case(
        "a call after the signed one's step",
        "GEM-21",
        ask(user(), model(call()), user(response()), model(signed()), user(response())),
        NO_SIGNATURE,
        THREE,
    ),
    case(
        "a foreign signature on a call",
        "GEM-23",
        ask(user(), model(call(thoughtSignature="EqQBCkYIBxgC")), user(response())),
        "Corrupted thought signature.",
        THREE,
    ),
    case(
        "a foreign signature on a text",
        "GEM-23",
        ask(user(), model(text(thoughtSignature="EqQBCkYIBxgC")), user()),
        "Corrupted thought signature.",
        THREE,
    ),
    case(
        "a level the model lacks",
        "GEM-26",
        config(thinkingConfig={"thinkingLevel": "MINIMAL"}),
        "'minimal' is not a supported thinking level for this model. Allowed values are: medium, low, high.",
        NEWEST,
    ),
    case(
        "a penalty",
        "GEM-27",
        config(presencePenalty=0.1),
        "Penalty is not enabled for models/gemini-2.5-flash",
    ),
    case(
        "more stop sequences than it takes",
        "GEM-58",
        config(stopSequences=list("abcdef")),
        "The number of stop_sequences must not exceed 5.",
    ),
    case(
        "a word of JSON Schema",
        "GEM-28",
        schema(additionalProperties=False),
        f"{UNKNOWN} \"additionalProperties\" at '{PARAMETERS}': Cannot find field.",
    ),
    case(
        "a word of JSON Schema deep down",
        "GEM-28",
        schema(properties={"city": {}, "n": {"anyOf": [{"type": "integer", "exclusiveMinimum": 0}]}}),
        f"{UNKNOWN} \"exclusiveMinimum\" at '{PARAMETERS}.properties[1].value.any_of[0]': Cannot find field.",
    ),
    case(
        "two types at once",
        "GEM-30",
        schema(properties={"city": {"type": ["string", "null"]}}),
        f"{UNKNOWN} \"type\" at '{PARAMETERS}.properties[0].value': Proto field is not repeating, cannot start list.",
    ),
    case(
        "an empty type",
        "GEM-30",
        schema(properties={"city": {"type": ""}}),
        f"Invalid value at '{PARAMETERS}.properties[0].value.type' ({TYPE}.Type), \"\"",
    ),
    case(
        "an enum of numbers",
        "GEM-30",
        schema(properties={"city": {"type": "integer", "enum": [1]}}),
        f"Invalid value at '{PARAMETERS}.properties[0].value.enum[0]' (TYPE_STRING), 1",
    ),
    case(
        "an array without items",
        "GEM-30",
        schema(properties={"city": {"type": "array"}}),
        f"* GenerateContentRequest.{PARAMETERS}.properties[city].items: missing field.",
    ),
    case(
        "a required property that does not exist",
        "GEM-30",
        schema(required=["town"]),
        f"* GenerateContentRequest.{PARAMETERS}.required[0]: property is not defined",
    ),
    case(
        "a function name with a space",
        "GEM-31",
        ask(**tools(name="get weather")),
        f"* GenerateContentRequest.tools[0].function_declarations[0].name: {BAD_NAME}",
    ),
    case(
        "an unknown calling mode",
        "GEM-11",
        ask(**tools(), toolConfig={"functionCallingConfig": {"mode": "REQUIRED"}}),
        f"Invalid value at 'tool_config.function_calling_config.mode' ({TYPE}.FunctionCallingConfig.Mode), \"REQUIRED\"",
    ),
    case(
        "JSON and functions on an old model",
        "GEM-34",
        {**ask(**tools()), "generationConfig": {"responseMimeType": "application/json"}},
        "Function calling with a response mime type: 'application/json' is unsupported",
    ),
    case(
        "a system prompt for Gemma",
        "GEM-40",
        ask(systemInstruction={"parts": [text()]}),
        "Developer instruction is not enabled for models/gemma-3-27b-it",
        "gemma-3-27b-it",
    ),
    case(
        "too long a prompt",
        "GEM-43",
        ask(user(text("word " * 850_000))),
        "The input token count (1062505) exceeds the maximum number of tokens allowed (1048576).",
    ),
    case(
        "a result with another name",
        "GEM-13",
        ask(user(), model(call()), user(response("get_time"))),
        "Request contains an invalid argument.",
    ),
    case(
        "two schemas for one function",
        "GEM-29",
        ask(**tools(parametersJsonSchema=SCHEMA)),
        "* GenerateContentRequest.tools[0].function_declarations[0]: parameters and parameters_json_schema are"
        " mutually exclusive.",
    ),
    case(
        "allowed names without force",
        "GEM-33",
        ask(**tools(), toolConfig={"functionCallingConfig": {"mode": "AUTO", "allowedFunctionNames": ["f"]}}),
        "Unable to submit request because it has allowed_function_names set when function_calling_config.mode is not"
        " ANY.",
    ),
]

STRICT_CASES = [
    case(
        "a single turn of the model",
        "GEM-08",
        ask(model()),
        "Please ensure that single turn requests end with a user role or the role field is empty.",
    ),
    case(
        "a result with another id",
        "GEM-17",
        ask(
            user(),
            model(
                {
                    "functionCall": {"id": "a", "name": "f"},
                    "thoughtSignature": "skip_thought_signature_validator",
                }
            ),
            user(response("f", id="b")),
        ),
        "Request contains an invalid argument.",
        THREE,
    ),
    case(
        "two functions of one name",
        "GEM-32",
        ask(tools=tools()["tools"] * 2),
        "Duplicate function declaration found: get_weather",
    ),
    case(
        "a calling mode without functions",
        "GEM-33",
        ask(toolConfig={"functionCallingConfig": {"mode": "ANY"}}),
        "Function calling config is set without function_declarations.",
    ),
]

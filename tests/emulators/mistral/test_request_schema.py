"""Requests that do not fit the schema are refused with the place of the misfit."""

from __future__ import annotations

from typing import Any

import pytest

from emulators.mistral.breaking import case, image, refusals, thinking
from emulators.mistral.requests import TOOL, assistant, call, chat, context, tool, user
from segue.emulators.mistral.errors import envelope

SCHEMA = [
    case(
        "reasoning content is no field of Mistral",
        "MIS-08",
        chat(user(), assistant("ok", reasoning_content="hm"), user()),
        ("extra_forbidden", "body messages 1 assistant reasoning_content"),
        "Extra inputs are not permitted",
    ),
    case(
        "the seed has another name",
        "MIS-08",
        chat(user(), seed=7),
        ("extra_forbidden", "body seed"),
        "Extra inputs are not permitted",
    ),
    case(
        "stream options do not exist",
        "MIS-08",
        chat(user(), stream_options={"include_usage": True}),
        ("extra_forbidden", "body stream_options"),
        "Extra inputs are not permitted",
    ),
    case(
        "only results have a name",
        "MIS-09",
        chat({**user(), "name": "anna"}),
        ("extra_forbidden", "body messages 0 user name"),
        "Extra inputs are not permitted",
    ),
    case(
        "a call has no name of its own",
        "MIS-09 MIS-08",
        chat(user(), assistant(None, {**call(), "name": "f"}), tool()),
        ("extra_forbidden", "body messages 1 assistant tool_calls 0 name"),
        "Extra inputs are not permitted",
    ),
    case(
        "tool choice is one of four words",
        "MIS-12",
        chat(user(), tools=[TOOL], tool_choice="must"),
        ("enum", "body tool_choice"),
        "Input should be 'auto', 'none', 'any' or 'required'",
    ),
    case(
        "tool choice names a function",
        "MIS-12",
        chat(user(), tools=[TOOL], tool_choice={"type": "function"}),
        ("missing", "body tool_choice function"),
        "Field required",
    ),
    case(
        "a function has parameters even if it takes none",
        "MIS-13 MIS-V24",
        chat(user(), tools=[{"type": "function", "function": {"name": "now"}}]),
        ("missing", "body tools 0 function parameters"),
        "Field required",
    ),
    case(
        "there is no developer",
        "MIS-V24",
        chat({"role": "developer", "content": "x"}, user()),
        ("union_tag_invalid", "body messages 0"),
        "Input tag 'developer' found using 'role' does not match any of the expected tags: "
        "'system', 'user', 'assistant', 'tool'",
    ),
    case(
        "a result has content",
        "MIS-V24",
        chat(user(), assistant(None, call()), tool(content=None)),
        ("string_type", "body messages 2 tool content"),
        "Input should be a valid string",
    ),
    case(
        "temperature stays in its range",
        "MIS-V24",
        chat(user(), temperature=2),
        ("less_than_equal", "body temperature"),
        "Input should be less than or equal to 1.5",
    ),
    case(
        "max tokens are not negative",
        "MIS-V24",
        chat(user(), max_tokens=-1),
        ("greater_than_equal", "body max_tokens"),
        "Input should be greater than or equal to 0",
    ),
    case(
        "an assistant shows no images",
        "MIS-V12",
        chat(user(), assistant([image()]), user()),
        ("value_error", "body messages 1 assistant"),
        "Value error, ImageURLChunk cannot be used in assistant message.",
    ),
    case(
        "a result does not think",
        "MIS-V12",
        chat(user(), assistant(None, call()), tool(content=[thinking()])),
        ("value_error", "body messages 2 tool"),
        "Value error, ThinkChunk cannot be used in tool message.",
    ),
]


@pytest.mark.parametrize(("rule", "body", "kind", "text", "model"), SCHEMA)
def test_what_the_schema_does_not_know_is_refused_with_its_location(
    rule: str, body: Any, kind: tuple[str, str], text: str, model: str
) -> None:
    (refusal,) = refusals(body, model)
    assert refusal.rule == rule
    assert refusal.status == 422
    (detail,) = envelope(refusal, context())["detail"]
    assert detail["type"] == kind[0]
    assert " ".join(map(str, detail["loc"])) == kind[1]
    assert detail["msg"] == text

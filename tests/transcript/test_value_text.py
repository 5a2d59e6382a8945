"""Arguments and results as text."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given

from segue.conversation.blocks import ToolCall, ToolResult
from segue.conversation.message import Conversation, model, tool, user
from segue.transcript.blocks.value_text import (
    WRAPPED,
    arguments_of,
    is_deeper,
    is_object_text,
    json_of,
    text_form,
    text_of,
)
from segue.transcript.render import render
from strategies.histories import CYCLE, raw_arguments, values
from strategies.targets import TARGETS
from transcript.readers import calls_of


@pytest.mark.parametrize(
    ("value", "text", "exact"),
    [
        ("text", "text", True),
        ("", "", True),
        (None, "", True),
        (False, "false", True),
        ({"a": [1, "é"]}, '{"a":[1,"é"]}', True),
        (2**100, str(2**100), True),
        ("\ud800", "\ufffd", False),
        (float("nan"), "nan", False),
        ([float("nan")], '["nan"]', False),
        (b"x", '{"base64":"eA=="}', False),
        (CYCLE, '{"name":"cycle","itself":"(circular)"}', False),
    ],
)
def test_text_stays_and_everything_else_is_json(value: Any, text: str, exact: bool) -> None:
    assert text_form(value) == (text, exact)
    assert text_of(value) == text


@pytest.mark.requirement("REQ-915-038")
@given(values)
def test_any_value_can_be_said(value: Any) -> None:
    text, _ = text_form(value)
    text.encode()
    json.loads(json_of(value))


@pytest.mark.parametrize("text", ["{}", ' {"a": 1} ', '{"a": {"b": [1, null]}}'])
def test_the_json_of_an_object_is_known(text: str) -> None:
    assert is_object_text(text)


@pytest.mark.parametrize(
    "text", ["", "[]", "null", "1", '{"a"', "{} {}", "NaN", '{"a": "\ud800"}', "[" * 9999, '{"a": "\\ud800"}']
)
def test_anything_else_is_no_object(text: str) -> None:
    assert not is_object_text(text)


@pytest.mark.requirement("REQ-915-038")
@pytest.mark.parametrize(
    ("call", "text", "change"),
    [
        (ToolCall("c", "t", {"a": 2}, ' {"a": 1} '), ' {"a": 1} ', ""),
        (ToolCall("c", "t", {"a": 2}), '{"a":2}', ""),
        (ToolCall("c", "t", {"a": 2}, '{"a": '), '{"a":2}', ""),
        (ToolCall("c", "t"), "{}", ""),
        (ToolCall("c", "t", {}), "{}", ""),
        (ToolCall("c", "t", None, '{"cut'), '{"raw_arguments":"{\\"cut"}', "arguments_wrapped"),
        (ToolCall("c", "t", [1]), '{"raw_arguments":[1]}', "arguments_wrapped"),
        (ToolCall("c", "t", "text"), '{"raw_arguments":"text"}', "arguments_wrapped"),
        (ToolCall("c", "t", {"n": float("inf")}), '{"n":"inf"}', "value_made_safe"),
        (ToolCall("c", "t", None, "\ud800"), '{"raw_arguments":"\ufffd"}', "arguments_wrapped"),
    ],
)
def test_arguments_are_always_an_object_and_lose_nothing(call: ToolCall, text: str, change: str) -> None:
    assert arguments_of(call) == (text, change)


@pytest.mark.requirement("REQ-915-038")
@given(values, raw_arguments)
def test_any_arguments_become_an_object(arguments: Any, raw: str) -> None:
    text, _ = arguments_of(ToolCall("c", "t", arguments, raw))
    assert isinstance(json.loads(text), dict)
    text.encode()


@pytest.mark.parametrize(
    ("text", "levels"),
    [
        ("{}", 1),
        ('{"a":[1,[2]]}', 3),
        ('{"[[[\\"[":{}}', 2),
        ("[" * 500 + "]" * 500, 500),
        ('"[[["', 0),
        ("[][][]", 1),
    ],
)
def test_the_levels_of_a_json_text_are_counted_outside_its_strings(text: str, levels: int) -> None:
    assert not is_deeper(text, levels)
    assert is_deeper(text, levels - 1) == (levels > 0)


@pytest.mark.parametrize("name", ["anthropic", "gemini", "ollama"])
@pytest.mark.parametrize("levels", [120, 900])
def test_arguments_nested_deeper_than_a_wire_takes_are_sent_as_text(name: str, levels: int) -> None:
    deep = '{"a":' + "[" * levels + "]" * levels + "}"
    conversation = Conversation(
        (user("a"), model(ToolCall("c0", "read", raw=deep)), tool(ToolResult("c0", "read", "x")), user("b"))
    )
    transcript = render(conversation, None, TARGETS[name])
    (call,) = calls_of(transcript)
    assert json.loads(call.arguments) == {WRAPPED: deep}
    assert [repair.call_ids for repair in transcript.repairs if repair.kind == "arguments_wrapped"] == [
        ("c0",)
    ]
    (kept,) = calls_of(render(conversation, None, TARGETS["openai_chat"]))
    assert kept.arguments == deep

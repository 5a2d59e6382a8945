"""Every reply as the one record that the seeds describe."""

from __future__ import annotations

import json
from typing import Any

import pytest

from segue.conversation.blocks import Origin, Text, ToolCall
from segue.conversation.events import ArgumentsDelta, CallStarted, Event, Finished, Reply, fold
from segue.conversation.message import Message
from segue.conversation.usage import Usage
from segue.dialects.replies.response_view import as_response


@pytest.mark.requirement(
    "Scenario: Tool Call Response Format", "Scenario: Convert Gemini function calls to OpenAI format"
)
def test_calls_are_shown_in_openai_format_and_get_an_id_from_their_place_if_they_have_none() -> None:
    blocks = (
        ToolCall("", "f", {"a": 1}, native_id="call_x", raw='{"a": 1}'),
        ToolCall("", "g", {"city": "Rome"}),
        ToolCall("", "h"),
    )
    response = as_response(Reply(Message("model", blocks), "tool_calls", Usage(3, 4), model="m"))
    assert response["content"] is None
    assert response["finish_reason"] == "tool_calls"
    assert response["model"] == "m"
    assert response["usage"]["total_tokens"] == 7
    assert response["tool_calls"] == [
        {"id": "call_x", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}},
        {"id": "call_1", "type": "function", "function": {"name": "g", "arguments": '{"city":"Rome"}'}},
        {"id": "call_2", "type": "function", "function": {"name": "h", "arguments": "{}"}},
    ]


@pytest.mark.requirement("Scenario: Tool Call Arguments Parsing")
@pytest.mark.parametrize(("given", "read"), [({"ü": [1]}, {"ü": [1]}), ({}, {}), (None, {})])
def test_arguments_stay_text_that_parses_to_an_object(
    given: dict[str, Any] | None, read: dict[str, Any]
) -> None:
    reply = Reply(Message("model", (ToolCall("", "f", given),)), "tool_calls")
    arguments = as_response(reply)["tool_calls"][0]["function"]["arguments"]
    assert json.loads(arguments) == read


@pytest.mark.requirement("Scenario: Tool Call Arguments Parsing")
@pytest.mark.parametrize("written", ['{ "n" : 1.0,\n"n": 2 }', '{"half": ', "no json", "{}"])
def test_arguments_are_passed_on_as_the_model_wrote_them(written: str) -> None:
    """Whoever runs the call reads them: nobody has parsed them before, and written them anew."""
    events: list[Event] = [CallStarted(0, "call_x", "f"), ArgumentsDelta(0, written), Finished("tool_calls")]
    (call,) = as_response(fold(events, Origin("openai_chat")))["tool_calls"]
    assert call == {"id": "call_x", "type": "function", "function": {"name": "f", "arguments": written}}


@pytest.mark.requirement("Scenario: Detect Gemini function calls", "Scenario: Parse Ollama tool calls")
def test_a_reply_with_calls_ended_for_its_calls_unless_it_was_cut_off() -> None:
    called = Message("model", (Text("Look:"), ToolCall("", "f")))
    assert as_response(Reply(called, "stop"))["finish_reason"] == "tool_calls"
    assert as_response(Reply(called, "length"))["finish_reason"] == "length"
    assert as_response(Reply(called, "stop"))["content"] == "Look:"


@pytest.mark.requirement("Scenario: Gemini without function calls")
def test_a_reply_without_calls_is_only_its_text() -> None:
    response = as_response(Reply(Message("model", (Text("Hi"),)), "stop"))
    assert (response["content"], response["finish_reason"]) == ("Hi", "stop")
    assert "tool_calls" not in response

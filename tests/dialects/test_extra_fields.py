"""Fields of one wire: back on that wire where they were, on no other, and reported there."""

from __future__ import annotations

import json
from typing import Any

import pytest

from segue.conversation.document import decode_document, encode_document
from segue.conversation.extra import Extra
from segue.dialects.registry import DIALECTS
from segue.errors import TranscriptError
from segue.interop.convert import convert
from segue.transcript.adopt import adopt

MARK = {"type": "ephemeral"}
CITATION = {"type": "char_location", "cited_text": "x", "document_index": 0}
PICTURE = "data:image/png;base64,aGk="
_SCHEMA = {"type": "object", "properties": {"q": {"type": "string"}}}
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "cache marks stay where they are": (
        "anthropic",
        {
            "model": "claude-sonnet-4-6",
            "max_tokens": 100,
            "system": [
                {"type": "text", "text": "One."},
                {"type": "text", "text": "Two.", "cache_control": MARK},
            ],
            "tools": [{"name": "f", "input_schema": _SCHEMA, "cache_control": MARK, "defer_loading": True}],
            "messages": [
                {"role": "user", "content": [{"type": "text", "text": "Hi", "cache_control": MARK}]},
                {"role": "assistant", "content": [{"type": "text", "text": "Hello"}]},
                {"role": "user", "content": [{"type": "text", "text": "Go on"}]},
            ],
        },
    ),
    "messages of one role stay apart": (
        "anthropic",
        {
            "model": "claude-sonnet-4-6",
            "max_tokens": 100,
            "messages": [{"role": "user", "content": "One"}, {"role": "user", "content": "Two"}],
        },
    ),
    "citations": (
        "anthropic",
        {
            "model": "claude-sonnet-4-6",
            "max_tokens": 100,
            "messages": [
                {"role": "user", "content": "Hi"},
                {"role": "assistant", "content": [{"type": "text", "text": "x", "citations": [CITATION]}]},
                {"role": "user", "content": "More"},
            ],
        },
    ),
    "a system prompt with a role, and no choice of tools": (
        "gemini",
        {
            "systemInstruction": {"role": "user", "parts": [{"text": "Be brief."}, {"text": "Be kind."}]},
            "contents": [{"role": "user", "parts": [{"text": "Hi"}]}],
            "tools": [{"functionDeclarations": [{"name": "f", "parametersJsonSchema": _SCHEMA}]}],
        },
    ),
    "items with ids, phase and detail": (
        "openai_responses",
        {
            "model": "gpt-5.1",
            "input": [
                {"role": "developer", "content": "Be brief."},
                {
                    "role": "user",
                    "content": [{"type": "input_image", "image_url": PICTURE, "detail": "high"}],
                },
                {
                    "type": "message",
                    "id": "msg_1",
                    "role": "assistant",
                    "phase": "commentary",
                    "status": "completed",
                    "content": [{"type": "output_text", "text": "A cat.", "annotations": []}],
                },
                {"type": "custom_tool_call", "id": "ctc_1", "call_id": "call_1", "name": "p", "input": "x y"},
                {
                    "type": "function_call",
                    "namespace": "docs",
                    "call_id": "call_2",
                    "name": "find",
                    "arguments": "{}",
                },
                {"type": "custom_tool_call_output", "call_id": "call_1", "output": "done"},
                {
                    "type": "function_call_output",
                    "call_id": "call_2",
                    "output": [{"type": "input_text", "text": "found"}],
                },
                {"role": "user", "content": "And?"},
            ],
        },
    ),
    "detail on Chat": (
        "openai_chat",
        {
            "model": "gpt-4.1",
            "messages": [
                {"role": "developer", "content": "Be brief."},
                {
                    "role": "user",
                    "name": "ann",
                    "content": [
                        {"type": "text", "text": "Look"},
                        {"type": "image_url", "image_url": {"url": PICTURE, "detail": "low"}},
                    ],
                },
            ],
            "max_tokens": 5,
        },
    ),
    "a reply to continue": (
        "mistral",
        {
            "model": "mistral-large-latest",
            "messages": [
                {"role": "user", "content": "Hi"},
                {"role": "assistant", "content": "Dear", "prefix": True},
            ],
        },
    ),
}
LOSSY = {"a reply to continue"}


def _same(case: str) -> Any:
    source, body = CASES[case]
    return convert(body, to=source, source=source).request


@pytest.mark.parametrize("case", CASES)
def test_a_request_goes_back_to_its_wire_as_it_came(case: str) -> None:
    assert _same(case) == CASES[case][1]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(
    "to", ["openai_chat", "anthropic", "gemini", "mistral", "ollama", "openai_responses"]
)
def test_another_wire_gets_none_of_it_and_a_loss_is_refused_if_strict(case: str, to: str) -> None:
    source, body = CASES[case]
    if to == source:
        return
    converted = convert(body, to=to, source=source)
    text = json.dumps(converted.request)
    for word in ("cache_control", "citations", "phase", '"prefix"', '"namespace"', "defer_loading", "detail"):
        # The wire's own way to show an image may have a field for its detail.
        assert word not in text or (word == "detail" and to == "openai_responses")
    kinds = {repair.kind for repair in converted.repairs}
    assert ("citations_as_text" in kinds) == (case == "citations")  # as words, nothing of them is lost
    if case in LOSSY:
        assert "fields_dropped" in kinds
        with pytest.raises(TranscriptError, match="would get less"):
            convert(body, to=to, source=source, strict=True)


def test_marks_for_the_cache_are_reported_and_lose_nothing() -> None:
    source, body = CASES["cache marks stay where they are"]
    converted = convert(body, to="openai_chat", source=source, strict=True)
    reported = [repair.path for repair in converted.repairs if repair.kind == "hints_dropped"]
    assert sorted(reported) == ["messages[0]", "system", "tools[0]"]


def test_what_a_request_asks_of_its_own_wire_never_reaches_another() -> None:
    body = {
        "model": "m",
        "messages": [{"role": "user", "content": "Hi"}],
        "logit_bias": {"1": 2},
        "user": "ann",
    }
    converted = convert(body, to="anthropic", source="openai_chat", model="claude-sonnet-4-6")
    assert converted.request.keys() == {"model", "max_tokens", "messages"}
    reported = {repair.path for repair in converted.repairs if repair.kind == "option_not_sent"}
    assert reported == {"logit_bias", "user"}


@pytest.mark.parametrize("case", CASES)
def test_a_document_keeps_a_wires_own_fields(case: str) -> None:
    source, body = CASES[case]
    read = DIALECTS[source].decode_request(body)
    conversation = adopt(read.messages, system=read.system).conversation
    assert decode_document(encode_document(conversation))[0] == conversation
    document = convert(body, to="conversation", source=source).body
    assert convert(document, to=source).request == _same(case)


def test_fields_are_written_where_they_were() -> None:
    extra = Extra("x", fields={"a": 1}, hints={"b": 2}, form={"c": None}, absent=("d",))
    assert extra.written({"d": 4, "e": 5}) == {"a": 1, "b": 2, "c": None, "e": 5}


@pytest.mark.parametrize(
    ("dialect", "field", "messages"),
    [
        (
            "gemini",
            "contents",
            [
                {"role": "user", "parts": [{"text": "Hi"}]},
                {
                    "role": "model",
                    "parts": [{"function_call": {"name": "f", "args": {}}, "thought_signature": "c2VhbGVk"}],
                },
                {
                    "role": "user",
                    "parts": [{"function_response": {"name": "f", "response": {"output": "1"}}}],
                },
            ],
        ),
        (
            "openai_compatible",
            "messages",
            [
                {"role": "user", "content": "Hi"},
                {
                    "role": "assistant",
                    "content": "x",
                    "extra_content": {"google": {"thought_signature": "c2VhbGVk", "more": 1}},
                    "tool_calls": [
                        {
                            "id": "call_1",
                            "type": "function",
                            "function": {"name": "f", "arguments": "{}"},
                            "extra_content": {"google": {"thought_signature": "c2VhbGVk", "more": 1}},
                        }
                    ],
                },
                {"role": "tool", "tool_call_id": "call_1", "content": "1"},
            ],
        ),
    ],
)
def test_a_seal_never_travels_among_a_wires_own_fields(
    dialect: str, field: str, messages: list[dict[str, Any]]
) -> None:
    body = {"model": "gemini-2.5-pro", field: messages}
    assert b"c2VhbGVk" in convert(body, to=dialect, source=dialect, model="gemini-2.5-pro").body
    assert b"c2VhbGVk" not in convert(body, to=dialect, source=dialect, model="gemini-2.5-flash").body


def test_an_id_that_two_items_share_is_kept_of_the_first_only() -> None:
    items = [
        {"type": "message", "role": "user", "content": "a", "id": "msg_1"},
        {"type": "message", "role": "user", "content": "a", "id": "msg_1"},
    ]
    sent = convert(
        {"model": "gpt-5.5", "input": items}, source="openai_responses", to="openai_responses"
    ).request
    assert [item.get("id") for item in sent["input"]] == ["msg_1", None]


LONG_NAME = "a" * 90


@pytest.mark.parametrize(
    ("dialect", "field", "call"),
    [
        (
            "openai_chat",
            "messages",
            {"id": "call_1", "type": "function", "function": {"name": LONG_NAME, "arguments": ""}},
        ),
        ("mistral", "messages", {"id": "abcDEF123", "function": {"name": LONG_NAME, "arguments": {"a": 1}}}),
        ("gemini", "contents", {"functionCall": {"name": LONG_NAME, "own": 1}}),
        ("gemini", "contents", {"function_call": {"name": LONG_NAME}}),
    ],
)
def test_a_name_that_was_respelled_for_the_target_stays_so_in_what_the_wire_has_of_its_own(
    dialect: str, field: str, call: dict[str, Any]
) -> None:
    said: dict[str, Any] = {"role": "user", "content": "Hello."}
    messages: list[Any] = [said, {"role": "assistant", "content": "", "tool_calls": [call]}, said]
    if field == "contents":
        said = {"role": "user", "parts": [{"text": "Hello."}]}
        messages = [said, {"role": "model", "parts": [call]}, said]
    converted = convert({field: messages}, to=dialect, source=dialect)
    assert "name_replaced" in [repair.kind for repair in converted.repairs]
    assert LONG_NAME.encode() not in converted.body


def test_a_content_with_calls_follows_no_other_content_of_the_model() -> None:
    contents = [
        {"role": "user", "parts": [{"text": "Hello."}]},
        {"role": "model", "parts": [{"text": "I will look."}]},
        {"role": "model", "parts": [{"text": "Now."}, {"functionCall": {"name": "look", "args": {}}}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "look", "response": {"output": "x"}}}]},
    ]
    sent = convert({"contents": contents}, to="gemini", source="gemini").request
    assert [content["role"] for content in sent["contents"]] == ["user", "model", "user"]
    assert [part.get("text") for part in sent["contents"][1]["parts"]] == ["I will look.", "Now.", None]


@pytest.mark.parametrize(
    ("dialect", "field", "model"),
    [("mistral", "reasoning_effort", "mistral-large-latest"), ("ollama", "think", "llama3.2")],
)
def test_thinking_that_was_asked_of_another_model_is_left_to_what_is_known_of_this_one(
    dialect: str, field: str, model: str
) -> None:
    body = {"model": "another", field: "high", "messages": [{"role": "user", "content": "Hello."}]}
    assert field not in convert(body, to=dialect, source=dialect, model=model).request
    assert convert({**body, "model": model}, to=dialect, source=dialect).request[field] == "high"


@pytest.mark.parametrize("to", ["openrouter", "groq", "vllm", "deepseek", "kimi"])
def test_json_mode_means_the_same_at_every_server_of_the_chat_wire(to: str) -> None:
    body = {
        "model": "gpt-4.1",
        "messages": [{"role": "user", "content": "Answer in JSON."}],
        "response_format": {"type": "json_object"},
    }
    converted = convert(body, to=to, source="openai_chat", model="m")
    assert converted.request["response_format"] == {"type": "json_object"}
    assert "response_format" not in [repair.path for repair in converted.repairs]

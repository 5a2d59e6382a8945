"""Requests that their own provider refuses, repaired for it: each is accepted then, its repair reported, and made once."""

from __future__ import annotations

import json
from typing import Any

import pytest

from laws.emulated import complaints_about
from segue.dialects.registry import DIALECTS
from segue.interop.convert import Converted, convert
from segue.interop.doctor import examine, fix_transcript
from segue.interop.source import read_request
from strategies.odd_messages import IMAGE

GO: dict[str, Any] = {"role": "user", "content": "go"}
NEXT: dict[str, Any] = {"role": "user", "content": "next"}
PICTURE = f"data:image/png;base64,{IMAGE}"


def called(arguments: Any = "{}", **others: Any) -> dict[str, Any]:
    call = {"id": "call_a", "type": "function", "function": {"name": "f", "arguments": arguments}, **others}
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{name: value for name, value in call.items() if value is not ...}],
    }


def chat(*messages: Any) -> dict[str, Any]:
    return {"model": "gpt-4.1", "messages": [GO, *messages, NEXT]}


def result(content: Any, **others: Any) -> dict[str, Any]:
    held = {"role": "tool", "tool_call_id": "call_a", "content": content, **others}
    return {name: value for name, value in held.items() if value is not ...}


def anthropic(used: dict[str, Any], done: dict[str, Any], **others: Any) -> dict[str, Any]:
    use = {"type": "tool_use", "id": "toolu_a", "name": "f", "input": {}, **used}
    ended = {"type": "tool_result", "tool_use_id": "toolu_a", "content": "R1", **done}
    return {
        "model": "claude-sonnet-4-6",
        "max_tokens": 10,
        "messages": [
            GO,
            {"role": "assistant", "content": [{name: held for name, held in use.items() if held is not ...}]},
            {
                "role": "user",
                "content": [{name: held for name, held in ended.items() if held is not ...}],
            },
        ],
        **others,
    }


def gemini(response: Any, **others: Any) -> dict[str, Any]:
    return {
        "model": "gemini-2.5-flash",
        "contents": [
            {"role": "user", "parts": [{"text": "go"}]},
            {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {}}}]},
            {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": response}}]},
        ],
        **others,
    }


def responses(*items: Any) -> dict[str, Any]:
    return {"model": "gpt-5.5", "store": False, "input": [GO, *items, NEXT]}


def item(**others: Any) -> dict[str, Any]:
    held = {"type": "function_call", "call_id": "call_a", "name": "f", "arguments": "{}", **others}
    return {name: value for name, value in held.items() if value is not ...}


ENDED = {"type": "function_call_output", "call_id": "call_a", "output": "R1"}
CASES: dict[str, tuple[str, dict[str, Any], str]] = {
    "no ids": ("openai_chat", chat(called(id=...), result("R1", tool_call_id=...)), "field_corrected"),
    "null ids": ("openai_chat", chat(called(id=None), result("R1", tool_call_id=None)), "field_corrected"),
    "numbers as ids": ("openai_chat", chat(called(id=7), result("R1", tool_call_id=7)), "field_corrected"),
    "empty ids": ("openai_chat", chat(called(id=""), result("R1", tool_call_id="")), "field_corrected"),
    "arguments that are an object": ("openai_chat", chat(called({"q": 1}), result("R1")), "field_corrected"),
    "arguments that are a list": ("openai_chat", chat(called([1]), result("R1")), "arguments_wrapped"),
    "no arguments": ("openai_chat", chat(called(None), result("R1")), "field_corrected"),
    "a result of null": ("openai_chat", chat(called(), result(None)), "field_corrected"),
    "an empty list as result": ("openai_chat", chat(called(), result([])), "field_corrected"),
    "content of null": ("openai_chat", chat({"role": "user", "content": None}), "field_corrected"),
    "a file that is none": (
        "openai_chat",
        chat({"role": "user", "content": [{"type": "file", "file": {"filename": "a.pdf"}}]}),
        "fields_dropped",
    ),
    "an image in a result": (
        "openai_chat",
        chat(
            called(),
            result([{"type": "text", "text": "R1"}, {"type": "image_url", "image_url": {"url": PICTURE}}]),
        ),
        "media_moved",
    ),
    "calls in a tool's message": (
        "openai_chat",
        chat(
            called(),
            result("R1", tool_calls=[{**called()["tool_calls"][0], "id": "call_b"}]),
            result("R2", tool_call_id="call_b"),
        ),
        "speaker_corrected",
    ),
    "reasoning in a user's message": (
        "openai_chat",
        chat({"role": "user", "content": "x", "reasoning_content": "So."}),
        "fields_dropped",
    ),
    "blank reasoning": (
        "kimi",
        {
            "model": "kimi-k2.6",
            "messages": [
                GO,
                {**called(), "content": "Reading.", "reasoning_content": ""},
                result("ok"),
                NEXT,
            ],
        },
        "reasoning_filled",
    ),
    "a name without a word": (
        "kimi",
        {"model": "kimi-k2.6", "messages": [{"role": "user", "name": "Ann", "content": ""}]},
        "blank_text",
    ),
    "two replies in a row": (
        "kimi",
        {
            "model": "kimi-k2.6",
            "messages": [GO, {"role": "assistant", "content": "Wait."}, called(), result("R1"), NEXT],
        },
        "reasoning_filled",
    ),
    "a developer": (
        "deepseek",
        {"model": "deepseek-v4-pro", "messages": [{"role": "developer", "content": "Be kind."}, GO]},
        "field_corrected",
    ),
    "a result whose call is null": (
        "openai_chat",
        chat({"role": "assistant", "content": "I will.", "tool_calls": None}, result("R1")),
        "call_reconstructed",
    ),
    "an id that only the result has": (
        "gemini",
        {
            "model": "gemini-2.5-flash",
            "contents": [
                {"role": "user", "parts": [{"text": "go"}]},
                {"role": "model", "parts": [{"functionCall": {"name": "f"}}]},
                {
                    "role": "user",
                    "parts": [{"functionResponse": {"id": "a", "name": "f", "response": {"output": "R1"}}}],
                },
            ],
        },
        "",
    ),
    "a foreign key": ("anthropic", anthropic({"index": 0}, {}), "fields_dropped"),
    "a mark that is none": ("anthropic", anthropic({}, {"cache_control": 5}), "field_corrected"),
    "a use without an id": ("anthropic", anthropic({"id": ...}, {}), "field_corrected"),
    "a use without input": ("anthropic", anthropic({"input": ...}, {}), "field_corrected"),
    "input as text": ("anthropic", anthropic({"input": '{"q": 1}'}, {}), "field_corrected"),
    "an error that is no flag": ("anthropic", anthropic({}, {"is_error": "no"}), "fields_dropped"),
    "a new setting": ("anthropic", anthropic({}, {}, newer=1), "option_not_sent"),
    "a foreign key in the system prompt": (
        "anthropic",
        anthropic({}, {}, system=[{"type": "text", "text": "Be kind.", "index": 1}]),
        "fields_dropped",
    ),
    "a result that says nothing": ("anthropic", anthropic({}, {"is_error": False, "content": ...}), ""),
    "a call without a signature, its keys in another order": (
        "gemini",
        {
            "model": "gemini-3.5-flash",
            "contents": [
                {"role": "user", "parts": [{"text": "go"}]},
                {"role": "model", "parts": [{"functionCall": {"args": {}, "name": "f"}}]},
                {
                    "role": "user",
                    "parts": [{"functionResponse": {"name": "f", "response": {"output": "R1"}}}],
                },
            ],
        },
        "call_seal_filled",
    ),
    "a call without a role": (
        "gemini",
        {
            "model": "gemini-2.5-flash",
            "contents": [
                {"role": "user", "parts": [{"text": "go"}]},
                {"parts": [{"functionCall": {"name": "f", "args": {}}}]},
                {
                    "role": "user",
                    "parts": [{"functionResponse": {"name": "f", "response": {"output": "R1"}}}],
                },
            ],
        },
        "speaker_corrected",
    ),
    "a response of text": ("gemini", gemini("R1"), "field_corrected"),
    "a system prompt of text": (
        "gemini",
        gemini({"output": "R1"}, systemInstruction="Be kind."),
        "field_corrected",
    ),
    "a foreign key in a tool": (
        "gemini",
        gemini({"output": "R1"}, tools=[{"functionDeclarations": [{"name": "f", "index": 1}]}]),
        "fields_dropped",
    ),
    "the id of another family": ("openai_responses", responses(item(id="item_1"), ENDED), "field_corrected"),
    "an id of a number": ("openai_responses", responses(item(id=5), ENDED), "field_corrected"),
    "no call id": (
        "openai_responses",
        responses(item(call_id=...), {**ENDED, "call_id": None}),
        "field_corrected",
    ),
    "output of null": ("openai_responses", responses(item(), {**ENDED, "output": None}), "field_corrected"),
    "output that is an object": (
        "openai_responses",
        responses(item(), {**ENDED, "output": {"a": 1}}),
        "field_corrected",
    ),
    "a thought with a state": (
        "openai_responses",
        responses({"type": "reasoning", "summary": [], "status": "completed", "id": "rs_1"}),
        "field_corrected",
    ),
    "a thought that nobody keeps": (
        "openai_responses",
        responses({"type": "reasoning", "id": "rs_1", "summary": []}, {"role": "assistant", "content": "x"}),
        "reasoning_dropped",
    ),
    "a part of another wire": (
        "openai_responses",
        responses({"role": "user", "content": [{"type": "text", "text": "x"}]}),
        "field_corrected",
    ),
    "arguments as text": (
        "ollama",
        {
            "model": "qwen3",
            "messages": [
                GO,
                {
                    "role": "assistant",
                    "content": "",
                    "tool_calls": [{"function": {"name": "f", "arguments": '{"q": 1}'}}],
                },
                {"role": "tool", "tool_name": "f", "content": "R1"},
            ],
        },
        "field_corrected",
    ),
    "content in parts": (
        "ollama",
        {"model": "qwen3", "messages": [{"role": "user", "content": [{"type": "text", "text": "go"}]}]},
        "field_corrected",
    ),
    "an unknown key at Mistral": (
        "mistral",
        {"model": "mistral-large-latest", "messages": [{**GO, "status": "completed"}]},
        "fields_dropped",
    ),
    "a call without an id at Mistral": (
        "mistral",
        {
            "model": "mistral-large-latest",
            "messages": [GO, {**called(id=...), "content": ""}, result("R1", tool_call_id=None, name="f")],
        },
        "field_corrected",
    ),
}


TAKEN = {"blank reasoning", "empty ids", "a result that says nothing", "a call without a role"}
"""What the provider takes, but others do not, or we once made worse of it."""


def _converted(case: str) -> Converted:
    wire, body, _ = CASES[case]
    return convert(body, to=wire, source=wire)


def _refusals(body: Any, wire: str, model: str) -> list[str]:
    sent = {name: value for name, value in body.items() if name != "model"} if wire == "gemini" else body
    return complaints_about(sent, wire, model, strict=True)


@pytest.mark.parametrize("case", CASES)
def test_what_is_refused_is_accepted_when_it_is_repaired(case: str) -> None:
    wire, body, kind = CASES[case]
    if case not in TAKEN:
        assert _refusals(body, wire, body["model"])
    converted = _converted(case)
    assert _refusals(converted.request, wire, body["model"]) == []
    assert not kind or kind in {repair.kind for repair in converted.repairs}


@pytest.mark.parametrize("case", CASES)
def test_a_repaired_request_needs_no_repair(case: str) -> None:
    wire, body, _ = CASES[case]
    once = _converted(case)
    twice = convert(once.request, to=wire, source=wire, model=body["model"])
    assert twice.body == once.body
    assert twice.repairs == ()


@pytest.mark.parametrize("case", CASES)
def test_the_doctor_names_the_fault_and_writes_what_is_accepted(case: str) -> None:
    wire, body, _ = CASES[case]
    source = read_request(body, wire)
    assert examine(source).diagnoses[0].findings or not CASES[case][2]
    form, fixed = fix_transcript(source)
    assert form == wire
    assert _refusals(json.loads(fixed), wire, body["model"]) == []


def test_a_picture_is_there_once() -> None:
    assert _converted("an image in a result").body.count(IMAGE.encode()) == 1


def test_no_text_is_lost_in_a_repair() -> None:
    for case in CASES:
        for text in (b"R1", b"Reading.", b"Be kind."):
            if text in json.dumps(CASES[case][1]).encode():
                assert text in _converted(case).body, case


def test_a_field_that_is_new_to_us_stays_where_the_request_is_only_read() -> None:
    body = {**anthropic({"newer": 1}, {}), "newer": 2}
    read = DIALECTS["anthropic"].decode_request(body)
    assert read.repairs == ()
    assert read.options.own is not None
    assert read.options.own.fields["newer"] == 2
    assert read.messages[1].blocks[0].extra is not None
    assert read.messages[1].blocks[0].extra.fields == {"newer": 1}


def test_a_word_that_is_new_to_us_stays_as_long_as_somebody_can_try_again() -> None:
    body = responses(item(status="paused"), ENDED)
    assert DIALECTS["openai_responses"].decode_request(body).repairs == ()
    converted = convert(body, to="openai_responses", source="openai_responses")
    assert [repair.path for repair in converted.repairs] == ["input[1].status"]


def test_half_a_character_stops_no_repair_on_the_wire_that_it_came_on() -> None:
    call = {"function": {"name": "look", "arguments": {"city": "\ud83d"}}}
    said = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "", "tool_calls": [call]}]
    body = {"model": "qwen3", "messages": [*said, {"role": "tool", "content": "sun", "tool_name": "look"}]}
    _, fixed = fix_transcript(read_request(body, "ollama", to="ollama"), ("ollama",))
    assert "\ufffd" in fixed.decode()

"""Own wire: what convert and the doctor write for the wire that a request came on is accepted there, and stays as it is.

`make own-wire` breaks recorded requests of every wire with a fresh seed (CASES=, SEED=); the suite takes a sample, and the
histories that clients send.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from functools import cache
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laws.emulated import EMULATED, complaints_about
from laws.real_chats import real_requests
from laws.real_wire_requests import CORPUS, accepted_requests, client_requests
from segue.dialects.registry import DIALECTS
from segue.errors import TranscriptError
from segue.interop.convert import convert
from segue.interop.doctor import examine, fix_transcript
from segue.interop.source import read_request
from segue.providers.models.cards import default_model
from strategies.broken_requests import MESSAGES, broken, items_of
from strategies.client_histories import SPELLERS, THINKING_CHAT, client_moves

CASES = int(os.environ.get("SEGUE_OWN_WIRE", "0")) or 60
SEED = os.environ.get("SEGUE_OWN_WIRE_SEED", "1")
EXAMPLES = max(12, settings().max_examples * 2 // 5)
BY_ASKING = ("RESP-46", "ANT-55", "GEM-23", "RESP-51", "RESP-66", "CHAT-70", "AWS-10")
"""Seals of another account, models and windows that the emulator knows otherwise: the request alone does not show them."""
_CHAT = ("kimi", "deepseek")
"""Servers of the Chat wire: their requests are those of OpenAI's clients, without its settings."""
_SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}


def refusals(body: Any, wire: str, model: str) -> list[str]:
    """What the wire's own provider has against a request."""
    sent = {name: value for name, value in body.items() if name != "model"} if wire == "gemini" else body
    complaints = complaints_about(sent, wire, model, strict=True)
    return [one for one in complaints if not one.startswith(BY_ASKING)]


def is_refused(body: Any, wire: str, model: str) -> bool:
    try:
        return bool(refusals(body, wire, model))
    except (
        UnicodeEncodeError,
        TypeError,
        KeyError,
        AttributeError,
    ):  # no emulator reads such a body without its server
        return False


def check(wire: str, body: dict[str, Any]) -> bool:
    """Whether the request can be read; what is then written for its wire must be taken there, and be written so again."""
    model = body["model"]
    try:
        source = read_request(body, wire, model=model, to=wire)
        done = convert(body, to=wire, source=wire, model=model)
    except TranscriptError as error:
        assert error.path, error
        return False
    assert refusals(done.request, wire, model) == []
    again = convert(done.request, to=wire, source=wire, model=model)
    assert again.body == done.body
    assert again.repairs == ()
    _, fixed = fix_transcript(source, (wire,), model=model)
    assert refusals(json.loads(fixed), wire, model) == []
    assert (
        fix_transcript(read_request(json.loads(fixed), wire, model=model, to=wire), (wire,), model=model)[1]
        == fixed
    )
    if is_refused(body, wire, model):
        assert done.request != body, "what was refused and is accepted now was changed"
    if {repair.kind for repair in done.repairs} & {"field_corrected", "fields_dropped"}:
        assert examine(source, (wire,), model=model).diagnoses[0].errors
    return True


# Recorded requests


@cache
def healthy(wire: str) -> Sequence[dict[str, Any]]:
    """Recorded requests of a wire that its emulator takes as they are."""
    model = default_model(wire)
    bodies = []
    for request in (*client_requests(), *accepted_requests(one_in=3)):
        if request.dialect == wire:
            bodies.append({**request.body, "model": model})
        elif wire == "converse" and request.dialect == "anthropic":  # none of its own are recorded
            bodies.append(convert(request.body, to=wire, source="anthropic", model=model).request)
        elif (
            wire == "gemini_interactions"
            and request.dialect == "gemini"
            and "cachedContent" not in request.body
        ):
            bodies.append(convert(request.body, to=wire, source="gemini", model=model).request)
        elif wire in _CHAT and request.dialect == "openai_chat":
            bodies.append(
                {name: request.body[name] for name in ("messages", "tools") if name in request.body}
            )
    for _, dialect, field, messages in real_requests(one_in=7):
        if dialect == ("openai_chat" if wire in (*_CHAT, "mistral") else wire):
            bodies.append({field: messages, **({"max_tokens": 100} if wire == "anthropic" else {})})
    named = [{**body, "model": model} for body in bodies if items_of(wire, body) and len(str(body)) < 60_000]
    return [body for body in named if not refusals(body, wire, model)]


@pytest.mark.skipif(not CORPUS.exists(), reason="the corpus is not here")
@pytest.mark.parametrize("wire", EMULATED)
def test_a_recorded_request_that_was_broken_is_accepted_by_its_own_wire(wire: str) -> None:
    bodies = healthy(wire)
    read = 0
    for number in range(CASES):
        random = Random(f"{SEED}.{wire}.{number}")
        body, faults = broken(random, wire, random.choice(bodies))
        try:
            read += check(wire, body)
        except AssertionError as error:
            error.add_note(f"{wire}, case {SEED}.{number}: {faults}")
            raise
    assert read > CASES // 2


@pytest.mark.skipif(not CORPUS.exists(), reason="the corpus is not here")
@pytest.mark.parametrize("wire", EMULATED)
def test_a_healthy_request_comes_back_without_a_correction(wire: str) -> None:
    for body in healthy(wire):
        kinds = {repair.kind for repair in convert(body, to=wire, source=wire, model=body["model"]).repairs}
        assert not kinds & {"field_corrected", "fields_dropped"}, body


# Generated ones


def _request(wire: str, items: list[Any]) -> dict[str, Any]:
    body: dict[str, Any] = {"model": default_model(wire), MESSAGES.get(wire, "messages"): items}
    if wire == "anthropic":
        tools: list[Any] = [{"name": "weather", "input_schema": _SCHEMA}]
        return {**body, "max_tokens": 100, "tools": tools}
    function = {"name": "weather", "description": "The weather.", "parameters": _SCHEMA}
    if wire == "gemini":
        return {**body, "tools": [{"functionDeclarations": [function]}]}
    if wire in ("openai_responses", "gemini_interactions"):
        return {**body, "tools": [{"type": "function", **function}]}
    if wire == "converse":
        spec = {"name": "weather", "description": "The weather.", "inputSchema": {"json": _SCHEMA}}
        return {**body, "toolConfig": {"tools": [{"toolSpec": spec}]}}
    return {**body, "tools": [{"type": "function", "function": function}]}


@pytest.mark.parametrize("wire", EMULATED)
@settings(max_examples=EXAMPLES)
@given(data=st.data())
def test_whatever_a_client_sends_is_accepted_by_its_own_wire(wire: str, data: st.DataObject) -> None:
    moves = data.draw(client_moves(seals=True))
    body = _request(wire, (THINKING_CHAT if wire in _CHAT else SPELLERS[wire])(moves))
    if data.draw(st.booleans()):
        body, _ = broken(data.draw(st.randoms(use_true_random=False)), wire, body)
    check(wire, body)


# Found by the laws


_REFUSED = {"role": "assistant", "content": None, "refusal": "I will not."}
_BESIDE: tuple[dict[str, Any], ...] = (
    _REFUSED,
    {**_REFUSED, "content": ""},
    {**_REFUSED, "content": " "},
    {**_REFUSED, "content": [{"type": "text", "text": ""}]},
    {**_REFUSED, "reasoning_content": "Hm."},
    {"role": "assistant", "refusal": "I will not."},
    {"role": "assistant", "content": [{"type": "refusal", "refusal": "I will not."}]},
    {"role": "assistant", "content": None, "audio": {"id": "audio_1", "transcript": "I will not."}},
)


@pytest.mark.parametrize("wire", ["openai_chat", *_CHAT])
@pytest.mark.parametrize("reply", _BESIDE)
def test_words_beside_an_empty_content_reach_the_model_of_their_own_wire(
    wire: str, reply: dict[str, Any]
) -> None:
    body = _request(wire, [{"role": "user", "content": "Do it."}, reply, {"role": "user", "content": "Oh."}])
    assert check(wire, body)
    done = convert(body, to=wire, source=wire, model=body["model"])
    assert "I will not." in json.dumps(done.request["messages"][1])
    assert done.repairs or done.request == body
    if wire in _CHAT:  # whose servers refuse a message without content
        assert done.request["messages"][1]["content"] in (
            "I will not.",
            [{"type": "text", "text": "I will not."}],
        )
        assert done.repairs


@pytest.mark.parametrize("wire", ["openai_chat", *_CHAT])
@pytest.mark.parametrize("place", [0, 1])
def test_the_name_of_an_instruction_is_not_written_into_its_text(wire: str, place: int) -> None:
    messages: list[Any] = [{"role": "user", "content": "Hi."}]
    messages.insert(place, {"role": "system", "name": "Ann", "content": "Be kind."})
    done = convert(_request(wire, messages), to=wire, source=wire, model=default_model(wire))
    assert done.request["messages"] == messages
    assert done.repairs == ()


_CALL = {"id": "functions.weather:0", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
_SAID = {"role": "assistant", "content": "Here."}
_THOUGHT = {**_SAID, "reasoning_content": "Hm."}
_CALLED = {**_SAID, "tool_calls": [_CALL]}
_DONE = {"role": "tool", "tool_call_id": "functions.weather:0", "content": "rain"}


_CALLED_AGAIN = {**_SAID, "tool_calls": [{**_CALL, "id": "functions.weather:1"}]}
_DONE_AGAIN = {**_DONE, "tool_call_id": "functions.weather:1"}


@pytest.mark.parametrize("wire", _CHAT)
@pytest.mark.parametrize(
    "replies",
    [
        [_SAID, _THOUGHT],
        [_THOUGHT, _SAID],
        [_THOUGHT, _CALLED, _DONE],
        [_SAID, _THOUGHT, _CALLED, _DONE],
        [_SAID, {**_CALLED, "reasoning_content": "Hm."}, _DONE, _SAID],
        [{**_CALLED, "reasoning_content": "Hm."}, _DONE, _THOUGHT, _CALLED_AGAIN, _DONE_AGAIN],
        [
            *({**_CALLED, "reasoning_content": "Hm."}, _DONE, _THOUGHT, _CALLED_AGAIN, _DONE_AGAIN),
            *(_THOUGHT, {**_CALLED, "tool_calls": [{**_CALL, "id": "functions.weather:2"}]}),
            {**_DONE, "tool_call_id": "functions.weather:2"},
        ],
    ],
)
def test_each_message_of_several_has_the_thought_that_its_own_wire_insists_on(
    wire: str, replies: list[dict[str, Any]]
) -> None:
    asked = {"role": "user", "content": "Hi."}
    body = _request(wire, [asked, *replies, asked])
    assert check(wire, body)
    done = convert(body, to=wire, source=wire, model=body["model"])
    assert [message["content"] for message in done.request["messages"]] == [
        message["content"] for message in body["messages"]
    ]


@pytest.mark.parametrize("wire", _CHAT)
def test_a_text_behind_calls_joins_the_message_with_their_thought(wire: str) -> None:
    called = {"role": "assistant", "content": None, "reasoning_content": "Hm.", "tool_calls": [_CALL]}
    asked = {"role": "user", "content": "Hi."}
    body = _request(wire, [asked, called, _SAID, _DONE])
    assert check(wire, body)
    done = convert(body, to=wire, source=wire, model=body["model"])
    assert done.request["messages"] == [asked, {**called, "content": "Here."}, _DONE]
    assert [repair.kind for repair in done.repairs] == ["calls_reordered"]

    marked = convert(
        {**body, "messages": [asked, called, {**_SAID, "newer_than_this": 1}, _DONE]}, to=wire, source=wire
    )
    assert marked.request["messages"] == done.request["messages"]
    assert [repair.kind for repair in marked.repairs] == ["calls_reordered", "fields_dropped"]


def test_a_step_of_the_provider_that_came_twice_goes_back_once_and_is_text_again() -> None:
    searched = [
        {"type": "google_search_call", "id": "s1", "arguments": {"queries": ["a"]}},
        {"type": "google_search_result", "call_id": "s1", "result": [{"title": "b"}]},
    ]
    asked = {"type": "user_input", "content": [{"type": "text", "text": "Hi."}]}
    body = _request("gemini_interactions", [asked, *searched, asked, *searched])
    assert check("gemini_interactions", body)
    done = convert(body, to="gemini_interactions", source="gemini_interactions", model=body["model"])
    assert done.request["input"][:4] == [asked, *searched, asked]
    again = done.request["input"][4:]
    assert [step["type"] for step in again] == ["model_output", "model_output"]
    assert [part["type"] for step in again for part in step["content"]] == ["text", "text"]


@pytest.mark.parametrize(
    ("wire", "part"),
    [
        ("kimi", {"image_url": {"url": "https://example.invalid/cat.png"}}),
        ("deepseek", {"newer_than_this": 1}),
        ("converse", {"image": {"format": "png", "source": {"bytes": ""}}}),
        ("converse", {"document": {"name": "a", "format": "pdf", "source": {"bytes": ""}}}),
        ("converse", {"audio": {"id": "audio_1"}}),
    ],
)
def test_a_part_that_says_nothing_to_its_own_wire_is_dropped_and_reported(
    wire: str, part: dict[str, Any]
) -> None:
    text = {"text": "Look."} if wire == "converse" else {"type": "text", "text": "Look."}
    body = _request(wire, [{"role": "user", "content": [text, part]}])
    assert check(wire, body)
    done = convert(body, to=wire, source=wire, model=body["model"])
    assert done.request["messages"][0]["content"] == [text]
    assert done.repairs


def test_every_wire_has_a_table_of_what_it_takes() -> None:
    for dialect in DIALECTS.values():
        assert dialect.messages_field in dialect.shape.known  # type: ignore[attr-defined]

"""Law: every fast path gives what the slow path gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.conversation.blocks import ToolResult
from segue.conversation.extra import Extra
from segue.conversation.interaction import Interaction, Ledger
from segue.conversation.message import Conversation, Message
from segue.conversation.options import Options
from segue.conversation.tools import Named, ToolSpec
from segue.dialects.card import UNKNOWN, ModelCard
from segue.dialects.plan import PlanState, plan, repairs_of_plan
from segue.dialects.registry import DIALECTS
from segue.errors import TranscriptError
from segue.transcript.adopt import adopt
from segue.transcript.composer import Composer
from segue.transcript.fast import fast_paths
from segue.transcript.policy import DEFAULT
from segue.transcript.render import _as_a_whole, render
from segue.transcript.repairs import Repair
from segue.transcript.rules import Rules
from strategies.broken_requests import broken
from strategies.client_histories import SPELLERS, client_moves
from strategies.fast_cases import (
    HEALTHY,
    anthropic_messages,
    chat_messages,
    foreign_histories,
    gemini_contents,
    nearly_healthy,
    own_histories,
    responses_items,
)
from strategies.histories import conversations
from strategies.targets import TARGETS, Replay, for_every_target

T = TypeVar("T")


def both(function: Callable[[], T]) -> tuple[T, T]:
    """What a function gives with fast paths and without."""
    fast = function()
    with fast_paths.disabled():
        assert not fast_paths.enabled()
        return fast, function()


@given(conversations(TARGETS["openai_chat"]))
def test_any_history_is_adopted_alike(conversation: Conversation) -> None:
    fast, slow = both(lambda: adopt(conversation.messages, system="s", dialect="d"))
    assert fast == slow


@given(foreign_histories())
def test_a_history_in_good_order_is_adopted_alike(messages: list[Message]) -> None:
    fast, slow = both(lambda: adopt(messages, system="s", dialect="d"))
    assert fast == slow


@pytest.mark.requirement("REQ-915-010")
@given(data=st.data())
@for_every_target
def test_a_history_is_rendered_alike(rules: Rules, data: Replay) -> None:
    conversation = data.draw(own_histories(rules))
    ledger = None
    if data.draw(st.booleans()):
        known = data.draw(st.sampled_from(["x", "better", None]))
        calls = {call.id: call for message in conversation.messages for call in message.calls if call.id}
        ledger = Ledger(Interaction(call, ToolResult(call.id, call.name, known)) for call in calls.values())
    fast, slow = both(lambda: render(conversation, ledger, rules))
    whole = _as_a_whole(conversation, Composer(rules, DEFAULT, ledger))
    assert fast.steps == slow.steps == whole.steps
    assert fast.repairs == slow.repairs == whole.repairs


@given(data=st.data())
@for_every_target
def test_a_request_is_written_alike(rules: Rules, data: Replay) -> None:
    transcript = render(data.draw(own_histories(rules)), None, rules)
    dialect, options = DIALECTS[rules.target.dialect], Options(model="m")
    fast, slow = both(lambda: dialect.encode_request(transcript, (), options, UNKNOWN))
    assert (fast.body, fast.before_reply, fast.is_linked) == (slow.body, slow.before_reply, slow.is_linked)


TOOLS = (
    ToolSpec("read", "Reads.", {"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}}),
    ToolSpec("a tool!", "", None, strict=True),
)
SETTINGS = st.builds(
    Options,
    model=st.just("m"),
    max_tokens=st.sampled_from([None, 9]),
    top_k=st.sampled_from([None, 3]),
    repeat_penalty=st.sampled_from([None, 1.5]),
    tool_choice=st.sampled_from([None, "required", Named("read")]),
    parallel_calls=st.sampled_from([None, False]),
    effort=st.sampled_from([None, "none", "max"]),
    own=st.sampled_from([None, Extra("anthropic", {"later": 1}), Extra("openai_chat", {"logit_bias": {}})]),
)


@given(data=st.data())
@for_every_target
def test_the_repairs_of_a_plan_are_known_without_writing_its_messages(rules: Rules, data: Replay) -> None:
    def planned(one: Conversation, previous: PlanState | None) -> tuple[Repair, ...]:
        return plan(
            one, None, target=target, card=card, tools=tools, options=options, previous=previous
        ).repairs

    def checked(one: Conversation, previous: PlanState | None) -> tuple[tuple[Repair, ...], PlanState]:
        return repairs_of_plan(
            one, None, target=target, card=card, tools=tools, options=options, previous=previous
        )

    target, options = rules.target, data.draw(SETTINGS)
    conversation = data.draw(st.one_of(own_histories(rules), conversations(rules)))
    card = data.draw(st.sampled_from([UNKNOWN, ModelCard(forced_choice=False, images=False)]))
    tools = data.draw(st.sampled_from([(), TOOLS]))
    whole = planned(conversation, None)
    repairs, state = checked(conversation, None)
    assert repairs == whole
    longer = conversation.append(*data.draw(st.one_of(own_histories(rules), conversations(rules))).messages)
    assert checked(longer, state)[0] == planned(longer, None) == planned(longer, state)


def decoded(name: str, field: str, messages: list[dict[str, Any]]) -> object:
    """The request, or the error that it is refused with."""
    try:
        return DIALECTS[name].decode_request({"model": "m", field: messages})
    except TranscriptError as error:
        return error.as_dict()


@given(st.lists(anthropic_messages(), max_size=3))
def test_messages_of_anthropic_are_decoded_alike(messages: list[dict[str, Any]]) -> None:
    fast, slow = both(lambda: decoded("anthropic", "messages", messages))
    assert fast == slow


@given(st.lists(gemini_contents(), max_size=3))
def test_contents_of_gemini_are_decoded_alike(contents: list[dict[str, Any]]) -> None:
    fast, slow = both(lambda: decoded("gemini", "contents", contents))
    assert fast == slow


@given(st.lists(responses_items(), max_size=4))
def test_items_of_the_responses_wire_are_decoded_alike(items: list[dict[str, Any]]) -> None:
    fast, slow = both(lambda: decoded("openai_responses", "input", items))
    assert fast == slow


@given(st.lists(chat_messages(), max_size=3))
def test_messages_of_the_chat_wire_are_decoded_alike(messages: list[dict[str, Any]]) -> None:
    fast, slow = both(lambda: decoded("openai_chat", "messages", messages))
    assert fast == slow


_SERVERS = ("deepseek", "groq", "kimi", "openai_compatible", "openrouter", "qwen")
"""Of the Chat wire, each with rules of its own."""


@pytest.mark.parametrize("wire", [*HEALTHY, *_SERVERS])
@given(data=st.data())
def test_messages_with_a_single_change_are_decoded_alike(wire: str, data: st.DataObject) -> None:
    messages = data.draw(nearly_healthy("openai_chat" if wire in _SERVERS else wire))
    fast, slow = both(lambda: decoded(wire, DIALECTS[wire].messages_field, messages))
    assert fast == slow
    assert repr(fast) == repr(slow)  # tells 1 from 1.0 and true, and the order of fields


_GENERAL = {
    "anthropic": "anthropic_messages.read_messages._read_message",
    "openai_chat": "openai_chat.request.read_message",
    "openai_responses": "openai_responses.read_items._decode_item",
    "gemini": "gemini.request.read_content",
}


@pytest.mark.parametrize("wire", HEALTHY)
def test_healthy_messages_need_no_general_reader(wire: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the law above would compare the general reader with itself."""

    def refuse(*_args: object, **_named: object) -> None:
        raise AssertionError("the general reader was asked")

    monkeypatch.setattr(f"segue.dialects.{_GENERAL[wire]}", refuse)
    for message in HEALTHY[wire]:
        decoded(wire, DIALECTS[wire].messages_field, [message])
    with fast_paths.disabled(), pytest.raises(AssertionError, match="general reader"):
        decoded(wire, DIALECTS[wire].messages_field, [HEALTHY[wire][0]])


@pytest.mark.parametrize("wire", SPELLERS)
@given(data=st.data())
def test_whatever_a_client_sends_is_decoded_alike(wire: str, data: st.DataObject) -> None:
    field = DIALECTS[wire].messages_field
    body: dict[str, Any] = {field: SPELLERS[wire](data.draw(client_moves(seals=True, max_size=4)))}
    if data.draw(st.booleans()):
        body, _ = broken(data.draw(st.randoms(use_true_random=False)), wire, body)
    fast, slow = both(lambda: decoded(wire, field, body[field]))
    assert fast == slow


_NAMELESS_CALL: Mapping[str, list[dict[str, Any]]] = {
    "openai_chat": [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": "", "content": "done"},
    ],
    "openai_responses": [
        {"type": "function_call", "call_id": "", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "", "output": "done"},
    ],
    "anthropic": [
        {"role": "assistant", "content": [{"type": "tool_use", "id": "", "name": "f", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "", "content": "done"}]},
    ],
}


@pytest.mark.parametrize("wire", _NAMELESS_CALL)
def test_an_empty_id_is_reported_alike(wire: str) -> None:
    for message in _NAMELESS_CALL[wire]:
        fast, slow = both(partial(decoded, wire, DIALECTS[wire].messages_field, [message]))
        assert fast == slow

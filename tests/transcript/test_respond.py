"""Replies of one provider for a client of another: ids, names, seals, order, ends."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest

from segue.conversation.blocks import Media, Origin, Reasoning, ToolCall
from segue.conversation.events import (
    ArgumentsDelta,
    CallStarted,
    Event,
    Failed,
    Finished,
    MediaArrived,
    ReasoningDelta,
    Reply,
    ReplyStarted,
    Sealed,
    TextDelta,
    UsageReported,
    fold,
)
from segue.conversation.tools import ToolSpec
from segue.conversation.usage import Usage
from segue.dialects.registry import DIALECTS, NAMES
from segue.transcript.client_wire import ClientRequest
from segue.transcript.respond import EMPTY, CallIds, Responder

WIRES = ("openai_chat", "openai_responses", "anthropic", "gemini", "mistral", "ollama", "kimi", "converse")


def responder(client: str, maker: str = "gemini", *, nonce: str = "n", **fields: Any) -> Responder:
    request = {
        name: fields.pop(name) for name in ("used_ids", "names", "minted", "model", "tools") if name in fields
    }
    return Responder(
        ClientRequest(wire=DIALECTS[client].client, nonce=nonce, **request), Origin(maker), **fields
    )


def answered(made: Responder, events: Iterable[Event]) -> list[Event]:
    return [sent for event in events for sent in made.feed(event)] + made.close()


def called(*calls: tuple[str, str, str], finish: str = "tool_calls") -> list[Event]:
    events: list[Event] = [ReplyStarted("r", "m")]
    for index, (native_id, name, arguments) in enumerate(calls):
        events += [CallStarted(index, native_id, name), ArgumentsDelta(index, arguments)]
    return [*events, Finished("tool_calls", finish)]


def reply_for(client: str, events: list[Event], **fields: Any) -> Reply:
    return fold(answered(responder(client, **fields), events), Origin(client))


@pytest.mark.parametrize("client", NAMES)
@pytest.mark.parametrize("native_id", ["", "call_0", "functions.read:0", "null", "x" * 200, "é\ud800"])
def test_call_ids_are_legal_and_new_in_the_history_of_the_client(client: str, native_id: str) -> None:
    maker = "kimi" if client != "kimi" else "gemini"
    first = answered(
        responder(client, maker, nonce="1"), called((native_id, "read", "{}"), (native_id, "read", "{}"))
    )
    used = [event.native_id for event in first if isinstance(event, CallStarted)]
    second = answered(responder(client, maker, nonce="2", used_ids=used), called((native_id, "read", "{}")))
    ids = used + [event.native_id for event in second if isinstance(event, CallStarted)]
    assert len(set(ids)) == 3
    grammar = DIALECTS[client].rules.ids
    assert all(0 < len(call_id) <= grammar.max_length for call_id in ids)
    assert all(call_id.startswith(grammar.prefix) and call_id.isascii() for call_id in ids)


def test_the_other_ids_of_a_call_are_remembered() -> None:
    made = responder("anthropic", minted=4)
    sent = answered(made, called(("", "read", "{}"), ("fc-1", "read", "{}")))
    ids = [event.native_id for event in sent if isinstance(event, CallStarted)]
    assert made.ids == {ids[0]: CallIds("", "c4"), ids[1]: CallIds("fc-1", "c5")}


def test_an_id_of_the_clients_own_provider_stays_unless_it_is_taken() -> None:
    own = "toolu_01A09q90qw90lq917835lq9"
    events = called((own, "read", "{}"))
    assert reply_for("anthropic", events, maker="anthropic").message.calls[0].native_id == own
    made = responder("anthropic", "anthropic", used_ids=[own])
    sent = fold(answered(made, events), Origin())
    assert sent.message.calls[0].native_id != own
    assert [repair.kind for repair in made.repairs] == ["id_replaced"]


def test_a_counter_is_no_id_even_of_the_clients_own_provider() -> None:
    assert reply_for("openai_chat", called(("call_0", "read", "{}")), maker="openai_chat").message.calls[
        0
    ].native_id not in ("call_0", "")


@pytest.mark.parametrize("client", WIRES)
def test_a_call_starts_once_with_its_name_however_late_that_comes(client: str) -> None:
    events: list[Event] = [
        CallStarted(0, "a", ""),
        CallStarted(0, "a", "wire_read"),
        ArgumentsDelta(0, '{"a"'),
        ArgumentsDelta(0, ":1}"),
        Finished("tool_calls"),
    ]
    sent = answered(responder(client, names={"wire_read": "read"}), events)
    assert [event.name for event in sent if isinstance(event, CallStarted)] == ["read"]
    assert fold(sent, Origin()).message.calls[0].arguments == {"a": 1}


def test_a_name_that_nobody_offered_is_made_legal() -> None:
    made = responder("anthropic")
    name = fold(answered(made, called(("", "default_api:read", "{}"))), Origin()).message.calls[0].name
    assert name.startswith("default_api_read_")
    assert [repair.kind for repair in made.repairs] == ["name_replaced"]


# Envelopes


@pytest.mark.parametrize("client", WIRES)
def test_a_reply_has_a_new_id_and_the_model_that_the_client_asked_for(client: str) -> None:
    starts = [
        answered(responder(client, nonce=nonce, model="mine"), [TextDelta(0, "Hi"), Finished("stop")])[0]
        for nonce in ("1", "2")
    ]
    assert all(isinstance(start, ReplyStarted) and start.model == "mine" and start.id for start in starts)
    assert starts[0] != starts[1]


def test_the_own_id_of_a_reply_stays_on_its_own_wire() -> None:
    started = answered(
        responder("anthropic", "anthropic"), [ReplyStarted("msg_01XFDUDYJgAACzvnptvVoYEL", "m")]
    )
    assert started[0] == ReplyStarted("msg_01XFDUDYJgAACzvnptvVoYEL", "")


# Seals and thoughts

THOUGHT: list[Event] = [
    ReplyStarted("r", "m"),
    ReasoningDelta(0, "Hm"),
    Sealed(0, "SECRET"),
    TextDelta(1, "Hi"),
    Finished("stop"),
]


@pytest.mark.parametrize("client", NAMES)
@pytest.mark.parametrize("maker", ["gemini", "anthropic", "openai_responses", "openrouter"])
@pytest.mark.parametrize("reasoning", ["safe", "hide", "show"])
def test_a_seal_is_given_to_no_client_but_its_makers(client: str, maker: str, reasoning: str) -> None:
    made = responder(client, maker, reasoning=reasoning)
    sent = answered(made, THOUGHT)
    sealed = any(isinstance(event, Sealed) for event in sent)
    assert sealed == (client == maker)
    assert sealed or made.repairs
    assert fold(sent, Origin()).message.text == "Hi"


def test_a_seal_of_a_server_that_merely_uses_the_wire_is_not_its_homes() -> None:
    sent = answered(responder("anthropic", "anthropic", home=False), THOUGHT)
    assert not any(isinstance(event, Sealed | ReasoningDelta) for event in sent)


@pytest.mark.parametrize(
    ("client", "shown"),
    [
        ("openai_chat", ""),
        ("groq", ""),
        ("kimi", "Hm"),
        ("gemini", "Hm"),
        ("ollama", "Hm"),
        ("anthropic", ""),
        ("openai_responses", ""),
        ("mistral", ""),
    ],
)
def test_thoughts_of_others_are_shown_where_they_may_come_back_and_never_as_text(
    client: str, shown: str
) -> None:
    maker = "anthropic" if client != "anthropic" else "gemini"
    message = reply_for(client, THOUGHT, maker=maker).message
    assert "".join(block.text for block in message.blocks if isinstance(block, Reasoning)) == shown
    assert message.text == "Hi"
    hidden = reply_for(client, THOUGHT, maker=maker, reasoning="hide").message
    assert not any(isinstance(block, Reasoning) and block.text.strip() for block in hidden.blocks)
    all_shown = reply_for(client, THOUGHT, maker=maker, reasoning="show").message
    assert any(isinstance(block, Reasoning) and block.text == "Hm" for block in all_shown.blocks)


def test_a_thought_that_is_shown_all_the_same_bears_the_capsule_of_the_caller() -> None:
    made = responder("anthropic", reasoning="show", capsule=lambda thought: f"capsule of {thought.text}")
    events: list[Event] = [
        ReasoningDelta(0, "Hm"),
        ReasoningDelta(0, "!"),
        TextDelta(1, "Hi"),
        Finished("stop"),
    ]
    thought = fold(answered(made, events), Origin()).message.blocks[0]
    assert isinstance(thought, Reasoning)
    assert thought.text == "Hm!"
    assert thought.seal is not None
    assert (thought.seal.payload, thought.seal.kind) == ("capsule of Hm!", "signature")


def test_a_client_of_gemini_gets_the_stand_in_for_the_seal_on_its_first_call() -> None:
    made = responder("gemini", "anthropic")
    calls = fold(answered(made, called(("", "read", "{}"), ("", "read", "{}"))), Origin()).message.calls
    assert [call.seal.payload if call.seal else "" for call in calls] == [
        "skip_thought_signature_validator",
        "",
    ]
    assert [call.seal.kind for call in calls if call.seal] == ["thought"]
    assert [repair.kind for repair in made.repairs] == ["call_seal_filled"]


def test_a_client_of_kimi_gets_the_reasoning_that_its_provider_wants_back() -> None:
    blocks = reply_for("kimi", called(("", "read", "{}"))).message.blocks
    assert blocks[0] == Reasoning(" ")


def test_a_client_of_kimi_gets_the_reasoning_of_another_as_it_is() -> None:
    events = [ReasoningDelta(7, "Hm."), *called(("", "read", "{}"))[1:]]
    blocks = reply_for("kimi", events).message.blocks
    assert [block.text for block in blocks if type(block) is Reasoning] == ["Hm."]


def test_the_calls_of_a_client_that_counts_them_are_counted_on() -> None:
    used = ("functions.read:0", "functions.read:1", "functions.read:2")
    calls = reply_for("kimi", called(("", "read", "{}"), ("", "read", "{}")), used_ids=used).message.calls
    assert [call.native_id for call in calls] == ["functions.read:3", "functions.read:4"]


def test_an_id_that_comes_behind_the_name_of_its_call_is_remembered_too() -> None:
    made = responder("anthropic", "openai_chat")
    events: list[Event] = [
        CallStarted(0, "", "read"),
        CallStarted(0, "call_late", ""),
        ArgumentsDelta(0, "{}"),
    ]
    answered(made, [*events, Finished("tool_calls")])
    assert [ids.native for ids in made.ids.values()] == ["call_late"]


def test_a_seal_alone_is_content_of_its_own_wire_and_ends_the_block_before_it() -> None:
    made = responder("openai_responses", "openai_responses")
    events: list[Event] = [TextDelta(0, "One."), Sealed(1, "s", "encrypted", "reasoning"), Finished("stop")]
    sent = answered(made, [*events[:2], TextDelta(0, "Two."), events[2]])
    reply = fold(sent, Origin("openai_responses"))
    assert [type(block).__name__ for block in reply.message.blocks] == ["Text", "Reasoning", "Text"]
    made = responder("anthropic", "anthropic")
    only = answered(made, [Sealed(0, "s", "encrypted", "reasoning"), Finished("stop")])
    assert not any(isinstance(event, TextDelta) for event in only)
    assert made.repairs == []


def test_a_reply_of_kimi_itself_is_passed_on_as_it_came_also_without_reasoning() -> None:
    made = responder("kimi", "kimi")
    blocks = fold(answered(made, called(("functions.read:0", "read", "{}"))), Origin("kimi")).message.blocks
    assert [type(block) for block in blocks] == [ToolCall]
    assert made.repairs == []


@pytest.mark.parametrize("client", WIRES)
def test_an_item_that_only_its_own_wire_knows_is_not_sent_elsewhere(client: str) -> None:
    search = '{"type":"web_search_call","id":"ws_1"}'
    events: list[Event] = [Sealed(0, search, "encrypted", "text"), TextDelta(1, "Found."), Finished("stop")]
    made = responder(client, "openai_responses")
    sent = answered(made, events)
    assert any(isinstance(event, Sealed) for event in sent) == (client == "openai_responses")
    assert fold(sent, Origin()).message.text == "Found."
    assert client == "openai_responses" or [repair.kind for repair in made.repairs] == ["item_dropped"]


def test_media_are_described_where_a_reply_cannot_hold_them() -> None:
    events: list[Event] = [MediaArrived(0, Media("image", "image/png", "AAAA")), Finished("stop")]
    made = responder("anthropic")
    assert (
        fold(answered(made, events), Origin()).message.text
        == "\n[image, image/png, 3 bytes: this API cannot carry it]\n"
    )
    assert made.repairs[0].lossy
    assert reply_for("openai_responses", events).message.blocks == (Media("image", "image/png", "AAAA"),)


# Order


def test_text_goes_before_whole_calls_where_nothing_may_follow_them() -> None:
    events: list[Event] = [
        CallStarted(0, "", "read"),
        ArgumentsDelta(0, "{}"),
        TextDelta(1, "Reading."),
        Finished("tool_calls"),
    ]
    assert [type(block).__name__ for block in reply_for("anthropic", events).message.blocks] == [
        "Text",
        "ToolCall",
    ]


def test_text_behind_a_call_that_was_sent_is_dropped_and_reported() -> None:
    events: list[Event] = [
        CallStarted(0, "", "read"),
        ArgumentsDelta(0, '{"a":'),
        TextDelta(1, "Reading."),
        ArgumentsDelta(0, "1}"),
        Finished("tool_calls"),
    ]
    made = responder("anthropic")
    sent = answered(made, events)
    assert fold(sent, Origin()).message.text == ""
    assert [repair.kind for repair in made.repairs] == ["text_dropped"]
    assert made.repairs[0].lossy


def test_a_text_goes_on_in_a_new_block_when_another_came_between() -> None:
    events: list[Event] = [TextDelta(0, "a"), ReasoningDelta(1, "t"), TextDelta(0, "b"), Finished("stop")]
    sent = [event for event in answered(responder("ollama"), events) if isinstance(event, TextDelta)]
    assert sent[0].index != sent[1].index


def test_blank_text_is_not_sent_where_it_may_not_come_back() -> None:
    events: list[Event] = [TextDelta(0, "\n"), TextDelta(0, "\n"), *called(("", "read", "{}"))[1:]]
    events = [TextDelta(9, event.text) if isinstance(event, TextDelta) else event for event in events]
    assert reply_for("anthropic", events).message.text == ""
    kept: list[Event] = [TextDelta(0, "\n"), TextDelta(0, " "), TextDelta(0, "Hi"), Finished("stop")]
    assert reply_for("anthropic", kept).message.text == "\n Hi"
    assert reply_for("openai_chat", events).message.text == "\n\n"


def test_a_reply_without_content_gets_a_note_where_its_message_would_be_refused() -> None:
    events: list[Event] = [ReasoningDelta(0, "Hm"), Finished("length")]
    reply = reply_for("anthropic", events)
    assert (reply.message.text, reply.finish) == (EMPTY, "length")
    assert reply_for("openai_chat", events).message.text == ""


# Arguments


@pytest.mark.parametrize("streamed", [True, False])
def test_arguments_that_are_no_object_are_sent_inside_one(streamed: bool) -> None:
    made = responder("anthropic", "openai_chat", streamed=streamed)
    reply = fold(answered(made, called(("", "read", "[1]"))), Origin())
    assert reply.message.calls[0].arguments == {"raw_arguments": "[1]"}
    assert [repair.kind for repair in made.repairs] == ["arguments_wrapped"]


def test_arguments_that_turn_out_broken_after_they_were_sent_are_a_failure() -> None:
    events: list[Event] = [
        CallStarted(0, "", "read"),
        ArgumentsDelta(0, "{'a':"),
        ArgumentsDelta(0, "1}"),
        Finished("tool_calls"),
    ]
    assert isinstance(answered(responder("anthropic"), events)[-1], Failed)
    whole = fold(answered(responder("anthropic", streamed=False), events), Origin())
    assert whole.message.calls[0].arguments == {"raw_arguments": "{'a':1}"}
    assert reply_for("openai_chat", events).message.calls[0].raw == "{'a':1}"


@pytest.mark.parametrize("client", WIRES)
def test_a_call_without_arguments_has_an_empty_object(client: str) -> None:
    events: list[Event] = [CallStarted(0, "", "read"), Finished("tool_calls")]
    (call,) = reply_for(client, events).message.calls
    assert isinstance(call, ToolCall)
    assert call.raw == "{}"


# Ends


@pytest.mark.parametrize("client", WIRES)
@pytest.mark.parametrize(("reason", "raw"), [("error", "MALFORMED_FUNCTION_CALL"), ("cancelled", "abort")])
def test_an_end_that_was_a_failure_is_one(client: str, reason: Any, raw: str) -> None:
    sent = answered(responder(client, "vllm"), [TextDelta(0, "Hi"), Finished(reason, raw)])
    last = sent[-1]
    if reason == "cancelled" and client == "openai_responses":
        assert last == Finished("cancelled")
    else:
        assert isinstance(last, Failed)
        assert raw in last.error.message


def test_a_reply_without_an_end_has_failed() -> None:
    assert isinstance(answered(responder("anthropic"), [TextDelta(0, "Hi")])[-1], Failed)


def test_whether_there_are_calls_decides_how_a_reply_ended() -> None:
    assert reply_for("anthropic", [*called(("", "read", "{}"))[:-1], Finished("stop")]).finish == "tool_calls"
    assert reply_for("anthropic", [TextDelta(0, "Hi"), Finished("tool_calls")]).finish == "stop"


def test_counts_that_come_behind_the_end_are_passed_on() -> None:
    usage = UsageReported(Usage(1, 2))
    assert answered(responder("anthropic"), [TextDelta(0, "Hi"), Finished("stop"), usage])[-1] == usage


# Tools of other kinds

PATCH = ToolSpec("apply_patch", kind="custom")
ISSUES = ToolSpec("mcp__github__list", namespace="mcp__github", local_name="list")


def items(events: list[Event]) -> list[dict[str, Any]]:
    """The output of a Responses client, whole and streamed, which must be alike."""
    client = DIALECTS["openai_responses"]
    sent = answered(responder("openai_responses", "anthropic", tools=(PATCH, ISSUES)), events)
    whole = json.loads(client.encode_reply(fold(sent, Origin())))["output"]
    encoder = client.new_encoder("m")
    stream = b"".join(encoder.feed(event) for event in sent) + encoder.close()
    last = json.loads(stream.rstrip().rpartition(b"data: ")[2])
    assert last["response"]["output"] == whole
    assert (
        fold(client.decode_reply(client.encode_reply(fold(sent, Origin()))), Origin()).finish == "tool_calls"
    )
    return list(whole)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ('{"input": "*** Begin Patch\\n"}', "*** Begin Patch\n"),
        ('{"patch": "x"}', '{"patch": "x"}'),
        ("*** Begin", "*** Begin"),
    ],
)
def test_a_call_of_a_custom_tool_is_given_back_as_one(arguments: str, text: str) -> None:
    (item,) = items(called(("toolu_1", "apply_patch", arguments)))
    assert (item["type"], item["name"], item["input"]) == ("custom_tool_call", "apply_patch", text)
    assert item["id"].startswith("ctc_")
    assert item["call_id"].startswith("call_")


def test_a_call_of_a_tool_in_a_namespace_is_given_back_in_it() -> None:
    (item,) = items(called(("toolu_1", "mcp__github__list", "{}")))
    assert (item["type"], item["namespace"], item["name"]) == ("function_call", "mcp__github", "list")


def test_a_call_in_a_namespace_bears_our_name_of_the_tool() -> None:
    (item,) = items(called(("toolu_1", "mcp__github__list", "{}")))
    body = json.dumps({"id": "resp_1", "status": "completed", "output": [item]}).encode()
    events = DIALECTS["openai_responses"].decode_reply(body)
    assert [event.name for event in events if isinstance(event, CallStarted)] == ["mcp__github__list"]


def test_text_behind_an_end_that_was_none_is_not_lost() -> None:
    events: list[Event] = [TextDelta(0, "First "), Finished("stop"), TextDelta(0, "second"), Finished("stop")]
    sent = answered(responder("anthropic"), events)
    assert fold(sent, Origin()).message.text == "First second"
    assert sum(isinstance(event, Finished) for event in sent) == 1

"""Requests sent one after another are the requests one would send alone."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from segue.conversation.blocks import Text, ToolCall, ToolResult
from segue.conversation.message import Conversation, Message
from segue.conversation.options import Options
from segue.conversation.tools import ToolSpec
from segue.dialects.caches.tool_cache import KnownTools
from segue.dialects.caches.write_cache import EncodedPrefix, encode_after
from segue.dialects.card import UNKNOWN
from segue.dialects.dialect import EncodedRequest
from segue.dialects.registry import DIALECTS
from segue.transcript.render import render
from strategies.histories import messages, whole_conversations
from strategies.targets import TARGETS

WIRES = ("openai_chat", "kimi", "openai_responses", "anthropic", "gemini", "mistral", "ollama", "converse")
TOOLS = (ToolSpec("read", "Reads.", {"type": "object", "properties": {"n": {"type": "integer"}}}),)

WISHES = (
    Options(model="m"),
    Options(model="m", stream=True, temperature=0.0, max_tokens=9000, effort="high", tool_choice="required"),
    Options(model="m", effort="none", response_schema={"type": "object"}, stop=("\n",), parallel_calls=False),
)


@pytest.mark.parametrize("name", WIRES)
@given(data=st.data())
def test_a_request_says_the_same_whatever_was_sent_before_it(name: str, data: st.DataObject) -> None:
    dialect, rules = DIALECTS[name], TARGETS[name]
    prefix = EncodedPrefix()
    conversation = data.draw(
        whole_conversations(data.draw(st.sampled_from((None, rules.target))))
    ).conversation
    previous = None
    for message in (None, *data.draw(st.lists(messages(rules.target), max_size=3))):
        if message is not None:
            conversation = conversation.append(message)
        previous = transcript = render(conversation, None, rules, previous=previous)
        options = data.draw(st.sampled_from(WISHES))
        alone = dialect.encode_request(transcript, TOOLS, options, UNKNOWN)
        encoded = encode_after(prefix, dialect, transcript, TOOLS, options, UNKNOWN)
        prefix = encoded.prefix
        assert (encoded.body, encoded.repairs) == (alone.body, alone.repairs)


@pytest.mark.parametrize("name", WIRES)
def test_notes_that_lead_a_history_are_sent_once(name: str) -> None:
    dialect, rules = DIALECTS[name], TARGETS[name]
    note = Message("user", (Text("Be quick."),), instruction=True)
    prefix = EncodedPrefix()
    conversation = Conversation((note,))
    for _ in range(3):
        transcript = render(conversation, None, rules)
        encoded = encode_after(prefix, dialect, transcript, TOOLS, Options(model="m"), UNKNOWN)
        prefix = encoded.prefix
        alone = dialect.encode_request(transcript, TOOLS, Options(model="m"), UNKNOWN)
        assert (encoded.body, encoded.repairs) == (alone.body, alone.repairs)
        assert encoded.body.count(b"Be quick.") == 1
        conversation = conversation.append(Message("model", (Text("yes"),)), Message("user", (Text("so"),)))


def test_another_system_prompt_or_card_starts_afresh() -> None:
    dialect, rules = DIALECTS["mistral"], TARGETS["mistral"]
    conversation = _example()
    first = render(conversation, None, rules)
    prefix = encode_after(EncodedPrefix(), dialect, first, (), Options(model="m"), UNKNOWN).prefix
    other = render(Conversation(conversation.messages, "Be long."), None, rules)
    alone = dialect.encode_request(other, (), Options(model="m"), UNKNOWN)
    assert encode_after(prefix, dialect, other, (), Options(model="m"), UNKNOWN).body == alone.body


def test_what_was_said_before_is_not_encoded_again() -> None:
    dialect, rules = DIALECTS["anthropic"], TARGETS["anthropic"]
    transcript = render(_example(), None, rules)
    first = encode_after(EncodedPrefix(), dialect, transcript, (), Options(model="m"), UNKNOWN).prefix
    longer = _example().append(Message("model", (Text("Sure."),)), Message("user", (Text("And?"),)))
    grown = render(longer, None, rules, previous=transcript)
    marked = structs.replace(first, body=first.body.replace(b"Done.", b"Kept."))
    second = encode_after(marked, dialect, grown, (), Options(model="m"), UNKNOWN)
    assert b"Kept." in second.body
    assert b"Done." not in second.body


@pytest.mark.parametrize("name", WIRES)
def test_settings_are_written_as_they_are_now_also_if_they_were_changed_in_place(name: str) -> None:
    dialect, transcript = DIALECTS[name], render(_example(), None, TARGETS[name])
    tools, labels = KnownTools(TOOLS), {"a": 1}
    prefix = EncodedPrefix()
    for temperature, label in ((1, "a"), (1, "a"), (1.0, "a"), (True, "b"), (1, "b")):
        labels[label] = labels.get(label, 0) + len(labels)
        options = Options(model="m", temperature=temperature, extra={"metadata": labels})
        alone = dialect.encode_request(transcript, TOOLS, options, UNKNOWN)
        encoded = encode_after(prefix, dialect, transcript, tools, options, UNKNOWN)
        prefix = encoded.prefix
        assert encoded.body == alone.body


@pytest.mark.parametrize("name", WIRES)
def test_a_request_is_encoded_once(name: str) -> None:
    calls: list[int] = []

    def encode(*given: Any, after: int = 0) -> EncodedRequest:
        calls.append(after)
        return DIALECTS[name].encode_request(*given, after=after)

    dialect = structs.replace(DIALECTS[name], encode_request=encode)
    transcript = render(_example(), None, TARGETS[name])
    encoded = encode_after(EncodedPrefix(), dialect, transcript, (), Options(model="m"), UNKNOWN)
    assert calls == [0]
    assert len(encoded.prefix.ends) == 2  # before the last reply, and behind the last step


def _example() -> Conversation:
    return Conversation(system="Be brief.").append(
        Message("user", (Text("Hi"),)),
        Message("model", (ToolCall("", "read", {"n": 1}),)),
        Message("tool", (ToolResult("c0", "read", "one"),)),
        Message("model", (Text("Done."),)),
        Message("user", (Text("More."),)),
    )

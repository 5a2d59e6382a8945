"""Where a placeholder and a real result answer one call, the real one stands, whichever came first and wherever it stood."""

from __future__ import annotations

from itertools import product

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from laws.legality import complaints
from segue.conversation.blocks import Text, ToolCall, ToolResult
from segue.conversation.message import Conversation, Message
from segue.interop.convert import convert
from segue.transcript.adopt import adopt
from segue.transcript.blocks.outcomes import NO_OUTPUT, NOTES, WORDING
from segue.transcript.render import render
from segue.transcript.rules import Rules
from segue.transcript.steps import ModelStep, Transcript
from strategies.targets import Replay, for_every_target

requirement = pytest.mark.requirement

PLACES = ("before the call", "behind the call", "behind the next words")


@st.composite
def placeholders(draw: st.DrawFn, call_id: str) -> ToolResult:
    """What we or a client would store where a result is missing."""
    words = draw(st.sampled_from([*sorted(NOTES), "", " \n"]))
    named = draw(st.sampled_from(("", "read")))
    match draw(st.sampled_from(("output", "error", "reason"))):
        case "output":
            return ToolResult("", named, words, complete=True, native_id=call_id)
        case "error":
            return ToolResult("", named, error=words, native_id=call_id)
        case _:
            return ToolResult("", named, reason="interrupted", native_id=call_id)


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[Message], dict[str, str]]:
    """Calls whose real results and placeholders stand anywhere; the real result of each."""
    ids = [f"call_{number}" for number in range(draw(st.integers(1, 3)))]
    real = {call_id: f"real result of {call_id}" for call_id in ids}
    calls = [ToolCall("", "read", {"of": call_id}, native_id=call_id) for call_id in ids]
    cut = draw(st.integers(0, len(calls)))
    batches = [batch for batch in (calls[:cut], calls[cut:]) if batch]
    messages = [Message("user", (Text("go"),))]
    for number, batch in enumerate(batches):
        messages += [Message("model", tuple(batch)), Message("user", (Text(f"next {number}"),))]
    for call_id in draw(st.permutations(ids)):
        found = [
            *draw(st.lists(placeholders(call_id), min_size=1, max_size=3)),
            *[ToolResult("", "", real[call_id], complete=True, native_id=call_id)] * draw(st.integers(1, 2)),
        ]
        for result in draw(st.permutations(found)):
            messages.insert(draw(st.integers(0, len(messages))), Message("tool", (result,)))
    return messages, real


def answers(transcript: Transcript) -> list[tuple[str, str]]:
    """Which call has which result."""
    return [
        (msgspec.json.decode(call.arguments).get("of", "no call of this history"), call.completion.text)
        for step in transcript.steps
        if isinstance(step, ModelStep)
        for call in step.calls
    ]


@requirement("REQ-915-008", "REQ-915-012", "REQ-915-014")
@given(data=st.data())
@for_every_target
def test_a_real_result_is_never_replaced_by_a_placeholder_wherever_both_stand(
    rules: Rules, data: Replay
) -> None:
    messages, real = data.draw(histories())
    adopted = adopt(messages).conversation
    for conversation in (adopted, Conversation(tuple(messages))):
        transcript = render(conversation, None, rules)
        assert sorted(answers(transcript)) == sorted(real.items())
        assert list(complaints(transcript, rules)) == []


@pytest.mark.parametrize("first", ["placeholder", "real"])
@pytest.mark.parametrize(("one", "other"), list(product(PLACES, PLACES)))
def test_each_pair_of_places_of_a_placeholder_and_a_real_result(one: str, other: str, first: str) -> None:
    """The same as requests: no order of the two, and no place, makes up a call."""
    held = {"placeholder": "[Tool execution was interrupted]", "real": "REAL 42"}
    second = "real" if first == "placeholder" else "placeholder"
    stored: dict[str, list[object]] = {place: [] for place in PLACES}
    for place, kind in ((one, first), (other, second)):
        stored[place].append({"role": "tool", "tool_call_id": "call_a", "content": held[kind]})
    call = {"id": "call_a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    messages = [
        {"role": "user", "content": "go"},
        *stored["before the call"],
        {"role": "assistant", "content": None, "tool_calls": [call]},
        *stored["behind the call"],
        {"role": "user", "content": "next"},
        *stored["behind the next words"],
        {"role": "user", "content": "and then"},
    ]
    body = convert({"model": "gpt-4.1", "messages": messages}, to="anthropic").body
    assert b"REAL 42" in body
    assert b"interrupted" not in body
    assert b"unknown_tool" not in body
    assert body.count(b'"tool_use"') == 1


@pytest.mark.parametrize("words", [*sorted(NOTES), ""])
def test_a_placeholder_alone_stays_what_it_is(words: str) -> None:
    messages = [
        Message("user", (Text("go"),)),
        Message("tool", (ToolResult("", "read", words, complete=True, native_id="call_a"),)),
        Message("model", (ToolCall("", "read", {"of": "call_a"}, native_id="call_a"),)),
    ]
    rules = Rules()
    assert answers(render(adopt(messages).conversation, None, rules)) == [("call_a", words)]


def test_our_own_words_are_placeholders() -> None:
    assert {*WORDING.values(), NO_OUTPUT} <= NOTES

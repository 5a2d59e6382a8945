"""The renderer's guarantees, as laws over arbitrary broken histories and every target."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from msgspec import structs

from laws.digest import all_text, on_the_wire
from laws.legality import complaints
from segue.conversation.blocks import Media, Reasoning, Text, ToolCall, ToolResult
from segue.conversation.document import decode_document, encode_document
from segue.conversation.message import Conversation, Message
from segue.transcript.adopt import adopt, rebuild
from segue.transcript.policy import Policy
from segue.transcript.render import render
from segue.transcript.rules import Rules
from segue.transcript.steps import ModelStep, Transcript
from strategies.fast_cases import own_histories
from strategies.histories import Told, conversations, messages, whole_conversations
from strategies.targets import TARGETS, Replay, for_every_target

requirement = pytest.mark.requirement


def calls_of(transcript: Transcript) -> dict[str, str]:
    """Canonical id → text of the completion."""
    return {
        call.call_id: call.completion.text
        for step in transcript.steps
        if isinstance(step, ModelStep)
        for call in step.calls
    }


@requirement(
    "REQ-915-001",
    "REQ-915-004",
    "REQ-915-005",
    "REQ-915-006",
    "REQ-915-007",
    "REQ-915-008",
    "REQ-915-013",
    "REQ-915-025",
    "REQ-915-036",
    "REQ-915-037",
)
@given(data=st.data())
@for_every_target
def test_any_history_becomes_legal(rules: Rules, data: Replay) -> None:
    conversation = data.draw(conversations(rules))
    transcript = render(conversation, None, rules)
    assert list(complaints(transcript, rules)) == []
    all_text(transcript)


@requirement("REQ-915-010")
@given(data=st.data())
@for_every_target
def test_rendering_a_rendered_history_changes_nothing_and_reports_nothing(
    rules: Rules, data: st.DataObject
) -> None:
    _stays_as_it_is(data.draw(conversations(rules)), rules)


def _stays_as_it_is(conversation: Conversation, rules: Rules) -> None:
    once = render(conversation, None, rules)
    adopted = adopt(once.conversation().messages, system=once.system)
    twice = render(adopted.conversation, None, rules)
    assert adopted.repairs == ()
    assert [str(repair) for repair in twice.repairs] == []
    assert on_the_wire(twice) == on_the_wire(once)


@pytest.mark.parametrize("name", sorted(TARGETS))
@pytest.mark.parametrize("data", ["", "JVBERi0xLjQK"])
def test_the_title_of_a_document_in_a_result_is_reported_lost_once(name: str, data: str) -> None:
    url = "" if data else "https://example.invalid/cat.pdf"
    paper = Media("document", "application/pdf" if data else "", data, url, name="cat.pdf")
    _stays_as_it_is(
        Conversation((Message("user", (ToolResult("", "read", media=(paper,)), paper)),)), TARGETS[name]
    )


@st.composite
def broken(draw: st.DrawFn, told: Told) -> Conversation:
    """The same events, stored wrongly: results moved, repeated, in the wrong message, after a placeholder, or split up."""
    messages: list[Message] = []
    late: list[Message] = []
    for message in told.conversation.messages:
        if message.speaker != "tool":
            messages.append(message)
            continue
        results = [block for block in message.blocks if isinstance(block, ToolResult)]
        for result in draw(st.permutations(results)):
            fate = draw(
                st.sampled_from(
                    (
                        "stay",
                        "twice",
                        "late",
                        "early",
                        "in the model's message",
                        "after a placeholder",
                        "beside text",
                    )
                )
            )
            one = Message("tool", (result,))
            placeholder = Message("tool", (ToolResult(result.call_id, result.name, reason="interrupted"),))
            match fate:
                case "twice":
                    messages += [one, one]
                case "late":
                    late.append(one)
                case "early":
                    messages.insert(draw(st.integers(0, len(messages))), one)
                case "in the model's message":
                    messages.append(Message("model", (result,)))
                case "after a placeholder":
                    messages += [placeholder, one]
                case "beside text":
                    messages.append(Message("tool", (Text("note beside the result"), result)))
                case _:
                    messages.append(one)
    return structs.replace(told.conversation, messages=tuple(messages + late))


@requirement("REQ-915-008", "REQ-915-009", "REQ-915-012", "REQ-915-014", "REQ-915-017", "REQ-915-047")
@given(data=st.data())
@for_every_target
def test_a_real_result_is_never_lost_or_replaced_by_a_placeholder(rules: Rules, data: Replay) -> None:
    told = data.draw(whole_conversations())
    transcript = render(data.draw(broken(told)), None, rules)
    assert calls_of(transcript) == told.outputs
    assert list(complaints(transcript, rules)) == []


@requirement("REQ-915-004")
@given(data=st.data())
@for_every_target
def test_everything_said_is_still_said(rules: Rules, data: Replay) -> None:
    told = data.draw(whole_conversations())
    rendered = all_text(render(told.conversation, None, rules))
    for text in told.texts:
        assert text in rendered


@requirement("REQ-915-011", "REQ-915-012", "REQ-915-013")
@given(data=st.data())
@for_every_target
def test_each_missing_result_is_closed_once_and_the_others_stay(rules: Rules, data: Replay) -> None:
    told = data.draw(whole_conversations())
    kept = data.draw(st.sets(st.sampled_from(sorted(told.outputs)))) if told.outputs else set()
    messages = tuple(
        structs.replace(
            message,
            blocks=tuple(b for b in message.blocks if not isinstance(b, ToolResult) or b.call_id in kept),
        )
        for message in told.conversation.messages
    )
    transcript = render(structs.replace(told.conversation, messages=messages), None, rules)
    completions = calls_of(transcript)
    assert completions.keys() == told.outputs.keys()
    for call_id, output in told.outputs.items():
        assert (completions[call_id] == output) == (call_id in kept)
    closed = [repair.call_ids for repair in transcript.repairs if repair.kind == "call_closed"]
    assert sorted(closed) == sorted((call_id,) for call_id in told.outputs if call_id not in kept)


@requirement("REQ-915-026", "REQ-915-027", "REQ-915-028")
@given(data=st.data())
@for_every_target
def test_after_any_cut_there_are_complete_pairs_or_nothing(rules: Rules, data: Replay) -> None:
    told = data.draw(whole_conversations())
    ledger = rebuild(told.conversation)
    messages = told.conversation.messages
    start = data.draw(st.integers(0, len(messages) - 1))
    end = data.draw(st.integers(start, len(messages) - 1))
    summary = Message("user", (Text("Summary of what came before."),))
    cut = structs.replace(told.conversation, messages=(*messages[:start], summary, *messages[end:]))
    transcript = render(cut, ledger, rules)
    assert list(complaints(transcript, rules)) == []
    mentioned = {
        block.id if isinstance(block, ToolCall) else block.call_id
        for message in cut.messages
        for block in message.blocks
        if isinstance(block, (ToolCall, ToolResult))
    }
    assert calls_of(transcript) == {call_id: told.outputs[call_id] for call_id in mentioned}


@requirement("REQ-915-046", "REQ-915-048")
@given(data=st.data())
@for_every_target
def test_a_ledger_rebuilt_from_the_history_renders_the_same(rules: Rules, data: Replay) -> None:
    conversation = data.draw(conversations(rules))
    alone = render(conversation, None, rules)
    rebuilt = render(conversation, rebuild(conversation), rules)
    assert rebuilt.steps == alone.steps


@requirement("REQ-915-010")
@given(data=st.data())
@for_every_target
def test_appending_leaves_what_was_said_before_untouched(rules: Rules, data: Replay) -> None:
    told = data.draw(whole_conversations(data.draw(st.sampled_from((None, rules.target)))))
    length = data.draw(st.integers(1, len(told.conversation.messages) - 1))
    messages = told.conversation.messages
    while length > 1 and messages[length - 1].calls:
        length -= 1  # a batch that is still open is never rendered
    shorter = render(structs.replace(told.conversation, messages=messages[:length]), None, rules)
    longer = render(told.conversation, None, rules)
    steps = list(shorter.steps)
    if any(repair.kind == "ended" for repair in shorter.repairs):
        steps.pop()
    assert tuple(steps) == longer.steps[: len(steps)]


@requirement("REQ-915-010")
@given(data=st.data())
@for_every_target
def test_going_on_from_an_earlier_render_gives_the_same_transcript(rules: Rules, data: Replay) -> None:
    conversation = data.draw(st.one_of(own_histories(rules), conversations(rules, max_size=5)))
    policy = data.draw(
        st.sampled_from((Policy(), Policy(strip_reasoning="all_but_last"), Policy(include_reasoning=False)))
    )
    ledger = data.draw(st.sampled_from((None, rebuild(conversation))))
    previous = render(conversation, ledger, rules, policy)
    for message in data.draw(st.lists(messages(rules.target), min_size=1, max_size=3)):
        conversation = conversation.append(message)
        if ledger is not None:
            for call in conversation.messages[-1].calls:
                if call.id:
                    ledger.schedule(call)
        continued = render(conversation, ledger, rules, policy, previous=previous)
        fresh = render(conversation, ledger, rules, policy)
        assert continued.steps == fresh.steps
        assert continued.repairs == fresh.repairs
        assert continued.fingerprint == fresh.fingerprint
        previous = continued


@requirement("REQ-915-023", "REQ-915-024")
@given(data=st.data())
@for_every_target
def test_excluded_reasoning_is_nowhere_and_pairs_stay_the_same(rules: Rules, data: Replay) -> None:
    conversation = data.draw(conversations(rules))
    including = render(conversation, None, rules)
    for policy in (Policy(include_reasoning=False), Policy(strip_reasoning="all")):
        excluding = render(conversation, None, rules, policy)
        assert "THOUGHT" not in all_text(excluding)
        assert list(complaints(excluding, rules)) == []
        assert _pairs(excluding) == _pairs(including)
    last_only = render(conversation, None, rules, Policy(strip_reasoning="all_but_last"))
    assert _pairs(last_only) == _pairs(including)
    assert (
        len(
            {
                index
                for index, step in enumerate(last_only.steps)
                for block in step.blocks
                if isinstance(block, Reasoning) and "THOUGHT" in block.text
            }
        )
        <= 1
    )


def _pairs(transcript: Transcript) -> list[tuple[str, str, str]]:
    return [
        (call.id, call.name, call.completion.text)
        for step in transcript.steps
        if isinstance(step, ModelStep)
        for call in step.calls
    ]


@given(data=st.data())
@for_every_target
def test_a_seal_goes_only_to_its_origin_and_byte_for_byte(rules: Rules, data: Replay) -> None:
    conversation = data.draw(conversations(rules))
    made = {
        (block.seal.payload, block.seal.kind)
        for message in conversation.messages
        for block in message.blocks
        if isinstance(block, (Text, Reasoning, ToolCall))
        and block.seal is not None
        and block.seal.origin == rules.target
    }
    for step in render(conversation, None, rules).steps:
        for block in step.blocks:
            seal = getattr(block, "seal", None)
            if seal is not None:
                assert seal.origin == rules.target
                assert (seal.payload, seal.kind) in made or seal.payload == rules.reasoning.call_seal


@given(data=st.data())
@for_every_target
def test_foreign_reasoning_never_becomes_text(rules: Rules, data: Replay) -> None:
    conversation = data.draw(conversations(rules))
    for step in render(conversation, None, rules).steps:
        for block in step.blocks:
            if not isinstance(block, Reasoning):
                assert "THOUGHT" not in repr(block)


@requirement("REQ-915-038")
@given(data=st.data())
@for_every_target
def test_rendering_does_not_touch_what_is_stored(rules: Rules, data: Replay) -> None:
    conversation = data.draw(conversations(rules))
    before = repr(conversation)
    render(conversation, None, rules)
    adopt(conversation.messages)
    assert repr(conversation) == before


@requirement("REQ-915-039", "REQ-915-040")
@given(data=st.data())
@for_every_target
def test_every_repair_tells_all_that_a_diagnostic_must(rules: Rules, data: Replay) -> None:
    heard: list[object] = []
    transcript = render(data.draw(conversations(rules)), None, rules, on_repair=heard.append)
    assert tuple(heard) == transcript.repairs
    emitted = {call.id for step in transcript.steps if isinstance(step, ModelStep) for call in step.calls}
    for repair in transcript.repairs:
        told = repair.as_dict()
        assert told.keys() >= {
            "kind",
            "fault_class",
            "call_ids",
            "emitted_call_ids",
            "emitted_result_ids",
            "decision",
            "reason",
            "dialect",
            "path",
        }
        assert told["fault_class"] in ("canonical_state", "pairing", "projection")
        assert told["dialect"] == rules.target.dialect
        assert told["kind"] == repair.kind
        assert told["path"] == repair.path
        assert told["decision"].strip()
        assert list(told["call_ids"]) == list(repair.call_ids)
        assert all(isinstance(call_id, str) for call_id in repair.call_ids)
        assert set(repair.emitted_call_ids) <= emitted
        assert (repair.kind == "call_closed") == bool(repair.reason)
        assert bool(repair.call_ids) >= (repair.kind in ABOUT_CALLS)


ABOUT_CALLS = frozenset(
    {
        "arguments_wrapped",
        "bridged",
        "call_closed",
        "call_reconstructed",
        "call_recovered",
        "call_seal_filled",
        "calls_joined",
        "calls_reordered",
        "calls_split",
        "duplicate_call_dropped",
        "id_replaced",
        "media_moved",
        "name_replaced",
        "result_moved",
        "result_recovered",
        "result_superseded",
        "results_joined",
        "speaker_corrected",
    }
)
"""Kinds of repairs that always concern a call, so that they name it."""


@given(data=st.data())
@for_every_target
def test_the_document_keeps_the_conversation(rules: Rules, data: Replay) -> None:
    told = data.draw(whole_conversations(rules.target))
    ledger = rebuild(told.conversation)
    back, book = decode_document(encode_document(told.conversation, ledger))
    assert back == told.conversation
    assert dict(book or {}) == dict(ledger)


@given(data=st.data())
def test_a_document_of_any_history_renders_like_the_history(data: st.DataObject) -> None:
    rules = TARGETS["anthropic"]
    conversation = data.draw(conversations(rules))
    back, _ = decode_document(encode_document(conversation))
    assert _pairs(render(back, None, rules)) == _pairs(render(conversation, None, rules))


@requirement("REQ-915-010")
def test_the_same_state_gives_the_same_bytes_in_any_process(tmp_path: Path) -> None:
    stored = tmp_path / "histories"
    stored.write_bytes(pickle.dumps(some_histories()))
    digests = {
        subprocess.run(  # noqa: S603
            [sys.executable, "-m", "laws.digest", str(stored)],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed in ("0", "1", "4242")
    }
    assert len(digests) == 1


def some_histories() -> list[tuple[str, Conversation]]:
    drawn: list[tuple[str, Conversation]] = []

    @settings(max_examples=60, database=None, phases=[Phase.generate])
    @given(data=st.data())
    def collect(data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(TARGETS)))
        drawn.append((name, data.draw(conversations(TARGETS[name]))))

    collect()
    return drawn

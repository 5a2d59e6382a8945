"""Histories on which the code these requirements come from fails: each must hold here, on every target."""

from __future__ import annotations

import json

import pytest

from laws.digest import all_text
from laws.legality import complaints
from segue.conversation.blocks import Reasoning, Seal, Text, ToolCall, ToolResult
from segue.conversation.interaction import Ledger
from segue.conversation.message import Conversation, model, tool, user
from segue.conversation.options import Options
from segue.dialects.card import ModelCard
from segue.dialects.registry import DIALECTS
from segue.errors import TranscriptError
from segue.transcript.adopt import adopt, rebuild
from segue.transcript.blocks.outcomes import WORDING
from segue.transcript.policy import Policy
from segue.transcript.render import render
from segue.transcript.rules import Rules
from strategies.histories import FOREIGN
from strategies.targets import TARGETS
from transcript.readers import batches_of, calls_of, completions_of, every_target, kinds_of, said

requirement = pytest.mark.requirement


def read(call_id: str, **arguments: object) -> ToolCall:
    return ToolCall(call_id, "read", dict(arguments), json.dumps(arguments))


def done(call_id: str, output: str) -> ToolResult:
    return ToolResult(call_id, "read", output)


@requirement("REQ-915-006", "REQ-915-007", "REQ-915-009")
@every_target
def test_1_a_result_stored_before_its_call_finds_it(rules: Rules) -> None:
    transcript = said(user("a"), tool(done("c0", "content")), model(read("c0")), user("b"), rules=rules)
    assert batches_of(transcript) == [["c0"]]
    assert completions_of(transcript) == {"c0": "content"}
    assert "result_moved" in kinds_of(transcript)
    assert list(complaints(transcript, rules)) == []


@requirement("REQ-915-008", "REQ-915-012")
@every_target
def test_2_a_real_result_without_a_mark_wins_over_a_placeholder_before_it(rules: Rules) -> None:
    placeholder = ToolResult("c0", "read", error="interrupted", complete=True, reason="interrupted")
    transcript = said(
        user("a"), model(read("c0")), tool(placeholder), tool(done("c0", "content")), rules=rules
    )
    assert completions_of(transcript) == {"c0": "content"}
    assert not calls_of(transcript)[0].completion.is_error
    (decided,) = [repair for repair in transcript.repairs if repair.kind == "result_superseded"]
    assert decided.decision == "a real result stands instead of a placeholder"


@requirement("REQ-915-014", "REQ-915-016", "REQ-915-049")
@every_target
def test_3_a_raw_id_used_again_in_a_later_turn_pairs_in_its_own_turn(rules: Rules) -> None:
    def turn(number: int) -> tuple[object, ...]:
        raw = "functions.read:0"
        return (
            user(f"question {number}"),
            model(ToolCall("", "read", {"n": number}, native_id=raw)),
            tool(ToolResult("", "read", f"content {number}", native_id=raw)),
        )

    adopted = adopt([message for number in range(3) for message in turn(number)])  # type: ignore[misc]
    transcript = render(adopted.conversation, None, rules)
    assert [call.completion.text for call in calls_of(transcript)] == ["content 0", "content 1", "content 2"]
    assert len({call.id for call in calls_of(transcript)}) == 3
    assert adopted.repairs == ()


@requirement("REQ-915-022")
@every_target
def test_4_empty_ids_keep_their_completions(rules: Rules) -> None:
    transcript = said(
        user("a"),
        model(ToolCall("", "read", {"n": 1}), ToolCall("", "read", {"n": 2})),
        tool(ToolResult("", "read", "one"), ToolResult("", "read", "two")),
        user("b"),
        rules=rules,
    )
    assert [call.completion.text for call in calls_of(transcript)] == ["one", "two"]
    assert len({call.id for call in calls_of(transcript)}) == 2
    assert list(complaints(transcript, rules)) == []


@requirement("REQ-915-008", "REQ-915-010")
@every_target
def test_5_results_come_in_call_order_whatever_order_they_arrived_in(rules: Rules) -> None:
    transcript = said(
        user("a"),
        model(read("c0"), read("c1"), read("c2")),
        tool(done("c2", "third")),
        tool(done("c0", "first")),
        rules=rules,
    )
    assert [call.call_id for call in calls_of(transcript)] == ["c0", "c1", "c2"]
    assert [call.completion.text for call in calls_of(transcript)] == [
        "first",
        WORDING["interrupted"],
        "third",
    ]


@requirement("REQ-915-025")
@every_target
def test_6_what_lies_beside_a_result_is_still_said(rules: Rules) -> None:
    transcript = said(
        user("a"),
        model(read("c0"), read("c1")),
        tool(Text("an image was left out here"), done("c0", "first")),
        tool(done("c1", "second")),
        rules=rules,
    )
    assert completions_of(transcript) == {"c0": "first", "c1": "second"}
    assert "an image was left out here" in all_text(transcript)


@requirement("REQ-915-016", "REQ-915-049")
@every_target
def test_7_ids_that_differ_only_in_illegal_characters_stay_different(rules: Rules) -> None:
    hostile = ("a|b", "a/b", "a b", "ab", "a_b", "toolu_a|b", "toolu_ab", "call_", "toolu_empty", "x" * 400)
    transcript = said(
        user("a"),
        model(*(read(call_id) for call_id in hostile)),
        tool(*(done(call_id, f"of {call_id}") for call_id in hostile)),
        rules=rules,
    )
    assert completions_of(transcript) == {call_id: f"of {call_id}" for call_id in hostile}
    assert len({call.id for call in calls_of(transcript)}) == len(hostile)
    assert list(complaints(transcript, rules)) == []


@requirement("REQ-915-009", "REQ-915-010")
@every_target
def test_8_a_batch_is_one_message_with_its_results_in_call_order_and_nothing_twice(rules: Rules) -> None:
    conversation = Conversation().append(
        user("a"), model(*(ToolCall("", "read", {"n": n}) for n in range(3)))
    )
    ledger = Ledger()
    for call in conversation.messages[-1].calls:
        ledger.schedule(call)
    ledger.cancel("c1", "cancelled_by_user")
    for call_id in ("c2", "c0"):
        ledger.settle(done(call_id, f"of {call_id}"))
        ledger.settle(done(call_id, f"of {call_id}"))
    cancelled = ledger["c1"].result
    assert cancelled is not None
    # The cancelled call is in the ledger and was written to the history as well, as one code path does it.
    conversation = conversation.append(tool(cancelled), tool(done("c0", "of c0")), tool(cancelled))
    transcript = render(conversation, ledger, rules)
    assert batches_of(transcript) == [["c0", "c1", "c2"]]
    assert completions_of(transcript) == {
        "c0": "of c0",
        "c1": WORDING["cancelled_by_user"],
        "c2": "of c2",
    }


@requirement("REQ-915-004", "REQ-915-025")
@every_target
def test_9_text_stays_when_its_message_holds_calls(rules: Rules) -> None:
    transcript = said(user("a"), model("I will look.", read("c0")), tool(done("c0", "content")), rules=rules)
    (step,) = [
        step for step in transcript.steps if any(block in calls_of(transcript) for block in step.blocks)
    ]
    assert Text("I will look.") in step.blocks


@requirement("REQ-915-036", "REQ-915-037")
@pytest.mark.parametrize(
    ("dialect", "rendered_for"), [("anthropic", "kimi"), ("openai_chat", "gemini"), ("gemini", "mistral")]
)
def test_10_a_dialect_refuses_what_was_not_rendered_for_it_instead_of_repairing(
    dialect: str, rendered_for: str
) -> None:
    transcript = said(user("a"), model(read("c0")), user("b"), rules=TARGETS[rendered_for])
    with pytest.raises(TranscriptError) as refused:
        DIALECTS[dialect].encode_request(transcript, (), Options(model="m"), ModelCard())
    assert "Render the conversation" in refused.value.hint


@requirement("REQ-915-024")
@every_target
def test_11_excluded_thoughts_are_nowhere_and_foreign_ones_never_become_text(rules: Rules) -> None:
    own, sealed = rules.target, Seal(rules.target, "SEALED")
    messages = (
        user("a"),
        model(Reasoning("FOREIGN-THOUGHT", Seal(FOREIGN, "FOREIGN-SEAL")), read("c0"), origin=FOREIGN),
        tool(done("c0", "content")),
        model(Reasoning("OWN-THOUGHT", sealed), Reasoning("UNSIGNED-THOUGHT"), "answer", origin=own),
        user("b"),
    )
    for policy in (Policy(include_reasoning=False), Policy(strip_reasoning="all")):
        assert "THOUGHT" not in all_text(said(*messages, rules=rules, policy=policy))
    assert "FOREIGN" not in all_text(said(*messages, rules=rules))


@requirement("REQ-915-038")
@every_target
def test_12_arguments_that_do_not_parse_are_told_and_never_become_an_empty_object(rules: Rules) -> None:
    broken = ToolCall("c0", "read", None, '{"path": "a')
    transcript = said(user("a"), model(broken), tool(done("c0", "could not be run")), rules=rules)
    assert json.loads(calls_of(transcript)[0].arguments) == {"raw_arguments": '{"path": "a'}
    assert "arguments_wrapped" in kinds_of(transcript)


@requirement("REQ-915-026", "REQ-915-027", "REQ-915-028")
@every_target
def test_13_no_cut_at_any_place_splits_a_pair(rules: Rules) -> None:
    whole = Conversation().append(
        user("a"),
        model("looking", ToolCall("", "read", {"n": 0}), ToolCall("", "read", {"n": 1})),
        tool(done("c0", "first")),
        tool(done("c1", "second")),
        model(ToolCall("", "read", {"n": 2})),
        tool(done("c2", "third")),
        model("answer"),
        user("b"),
    )
    ledger = rebuild(whole)
    real = {"c0": "first", "c1": "second", "c2": "third"}
    for start in range(len(whole.messages)):
        for book in (ledger, None):
            kept = Conversation(whole.messages[start:], minted=whole.minted)
            transcript = render(kept, book, rules)
            assert list(complaints(transcript, rules)) == []
            assert completions_of(transcript).items() <= real.items()

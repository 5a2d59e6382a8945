"""The sequence the requirements were written for, and its ids in every format."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laws.digest import all_text
from laws.legality import complaints
from segue.conversation.blocks import Origin, Reasoning, Text, ToolCall, ToolResult
from segue.conversation.interaction import Interaction, Ledger
from segue.conversation.message import Conversation, Message, model, tool, user
from segue.conversation.options import Options
from segue.dialects.card import UNKNOWN
from segue.dialects.plan import plan
from segue.transcript.blocks.outcomes import WORDING
from segue.transcript.policy import Policy
from segue.transcript.render import render
from segue.transcript.rules import Rules
from segue.transcript.steps import Transcript
from strategies.histories import IDS
from strategies.targets import TARGETS
from transcript.readers import batches_of, calls_of, completions_of, every_target, said

requirement = pytest.mark.requirement

FORMATS = {
    "openai_chat": r"call_[A-Za-z0-9_-]{1,35}",
    "openai_responses": r"call_[A-Za-z0-9_-]{1,59}",
    "anthropic": r"toolu_[a-zA-Z0-9_-]+",
    "kimi": r"functions\.[A-Za-z_][A-Za-z0-9_-]*:[0-9]+",
    "mistral": r"[A-Za-z0-9]{9}",
}
every_format = pytest.mark.parametrize("name", FORMATS)


def wish(call_id: str, name: str = "read") -> ToolCall:
    return ToolCall(call_id, name, {"id": call_id}, json.dumps({"id": call_id}))


def requested(origin: Origin | None = None) -> tuple[Message, ...]:
    return (
        user("chat"),
        model(Reasoning("THOUGHT-1"), wish("C1"), origin=origin),
        tool(ToolResult("C1", "read", "real 1")),
        model(Reasoning("THOUGHT-2"), *(wish(f"C{n}") for n in range(2, 7)), origin=origin),
        tool(ToolResult("C3", "read", "real 3")),
        model(Reasoning("THOUGHT-3"), "big streamed text", origin=origin),
        user("next"),
    )


@requirement(
    "REQ-915-001",
    "REQ-915-004",
    "REQ-915-005",
    "REQ-915-007",
    "REQ-915-011",
    "REQ-915-012",
    "REQ-915-013",
    "REQ-915-017",
    "REQ-915-025",
)
@every_target
def test_the_requested_sequence_has_two_real_and_four_synthetic_completions(rules: Rules) -> None:
    transcript = said(*requested(), rules=rules)
    assert batches_of(transcript) == [["C1"], ["C2", "C3", "C4", "C5", "C6"]]
    assert completions_of(transcript) == {
        "C1": "real 1",
        "C3": "real 3",
        **dict.fromkeys(("C2", "C4", "C5", "C6"), WORDING["interrupted"]),
    }
    assert [call.completion.reason for call in calls_of(transcript)] == [
        None,
        "interrupted",
        None,
        *["interrupted"] * 3,
    ]
    assert "big streamed text" in all_text(transcript)
    assert list(complaints(transcript, rules)) == []


@requirement("REQ-915-023", "REQ-915-024")
@every_target
def test_its_thoughts_follow_the_policy_and_its_pairs_do_not_care(rules: Rules) -> None:
    including = said(*requested(rules.target), rules=rules)
    excluding = said(*requested(rules.target), rules=rules, policy=Policy(include_reasoning=False))
    last = said(*requested(rules.target), rules=rules, policy=Policy(strip_reasoning="all_but_last"))
    for transcript in (excluding, last):
        assert completions_of(transcript) == completions_of(including)
        assert list(complaints(transcript, rules)) == []
    assert "THOUGHT" not in all_text(excluding)
    if rules.reasoning.replay == "plain" or rules.reasoning.unsealed:
        assert all_text(including).count("THOUGHT") == 3
        assert all_text(last).count("THOUGHT") == 1
        assert "THOUGHT-3" in all_text(last)
    else:
        assert "THOUGHT" not in all_text(including)


@requirement("REQ-915-011", "REQ-915-044")
@every_target
@pytest.mark.parametrize("with_ledger", [False, True])
def test_five_calls_and_one_result_give_one_real_and_four_synthetic(
    rules: Rules, *, with_ledger: bool
) -> None:
    calls = [wish(f"c{n}") for n in range(5)]
    result = ToolResult("c3", "read", "the only one")
    ledger = Ledger(Interaction(call, result if call.id == "c3" else None) for call in calls)
    transcript = render(
        Conversation((user("a"), model(*calls), tool(result), user("b"))),
        ledger if with_ledger else None,
        rules,
    )
    real = [call for call in calls_of(transcript) if call.completion.reason is None]
    assert [(call.call_id, call.completion.text) for call in real] == [("c3", "the only one")]
    assert len(calls_of(transcript)) == 5
    assert len([repair for repair in transcript.repairs if repair.kind == "call_closed"]) == 4
    assert list(complaints(transcript, rules)) == []


# Ids


@requirement(
    "REQ-915-015", "REQ-915-016", "REQ-915-018", "REQ-915-019", "REQ-915-020", "REQ-915-021", "REQ-915-049"
)
@every_format
def test_one_transcript_has_legal_distinct_ids_in_every_format(name: str) -> None:
    transcript = said(*requested(), rules=TARGETS[name])
    ids = [call.id for call in calls_of(transcript)]
    assert all(re.fullmatch(FORMATS[name], one) for one in ids)
    assert len(set(ids)) == 6


@requirement("REQ-915-018")
@pytest.mark.parametrize("dialect", ["openai_chat", "openai_responses"])
def test_calls_and_results_have_ids_of_openai_on_its_wires(dialect: str) -> None:
    target = Origin(dialect, "openai", "https://api.openai.com/v1", "m")
    body = plan(
        Conversation(tuple(requested())), None, target=target, card=UNKNOWN, options=Options(model="m")
    ).body
    ids = re.findall(rb'"(?:id|call_id|tool_call_id)":"([^"]*)"', body)
    called = {one.decode() for one in ids}
    assert len(called) == 6
    assert all(re.fullmatch(FORMATS[dialect], one) for one in called)
    assert all(ids.count(one) == 2 for one in set(ids)), "of a call, and of its result"


@requirement("REQ-915-020")
def test_kimi_counts_over_the_whole_transcript_and_names_the_tool() -> None:
    transcript = said(
        user("a"),
        model(wish("x"), wish("y", "write")),
        user("b"),
        model(wish("z")),
        rules=TARGETS["kimi"],
    )
    assert [call.id for call in calls_of(transcript)] == [
        "functions.read:0",
        "functions.write:1",
        "functions.read:2",
    ]


@requirement("REQ-915-016", "REQ-915-022", "REQ-915-049")
@every_target
@given(ids=st.lists(st.sampled_from(IDS) | st.text(max_size=5), min_size=1, max_size=12))
def test_any_ids_in_any_number_become_legal_and_distinct(rules: Rules, ids: list[str]) -> None:
    messages = (user("a"), model(*(ToolCall(call_id, "read") for call_id in ids)), user("b"))
    transcript = said(*messages, rules=rules)
    assert len({call.id for call in calls_of(transcript)}) == len(ids)
    assert list(complaints(transcript, rules)) == []
    assert [call.id for call in calls_of(said(*messages, rules=rules))] == [
        call.id for call in calls_of(transcript)
    ]


@requirement("REQ-915-022")
@every_target
def test_two_calls_without_any_id_pair_with_their_results_by_position(rules: Rules) -> None:
    transcript = said(
        user("a"),
        model(ToolCall("", "read"), ToolCall("", "write"), ToolCall("", "read")),
        tool(ToolResult("", "write", "w"), ToolResult("", "read", "r1"), ToolResult("", "", "r2")),
        rules=rules,
    )
    assert [call.completion.text for call in calls_of(transcript)] == ["r1", "w", "r2"]


@requirement("REQ-915-021", "REQ-915-049")
@pytest.mark.parametrize("kind", ["minted", "foreign", "empty"])
def test_a_hundred_thousand_calls_have_distinct_ids_on_mistral(kind: str) -> None:
    made = {"minted": "c{}", "foreign": "call_{}|", "empty": ""}[kind]
    calls = tuple(ToolCall(made.format(n), "read", raw="{}") for n in range(100_000))
    results = tuple(ToolResult(call.id, "read", "x") for call in calls)
    transcript = said(user("a"), model(*calls), tool(*results), rules=TARGETS["mistral"])
    ids = {call.id for call in calls_of(transcript)}
    assert len(ids) == 100_000
    assert all(len(one) == 9 and one.isalnum() and one.isascii() for one in ids)


@requirement("REQ-915-014", "REQ-915-016")
@every_target
def test_the_same_raw_id_in_different_turns_is_two_calls(rules: Rules) -> None:
    transcript = said(
        user("a"),
        model(wish("call_1")),
        tool(ToolResult("call_1", "read", "one")),
        user("b"),
        model(wish("call_1")),
        tool(ToolResult("call_1", "read", "two")),
        rules=rules,
    )
    assert [call.completion.text for call in calls_of(transcript)] == ["one", "two"]
    assert len({call.id for call in calls_of(transcript)}) == 2


def ids_on(rules: Rules, *messages: Message) -> list[str]:
    return [call.id for call in calls_of(said(*messages, rules=rules))]


@requirement("REQ-915-010", "REQ-915-015")
@every_target
@given(ids=st.lists(st.sampled_from(IDS), min_size=2, max_size=8), length=st.integers(1, 7))
def test_ids_stay_when_the_conversation_grows(rules: Rules, ids: list[str], length: int) -> None:
    turns = [
        message
        for call_id in ids
        for message in (
            model(ToolCall(call_id, "read")),
            tool(ToolResult(call_id, "read", "x")),
            user("more"),
        )
    ]
    whole = ids_on(rules, user("a"), *turns)
    shorter = ids_on(rules, user("a"), *turns[: length * 3])
    assert whole[: len(shorter)] == shorter


OWN = {
    "openai_chat": "call_9tFqYvTz0",
    "openai_responses": "call_9tFqYvTz0",
    "anthropic": "toolu_01A09q90qw90lq917835lq9",
    "mistral": "D681PevKs",
    "gemini": "function-call-123",
}


@requirement("REQ-915-015")
@pytest.mark.parametrize("name", OWN)
def test_an_id_the_provider_issued_is_given_back_unchanged(name: str) -> None:
    rules = TARGETS[name]
    call = ToolCall("c0", "read", native_id=OWN[name])
    result = tool(ToolResult("c0", "read", "x"))
    assert ids_on(rules, user("a"), model(call, origin=rules.target), result) == [OWN[name]]
    elsewhere = Origin(rules.target.dialect, "another", "https://else.invalid", rules.target.model)
    assert ids_on(rules, user("a"), model(call, origin=elsewhere), result) != [OWN[name]]
    sibling = Origin(rules.target.dialect, rules.target.provider, rules.target.endpoint, "sibling")
    assert ids_on(rules, user("a"), model(call, origin=sibling), result) == [OWN[name]]


@requirement("REQ-915-016")
@pytest.mark.parametrize("name", OWN)
def test_an_id_the_provider_issued_twice_is_given_back_once_and_that_is_told(name: str) -> None:
    rules = TARGETS[name]
    calls = [ToolCall(f"c{n}", "read", raw="{}", native_id=OWN[name]) for n in range(2)]
    transcript = said(
        user("a"),
        model(*calls, origin=rules.target),
        tool(*(ToolResult(call.id, "read", "x") for call in calls)),
        model(ToolCall("c2", "read", raw="{}", native_id="no good ✗"), origin=rules.target),
        tool(ToolResult("c2", "read", "x")),
        rules=rules,
    )
    ids = [call.id for call in calls_of(transcript)]
    assert ids[0] == OWN[name]
    assert len(set(ids)) == 3
    replaced = [repair for repair in transcript.repairs if repair.kind == "id_replaced"]
    assert [repair.path for repair in replaced] == ["messages[1].blocks[1]", "messages[3].blocks[0]"]
    assert [repair.emitted_call_ids for repair in replaced] == [(ids[1],), (ids[2],)]


@requirement("REQ-915-016", "REQ-915-049")
@every_target
def test_an_id_equal_to_the_projection_of_another_does_not_collide(rules: Rules) -> None:
    def answered(call: ToolCall) -> tuple[Message, Message]:
        return model(call, origin=rules.target), tool(ToolResult(call.id, "read", f"of {call.id}"))

    (projected,) = ids_on(rules, user("a"), *answered(ToolCall("a|b", "read")))
    transcript = said(
        user("a"),
        *answered(ToolCall("a|b", "read")),
        *answered(ToolCall(projected, "read")),
        *answered(ToolCall("c7", "read", native_id=projected)),
        rules=rules,
    )
    assert len({call.id for call in calls_of(transcript)}) == 3
    assert completions_of(transcript) == {one: f"of {one}" for one in ("a|b", projected, "c7")}


def wire_pairs(transcript: Transcript) -> list[tuple[str, str]]:
    """Ids of calls and of their results, as the target's API would give them back."""
    calls: list[str] = []
    results: list[str] = []
    for message in transcript.conversation().messages:
        calls += [call.native_id for call in message.calls]
        results += [block.native_id for block in message.blocks if isinstance(block, ToolResult)]
    return list(zip(calls, results, strict=True))


@requirement("REQ-915-006", "REQ-915-017", "Property 30", "Property 31")
@every_target
def test_call_and_result_carry_one_id_and_every_message_is_well_formed(rules: Rules) -> None:
    transcript = said(*requested(), rules=rules)
    assert all(call == result for call, result in wire_pairs(transcript))
    for message in transcript.conversation().messages:
        assert message.speaker in ("user", "model", "tool")
        assert message.blocks
        if message.speaker == "tool":
            assert all(isinstance(block, ToolResult) and block.name for block in message.blocks)


@requirement("Property 31")
@every_target
def test_a_result_always_names_its_tool_also_when_nobody_did(rules: Rules) -> None:
    transcript = said(user("a"), tool(ToolResult("x", "", "orphan")), model(ToolCall("y", "")), rules=rules)
    (tools,) = [
        [block for block in message.blocks if isinstance(block, ToolResult)]
        for message in transcript.conversation().messages[:3]
        if message.speaker == "tool"
    ]
    assert all(result.name for result in tools)
    assert all(call.name for call in calls_of(transcript))
    assert Text("a") in transcript.steps[0].blocks

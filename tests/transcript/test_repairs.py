"""Repairs tell what, where, for whom and why."""

from __future__ import annotations

from typing import get_args

import pytest
from msgspec import structs

from segue.conversation.blocks import Reasoning, ToolCall, ToolResult
from segue.conversation.message import Conversation, model, tool, user
from segue.transcript.render import render
from segue.transcript.repairs import FAULTS, LOSSY, SENTENCES, FaultClass, Kind, Repair
from strategies.targets import TARGETS

requirement = pytest.mark.requirement


@requirement("REQ-915-040")
def test_every_kind_has_a_fault_class_and_a_sentence() -> None:
    kinds = set(get_args(Kind))
    assert set(FAULTS) == set(SENTENCES) == kinds
    assert set(FAULTS.values()) == set(get_args(FaultClass))
    assert kinds >= LOSSY


@pytest.mark.parametrize(
    ("fault", "kinds"),
    [
        (
            "canonical_state",
            (
                "arguments_wrapped call_reconstructed duplicate_call_dropped field_corrected message_dropped result_superseded "
                "results_joined speaker_corrected value_made_safe"
            ),
        ),
        ("pairing", "call_closed call_recovered calls_reordered result_moved result_recovered"),
    ],
)
def test_a_fault_of_the_history_is_told_from_what_a_target_wants(fault: FaultClass, kinds: str) -> None:
    assert sorted(kind for kind, found in FAULTS.items() if found == fault) == kinds.split()


@requirement("REQ-915-039", "REQ-915-040")
def test_a_repair_tells_all_fields_also_the_empty_ones() -> None:
    repair = Repair(
        "call_closed",
        "anthropic",
        "messages[1].blocks[0]",
        ("c0",),
        ("toolu_c0",),
        ("toolu_c0",),
        "why",
        "interrupted",
    )
    assert repair.as_dict() == {
        "kind": "call_closed",
        "fault_class": "pairing",
        "lossy": False,
        "summary": SENTENCES["call_closed"],
        "dialect": "anthropic",
        "path": "messages[1].blocks[0]",
        "call_ids": ("c0",),
        "emitted_call_ids": ("toolu_c0",),
        "emitted_result_ids": ("toolu_c0",),
        "decision": "why",
        "reason": "interrupted",
    }
    assert str(repair) == (
        "messages[1].blocks[0] (c0): call without a result: closed with a neutral note: why"
    )
    assert set(Repair("opened", "d").as_dict()) == set(repair.as_dict())
    assert str(Repair("opened", "d")).startswith("transcript: ")


@requirement("REQ-915-039", "REQ-915-040")
def test_one_fault_of_each_class_is_told_apart() -> None:
    conversation = Conversation(
        (
            user("a"),
            tool(ToolCall("x", "read"), ToolResult("x", "read", "1")),
            model(Reasoning("foreign"), ToolCall("y", "read file")),
            user("b"),
        )
    )
    heard: list[Repair] = []
    transcript = render(conversation, None, TARGETS["anthropic"], on_repair=heard.append)
    assert tuple(heard) == transcript.repairs
    assert {repair.kind: repair.fault for repair in heard} == {
        "speaker_corrected": "canonical_state",
        "call_closed": "pairing",
        "name_replaced": "projection",
        "reasoning_dropped": "projection",
    }
    assert [repair.kind for repair in heard if repair.lossy] == ["reasoning_dropped"]
    (closed,) = [repair for repair in heard if repair.kind == "call_closed"]
    assert (closed.call_ids, closed.emitted_call_ids, closed.emitted_result_ids) == (
        ("y",),
        ("toolu_y",),
        ("toolu_y",),
    )
    assert (closed.dialect, closed.reason) == ("anthropic", "interrupted")


@requirement("REQ-915-039", "REQ-915-040")
@pytest.mark.parametrize("dialect", ["mistral", "deepseek"])
def test_repairs_of_a_whole_message_name_its_calls(dialect: str) -> None:
    rules = structs.replace(TARGETS[dialect], calls_per_step=1)
    conversation = Conversation(
        (
            user("a"),
            model(Reasoning("foreign"), ToolCall("x", "read"), ToolCall("y", "read"), "after"),
            tool(ToolResult("x", "read", "1")),
            user(ToolResult("y", "read", "2"), "b"),
        )
    )
    named: dict[str, list[str]] = {}
    for repair in render(conversation, None, rules).repairs:
        named.setdefault(repair.kind, []).extend(repair.call_ids)
        assert repair.emitted_call_ids == repair.emitted_result_ids
        assert len(repair.emitted_call_ids) == len(repair.call_ids)
    assert named.pop("speaker_corrected") == ["y"]
    assert named.pop("bridged", ["y"]) == ["y"]
    assert named.keys() >= {"reasoning_dropped", "calls_reordered", "calls_split"}
    assert all(ids == ["x", "y"] for ids in named.values())


@requirement("REQ-915-039")
def test_secrets_in_arguments_results_and_seals_are_in_no_repair() -> None:
    private = "sk-private"
    conversation = Conversation(
        (
            user(private),
            model(ToolCall("c0", "read", [private], private), Reasoning(private)),
            tool(ToolResult("c0", "read", private), ToolResult("c0", "read", error=private)),
            tool(ToolResult("c0", "read", {"b": b"x", "k": private})),
        )
    )
    for rules in TARGETS.values():
        repairs = render(conversation, None, rules).repairs
        assert repairs
        assert all(private not in repr(repair.as_dict()) for repair in repairs)

"""Which thoughts may go back, and to whom."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from laws.legality import complaints
from segue.conversation.blocks import Origin, Reasoning, Seal, Text, ToolCall, ToolResult
from segue.conversation.extra import Extra
from segue.conversation.message import Message, model, tool, user
from segue.transcript.policy import Policy
from segue.transcript.reasoning import Makers, all_but_last, is_by_provider, is_by_target, strip
from segue.transcript.rules import ReasoningRules, Rules
from segue.transcript.steps import ModelStep, Step, UserStep
from transcript.readers import every_target, kinds_of, said

requirement = pytest.mark.requirement
TARGET = Origin("d", "p", "e", "m")
SEALED = Rules(target=TARGET, reasoning=ReasoningRules(replay="sealed"))
PLAIN = Rules(target=TARGET, reasoning=ReasoningRules(replay="plain"))
NONE = Rules(target=TARGET)
FOREIGN = structs.replace(TARGET, model="other")
OWN_SEAL, FOREIGN_SEAL = Seal(TARGET, "seal"), Seal(FOREIGN, "seal")


def test_a_seal_is_opened_by_its_origin_alone_and_only_if_it_can_be_written() -> None:
    assert Makers(SEALED).opens(OWN_SEAL)
    assert not Makers(SEALED).opens(FOREIGN_SEAL)
    assert not Makers(SEALED).opens(Seal(TARGET, "\ud800"))


AT_HOME = Rules(target=Origin("d", "home", "https://home.test", "m"), home="home")
ELSEWHERE = Rules(target=Origin("d", "other", "https://other.test", "m"), home="home")
UNNAMED = Rules(target=Origin("d", model="m"), home="home")


@pytest.mark.parametrize(
    ("writer", "rules", "expected"),
    [
        (Origin("d", model="m"), AT_HOME, True),
        (Origin("d", model="m"), ELSEWHERE, False),
        (Origin("d", model="m"), UNNAMED, True),
        (Origin("d", "home", model="m"), AT_HOME, True),
        (Origin("d", "other", model="m"), ELSEWHERE, False),
        (Origin("d", "home", "https://home.test", "m"), UNNAMED, True),
        (Origin("d", "other", "https://other.test", "m"), UNNAMED, False),
        (Origin("d", "home", "https://moved.test", "m"), AT_HOME, False),
        (Origin("d", model="n"), AT_HOME, False),
        (Origin("d"), AT_HOME, False),
        (Origin("d"), structs.replace(UNNAMED, target=Origin("d")), True),
        (Origin("e", model="m"), AT_HOME, False),
        (Origin(model="m"), AT_HOME, False),
        (Origin("d", model="m-20250929"), AT_HOME, True),
        (Origin("d", model="m-2025-09-29"), AT_HOME, True),
        (
            Origin("d", model="m-20250929"),
            structs.replace(UNNAMED, target=Origin("d", model="m-20241022")),
            False,
        ),
    ],
)
def test_a_writer_who_is_known_in_part_is_the_target_where_nothing_contradicts_it(
    writer: Origin, rules: Rules, *, expected: bool
) -> None:
    assert is_by_target(writer, rules) is expected


def test_an_id_goes_back_to_its_provider_whatever_the_model() -> None:
    assert is_by_provider(Origin("d", model="n"), AT_HOME)
    assert not is_by_provider(Origin("d", model="m"), ELSEWHERE)


@requirement("REQ-915-023", "REQ-915-024")
@pytest.mark.parametrize(
    ("thought", "speaker", "rules", "policy", "ground"),
    [
        (Reasoning("t", OWN_SEAL), TARGET, SEALED, Policy(), ""),
        (Reasoning("", OWN_SEAL), None, SEALED, Policy(), ""),
        (Reasoning("t"), TARGET, SEALED, Policy(), "it carries no seal"),
        (Reasoning("t", FOREIGN_SEAL), TARGET, SEALED, Policy(), "another model made it"),
        (Reasoning("t"), TARGET, PLAIN, Policy(), ""),
        (Reasoning("t"), FOREIGN, PLAIN, Policy(), "another model made it"),
        (Reasoning("t"), None, PLAIN, Policy(), "another model made it"),
        (Reasoning(""), TARGET, PLAIN, Policy(), "it is empty"),
        (Reasoning("\ud800"), TARGET, PLAIN, Policy(), "it holds text that cannot be written"),
        (Reasoning("t", OWN_SEAL), TARGET, NONE, Policy(), "the target takes no reasoning back"),
        (Reasoning("t"), TARGET, PLAIN, Policy(include_reasoning=False), "the policy leaves reasoning out"),
        (Reasoning("t"), TARGET, PLAIN, Policy(strip_reasoning="all"), "the policy leaves reasoning out"),
    ],
)
def test_a_thought_goes_back_to_the_model_that_made_it_unless_there_is_a_ground(
    thought: Reasoning, speaker: Origin | None, rules: Rules, policy: Policy, ground: str
) -> None:
    assert Makers(rules).drop_reason(thought, speaker, policy) == ground


def test_the_thoughts_of_one_message_go_back_all_or_not_at_all() -> None:
    mixed = model(Reasoning("one", OWN_SEAL), Reasoning("two"), "said", origin=TARGET)
    transcript = said(user("a"), mixed, user("b"), rules=SEALED)
    assert transcript.steps[1] == ModelStep((Text("said"),))
    assert kinds_of(transcript) == ["reasoning_dropped"]


NAMED = structs.replace(SEALED, reasoning=ReasoningRules(replay="sealed", item_id="id"))


@pytest.mark.parametrize("policy", [Policy(), Policy(strip_reasoning="all_but_last")])
def test_what_stood_beside_a_thought_that_is_not_sent_loses_the_id_that_asks_for_it(policy: Policy) -> None:
    def named(name: str, **form: Any) -> Extra:
        return Extra("d", form={"id": name, **form}, container=Extra("d", form={"id": "around"}))

    sealed = FOREIGN_SEAL if policy == Policy() else OWN_SEAL
    reply = model(
        Reasoning("why", sealed),
        Text("said", extra=named("msg", status="completed")),
        ToolCall("c0", "read", arguments={}, raw="{}", extra=named("fc")),
        origin=TARGET,
    )
    last = model(Reasoning("then", OWN_SEAL), Text("end", extra=named("kept")), origin=TARGET)
    transcript = said(
        user("a"), reply, tool(ToolResult("c0", "read", "r")), last, user("b"), rules=NAMED, policy=policy
    )
    text, call = transcript.steps[1].blocks
    assert isinstance(text, Text)
    assert text.extra == Extra("d", form={"status": "completed"}, container=Extra("d"))
    assert call.extra == Extra("d", container=Extra("d"))
    assert transcript.steps[2].blocks[1].extra == named("kept")


def test_a_foreign_seal_on_a_plain_thought_stays_behind() -> None:
    transcript = said(
        user("a"), model(Reasoning("t", FOREIGN_SEAL), "s", origin=TARGET), user("b"), rules=PLAIN
    )
    assert transcript.steps[1].blocks[0] == Reasoning("t")


@requirement("REQ-915-024", "REQ-915-025")
@every_target
def test_thoughts_stand_where_they_stood_among_texts_and_calls(rules: Rules) -> None:
    # A bound seal would not survive that the call moves to the end; test_seals has those.
    rules = structs.replace(rules, reasoning=structs.replace(rules.reasoning, bound=False))
    seal = Seal(rules.target, "seal")
    mixed = model(
        Reasoning("1", seal),
        "a",
        Reasoning("2", seal),
        ToolCall("c0", "read"),
        Reasoning("3", seal),
        "b",
        origin=rules.target,
    )
    transcript = said(user("q"), mixed, user("r"), rules=rules)
    thoughts = [
        block.text for step in transcript.steps for block in step.blocks if isinstance(block, Reasoning)
    ]
    if rules.reasoning.replay != "none":
        assert thoughts == ["1", "2", "3"]
    assert list(complaints(transcript, rules)) == []


@requirement("REQ-915-024")
@every_target
def test_keeping_the_last_thought_leaves_a_filler_where_the_target_insists(rules: Rules) -> None:
    def thinking(number: int) -> tuple[object, ...]:
        seal = Seal(rules.target, f"seal {number}")
        return (
            user(f"question {number}"),
            model(Reasoning(f"thought {number}", seal), f"said {number}", origin=rules.target),
        )

    messages = (*thinking(1), *thinking(2), user("question 3"), model("said by another"), user("b"))
    transcript = said(*messages, rules=rules, policy=Policy(strip_reasoning="all_but_last"))  # type: ignore[arg-type]
    assert list(complaints(transcript, rules)) == []
    thoughts = [
        block.text
        for step in transcript.steps
        for block in step.blocks
        if isinstance(block, Reasoning) and block.text.strip()
    ]
    assert thoughts == ([] if rules.reasoning.replay == "none" else ["thought 2"])


def test_a_filler_is_not_the_last_thought() -> None:
    rules = ReasoningRules(replay="plain", required="calls", filler=" ")
    steps: list[Step] = [
        ModelStep((Reasoning("1"), Text("a"))),
        UserStep((Text("q"),)),
        ModelStep((Reasoning("2"), Text("b"))),
        ModelStep((Reasoning(" "), Text("c"))),
    ]
    assert all_but_last(steps, rules) == [0]
    messages = [Message("model", step.blocks) for step in steps]  # type: ignore[arg-type]
    assert strip(steps, [0], rules, messages, -1) == [(0, ())]
    assert steps[0] == ModelStep((Text("a"),))
    assert strip(steps, [0, 1, 2], rules, messages, 0) == [(2, ())]

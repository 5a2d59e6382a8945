"""Steps a target accepts: whose turn it is, what stands in, what is moved, split or left out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from laws.digest import on_the_wire
from laws.legality import complaints
from segue.conversation.blocks import Media, Origin, Reasoning, Seal, Text, ToolCall, ToolResult
from segue.conversation.message import Message, model, tool, user
from segue.transcript.adopt import adopt
from segue.transcript.composer import BLANK, CONTINUE, OPENING
from segue.transcript.render import render
from segue.transcript.rules import ReasoningRules, Rules
from segue.transcript.steps import ModelStep, UserStep
from strategies.histories import conversations
from strategies.targets import TARGETS
from transcript.readers import batches_of, calls_of, every_target, kinds_of, said

requirement = pytest.mark.requirement
CHAT, ANTHROPIC, MISTRAL = TARGETS["openai_chat"], TARGETS["anthropic"], TARGETS["mistral"]
READ = ToolCall("c0", "read", raw="{}")
DONE = ToolResult("c0", "read", "content")


def instruction(text: str) -> Message:
    return Message("user", (Text(text),), instruction=True)


def test_a_model_may_not_speak_first_where_the_target_wants_a_user() -> None:
    transcript = said(model("hello"), user("a"), rules=ANTHROPIC)
    assert transcript.steps[0] == UserStep((Text(OPENING),))
    assert kinds_of(transcript) == ["opened"]
    assert kinds_of(said(model("hello"), user("a"), rules=CHAT)) == []


def test_a_system_note_is_no_user_where_the_target_wants_a_user_first() -> None:
    transcript = said(instruction("note"), model("hello"), user("a"), rules=TARGETS["deepseek"])
    assert transcript.steps[1] == UserStep((Text(OPENING),))
    assert "opened" in kinds_of(transcript)


def test_a_model_may_not_have_the_last_word_where_the_target_wants_a_user() -> None:
    transcript = said(user("a"), model("b"), rules=ANTHROPIC)
    assert transcript.steps[-1] == UserStep((Text(CONTINUE),))
    assert kinds_of(transcript) == ["ended"]
    assert kinds_of(said(user("a"), model("b"), rules=CHAT)) == []
    assert kinds_of(said(user("a"), model(READ), tool(DONE), rules=ANTHROPIC)) == []


def test_a_sealed_thought_keeps_the_user_message_that_it_was_made_behind() -> None:
    began = Message("model", (Text("b"),), Origin("openai_chat", "openai"))
    asked = said(user("a"), began, rules=ANTHROPIC)
    origin = ANTHROPIC.target
    thought = Message("model", (Reasoning("hm", Seal(origin, "sealed")), Text("c")), origin)
    transcript = said(user("a"), began, thought, user("d"), rules=ANTHROPIC)
    assert transcript.steps[:3] == asked.steps
    assert kinds_of(transcript) == kinds_of(asked) == ["ended"]


@every_target
def test_where_nothing_can_be_said_a_short_text_stands(rules: Rules) -> None:
    transcript = said(model(Reasoning("foreign")), rules=rules)
    assert kinds_of(transcript) == ["reasoning_dropped", "message_dropped", "opened"]
    assert list(complaints(transcript, rules)) == []


def test_neighbouring_user_messages_are_said_together_only_where_they_must() -> None:
    assert len(said(user("a"), user("b"), rules=CHAT).steps) == 2
    assert said(user("a"), user("b"), rules=ANTHROPIC).steps == (UserStep((Text("a"), Text("b"))),)


def test_a_reply_stored_in_pieces_is_one_message() -> None:
    transcript = said(user("a"), model("b"), model("c", READ), tool(DONE), rules=CHAT)
    assert [len(step.blocks) for step in transcript.steps] == [1, 3]


@requirement("REQ-915-008")
def test_a_bridge_stands_between_results_and_the_user_where_the_target_wants_one() -> None:
    transcript = said(user("a"), model(READ), tool(DONE), user("b"), rules=MISTRAL)
    assert transcript.steps[2] == ModelStep((Text(MISTRAL.bridge),))
    assert "bridged" in kinds_of(transcript)
    assert list(complaints(transcript, MISTRAL)) == []


def test_an_instruction_stays_in_place_or_becomes_user_text() -> None:
    inline = said(user("a"), model("b"), instruction("note"), user("c"), rules=CHAT)
    assert inline.steps[2] == UserStep((Text("note"),), instruction=True)
    folded = said(user("a"), model("b"), instruction("note"), user("c"), rules=ANTHROPIC)
    assert folded.steps[2] == UserStep((Text("<system>"), Text("note"), Text("</system>"), Text("c")))
    assert kinds_of(folded) == ["instruction_folded"]


def test_a_system_note_is_text_and_its_media_is_the_users() -> None:
    image = Media("image", "image/png", "aGVsbG8=")
    note = Message("user", (image, Text("note")), instruction=True)
    for dialect in ("openai_chat", "kimi", "openai_responses"):
        transcript = said(user("a"), note, user("c"), rules=TARGETS[dialect])
        assert transcript.steps[1:3] == (UserStep((Text("note"),), instruction=True), UserStep((image,)))
        assert kinds_of(transcript) == ["instruction_folded"]
        alone = Message("user", (image,), instruction=True)
        assert said(user("a"), alone, rules=TARGETS[dialect]).steps[1:] == (UserStep((image,)),)


def test_blank_texts_are_left_out_or_replaced_where_the_target_refuses_them() -> None:
    transcript = said(user(" "), model("", "b"), user("", "c"), rules=ANTHROPIC)
    assert transcript.steps == (UserStep((Text(BLANK),)), ModelStep((Text("b"),)), UserStep((Text("c"),)))
    assert set(kinds_of(transcript)) == {"blank_text"}
    lenient = said(user(" "), model("", "b"), rules=CHAT)
    assert lenient.steps == (UserStep((Text(" "),)), ModelStep((Text(""), Text("b"))))
    assert lenient.repairs == ()


@requirement("REQ-915-038")
def test_text_that_cannot_be_written_is_made_safe() -> None:
    transcript = said(user("half \ud83d"), rules=CHAT)
    assert transcript.steps == (UserStep((Text("half \ufffd"),)),)
    assert kinds_of(transcript) == ["value_made_safe"]
    sealed = Text("half \ud83d", Seal(CHAT.target, "seal"))
    assert set(kinds_of(said(user("a"), model(sealed), rules=CHAT))) == {"seal_dropped", "value_made_safe"}


def test_calls_move_to_the_end_where_the_target_wants_them_there() -> None:
    mixed = (user("a"), model(READ, "after"), tool(DONE))
    assert said(*mixed, rules=ANTHROPIC).steps[1].blocks[0] == Text("after")
    assert "calls_reordered" in kinds_of(said(*mixed, rules=ANTHROPIC))
    assert kinds_of(said(user("a"), model("before", READ), tool(DONE), rules=ANTHROPIC)) == []
    free = structs.replace(ANTHROPIC, calls_last=False)
    assert kinds_of(said(*mixed, rules=free)) == []


@requirement("REQ-915-020")
def test_where_ids_are_numbers_another_number_is_no_news() -> None:
    kimi = TARGETS["kimi"]
    call = ToolCall("c0", "read", native_id="functions.read:9")
    assert "id_replaced" not in kinds_of(
        said(user("a"), model(call, origin=kimi.target), tool(DONE), rules=kimi)
    )


@requirement("REQ-915-015")
@pytest.mark.parametrize(
    "writer",
    [None, Origin("openai_chat", "another", "https://elsewhere.test", "m"), TARGETS["anthropic"].target],
    ids=["unknown", "another provider", "another wire"],
)
@pytest.mark.parametrize("after", [(tool(DONE),), ()], ids=["answered", "open"])
def test_an_id_goes_back_only_to_the_provider_that_issued_it(
    writer: Origin | None, after: tuple[Message, ...]
) -> None:
    call = ToolCall("c0", "read", raw="{}", native_id="call_issued")
    own = calls_of(said(user("a"), model(call, origin=CHAT.target), *after, user("b"), rules=CHAT))
    other = calls_of(said(user("a"), model(call, origin=writer), *after, user("b"), rules=CHAT))
    assert [sent.id for sent in own] == ["call_issued"]
    assert [sent.id for sent in other] != ["call_issued"]


@pytest.mark.parametrize("limit", [1, 2])
@requirement("REQ-915-007", "REQ-915-008")
@every_target
def test_a_target_that_takes_few_calls_at_once_gets_them_one_after_another(rules: Rules, limit: int) -> None:
    few = structs.replace(rules, calls_per_step=limit)
    calls = tuple(ToolCall(f"c{n}", "read", {"n": n}) for n in range(5))
    thought = Reasoning("thought", Seal(few.target, "seal"))
    transcript = said(
        user("a"),
        model(thought, "text", *calls, origin=few.target),
        tool(*(ToolResult(call.id, "read", f"of {call.id}") for call in calls)),
        user("b"),
        rules=few,
    )
    assert [call.completion.text for call in calls_of(transcript)] == [f"of c{n}" for n in range(5)]
    assert max(len(batch) for batch in batches_of(transcript)) == limit
    assert "calls_split" in kinds_of(transcript)
    assert list(complaints(transcript, few)) == []


ODD = [
    structs.replace(rules, calls_per_step=1, system=system, calls_last=calls_last)
    for rules in TARGETS.values()
    for system, calls_last in (("apart", True), ("first_user", False))
]


@requirement("REQ-915-005", "REQ-915-013")
@given(data=st.data())
def test_any_history_is_legal_and_a_fixpoint_also_under_rules_nobody_has_yet(data: st.DataObject) -> None:
    rules = data.draw(st.sampled_from(ODD))
    once = render(data.draw(conversations(rules)), None, rules)
    assert list(complaints(once, rules)) == []
    twice = render(adopt(once.conversation().messages, system=once.system).conversation, None, rules)
    assert on_the_wire(twice) == on_the_wire(once)
    assert twice.repairs == ()


def test_a_filler_stands_where_a_target_insists_on_reasoning() -> None:
    kimi = TARGETS["kimi"]
    transcript = said(user("a"), model("b", READ), tool(DONE), model("c"), user("d"), rules=kimi)
    assert transcript.steps[1].blocks[0] == Reasoning(" ")
    assert transcript.steps[2].blocks == (Text("c"),)
    (repair,) = transcript.repairs
    assert (repair.kind, repair.path) == ("reasoning_filled", "messages[1]")


def test_a_stand_in_seal_goes_on_the_first_call_that_has_none() -> None:
    gemini = TARGETS["gemini"]
    other = ToolCall("c1", "read", raw="{}")
    transcript = said(user("a"), model(READ, other), user("b"), rules=gemini)
    seals = [call.seal.payload if call.seal else None for call in calls_of(transcript)]
    assert seals == [gemini.reasoning.call_seal, None]
    own = structs.replace(READ, seal=Seal(gemini.target, "own"))
    transcript = said(user("a"), model(own, other, origin=gemini.target), user("b"), rules=gemini)
    assert [call.seal.payload if call.seal else None for call in calls_of(transcript)] == ["own", None]
    assert "call_seal_filled" not in kinds_of(transcript)


def test_rules_may_ask_for_reasoning_on_every_message() -> None:
    rules = structs.replace(CHAT, reasoning=ReasoningRules(replay="plain", required="all", filler="-"))
    transcript = said(
        user("a"), model("b"), user("c"), model(Reasoning("own"), "d", origin=CHAT.target), rules=rules
    )
    assert [step.blocks[0] for step in transcript.steps if isinstance(step, ModelStep)] == [
        Reasoning("-"),
        Reasoning("own"),
    ]

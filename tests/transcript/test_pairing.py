"""Who said what: pairing by id and position, and blocks in the wrong message."""

from __future__ import annotations

from typing import Any

import pytest

from laws.legality import complaints
from segue.conversation.blocks import Code, Media, Origin, Reasoning, Text, ToolCall, ToolResult
from segue.conversation.extra import Extra
from segue.conversation.message import Conversation, Message, Speaker, model, tool, user
from segue.errors import TranscriptError
from segue.transcript.blocks.outcomes import same_outcome
from segue.transcript.pairing import DraftBuilder
from segue.transcript.render import render
from segue.transcript.rules import Rules
from segue.transcript.steps import Transcript
from strategies.targets import TARGETS
from transcript.readers import batches_of, calls_of, completions_of, kinds_of, said

requirement = pytest.mark.requirement
RULES = TARGETS["openai_chat"]
IMAGE = Media("image", "image/png", "aGVsbG8=")


def told(*messages: Message) -> Transcript:
    transcript = said(*messages, rules=RULES)
    assert list(complaints(transcript, RULES)) == []
    return transcript


def outputs(*messages: Message) -> list[str]:
    return [call.completion.text for call in calls_of(told(*messages))]


def read(call_id: str = "", native_id: str = "") -> ToolCall:
    return ToolCall(call_id, "read", raw="{}", native_id=native_id)


def done(output: str, call_id: str = "", name: str = "read") -> ToolResult:
    return ToolResult(call_id, name, output)


@requirement("REQ-915-047")
def test_a_call_in_a_tool_message_goes_to_the_model() -> None:
    transcript = told(user("a"), tool(read("x"), done("content", "x")), user("b"))
    assert batches_of(transcript) == [["x"]]
    assert completions_of(transcript) == {"x": "content"}
    assert kinds_of(transcript) == ["speaker_corrected"]


@requirement("REQ-915-047")
def test_calls_of_one_tool_message_are_one_batch_until_a_result_was_heard() -> None:
    transcript = told(tool(read("x"), read("y"), done("1", "x"), done("2", "y"), read("z"), done("3", "z")))
    assert batches_of(transcript) == [["x", "y"], ["z"]]


@requirement("REQ-915-047")
def test_a_call_in_a_user_message_goes_to_the_model_and_the_text_stays() -> None:
    transcript = told(user("please", read("x")), tool(done("content", "x")))
    assert completions_of(transcript) == {"x": "content"}
    assert any(Text("please") in step.blocks for step in transcript.steps)


@requirement("REQ-915-047")
def test_a_result_in_a_model_or_user_message_goes_to_its_call() -> None:
    transcript = told(
        user("a"), model(read("x"), done("1", "x"), "after", read("y")), user(done("2", "y"), "b")
    )
    assert completions_of(transcript) == {"x": "1", "y": "2"}
    assert kinds_of(transcript).count("speaker_corrected") == 2
    assert batches_of(transcript) == [["x"], ["y"]]


@requirement("REQ-915-009", "REQ-915-047")
@pytest.mark.parametrize("echo_first", [True, False])
def test_an_echo_of_a_call_beside_its_result_is_left_out(*, echo_first: bool) -> None:
    blocks = (read("x"), done("content", "x"))
    transcript = told(user("a"), model(read("x")), tool(*(blocks if echo_first else blocks[::-1])), user("b"))
    assert batches_of(transcript) == [["x"]]
    assert completions_of(transcript) == {"x": "content"}
    assert kinds_of(transcript) == ["duplicate_call_dropped"]


def test_another_wish_under_an_answered_id_is_no_echo() -> None:
    other = ToolCall("x", "read", raw='{"n": 2}')
    transcript = told(user("a"), model(read("x")), tool(done("content", "x"), other), user("b"))
    assert batches_of(transcript) == [["x"], ["x"]]


def test_thoughts_outside_a_model_message_are_left_out_and_that_is_told() -> None:
    transcript = told(user("a", Reasoning("hm")), tool(Reasoning("hm")), user(Reasoning("hm")))
    assert kinds_of(transcript) == ["reasoning_dropped"] * 3


def test_a_message_without_blocks_still_is_one() -> None:
    assert len(told(user(), model("hi"), user("b")).steps) == 3


@requirement("REQ-915-039")
def test_a_result_that_is_put_before_the_text_beside_it_is_reported() -> None:
    transcript = told(user("a"), model(read("x")), tool(Text("note"), done("1", "x")), user("b"))
    (moved,) = transcript.repairs
    assert (moved.kind, moved.path, moved.call_ids) == ("result_moved", "messages[2].blocks[1]", ("x",))
    assert "in front of it" in moved.decision
    assert kinds_of(told(user("a"), model(read("x")), tool(done("1", "x"), Text("note")), user("b"))) == []


@pytest.mark.parametrize("speaker", ["user", "tool"])
def test_text_before_a_call_in_the_wrong_message_stays_before_it(speaker: Speaker) -> None:
    blocks = (Text("first"), read("x"), Text("second"), done("1", "x"), read("y"), Text("third"))
    steps = told(user("a"), Message(speaker, blocks), tool(done("2", "y"))).steps
    shown = [[type(block).__name__ for block in step.blocks] for step in steps]
    assert shown == [["Text"], ["Text"], ["AnsweredCall"], ["Text"], ["AnsweredCall"], ["Text"]]


# Pairing


@requirement("REQ-915-006", "REQ-915-008")
def test_a_result_far_from_its_call_is_moved_to_it() -> None:
    transcript = told(user("a"), model(read("x")), user("b"), model("c"), tool(done("late", "x")), user("d"))
    assert completions_of(transcript) == {"x": "late"}
    assert kinds_of(transcript) == ["result_moved"]
    (moved,) = transcript.repairs
    assert (moved.path, moved.call_ids) == ("messages[4].blocks[0]", ("x",))


def test_the_same_result_of_a_lost_call_once_more_is_moved_to_it() -> None:
    history = (user("a"), tool(done("1", "gone")), user("b"), model("c"), tool(done("1", "gone")), user("d"))
    moved = [repair for repair in told(*history).repairs if repair.kind == "result_moved"]
    assert [(one.path, one.call_ids) for one in moved] == [("messages[4].blocks[0]", ("gone",))]


@requirement("REQ-915-006")
def test_an_id_over_any_distance_comes_before_a_position_nearby() -> None:
    transcript = told(
        user("a"), model(read("x")), user("b"), model(read()), tool(done("of x", "x")), user("c")
    )
    assert [(call.call_id, call.completion.reason) for call in calls_of(transcript)] == [
        ("x", None),
        ("", "interrupted"),
    ]


@requirement("REQ-915-009", "REQ-915-012")
@pytest.mark.parametrize(
    "later", [(), (tool(done("of nobody", "gone")),)], ids=["alone", "with an orphan later"]
)
def test_of_two_results_under_one_id_the_second_goes_to_the_call_still_open(
    later: tuple[Message, ...],
) -> None:
    history = (user("a"), model(read("x")), user("b"), model(read("x")), tool(done("1", "x"), done("2", "x")))
    assert outputs(*history, user("c"), *later)[:2] == ["2", "1"]


def test_the_same_result_twice_stays_with_its_call() -> None:
    history = (user("a"), model(read("x")), user("b"), model(read("x")), tool(done("1", "x"), done("1", "x")))
    transcript = told(*history)
    assert [call.completion.reason for call in calls_of(transcript)] == ["interrupted", None]


@pytest.mark.parametrize(
    ("order", "moved"),
    [
        ("ab", []),
        ("ba", [("a", "put into call order")]),
        ("aab", []),
        ("abb", []),
        ("aba", [("a", "put into call order")]),
    ],
)
def test_a_result_was_moved_only_if_one_of_a_later_call_came_before_it(
    order: str, moved: list[tuple[str, str]]
) -> None:
    transcript = told(user("q"), model(read("a"), read("b")), tool(*(done("1", name) for name in order)))
    moves = [repair for repair in transcript.repairs if repair.kind == "result_moved"]
    assert [(*repair.call_ids, repair.decision) for repair in moves] == moved


@requirement("REQ-915-022")
def test_one_id_for_a_whole_batch_pairs_in_order() -> None:
    calls = model(*(read("same") for _ in range(3)))
    assert outputs(user("a"), calls, tool(*(done(f"{n}", "same") for n in range(3)))) == ["0", "1", "2"]


@requirement("REQ-915-012", "REQ-915-022")
@pytest.mark.parametrize("call_id", ["", "same"])
@pytest.mark.parametrize("between", [(), (model("One moment."),), (user("b"), model("c"))])
def test_results_take_the_calls_of_a_batch_in_order_also_behind_other_messages(
    call_id: str, between: tuple[Message, ...]
) -> None:
    calls = model(*(read(call_id) for _ in range(3)))
    results = tuple(tool(done(f"{n}", call_id)) for n in range(3))
    assert outputs(user("a"), calls, *between, *results) == ["0", "1", "2"]


@requirement("REQ-915-012", "REQ-915-022")
@pytest.mark.parametrize("call_id", ["", "same"])
def test_real_results_take_the_calls_of_an_earlier_batch_in_order_behind_their_placeholders(
    call_id: str,
) -> None:
    placeholder = ToolResult(call_id, "read", reason="interrupted")
    later = ToolCall("other", "write")
    history = (
        user("a"),
        model(read(call_id), read(call_id)),
        tool(placeholder, placeholder),
        model(later),
        tool(done("w", "other", "write")),
        tool(done("0", call_id), done("1", call_id)),
    )
    assert outputs(*history) == ["0", "1", "w"]


@requirement("REQ-915-009", "REQ-915-022")
def test_a_result_repeated_for_one_of_several_calls_with_its_id_stays_with_that_call() -> None:
    results = tool(done("0", "same"), done("1", "same"), done("0", "same"))
    assert outputs(user("a"), model(read("same"), read("same")), results) == ["0", "1"]


@requirement("REQ-915-022")
def test_results_without_an_id_find_calls_with_one_behind_text_of_the_model() -> None:
    calls = model(read("x"), read("y"))
    assert outputs(user("a"), calls, model("text"), tool(done("1"), done("2"))) == ["1", "2"]


@requirement("REQ-915-022")
def test_names_decide_where_ids_do_not() -> None:
    calls = model(ToolCall("same", "read"), ToolCall("same", "write"), ToolCall("same", ""))
    results = tool(done("w", "same", "write"), done("any", "same", ""), done("r", "same", "other"))
    assert outputs(user("a"), calls, results) == ["any", "w", "r"]


@requirement("REQ-915-022")
def test_results_without_an_id_take_calls_in_order_and_by_name() -> None:
    calls = model(ToolCall("c0", "read"), ToolCall("c1", "write"), ToolCall("c2", "read"))
    assert outputs(user("a"), calls, tool(done("w", "", "write"), done("r"), done("z", "", ""))) == [
        "r",
        "w",
        "z",
    ]


@requirement("REQ-915-022")
def test_results_with_an_id_take_calls_that_have_none() -> None:
    assert outputs(user("a"), model(read(), read()), tool(done("1", "x"), done("2", "y"))) == ["1", "2"]


def test_a_result_without_an_id_finds_an_open_call_without_one_in_an_earlier_batch() -> None:
    assert outputs(
        user("a"),
        model(read()),
        user("b"),
        model(ToolCall("", "write")),
        tool(done("r"), done("w", "", "write")),
    ) == ["r", "w"]


@requirement("REQ-915-006")
def test_ids_that_are_present_and_different_never_pair() -> None:
    transcript = told(user("a"), model(read("x")), tool(done("of y", "y")), user("b"))
    assert completions_of(transcript) == {
        "x": "No result: this call was interrupted before a result was recorded. "
        "It may have had side effects: check before repeating it.",
        "y": "of y",
    }
    assert sorted(kinds_of(transcript)) == ["call_closed", "call_reconstructed"]


def test_a_native_id_stands_in_where_there_is_no_other() -> None:
    result = ToolResult("", "read", "content", native_id="call_1")
    assert (
        outputs(user("a"), model(read(native_id="call_0"), read(native_id="call_1")), tool(result))[1]
        == "content"
    )


# Calls stored apart, results stored early, calls that are gone


def test_parallel_calls_stored_apart_are_one_batch() -> None:
    origin = Origin("openai_chat")
    transcript = told(
        user("a"),
        model("text", origin=origin),
        model(read("x"), origin=origin),
        model(read("y"), origin=origin),
        tool(done("1", "x")),
        tool(done("2", "y")),
        model(read("z")),
    )
    assert batches_of(transcript) == [["x", "y"], ["z"]]


def test_text_after_calls_begins_a_new_step_and_so_does_another_speaker() -> None:
    transcript = told(user("a"), model(read("x")), model("text"), model(read("y"), origin=Origin("b")))
    assert batches_of(transcript) == [["x"], ["y"]]


@requirement("REQ-915-008")
def test_results_stored_before_their_calls_find_them_by_name_and_order() -> None:
    transcript = told(
        user("a"),
        tool(done("w", "", "write"), done("r1"), done("r2")),
        model(read(), ToolCall("", "write"), read()),
        user("b"),
    )
    assert [call.completion.text for call in calls_of(transcript)] == ["r1", "w", "r2"]
    assert batches_of(transcript) == [["", "", ""]]


@requirement("REQ-915-006", "REQ-915-027", "REQ-915-028")
def test_a_result_whose_call_is_gone_becomes_a_pair() -> None:
    transcript = told(user("a"), tool(done("1", "x"), done("2", "y")), tool(done("3", "z")), user("b"))
    assert batches_of(transcript) == [["x", "y", "z"]]
    assert completions_of(transcript) == {"x": "1", "y": "2", "z": "3"}
    assert {call.arguments for call in calls_of(transcript)} == {'{"arguments_unknown":true}'}


@requirement("REQ-915-009")
def test_results_of_one_lost_call_are_one_pair_wherever_they_lie() -> None:
    placeholder = ToolResult("x", "read", reason="interrupted")
    transcript = told(
        user("a"), tool(placeholder), user("b"), tool(done("real", "x")), tool(done("real", "x"))
    )
    assert batches_of(transcript) == [["x"]]
    assert completions_of(transcript) == {"x": "real"}


@requirement("REQ-915-012")
def test_different_real_results_far_apart_are_kept_both_though_their_lost_calls_share_an_id() -> None:
    assert outputs(user("a"), tool(done("1", "x")), user("b"), tool(done("2", "x")), user("c")) == ["1", "2"]


@requirement("REQ-915-012")
def test_different_results_of_lost_calls_that_share_an_id_are_kept_both() -> None:
    transcript = told(user("a"), tool(done("1", "x"), done("2", "x", "write"), done("3", "x")), user("b"))
    assert [(call.name, call.completion.text) for call in calls_of(transcript)] == [
        ("read", "1"),
        ("write", "2"),
        ("read", "3"),
    ]


@requirement("REQ-915-009")
def test_a_lost_result_without_a_name_may_be_a_repetition_of_one_with_a_name() -> None:
    results = (done("1", "x"), done("2", "x", "write"), done("1", "x"), done("2", "x", ""))
    assert outputs(user("a"), tool(*results), user("b")) == ["1", "2"]


@pytest.mark.parametrize("empty", [ToolResult("", "", ""), ToolResult("", "", reason="interrupted")])
@pytest.mark.parametrize("speaker", ["tool", "user"])
def test_an_empty_result_without_id_name_and_call_is_no_call(empty: ToolResult, speaker: Speaker) -> None:
    transcript = told(user("a"), Message(speaker, (empty,)), user("b"))
    assert calls_of(transcript) == []
    assert kinds_of(transcript) == ["blank_text"]
    assert len(calls_of(told(user("a"), tool(ToolResult("", "read", "")), user("b")))) == 1
    assert outputs(user("a"), model(read("x")), tool(empty, done("1", "x"))) == ["1"]


def test_lost_calls_without_an_id_are_never_one() -> None:
    assert outputs(user("a"), tool(done("1"), done("2")), user("b")) == ["1", "2"]


def test_what_stands_between_a_call_and_its_results_follows_them() -> None:
    transcript = told(user("a"), model(read("x")), tool(Text("note"), IMAGE, Code("1"), done("1", "x")))
    assert completions_of(transcript) == {"x": "1"}
    assert any(IMAGE in step.blocks for step in transcript.steps)


@requirement("REQ-915-006")
def test_a_result_without_an_id_goes_to_a_call_before_it_rather_than_one_after_it() -> None:
    assert (
        outputs(user("a"), model(read("x")), user(done("content")), model(read()), user("b"))[0] == "content"
    )


def test_calls_with_anything_between_them_are_no_batch() -> None:
    transcript = told(user("a"), model(read("x")), tool(), model(read("y")), user("b"))
    assert batches_of(transcript) == [["x"], ["y"]]


# Cost


def test_a_result_with_an_id_is_not_given_to_a_call_without_one_if_its_own_comes_later() -> None:
    first, later = read(), ToolCall("", "read", {"of": "later"}, native_id="x")
    result = ToolResult("", "read", "of the later call", native_id="x")
    found = outputs(user("a"), model(first), tool(result), model(later))
    assert found[0].startswith("No result")
    assert found[1:] == ["of the later call"]
    # An id that nobody else has is no contradiction.
    assert outputs(user("a"), model(first), tool(result)) == ["of the later call"]


def test_a_result_of_a_lost_call_that_comes_again_is_not_given_to_another_call() -> None:
    lost = ToolResult("", "read", "of the lost call", native_id="x")
    found = outputs(tool(lost), user("a"), model(read()), tool(lost))
    assert found[0] == "of the lost call"
    assert found[1].startswith("No result")


def test_pairing_many_results_without_ids_looks_at_each_call_a_few_times_only() -> None:
    number = 20_000
    calls = tuple(ToolCall(f"c{n}", f"tool{n % 7}") for n in range(number))
    results = tuple(ToolResult("", f"tool{n % 7}", "x") for n in reversed(range(number)))
    strangers = tuple(ToolResult("", "stranger", "x") for _ in range(2000))
    builder = DraftBuilder()
    builder.add((user("a"), model(*calls), tool(*strangers, *results)))
    assert sum(len(call.results) for made in builder.calls.values() for call in made) == number + 2000


# Bad input


@pytest.mark.parametrize("speaker", ["user", "model", "tool"])
@pytest.mark.parametrize("block", ["sk-secret", 5, None, {"type": "text"}])
def test_what_is_no_block_is_refused_with_its_path(speaker: str, block: object) -> None:
    message = Message(speaker, (Text("fine"), block))  # type: ignore[arg-type]
    with pytest.raises(TranscriptError) as refused:
        render(Conversation((user("a"), message)), None, RULES)
    error = refused.value
    assert (error.code, error.path) == ("no_block", "messages[1].blocks[1]")
    assert "Wrap text in Text" in error.hint
    assert "sk-secret" not in str(error)


def test_an_unknown_speaker_is_refused_with_its_path() -> None:
    with pytest.raises(TranscriptError) as refused:
        render(Conversation((user("a"), Message("assistant", (Text("b"),)))), None, RULES)  # type: ignore[arg-type]
    assert (refused.value.code, refused.value.path) == ("unknown_speaker", "messages[1].speaker")
    assert '"model"' in refused.value.hint


def test_outcomes_are_the_same_when_the_model_would_read_and_see_the_same() -> None:
    assert same_outcome(done("1", "x"), done("1", "y", "other"))
    assert same_outcome(ToolResult("x", output={"a": 1}), ToolResult("x", output='{"a":1}'))
    assert not same_outcome(done("1"), done("2"))
    assert not same_outcome(done("1"), ToolResult("", "read", "1", media=(IMAGE,)))
    assert not same_outcome(done("1"), ToolResult("", "read", "1", error="e"))


def test_results_with_the_same_id_are_compared_whatever_their_wire_has_beside_their_pictures() -> None:
    marked = Media("image", "image/png", "aGVsbG8=", extra=Extra("gemini", hints={"mediaResolution": {}}))
    results = [ToolResult("x", "read", text, complete=True, media=(marked,)) for text in ("1", "2", "1")]
    before, behind = [tool(result) for result in results], tool(results[1])
    assert sorted(outputs(user("a"), *before, model(read("x")), user("b"))) == ["1", "2"]
    assert outputs(user("a"), model(read("x")), behind, behind, user("b")) == ["2"]
    assert outputs(user("a"), model(read("x")), model(read("x")), *before, user("b")) == ["1", "2"]


@pytest.mark.parametrize("rules", TARGETS.values(), ids=TARGETS)
def test_a_text_between_calls_and_their_results_was_said_with_the_calls(rules: Rules) -> None:
    chat = Conversation().append(
        user("Read it."),
        model(ToolCall("", "read", {"path": "a"})),
        model("I will look."),  # how Strands stores a reply on Ollama's wire
        tool(ToolResult("", "read", "violet")),
    )
    transcript = render(chat, None, rules)
    assert [type(step).__name__ for step in transcript.steps] == ["UserStep", "ModelStep"]
    assert "result_moved" not in kinds_of(transcript)
    assert [call.completion.text for call in calls_of(transcript)] == ["violet"]
    assert Text("I will look.") in transcript.steps[1].blocks


def test_a_text_behind_calls_that_nobody_answered_stays_behind_them() -> None:
    chat = Conversation().append(
        user("Read it."), model(ToolCall("", "read", {"path": "a"})), model("Never mind."), user("Go on.")
    )
    transcript = render(chat, None, TARGETS["anthropic"])
    assert [type(step).__name__ for step in transcript.steps] == [
        "UserStep",
        "ModelStep",
        "ModelStep",
        "UserStep",
    ]


class _CountedReads(tuple[Message, ...]):
    reads = 0

    def __getitem__(self, index: Any) -> Any:
        type(self).reads += 1
        return super().__getitem__(index)


@pytest.mark.parametrize("ends_with_results", [False, True])
def test_many_messages_of_the_model_in_a_row_are_each_looked_at_a_few_times(ends_with_results: bool) -> None:
    replies = [model(Text(f"{index}"), ToolCall(f"c{index}", "read")) for index in range(500)]
    results = [tool(ToolResult("c0", "read", "x"))] if ends_with_results else []
    messages = _CountedReads((user("go"), *replies, *results))
    _CountedReads.reads = 0
    DraftBuilder().add(messages)
    assert _CountedReads.reads < 5 * len(messages)

from __future__ import annotations

from typing import Any

import pytest

from emulators.openai_chat.requests import USER, VALID, body, call, calling, judge, result
from segue.emulators.openai_chat.checks import complaints
from segue.emulators.openai_chat.profile import Profile
from segue.emulators.rules import Context

UNANSWERED = (
    "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. "
    "The following tool_call_ids did not have response messages: "
)


@pytest.mark.rule("CHAT-10", "CHAT-19")
def test_a_call_at_the_end_is_refused() -> None:
    judge.refuses(body(USER, calling(call())), "CHAT-10", UNANSWERED + "call_a1", param="messages.[2].role")


@pytest.mark.rule("CHAT-10", "CHAT-19")
def test_every_call_is_answered_before_anybody_else_speaks() -> None:
    judge.refuses(
        body(USER, calling(call("call_a1"), call("call_a2"), call("call_a3")), result("call_a2"), USER),
        "CHAT-10",
        UNANSWERED + "call_a1, call_a3",
        param="messages.[3].role",
    )


@pytest.mark.rule("CHAT-10")
def test_results_may_come_in_any_order() -> None:
    judge.accepts(body(USER, calling(call("a"), call("b")), result("b"), result("a")))


@pytest.mark.rule("CHAT-15")
def test_parallel_calls_sit_in_one_message() -> None:
    found = [
        refusal.rule
        for refusal in complaints(
            body(USER, calling(call("a")), calling(call("b")), result("a"), result("b")), Context(model="m")
        )
    ]
    assert found[0] == "RESP-51"
    assert found[1] == "CHAT-10"


@pytest.mark.rule("CHAT-11")
@pytest.mark.parametrize("before", [USER, {"role": "assistant", "content": "x"}])
def test_a_result_without_calls_before_it_is_refused(before: dict[str, Any]) -> None:
    judge.refuses(
        body(before, result()),
        "CHAT-11",
        "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'.",
        param="messages.[1].role",
    )


@pytest.mark.rule("CHAT-12")
def test_a_result_for_a_call_that_was_not_made_is_refused() -> None:
    judge.refuses(
        body(USER, calling(call()), result(), result("call_X")),
        "CHAT-12",
        "Invalid parameter: 'tool_call_id' of 'call_X' not found in 'tool_calls' of previous message.",
        param="messages.[3].tool_call_id",
        strict=True,
    )


@pytest.mark.rule("CHAT-13")
def test_two_results_for_one_call_are_refused() -> None:
    judge.refuses(
        body(USER, calling(call()), result(), result()),
        "CHAT-13",
        "Invalid parameter: Duplicate value for 'tool_call_id' of 'call_a1', in messages[2] and messages[3].",
        param="messages.[3].tool_call_id",
    )


@pytest.mark.rule("CHAT-14")
def test_a_result_names_its_call() -> None:
    found = [
        (refusal.rule, refusal.message)
        for refusal in complaints(
            body(USER, calling(call()), {"role": "tool", "content": "18"}), Context(model="m")
        )
    ]
    assert (
        "CHAT-14",
        "Missing parameter 'tool_call_id': messages with role 'tool' must have a 'tool_call_id'.",
    ) in found


@pytest.mark.rule("CHAT-17")
def test_an_empty_list_of_calls_is_refused() -> None:
    judge.refuses(
        body(USER, {"role": "assistant", "content": "x", "tool_calls": []}),
        "CHAT-17",
        "Invalid 'messages[1].tool_calls': empty array. Expected an array with minimum length 1, but got an empty array instead.",
        code="empty_array",
        param="messages[1].tool_calls",
    )


@pytest.mark.rule("CHAT-18")
def test_a_result_holds_text_only() -> None:
    judge.accepts(body(USER, calling(call()), result(content=[{"type": "text", "text": "18"}])))
    judge.refuses(
        body(USER, calling(call()), result(content=[{"type": "file", "file": {"file_id": "f"}}])),
        "CHAT-18",
        "Content blocks are expected to be either text or image_url type.",
    )


@pytest.mark.rule("CHAT-20")
def test_a_call_id_has_64_characters_at_most() -> None:
    long = "c" * 65
    found = list(complaints(body(USER, calling(call(long)), result(long)), judge.context(VALID)))
    assert found[0].message == (
        "Invalid 'messages[1].tool_calls[0].id': string too long. Expected a string with maximum length 64, "
        "but got a string with length 65 instead."
    )
    assert {(refusal.rule, refusal.code) for refusal in found} == {("CHAT-20", "string_above_max_length")}


@pytest.mark.rule("CHAT-20")
def test_older_deployments_take_40_characters() -> None:
    found = complaints(
        body(USER, calling(call("c" * 43)), result("c" * 43)), Context(), Profile(tool_id_max=40)
    )
    assert any("maximum length 40, but got a string with length 43" in refusal.message for refusal in found)


@pytest.mark.rule("CHAT-22")
def test_arguments_are_a_string() -> None:
    judge.refuses(
        body(USER, calling(call(arguments={"city": "Paris"})), result()),
        "CHAT-22",
        "Invalid type for 'messages[1].tool_calls[0].function.arguments': expected a string, but got an object instead.",
        code="invalid_type",
    )


@pytest.mark.rule("CHAT-23")
def test_openai_does_not_read_old_arguments_again_but_others_do() -> None:
    broken = body(USER, calling(call(arguments='{"city":')), result())
    judge.accepts(broken)
    strict = Context(strict=True)
    found = complaints(broken, strict, Profile(reparse_arguments=True, model_checks=False))
    assert [refusal.message for refusal in found] == [
        "messages.1.tool_calls.0.function.arguments: arguments must be a valid JSON object string"
    ]


@pytest.mark.rule("CHAT-24")
def test_every_call_has_a_type() -> None:
    judge.refuses(
        body(
            USER, calling({"id": "call_a1", "function": {"name": "get_weather", "arguments": "{}"}}), result()
        ),
        "CHAT-24",
        "Missing required parameter: 'messages[1].tool_calls[0].type'.",
        code="missing_required_parameter",
    )


@pytest.mark.rule("CHAT-24")
def test_a_custom_call_carries_free_text() -> None:
    custom = {"id": "call_a1", "type": "custom", "custom": {"name": "shell", "input": "ls"}}
    judge.accepts(body(USER, calling(custom), result()))

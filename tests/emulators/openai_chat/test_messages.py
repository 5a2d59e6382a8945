from __future__ import annotations

from typing import Any

import pytest

from emulators.openai_chat.requests import USER, body, call, calling, judge, result
from segue.emulators.openai_chat.checks import complaints
from segue.emulators.openai_chat.profile import Profile
from segue.emulators.rules import Context


@pytest.mark.rule("CHAT-01")
def test_system_and_developer_messages_may_stand_anywhere_and_nothing_must_alternate() -> None:
    judge.accepts(
        body({"role": "assistant", "content": "a"}, USER, USER, {"role": "system", "content": "s"}, USER)
    )


@pytest.mark.rule("CHAT-01")
def test_an_unknown_role_is_refused() -> None:
    judge.refuses(
        body({"role": "model", "content": "x"}),
        "CHAT-01",
        "Invalid value: 'model'. Supported values are: 'system', 'assistant', 'user', 'function', 'tool', and 'developer'.",
        code="invalid_value",
        param="messages[0].role",
    )


@pytest.mark.rule("CHAT-00")
def test_a_body_that_is_no_object_is_refused() -> None:
    judge.refuses(
        [],
        "CHAT-00",
        "Invalid type for request body: expected an object, but got an array instead.",
        code="invalid_type",
    )


@pytest.mark.rule("CHAT-00")
def test_the_model_must_be_named() -> None:
    judge.refuses({"messages": [USER]}, "CHAT-00", "you must provide a model parameter")


@pytest.mark.rule("CHAT-00")
def test_scalars_have_their_types_and_ranges() -> None:
    judge.refuses(
        body(USER, stream="yes"),
        "CHAT-00",
        "Invalid type for 'stream': expected a boolean, but got a string instead.",
        code="invalid_type",
        param="stream",
    )
    judge.refuses(
        body(USER, temperature=-1),
        "CHAT-00",
        "Invalid 'temperature': decimal below minimum value. Expected a value >= 0, but got -1 instead.",
        code="decimal_below_min_value",
    )


@pytest.mark.rule("CHAT-00")
def test_an_unknown_parameter_is_refused_when_strict() -> None:
    judge.refuses(
        body(USER, input="x"), "CHAT-00", "Unknown parameter: 'input'.", code="unknown_parameter", strict=True
    )


@pytest.mark.rule("CHAT-02")
def test_messages_are_not_empty() -> None:
    judge.refuses(
        body(),
        "CHAT-02",
        "Invalid 'messages': empty array. Expected an array with minimum length 1, but got an empty array instead.",
        code="empty_array",
        param="messages",
    )


@pytest.mark.rule("CHAT-02")
def test_messages_are_not_left_out() -> None:
    judge.refuses(
        {"model": "gpt-4.1"},
        "CHAT-02",
        "Missing required parameter: 'messages'.",
        code="missing_required_parameter",
    )


@pytest.mark.rule("CHAT-03")
def test_content_parts_are_not_empty_but_a_string_may_be() -> None:
    judge.accepts(body({"role": "user", "content": ""}))
    judge.refuses(
        body({"role": "user", "content": []}),
        "CHAT-03",
        "Invalid 'messages[0].content': empty array. Expected an array with minimum length 1, but got an empty array instead.",
        code="empty_array",
        param="messages[0].content",
    )


@pytest.mark.rule("CHAT-04")
@pytest.mark.parametrize("silent", [{"role": "user", "content": None}, {"role": "assistant"}])
def test_only_a_message_that_calls_may_go_without_content(silent: dict[str, Any]) -> None:
    judge.refuses(
        body(USER, silent),
        "CHAT-04",
        "Invalid value for 'content': expected a string, got null.",
        param="messages.[1].content",
    )


@pytest.mark.rule("CHAT-06")
def test_the_first_reasoning_models_take_no_system_message() -> None:
    judge.refuses(
        body({"role": "system", "content": "s"}, USER, model="o1-mini"),
        "CHAT-06",
        "Unsupported value: 'messages[0].role' does not support 'system' with this model.",
        code="unsupported_value",
        strict=True,
    )


@pytest.mark.rule("CHAT-07")
def test_one_text_has_ten_mebibytes_at_most() -> None:
    content = "x" * 10_485_761
    assert [
        refusal.message
        for refusal in complaints(body({"role": "user", "content": content}), Context(model="m", strict=True))
        if refusal.rule == "CHAT-07"
    ] == [
        (
            "Invalid 'messages[0].content': string too long. Expected a string with maximum length 10485760, but got a "
            "string with length 10485761 instead."
        )
    ]


@pytest.mark.rule("CHAT-50")
def test_reasoning_does_not_come_back_on_chat() -> None:
    judge.refuses(
        body(USER, {"role": "assistant", "content": "a", "reasoning_content": "b"}, USER),
        "CHAT-50",
        "Unknown parameter: 'messages[1].reasoning_content'.",
        code="unknown_parameter",
        strict=True,
    )


@pytest.mark.rule("CHAT-51")
def test_a_compatible_server_may_want_the_reasoning_back() -> None:
    profile = Profile(reasoning_fields=True, needs_reasoning_content=True, model_checks=False)
    request = body(USER, calling(call()), result())
    assert [refusal.message for refusal in complaints(request, Context(), profile)] == [
        "The `reasoning_content` in the thinking mode must be passed back to the API."
    ]
    kept = body(USER, calling(call(), reasoning_content=""), result())
    assert list(complaints(kept, Context(), profile)) == []


@pytest.mark.rule("CHAT-52")
def test_a_tool_shows_no_image() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
    judge.accepts(body({"role": "user", "content": [image]}))
    judge.refuses(
        body(USER, calling(call()), result(content=[image])),
        "CHAT-52",
        "Invalid 'messages[2]'. Image URLs are only allowed for messages with role 'user', but this message with "
        "role 'tool' contains an image URL.",
    )


@pytest.mark.rule("CHAT-53")
def test_files_come_from_the_user_only() -> None:
    file = {"type": "file", "file": {"file_id": "file-1"}}
    judge.accepts(body({"role": "user", "content": [file]}))
    judge.refuses(
        body(USER, {"role": "assistant", "content": [file]}),
        "CHAT-53",
        "Invalid value: 'file'. Supported values are: 'text' and 'refusal'.",
        code="invalid_value",
    )


@pytest.mark.rule("CHAT-53")
def test_a_file_has_no_other_keys() -> None:
    file = {"type": "file", "file": {"file_id": "f", "data": "x"}}
    judge.refuses(
        body({"role": "user", "content": [file]}),
        "CHAT-53",
        "Unknown parameter: 'messages[0].content[0].file.data'.",
        code="unknown_parameter",
    )


@pytest.mark.rule("CHAT-63")
def test_stream_options_need_a_stream() -> None:
    judge.refuses(
        body(USER, stream_options={"include_usage": True}),
        "CHAT-63",
        "The 'stream_options' parameter is only allowed when 'stream' is enabled.",
        param="stream_options",
    )

from __future__ import annotations

from typing import Any

import pytest

from emulators.openai_responses.requests import USER, body, call, judge, output, reasoning, said
from segue.emulators.openai_responses.checks import complaints


@pytest.mark.rule("RESP-00")
def test_a_body_has_its_shape() -> None:
    judge.refuses(
        "hi",
        "RESP-00",
        "Invalid type for request body: expected an object, but got a string instead.",
        code="invalid_type",
    )
    judge.refuses(
        {"input": "hi"},
        "RESP-00",
        "Missing required parameter: 'model'.",
        code="missing_required_parameter",
    )
    judge.refuses(
        body(USER, store="no"),
        "RESP-00",
        "Invalid type for 'store': expected a boolean, but got a string instead.",
        code="invalid_type",
    )
    for path, expected, given, fields in (
        ("conversation", "one of a string or an object", "an integer", {"conversation": 5}),
        ("conversation.id", "a string", "an integer", {"conversation": {"id": 5}}),
        ("prompt", "an object", "a string", {"prompt": "pmpt_1"}),
    ):
        words = f"Invalid type for '{path}': expected {expected}, but got {given} instead."
        judge.refuses(body(USER, **fields), "RESP-00", words, param=path, code="invalid_type")
    for field in ("conversation", "prompt"):
        words = f"Missing required parameter: '{field}.id'."
        judge.refuses(body(USER, **{field: {}}), "RESP-00", words, code="missing_required_parameter")
    judge.refuses(
        body(USER, messages=[]),
        "RESP-00",
        "Unknown parameter: 'messages'.",
        code="unknown_parameter",
        strict=True,
    )


@pytest.mark.rule("RESP-01")
def test_a_role_of_another_wire_is_refused() -> None:
    judge.refuses(
        body({"role": "tool", "content": "x"}),
        "RESP-01",
        "Invalid value: 'tool'. Supported values are: 'assistant', 'system', 'developer', and 'user'.",
        code="invalid_value",
        param="input[0].role",
    )


@pytest.mark.rule("RESP-02")
def test_the_assistant_writes_output_text() -> None:
    judge.accepts(body(USER, {"role": "assistant", "content": "plain"}, USER))
    judge.refuses(
        body(USER, {"role": "assistant", "content": [{"type": "input_text", "text": "x"}]}),
        "RESP-02",
        "Invalid value: 'input_text'. Supported values are: 'output_text' and 'refusal'.",
        code="invalid_value",
        param="input[1].content[0]",
    )


@pytest.mark.rule("RESP-04")
def test_input_is_not_left_out_when_strict() -> None:
    judge.refuses(
        {"model": "gpt-5.5"},
        "RESP-04",
        "Missing required parameter: 'input'.",
        code="missing_required_parameter",
        strict=True,
    )


@pytest.mark.rule("RESP-05")
def test_lengths_and_ranges_have_limits() -> None:
    judge.refuses(
        body(USER, call(arguments="x" * 1_048_577), output()),
        "RESP-05",
        "Invalid 'input[1].arguments': string too long. Expected a string with maximum length 1048576, but got a "
        "string with length 1048577 instead.",
        code="string_above_max_length",
    )
    judge.refuses(
        body(USER, max_output_tokens=15),
        "RESP-05",
        "Invalid 'max_output_tokens': integer below minimum value. Expected a value >= 16, but got 15 instead.",
        code="integer_below_min_value",
    )
    judge.refuses(
        body(USER, temperature=-1),
        "RESP-05",
        "Invalid 'temperature': decimal below minimum value. Expected a value >= 0, but got -1 instead.",
        code="decimal_below_min_value",
    )


@pytest.mark.rule("RESP-14")
def test_a_tool_may_answer_with_a_picture_but_not_with_output_text() -> None:
    picture = [{"type": "input_image", "image_url": "data:image/png;base64,AA=="}]
    judge.accepts(body(USER, call(), output(value=picture)))
    judge.refuses(
        body(USER, call(), output(value=[{"type": "output_text", "text": "x"}])),
        "RESP-14",
        "Invalid value: 'output_text'. Supported values are: 'input_text', 'input_image', and 'input_file'.",
        code="invalid_value",
    )


@pytest.mark.rule("RESP-20")
def test_a_call_id_has_64_characters_at_most() -> None:
    long = "c" * 116
    found = list(complaints(body(USER, call(long), output(long)), judge.context(body())))
    assert found[0].message == (
        "Invalid 'input[1].call_id': string too long. Expected a string with maximum length 64, but got a string "
        "with length 116 instead."
    )
    assert {refusal.rule for refusal in found} == {"RESP-20"}


@pytest.mark.rule("RESP-21")
@pytest.mark.parametrize(
    ("items", "name", "prefix"),
    [
        ([call(id="call_a1"), output()], "call_a1", "fc"),
        ([said(id="chatcmpl-1")], "chatcmpl-1", "msg"),
        ([reasoning(id="think_1"), said()], "think_1", "rs"),
    ],
)
def test_an_items_id_is_of_its_family(items: list[dict[str, Any]], name: str, prefix: str) -> None:
    judge.refuses(
        body(USER, *items),
        "RESP-21",
        f"Invalid 'input[1].id': '{name}'. Expected an ID that begins with '{prefix}'.",
        code="invalid_value",
    )


@pytest.mark.rule("RESP-22")
def test_an_items_id_has_its_letters_and_its_length() -> None:
    judge.refuses(
        body(USER, said(id="")),
        "RESP-22",
        "Invalid 'input[1].id': ''. Expected an ID that contains letters, numbers, underscores, or dashes, but this "
        "value contained additional characters.",
        code="invalid_value",
    )
    judge.refuses(
        body(USER, said(id="msg_" + "x" * 61)),
        "RESP-22",
        "Invalid 'input[1].id': string too long. Expected a string with maximum length 64, but got a string with "
        "length 65 instead.",
        code="string_above_max_length",
    )


@pytest.mark.rule("RESP-35")
def test_arguments_are_a_string() -> None:
    judge.refuses(
        body(USER, call(arguments={}), output()),
        "RESP-35",
        "Invalid type for 'input[1].arguments': expected a string, but got an object instead.",
        code="invalid_type",
    )


@pytest.mark.rule("RESP-40")
def test_reasoning_has_a_summary_even_if_it_is_empty() -> None:
    judge.accepts(body(USER, reasoning(summary=[]), said()))
    judge.refuses(
        body(USER, reasoning(summary=None), said()),
        "RESP-40",
        "Missing required parameter: 'input[1].summary'.",
        code="missing_required_parameter",
    )


@pytest.mark.rule("RESP-41")
def test_plain_reasoning_is_refused() -> None:
    judge.refuses(
        body(USER, reasoning(content=[{"type": "reasoning_text", "text": "x"}]), said()),
        "RESP-41",
        "Invalid 'input[1].content': array too long. Expected an array with maximum length 0, but got an array with "
        "length 1 instead.",
        code="array_above_max_length",
        param="input[1].content",
    )


@pytest.mark.rule("RESP-42")
def test_reasoning_has_no_status() -> None:
    judge.refuses(
        body(USER, reasoning(status="completed"), said()),
        "RESP-42",
        "Unknown parameter: 'input[1].status'.",
        code="unknown_parameter",
        strict=True,
    )


@pytest.mark.rule("RESP-52")
def test_a_compaction_trigger_is_the_last_item() -> None:
    judge.accepts(body(USER, {"type": "compaction_trigger"}))
    judge.refuses(
        body({"type": "compaction_trigger"}, USER),
        "RESP-52",
        "Invalid 'input[0]': a 'compaction_trigger' item must be the last item.",
        code="invalid_value",
        strict=True,
    )


SHELL: dict[str, Any] = {"type": "shell_call", "call_id": "call_s", "action": {"commands": ["ls"]}}
CHUNK = {"stdout": "a", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}
WROTE: dict[str, Any] = {"type": "shell_call_output", "call_id": "call_s", "output": [CHUNK]}


@pytest.mark.rule("RESP-16")
def test_a_call_of_another_kind_has_what_it_asks_for() -> None:
    judge.accepts(body(USER, SHELL, WROTE))
    judge.refuses(
        body(USER, {**SHELL, "action": None}, WROTE),
        "RESP-16",
        "Missing required parameter: 'input[1].action'.",
        code="missing_required_parameter",
        strict=True,
    )
    judge.refuses(
        body(USER, {**SHELL, "arguments": "{}"}, WROTE),
        "RESP-16",
        "Unknown parameter: 'input[1].arguments'.",
        code="unknown_parameter",
        strict=True,
    )


@pytest.mark.rule("RESP-17")
@pytest.mark.parametrize(
    ("call_item", "output_item", "message"),
    [
        (
            SHELL,
            {**WROTE, "output": "text"},
            "Invalid type for 'input[2].output': expected an array of objects, but got a string instead.",
        ),
        (
            SHELL,
            {**WROTE, "output": [{"stdout": "", "stderr": ""}]},
            "Missing required parameter: 'input[2].output[0].outcome'.",
        ),
        (
            {"type": "apply_patch_call", "call_id": "c", "operation": {}},
            {"type": "apply_patch_call_output", "call_id": "c", "output": "x"},
            "Invalid value: 'None'. Supported values are: 'completed' and 'failed'.",
        ),
        (
            {"type": "computer_call", "call_id": "c", "action": {}},
            {"type": "computer_call_output", "call_id": "c", "output": "x"},
            "Invalid type for 'input[2].output': expected an object, but got a string instead.",
        ),
    ],
)
def test_each_kind_of_call_has_an_output_of_its_own_form(
    call_item: dict[str, Any], output_item: dict[str, Any], message: str
) -> None:
    context = judge.context(body(USER), strict=True)
    found = complaints(body(USER, call_item, output_item), context)
    assert [(refusal.rule, refusal.message) for refusal in found] == [("RESP-17", message)]


@pytest.mark.rule("RESP-18")
def test_additional_tools_are_a_list_of_the_developers() -> None:
    item = {"type": "additional_tools", "role": "developer", "tools": []}
    judge.accepts(body(USER, item))
    judge.refuses(
        body(USER, {**item, "role": "user"}),
        "RESP-18",
        "Invalid value: 'user'. Supported values are: 'developer'.",
        code="invalid_value",
        strict=True,
    )

from __future__ import annotations

from typing import Any

import pytest

from emulators.judging import Judge
from segue.emulators.context import Context
from segue.emulators.openai_responses import seals
from segue.emulators.openai_responses.checks import complaints
from segue.emulators.rules import enforced

judge = Judge(complaints, "openai", "gpt-5.5")
USER = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Weather?"}]}
SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}


def body(*items: Any, **more: Any) -> dict[str, Any]:
    return {"model": "gpt-5.5", "input": list(items), **more}


def call(call_id: str = "call_a1", **more: Any) -> dict[str, Any]:
    return {
        "type": "function_call",
        "call_id": call_id,
        "name": "get_weather",
        "arguments": "{}",
        **more,
    }


def output(call_id: str = "call_a1", value: Any = "18", **more: Any) -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": call_id, "output": value, **more}


def said(**more: Any) -> dict[str, Any]:
    part = {"type": "output_text", "text": "Checking.", "annotations": []}
    return {"type": "message", "role": "assistant", "content": [part], **more}


def reasoning(**more: Any) -> dict[str, Any]:
    return {
        "type": "reasoning",
        "summary": [{"type": "summary_text", "text": "Need two lookups."}],
        "encrypted_content": seals.issue("Need two lookups.", Context()),
        **more,
    }


def test_the_valid_transcript_of_the_rulebook_is_accepted() -> None:
    judge.accepts(
        body(
            USER,
            reasoning(id="rs_01"),
            said(id="msg_01", status="completed", phase="commentary"),
            call("call_a1", id="fc_01"),
            call("call_a2", id="fc_02"),
            output("call_a1"),
            output("call_a2", "Error: timeout contacting weather service"),
            reasoning(id="rs_02", summary=[]),
            said(id="msg_02", status="completed", phase="final_answer"),
            USER,
            store=False,
            include=["reasoning.encrypted_content"],
            stream=True,
            parallel_tool_calls=True,
            tool_choice="auto",
            instructions="You are terse.",
            reasoning={"effort": "medium", "summary": "auto"},
            tools=[{"type": "function", "name": "get_weather", "strict": True, "parameters": SCHEMA}],
        )
    )


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


@pytest.mark.rule("RESP-10")
def test_every_call_has_its_output() -> None:
    judge.refuses(
        body(USER, call("call_a1"), call("call_a2"), output("call_a2")),
        "RESP-10",
        "No tool output found for function call call_a1.",
        param="input",
    )


@pytest.mark.rule("RESP-11")
def test_every_output_has_its_call() -> None:
    judge.refuses(
        body(USER, output("call_X")),
        "RESP-11",
        "No tool call found for function call output with call_id call_X.",
        param="input",
    )


@pytest.mark.rule("RESP-12")
def test_outputs_need_not_stand_beside_their_calls_but_after_them() -> None:
    judge.accepts(body(USER, call("a"), USER, call("b"), output("b"), output("a")))
    judge.refuses(
        body(USER, output(), call()),
        "RESP-12",
        "No tool call found for function call output with call_id call_a1.",
        strict=True,
    )


@pytest.mark.rule("RESP-13")
def test_a_second_output_is_refused_only_when_asked_for() -> None:
    request = body(USER, call(), output(), output())
    judge.accepts(request)
    asked = Context(extra_rules=frozenset({"RESP-13"}))
    assert "RESP-13" in [refusal.rule for refusal in complaints(request, asked) if enforced(refusal, asked)]


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


@pytest.mark.rule("RESP-23")
def test_ids_may_be_left_out() -> None:
    judge.accepts(body(USER, reasoning(), said(), call(), output()))


@pytest.mark.rule("RESP-24")
def test_an_id_appears_once() -> None:
    judge.refuses(
        body(USER, said(id="msg_4"), USER, said(id="msg_4")),
        "RESP-24",
        "Duplicate item found with id msg_4. Remove duplicate items from your input and try again.",
        param="input",
    )


@pytest.mark.rule("RESP-30", "RESP-34")
def test_a_tool_in_the_shape_of_chat_has_no_name() -> None:
    judge.refuses(
        body(USER, tools=[{"type": "function", "function": {"name": "f"}}]),
        "RESP-30",
        "Missing required parameter: 'tools[0].name'.",
        code="missing_required_parameter",
    )


@pytest.mark.rule("RESP-30")
def test_a_tool_name_has_its_pattern() -> None:
    judge.refuses(
        body(USER, tools=[{"type": "function", "name": "a.b"}]),
        "RESP-30",
        "Invalid 'tools[0].name': string does not match pattern. Expected a string that matches the pattern "
        "'^[a-zA-Z0-9_-]+$'.",
        code="invalid_value",
    )


@pytest.mark.rule("RESP-31")
def test_strict_is_tried_and_only_an_explicit_true_refuses() -> None:
    loose = {"type": "object", "properties": {}}
    judge.accepts(body(USER, tools=[{"type": "function", "name": "f", "parameters": loose}]))
    judge.refuses(
        body(USER, tools=[{"type": "function", "name": "f", "parameters": loose, "strict": True}]),
        "RESP-31",
        "Invalid schema for function 'f': In context=(), 'additionalProperties' is required to be supplied and to be "
        "false.",
        code="invalid_function_parameters",
        param="tools[0].parameters",
    )


@pytest.mark.rule("RESP-32")
def test_schemas_obey_the_rules_of_chat_and_names_are_not_empty() -> None:
    judge.refuses(
        body(USER, tools=[{"type": "function", "name": "f", "parameters": {"type": "string"}}]),
        "RESP-32",
        "Invalid schema for function 'f': schema must be a JSON Schema of 'type: \"object\"', got 'type: \"string\"'.",
        code="invalid_function_parameters",
        param="tools[0].parameters",
    )
    judge.refuses(
        body(USER, call(name=""), output()),
        "RESP-32",
        "Invalid 'input[1].name': empty string. Expected a string with minimum length 1, but got an empty string instead.",
        code="empty_string",
    )


@pytest.mark.rule("RESP-33")
def test_an_unknown_tool_choice_is_refused() -> None:
    judge.refuses(
        body(USER, tool_choice="any"),
        "RESP-33",
        "Invalid value: 'any'. Supported values are: 'none', 'auto', and 'required'.",
        code="invalid_value",
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


@pytest.mark.rule("RESP-45")
@pytest.mark.parametrize(
    "bare",
    [{"type": "item_reference", "id": "rs_9"}, {"type": "reasoning", "id": "rs_9", "summary": []}],
)
def test_without_storage_there_is_nothing_behind_a_bare_id(bare: dict[str, Any]) -> None:
    judge.refuses(
        body(USER, bare, said(), store=False),
        "RESP-45",
        "Item with id 'rs_9' not found. Items are not persisted when `store` is set to false. Try again with `store` "
        "set to true, or remove this item from your input.",
        status=404,
        param="input",
    )


@pytest.mark.rule("RESP-46")
@pytest.mark.parametrize(
    "sealed", ["gAAAAABforeign", seals.issue("x", Context(account="other")), "gAAA\u20ac"]
)
def test_a_foreign_seal_is_refused(sealed: str) -> None:
    judge.refuses(
        body(USER, reasoning(id="rs_01", encrypted_content=sealed), said()),
        "RESP-46",
        "The encrypted content for item rs_01 could not be verified. Reason: Encrypted content could not be decrypted "
        "or parsed.",
        code="invalid_encrypted_content",
    )


@pytest.mark.rule("RESP-46")
def test_a_seal_that_was_altered_or_cut_is_refused() -> None:
    sealed = seals.issue("x", Context())
    for wrong in (sealed[:-4], sealed[:20] + "A" + sealed[21:], sealed + "AAAA"):
        assert not seals.opens(wrong, Context())
    assert seals.opens(sealed, Context())


@pytest.mark.rule("RESP-47")
def test_reasoning_may_be_dropped() -> None:
    judge.accepts(body(USER, said(), call(), output()))


@pytest.mark.rule("RESP-48")
def test_a_model_that_does_not_reason_takes_no_effort() -> None:
    judge.refuses(
        body(USER, model="gpt-4.1", reasoning={"effort": "low"}),
        "RESP-48",
        "Unsupported parameter: 'reasoning.effort' is not supported with this model.",
        code="unsupported_parameter",
        strict=True,
    )


@pytest.mark.rule("RESP-50")
def test_a_chain_comes_from_one_place() -> None:
    request = body(USER, previous_response_id="resp_1", conversation="conv_1")
    assert [refusal.rule for refusal in complaints(request, judge.context(body()))] == ["RESP-50"]


@pytest.mark.rule("RESP-51")
def test_an_unknown_model_is_refused_when_strict() -> None:
    judge.refuses(
        body(USER, model="gpt-5.2-proo"),
        "RESP-51",
        "The requested model 'gpt-5.2-proo' does not exist.",
        code="model_not_found",
        param="model",
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


@pytest.mark.rule("RESP-65")
def test_usage_is_not_asked_for() -> None:
    judge.refuses(
        body(USER, stream=True, stream_options={"include_usage": True}),
        "RESP-65",
        "Unknown parameter: 'stream_options.include_usage'.",
        code="unknown_parameter",
    )


@pytest.mark.rule("RESP-66")
def test_the_context_has_an_end_unless_it_may_be_truncated() -> None:
    long = {"role": "user", "content": "x" * 4 * 9000}
    judge.refuses(
        body(long, model="gpt-4"),
        "RESP-66",
        "Your input exceeds the context window of this model. Please adjust your input and try again.",
        code="context_length_exceeded",
        param="input",
    )
    judge.accepts(body(long, model="gpt-4", truncation="auto"))

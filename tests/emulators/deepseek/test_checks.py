"""One request per rule that breaks it and nothing else, in DeepSeek's words."""

from __future__ import annotations

from typing import Any

import pytest

from emulators.judge import Judge
from segue.emulators.deepseek.checks import complaints
from segue.emulators.deepseek.replies import envelope

DEEPSEEK = Judge(complaints, "deepseek", "deepseek-v4-flash")
USER = {"role": "user", "content": "Weather in Paris?"}
CALL = {"id": "call_0", "type": "function", "function": {"name": "get_weather", "arguments": "{}"}}
RESULT = {"role": "tool", "tool_call_id": "call_0", "content": "18C"}
TOOL = {"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}
UNREADABLE = "Failed to deserialize the JSON body into the target type: "


def calling(**extra: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": None, "reasoning_content": "", "tool_calls": [CALL], **extra}


def chat(*messages: Any, model: str = "deepseek-v4-flash", **extra: Any) -> dict[str, Any]:
    return {"model": model, "messages": list(messages or (USER,)), **extra}


def reason(body: object) -> tuple[str, int, str]:
    (refusal,) = complaints(body, DEEPSEEK.context(body))
    text = refusal.message.removeprefix(UNREADABLE)
    return refusal.rule, refusal.status, text.rpartition(" at line 1 column ")[0]


@pytest.mark.rule("DSK-01")
def test_once_tools_are_in_play_all_reasoning_comes_back() -> None:
    silent = {"role": "assistant", "content": "ok"}
    body = chat(USER, calling(), RESULT, silent, USER)
    DEEPSEEK.refuses(
        body, "DSK-01", "The `reasoning_content` in the thinking mode must be passed back to the API."
    )
    (refusal,) = complaints(body, DEEPSEEK.context(body))
    assert envelope(refusal, DEEPSEEK.context(body))["error"]["code"] == "invalid_request_error"


@pytest.mark.rule("DSK-01")
@pytest.mark.parametrize("reasoning", ["", " ", "hm"])
def test_any_reasoning_is_good_enough(reasoning: str) -> None:
    spoken = {"role": "assistant", "content": "ok", "reasoning_content": reasoning}
    DEEPSEEK.accepts(chat(USER, calling(reasoning_content=reasoning), RESULT, spoken, USER, tools=[TOOL]))


@pytest.mark.rule("DSK-01")
def test_without_thinking_or_without_tools_no_reasoning_is_wanted() -> None:
    silent = {"role": "assistant", "content": None, "tool_calls": [CALL]}
    DEEPSEEK.accepts(chat(USER, silent, RESULT, thinking={"type": "disabled"}))
    DEEPSEEK.accepts(chat(USER, silent, RESULT, model="deepseek-chat"))
    DEEPSEEK.accepts(chat(USER, {"role": "assistant", "content": "ok"}, USER))


@pytest.mark.rule("DSK-03")
@pytest.mark.parametrize("rest", [[], [USER], [USER, RESULT]])
def test_every_call_is_answered_at_once(rest: list[dict[str, Any]]) -> None:
    found = list(complaints(chat(USER, calling(), *rest), DEEPSEEK.context(None)))
    assert found[0].rule == "DSK-03"
    assert found[0].message == (
        "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. "
        "(insufficient tool messages following tool_calls message)"
    )


@pytest.mark.rule("DSK-03")
def test_a_result_answers_a_call() -> None:
    DEEPSEEK.refuses(
        chat(USER, RESULT),
        "DSK-03",
        "Messages with role 'tool' must be a response to a preceding message with 'tool_calls'",
    )


@pytest.mark.rule("DSK-04")
def test_content_is_a_string_or_parts_of_text() -> None:
    DEEPSEEK.accepts(chat({"role": "user", "content": [{"type": "text", "text": "hi"}]}))
    body = chat({"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:"}}]})
    assert reason(body) == ("DSK-04", 400, "messages[0]: unknown variant `image_url`, expected `text`")


@pytest.mark.rule("DSK-04")
def test_content_that_is_an_object_is_answered_in_plain_text() -> None:
    what = "messages[0]: data did not match any variant of untagged enum ChatCompletionRequestContent"
    assert reason(chat({"role": "user", "content": {"type": "text"}})) == ("DSK-04", 422, what)


@pytest.mark.rule("DSK-04")
def test_tools_are_functions() -> None:
    what = "tools[0].type: unknown variant `namespace`, expected `function`"
    assert reason(chat(tools=[{"type": "namespace"}])) == ("DSK-04", 400, what)
    assert reason(chat(tools=[{"type": "function"}])) == ("DSK-04", 400, "tools[0]: missing field `function`")


@pytest.mark.rule("DSK-04")
def test_there_are_four_roles() -> None:
    what = "messages[0].role: unknown variant `Tool`, expected one of `system`, `user`, `assistant`, `tool`"
    assert reason(chat({"role": "Tool", "content": "x"})) == ("DSK-04", 400, what)


@pytest.mark.rule("REC-DSK-01")
def test_a_request_fits_into_the_model() -> None:
    DEEPSEEK.refuses(
        chat({"role": "user", "content": "word" * 1_048_573}, max_tokens=10),
        "REC-DSK-01",
        "This model's maximum context length is 1048576 tokens. However, you requested 1048586 tokens "
        "(1048576 in the messages, 10 in the completion). Please reduce the length of the messages or completion.",
    )


@pytest.mark.parametrize(
    "body",
    [
        None,
        [],
        {},
        {"model": "m", "messages": []},
        {"model": 3, "messages": [USER]},
        {"model": "m", "messages": [3]},
        {"model": "m", "messages": [{"role": "assistant", "tool_calls": [{}]}]},
        {"model": "m", "messages": [USER], "tools": [3]},
        {"model": "m", "messages": [USER], "thinking": 3},
    ],
)
def test_nonsense_is_refused_not_crashed_upon(body: object) -> None:
    assert list(complaints(body, DEEPSEEK.context(None)))

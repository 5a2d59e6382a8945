from __future__ import annotations

import pytest

from emulators.openai_chat.requests import USER, body, judge, tool
from segue.emulators.openai_chat.checks import complaints


@pytest.mark.rule("CHAT-40")
@pytest.mark.parametrize("effort", [None, "low"])
def test_reasoning_models_call_functions_on_chat_only_without_reasoning(effort: str | None) -> None:
    more = {} if effort is None else {"reasoning_effort": effort}
    judge.refuses(
        body(USER, tools=[tool()], model="gpt-5.6-terra", **more),
        "CHAT-40",
        "Function tools with reasoning_effort are not supported for gpt-5.6-terra in /v1/chat/completions. "
        "To use function tools, use /v1/responses or set reasoning_effort to 'none'.",
        param="reasoning_effort",
    )
    judge.accepts(body(USER, tools=[tool()], model="gpt-5.6-terra", reasoning_effort="none"))


@pytest.mark.rule("CHAT-40")
def test_a_model_that_cannot_stop_reasoning_calls_no_functions_on_chat() -> None:
    found = judge.context(body(model="gpt-6-astra"))
    request = body(USER, tools=[tool()], model="gpt-6-astra", reasoning_effort="none")
    assert [refusal.rule for refusal in complaints(request, found)] == ["CHAT-40", "CHAT-41"]


@pytest.mark.rule("CHAT-41")
def test_reasoning_models_refuse_max_tokens() -> None:
    judge.refuses(
        body(USER, model="o3", max_tokens=10),
        "CHAT-41",
        "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
        code="unsupported_parameter",
    )


@pytest.mark.rule("CHAT-41")
def test_reasoning_models_refuse_a_temperature() -> None:
    judge.refuses(
        body(USER, model="o3", temperature=0.2),
        "CHAT-41",
        "Unsupported value: 'temperature' does not support 0.2 with this model. Only the default (1) value is supported.",
        code="unsupported_value",
    )


@pytest.mark.rule("CHAT-70")
def test_the_context_has_an_end() -> None:
    judge.refuses(
        body({"role": "user", "content": "x" * 4 * 8192}, model="gpt-4"),
        "CHAT-70",
        "This model's maximum context length is 8192 tokens. However, your messages resulted in 8195 tokens. "
        "Please reduce the length of the messages.",
        code="context_length_exceeded",
        param="messages",
    )


@pytest.mark.rule("CHAT-71")
def test_the_answer_has_a_limit() -> None:
    judge.refuses(
        body(USER, model="gpt-4o", max_tokens=999_999),
        "CHAT-71",
        "max_tokens is too large: 999999. This model supports at most 16384 completion tokens, whereas you provided 999999.",
        code="invalid_value",
        param="max_tokens",
        strict=True,
    )


@pytest.mark.rule("RESP-51")
def test_an_unknown_model_is_refused() -> None:
    judge.refuses(
        body(USER, model="gpt-4.1-nano-wrong"),
        "RESP-51",
        "The model `gpt-4.1-nano-wrong` does not exist or you do not have access to it.",
        status=404,
        code="model_not_found",
    )


@pytest.mark.rule("REC-01")
def test_old_models_write_no_json_schema() -> None:
    judge.refuses(
        body(USER, model="gpt-4", response_format={"type": "json_schema", "json_schema": {"name": "x"}}),
        "REC-01",
        "Invalid parameter: 'response_format' of type 'json_schema' is not supported with this model. Learn more "
        "about supported models at the Structured Outputs guide: "
        "https://platform.openai.com/docs/guides/structured-outputs",
    )


@pytest.mark.rule("REC-02")
def test_not_every_model_searches_the_web() -> None:
    judge.refuses(
        body(USER, web_search_options={}),
        "REC-02",
        "Web search options not supported with this model.",
        param="web_search_options",
    )


@pytest.mark.rule("CHAT-41")
def test_an_effort_that_a_model_does_not_know_is_refused() -> None:
    judge.refuses(
        body(USER, model="o4-mini", reasoning_effort="minimal"),
        "CHAT-41",
        "Unsupported value: 'minimal' is not supported with the 'o4-mini' model. "
        "Supported values are: 'low', 'medium', and 'high'.",
        code="unsupported_value",
        param="reasoning_effort",
    )

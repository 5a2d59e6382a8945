from __future__ import annotations

import pytest

from emulators.openai_responses.requests import USER, body, judge


@pytest.mark.rule("RESP-48")
def test_a_model_that_does_not_reason_takes_no_effort() -> None:
    judge.refuses(
        body(USER, model="gpt-4.1", reasoning={"effort": "low"}),
        "RESP-48",
        "Unsupported parameter: 'reasoning.effort' is not supported with this model.",
        code="unsupported_parameter",
        strict=True,
    )


@pytest.mark.rule("RESP-51")
def test_an_unknown_model_is_refused() -> None:
    judge.refuses(
        body(USER, model="gpt-5.2-proo"),
        "RESP-51",
        "The requested model 'gpt-5.2-proo' does not exist.",
        code="model_not_found",
        param="model",
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

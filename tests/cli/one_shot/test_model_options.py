"""Options of a model: flags over the configuration, and each checked before anything is sent."""

from __future__ import annotations

from typing import Any

import pytest

from cli.cli_runs import Cloud, Here
from segue.cli.exit_codes import Exit

CLAUDE = ("-m", "anthropic/claude-sonnet-4-5")


def sent(cloud: Cloud) -> dict[str, Any]:
    body: dict[str, Any] = cloud.bodies()[-1]
    return body


def test_options_reach_the_model(cloud: Cloud, asked: Here) -> None:
    words = (
        "-o",
        "temperature=0.5",
        "--max-tokens",
        "77",
        "-o",
        "stop=END",
        "-o",
        'extra.metadata={"user_id": "u"}',
    )
    assert asked("hi", *CLAUDE, *words).code == Exit.OK
    body = sent(cloud)
    assert (body["temperature"], body["max_tokens"], body["stop_sequences"]) == (0.5, 77, ["END"])
    assert body["metadata"] == {"user_id": "u"}
    asked("hi", *CLAUDE, "--temperature", "0")
    assert sent(cloud)["temperature"] == 0


def test_the_configuration_has_options_by_model_and_flags_count_more(cloud: Cloud, asked: Here) -> None:
    cloud.home.configure(
        '[options."anthropic/*"]\ntemperature = 0.3\nmax_tokens = 50\n'
        '[options."anthropic/claude-sonnet-4-5"]\nmax_tokens = 60\n'
    )
    asked("hi", *CLAUDE)
    assert (sent(cloud)["temperature"], sent(cloud)["max_tokens"]) == (0.3, 60)
    asked("hi", *CLAUDE, "-o", "temperature=0.9")
    assert (sent(cloud)["temperature"], sent(cloud)["max_tokens"]) == (0.9, 60)
    asked("hi", "-m", "openai/gpt-4.1")
    assert "temperature" not in sent(cloud)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("-o", "temprature=1"), "temperature"),
        (("-o", "temperature"), "KEY=VALUE"),
        (("-o", "temperature=hot"), "temperature is not valid"),
        (("--temperature", "-1"), "temperature is not valid"),
        (("--max-tokens", "0"), "not a whole number above 0"),
        (("-o", "logit_bias={}"), "extra.logit_bias"),
    ],
)
def test_a_wrong_option_is_refused(cloud: Cloud, asked: Here, words: tuple[str, ...], reason: str) -> None:
    told = asked("hi", *words)
    assert told.code == Exit.USAGE
    assert reason in told.err
    assert cloud.bodies() == []

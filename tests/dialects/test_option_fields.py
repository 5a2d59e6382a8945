"""Options as rows of a table: option, field, bounds."""

from __future__ import annotations

from typing import Any

import pytest

from segue.conversation.blocks import Text
from segue.conversation.message import Conversation, Message
from segue.conversation.options import Options
from segue.dialects.card import UNKNOWN, ModelCard
from segue.dialects.registry import DIALECTS
from segue.dialects.requests.settings import OptionField, take_options
from segue.errors import TranscriptError
from segue.transcript.render import render

_ROWS = (OptionField("temperature", "heat", 0, 1), OptionField("stop", "ends"), OptionField("top_k", "k"))


def test_options_are_taken_out_of_the_object_that_holds_them() -> None:
    held = {"heat": 0.5, "ends": ["x"], "other": 1}
    assert take_options(_ROWS, held, "inside.") == {"temperature": 0.5, "stop": ("x",), "top_k": None}
    assert held == {"other": 1}


def test_a_value_of_the_wrong_type_is_refused_with_its_place() -> None:
    with pytest.raises(TranscriptError) as caught:
        take_options(_ROWS, {"k": 1.5}, "inside.")
    assert caught.value.path == "inside.k"


@pytest.mark.parametrize(
    ("row", "value", "sent", "reason"),
    [
        (_ROWS[0], 0.3, 0.3, ""),
        (_ROWS[0], -1, 0, "the target takes 0 to 1; sent as 0"),
        (_ROWS[0], 2, 1, "the target takes 0 to 1; sent as 1"),
        (OptionField("temperature", "heat", most=1), 2, 1, "1 is the most the target takes; sent as 1"),
        (OptionField("temperature", "heat", most=1), -1, -1, ""),
    ],
)
def test_a_value_beyond_the_bounds_is_sent_as_the_nearest(
    row: OptionField, value: float, sent: float, reason: str
) -> None:
    assert row.fitted(value) == (sent, reason)


@pytest.mark.parametrize(
    ("dialect", "most"),
    [
        ("openai_chat", 4),
        ("groq", 4),
        ("kimi", 5),
        ("deepseek", 16),
        ("gemini", 5),
        ("gemini_interactions", 5),
    ],
)
def test_of_more_stop_sequences_than_the_target_takes_the_first_are_sent(dialect: str, most: int) -> None:
    words = tuple(f"end {number}" for number in range(20))
    fields, paths = _encoded(dialect, Options(model="m", stop=words))
    assert str(list(words[:most])) in str(fields)
    assert [path.rpartition(".")[2] for path in paths] == ["stop"]
    few = _encoded(dialect, Options(model="m", stop=words[:most]))
    assert few == (fields, [])


def _encoded(dialect: str, options: Options, card: ModelCard = UNKNOWN) -> tuple[dict[str, Any], list[str]]:
    known = DIALECTS[dialect]
    transcript = render(Conversation().append(Message("user", (Text("Hi"),))), None, known.rules)
    request = known.encode_request(transcript, (), options, card)
    return request.fields, [repair.path for repair in request.repairs]


@pytest.mark.parametrize(
    "dialect", ["anthropic", "converse", "gemini", "mistral", "ollama", "openai_responses"]
)
def test_a_model_with_fixed_sampling_is_sent_none_and_every_option_is_reported(dialect: str) -> None:
    options = Options(model="m", temperature=0.5, top_p=0.5)
    fields, paths = _encoded(dialect, options, ModelCard(sampling=False))
    assert "0.5" not in str(fields)
    assert sorted(paths) == ["options.temperature", "options.top_p"]


@pytest.mark.parametrize(
    ("dialect", "unknown"),
    [
        ("anthropic", ["repeat_penalty", "seed"]),
        ("converse", ["repeat_penalty", "seed", "top_k"]),
        ("gemini", ["repeat_penalty"]),
        ("mistral", ["repeat_penalty", "top_k"]),
        ("ollama", []),
        ("openai_responses", ["repeat_penalty", "seed", "stop", "top_k"]),
    ],
)
def test_an_option_without_a_field_is_reported(dialect: str, unknown: list[str]) -> None:
    options = Options(model="m", seed=7, top_k=9, repeat_penalty=1.25, stop=("END",))
    _, paths = _encoded(dialect, options)
    assert sorted(paths) == [f"options.{name}" for name in unknown]


def test_thinking_that_is_no_object_is_not_sent() -> None:
    asked = {
        "model": "m",
        "max_tokens": 9,
        "messages": [],
        "thinking": [],
        "output_config": {"effort": "low"},
    }
    options = DIALECTS["anthropic"].decode_request(asked).options
    assert options.effort == "low"
    assert "thinking" not in _encoded("anthropic", Options(model="other", effort="low", own=options.own))[0]

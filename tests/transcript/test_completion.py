"""How a call ended, in words a target takes."""

from __future__ import annotations

import pytest
from msgspec import structs

from segue.conversation.blocks import Media, ToolResult
from segue.transcript.blocks.outcomes import NO_OUTPUT, WORDING
from segue.transcript.blocks.shown_blocks import completion_of
from segue.transcript.rules import Rules
from segue.transcript.steps import Completion
from strategies.histories import CYCLE

LENIENT = Rules()
STRICT = structs.replace(LENIENT, blank_text=False)
SOUND = Media("audio", "audio/ogg", "eA==")


@pytest.mark.parametrize(
    ("result", "rules", "text"),
    [
        (ToolResult("c", "t", "words"), STRICT, "words"),
        (ToolResult("c", "t", ""), LENIENT, ""),
        (ToolResult("c", "t", " \n"), STRICT, NO_OUTPUT),
        (ToolResult("c", "t", None, complete=True), STRICT, NO_OUTPUT),
        (ToolResult("c", "t", {"a": 1}), STRICT, '{"a":1}'),
        (ToolResult("c", "t", error=""), LENIENT, NO_OUTPUT),
        (ToolResult("c", "t", error="no"), LENIENT, "no"),
        (ToolResult("c", "t", "partly", error="no"), LENIENT, "no\npartly"),
        (ToolResult("c", "t", "partly", error=""), LENIENT, "partly"),
        (ToolResult("c", "t", error="\ud800"), LENIENT, "\ufffd"),
        (ToolResult("c", "t", reason="denied"), LENIENT, WORDING["denied"]),
        (ToolResult("c", "t", error="own words", reason="denied"), LENIENT, "own words"),
    ],
)
def test_a_result_is_said_in_full_and_never_without_a_word(
    result: ToolResult, rules: Rules, text: str
) -> None:
    failed = result.error is not None or result.reason is not None
    assert completion_of(result, "t", "id", rules)[0] == Completion(text, failed, (), result.reason)


def test_what_was_changed_is_told() -> None:
    assert completion_of(ToolResult("c", "t", " "), "t", "id", STRICT)[2] == [
        ("blank_text", "an empty result says so"),
    ]
    assert completion_of(ToolResult("c", "t", CYCLE), "t", "id", STRICT)[2] == [
        ("value_made_safe", "in the result"),
    ]
    assert completion_of(ToolResult("c", "t", media=(SOUND,)), "t", "id", STRICT)[2] == [
        ("media_described", ""),
    ]

from __future__ import annotations

import pytest

from emulators.openai_chat.requests import USER, VALID, body, judge


def test_the_valid_transcript_of_the_rulebook_is_accepted() -> None:
    judge.accepts(VALID)


@pytest.mark.rule("CHAT-42")
def test_four_stop_sequences_are_the_limit() -> None:
    judge.accepts(body(USER, stop=list("abcd")))
    judge.accepts(body(USER, stop="abcde"))
    judge.refuses(
        body(USER, stop=list("abcdefghijklmn")),
        "CHAT-42",
        "Invalid 'stop': array too long. Expected an array with maximum length 4, but got an array with length 14 instead.",
        code="array_above_max_length",
        param="stop",
    )

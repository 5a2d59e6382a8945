from __future__ import annotations

from emulators.openai_chat.requests import VALID, judge


def test_the_valid_transcript_of_the_rulebook_is_accepted() -> None:
    judge.accepts(VALID)

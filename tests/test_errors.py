"""Errors say what, where and what to do, in one form."""

from __future__ import annotations

import pytest

from segue import errors
from segue.errors import ProviderError, RateLimitError, SegueError, TranscriptError

EVERY = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, SegueError)]


@pytest.mark.parametrize("kind", EVERY)
def test_every_error_has_a_code_and_a_remedy(kind: type[SegueError]) -> None:
    error = kind("It went wrong.")
    assert error.code == kind.default_code
    assert error.as_dict() == {
        "code": error.code,
        "message": "It went wrong.",
        "path": "",
        "remedy": error.remedy,
        "hint": "",
    }
    assert str(error) == "It went wrong."


def test_an_error_reads_as_one_sentence_with_its_place_and_its_advice() -> None:
    error = TranscriptError("It is empty.", code="empty", path="messages", hint="Add one.")
    assert str(error) == "messages: It is empty. Add one."
    assert (error.as_dict()["remedy"], error.as_dict()["hint"]) == ("fix", "Add one.")


def test_a_refusal_keeps_what_the_provider_said() -> None:
    error = RateLimitError("Slow down.", status=429, request_id="req_1", retry_after=2.5, body=b"{}")
    assert isinstance(error, ProviderError)
    assert (error.status, error.request_id, error.retry_after, error.body) == (429, "req_1", 2.5, b"{}")

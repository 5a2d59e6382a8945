"""The suite for session formats: ours pass it, and each fault that it is there for is found."""

from __future__ import annotations

from pathlib import Path

import pytest

from segue.conversation.message import Conversation
from segue.errors import UsageError
from segue.interop import SessionPlan
from segue.interop.session_formats import NAMES, session_format
from segue.testing import check_session_format
from segue.testing.session_format_checks import CHECKS, Check, run_check


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", NAMES)
def test_a_format_of_ours_keeps_its_promises(name: str, check: Check) -> None:
    # Their wires have no place for it.
    without = ("failures",) if name in ("codex", "qwen") else ()
    run_check(check, session_format(name), without=without)


class Changed:
    """The format of pi, but for what a test changes."""

    def __init__(self) -> None:
        self._pi = session_format("pi")
        self.name, self.title, self.home = "pi", "pi", self._pi.home
        self.pattern, self.resume = self._pi.pattern, self._pi.resume

    def read(self, data: bytes) -> Conversation | None:
        return self._pi.read(data)

    def write(self, plan: SessionPlan) -> bytes:
        return self._pi.write(plan)

    def file(self, plan: SessionPlan, home: Path) -> Path:
        return self._pi.file(plan, home)


class Forgets(Changed):
    def write(self, plan: SessionPlan) -> bytes:
        return super().write(plan).replace(b"port 1", b"port 2", 1)


class Grabs(Changed):
    def read(self, data: bytes) -> Conversation | None:
        return super().read(data) or Conversation()


class Breaks(Changed):
    def read(self, data: bytes) -> Conversation | None:
        if b"\xff\x00" in data:
            raise KeyError("bytes")
        return super().read(data)


class Escapes(Changed):
    def file(self, plan: SessionPlan, home: Path) -> Path:
        return home / f"{plan.title}-{plan.id}.jsonl"


class Blind(Changed):
    def write(self, plan: SessionPlan) -> bytes:
        return super().write(plan).replace(b"iVBORw0KGgo=", b"")


@pytest.mark.parametrize(
    ("broken", "found"),
    [
        (Forgets, "a_conversation_with_calls_is_read_as_it_was_written"),
        (Grabs, "files_of_others_are_not_taken"),
        (Breaks, "damaged_files_raise_nothing_but_a_transcript_error"),
        (Escapes, "no_session_is_written_outside_its_folder"),
        (Blind, "images_stay_with_their_prompts"),
    ],
)
def test_a_format_that_breaks_a_promise_is_named_with_it(broken: type[Changed], found: str) -> None:
    with pytest.raises(AssertionError, match=f"pi: {found}"):
        check_session_format(broken())


def test_what_a_format_cannot_hold_is_not_asked_for() -> None:
    check_session_format(Blind(), without=("images",))
    with pytest.raises(UsageError, match="pictures"):
        check_session_format(Blind(), without=("pictures",))

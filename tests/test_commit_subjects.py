"""The hook that checks the subject of a commit."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

_HOOK = Path(__file__).parent.parent / ".githooks" / "commit-msg"


def refusal(tmp_path: Path, message: str) -> str:
    """What the hook says about a message; "" if it takes it."""
    file = tmp_path / "message"
    file.write_text(message, encoding="utf-8")
    ended = subprocess.run([_HOOK, file], capture_output=True, text=True, check=False)  # noqa: S603 - our own hook
    assert bool(ended.returncode) == bool(ended.stderr)
    return ended.stderr


@pytest.mark.parametrize(
    "message",
    ["Return early from cancelled journal writes\n\nOthers waited for them.", "# note\n" + "A" * 72],
)
def test_a_short_subject_is_taken(tmp_path: Path, message: str) -> None:
    assert refusal(tmp_path, message) == ""


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ("A" * 73, "at most 72"),
        ("Fix the journal.", "full stop"),
        ("fix: the journal", "prefix"),
        ("# only a comment\n", "no subject"),
    ],
)
def test_other_subjects_are_refused_with_the_reason(tmp_path: Path, message: str, reason: str) -> None:
    assert reason in refusal(tmp_path, message)

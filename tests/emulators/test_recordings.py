"""Verified fakes: what a real API accepted is accepted here, what it refused is refused in the same words."""

from __future__ import annotations

import pytest

from emulators.recordings import (
    FOLDER,
    STATE_RULES,
    STRUCTURAL,
    Recording,
    judged,
    kinds,
    mismatches,
    plain,
    recordings,
)

if not FOLDER.is_dir():
    pytest.skip("the recorded traffic is not beside this repository", allow_module_level=True)


def agrees(recording: Recording) -> bool:
    if recording.status < 300:
        status, _, rule = judged(recording, strict=False)
        return status < 300 or bool(rule and STATE_RULES.fullmatch(rule))
    status, ours, _ = judged(recording, strict=True)
    same_kind = status == recording.status and kinds(ours) == kinds(recording.answer)
    return same_kind and plain(ours) == plain(recording.answer)


def chosen(*statuses: int) -> list[Recording]:
    """Without those about keys: any key is a good one here."""
    found = [recording for recording in recordings() if recording.status in statuses]
    return [recording for recording in found if "API key" not in str(recording.answer)]


@pytest.mark.parametrize("recording", chosen(200, 201), ids=lambda recording: recording.name)
def test_what_was_accepted_is_accepted(recording: Recording) -> None:
    assert agrees(recording) == (recording.name not in mismatches())


@pytest.mark.parametrize("recording", chosen(*STRUCTURAL), ids=lambda recording: recording.name)
def test_what_was_refused_is_refused_in_the_same_words(recording: Recording) -> None:
    assert agrees(recording) == (recording.name not in mismatches())

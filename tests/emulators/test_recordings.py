"""Verified fakes: what a real API accepted is accepted here, what it refused is refused in the same words."""

from __future__ import annotations

import pytest

from emulators.agreement import agrees, chosen
from emulators.recordings import FOLDER, STRUCTURAL, Recording, mismatches

if not FOLDER.is_dir():
    pytest.skip("the recorded traffic is not beside this repository", allow_module_level=True)


@pytest.mark.parametrize("recording", chosen(200, 201), ids=lambda recording: recording.name)
def test_what_was_accepted_is_accepted(recording: Recording) -> None:
    assert agrees(recording) == (recording.name not in mismatches())


@pytest.mark.parametrize("recording", chosen(*STRUCTURAL), ids=lambda recording: recording.name)
def test_what_was_refused_is_refused_in_the_same_words(recording: Recording) -> None:
    assert agrees(recording) == (recording.name not in mismatches())

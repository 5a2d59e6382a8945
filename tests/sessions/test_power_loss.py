"""A few power cuts; `make power` makes many."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest

from segue.errors import JournalError
from sessions.power_loss import after_cut, check, compile_layer, compiler, cut_again_and_again, recorded
from sessions.stores_under_test import FILES

needs_layer = pytest.mark.skipif(
    compiler() is None or not sys.platform.startswith("linux"), reason="needs Linux and a C compiler"
)


@needs_layer
@pytest.mark.parametrize("kind", FILES)
def test_nothing_acknowledged_is_lost_in_a_power_cut(kind: str, tmp_path: Path) -> None:
    assert cut_again_and_again(kind, tmp_path, cuts=10, seed=7, turns=2) > 0


@needs_layer
def test_a_writer_that_does_not_wait_for_the_disk_is_found_out(tmp_path: Path) -> None:
    steps = recorded("jsonl", tmp_path / "jsonl", compile_layer(tmp_path), turns=1, seed=3)
    hasty = [step for step in steps if step.kind != "S"]
    files, acknowledged = after_cut(hasty, random.Random(1))
    with pytest.raises((AssertionError, JournalError)):
        check("jsonl", tmp_path / "after", files, acknowledged, tmp_path / "jsonl" / "run")

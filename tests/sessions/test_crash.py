"""Real processes, really killed."""

from __future__ import annotations

from pathlib import Path

import pytest

from sessions.crash import kill_again_and_again, stall_beside_each_other
from sessions.stores_under_test import DURABLE, FILES


@pytest.mark.parametrize("kind", DURABLE)
def test_nothing_acknowledged_is_lost_when_the_process_is_killed(kind: str, tmp_path: Path) -> None:
    kills = 20 if kind in FILES else 8
    acknowledged, cut_off = kill_again_and_again(kind, tmp_path, kills=kills, seed=915)
    assert acknowledged > kills
    assert cut_off > 0


@pytest.mark.parametrize("kind", DURABLE)
def test_writers_that_sleep_through_their_lease_are_fenced_off(kind: str, tmp_path: Path) -> None:
    counts = stall_beside_each_other(kind, tmp_path, writers=4, lease_seconds=0.1)
    assert counts["entries"] > 20
    assert counts["owners"] > 4
    assert counts["fenced"] > 0
    assert counts["session_busy"] > 0

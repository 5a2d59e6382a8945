"""Real chats in real processes, really killed."""

from __future__ import annotations

from pathlib import Path

import pytest

from sessions.stores_under_test import FILES
from stories.crashes import kill_again_and_again


@pytest.mark.parametrize("kind", FILES)
def test_a_killed_chat_goes_on_with_all_it_acknowledged_and_runs_no_tool_twice(
    kind: str, tmp_path: Path
) -> None:
    assert kill_again_and_again(kind, tmp_path, kills=24, seed=915, most=120).met_every_phase


def test_a_killed_chat_in_postgres_goes_on_in_another_process(tmp_path: Path) -> None:
    assert kill_again_and_again("postgres", tmp_path, kills=6, seed=915, most=60).met_every_phase

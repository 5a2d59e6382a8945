"""Sessions as virtual objects of a real Restate server."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from integrations.engine_agents import ROUNDS, World, open_store
from integrations.engine_kills import kill_workers
from integrations.restate_server import program, restate_engine
from segue.sessions.entries import ApprovalGiven, TurnEnded

pytest.importorskip("restate")
pytestmark = [
    pytest.mark.skipif(program() is None, reason="needs a Restate server: `make restate-server`"),
    pytest.mark.timeout(240),
]


def test_a_turn_waits_for_an_answer_over_http_the_journal_says_who_gave_it_and_a_cancelled_one_ends(
    tmp_path: Path,
) -> None:
    with restate_engine(tmp_path, "wait", seconds=0, workers=1) as engine:
        engine.workers[0].start()
        turn = engine.send("s", "Go.")
        answered = list[str]()
        for _ in range(ROUNDS):
            (call,) = engine.eventually(
                lambda: [call for call in engine.ask("/Agent/s/approvals") if call["id"] not in answered]
            )
            assert call["name"] == "send"
            engine.ask("/Agent/s/approve", {"call_id": call["id"], "by": "carol", "allow": True})
            answered.append(call["id"])
        engine.eventually(lambda: not engine.unfinished([turn]))
        cancelled = engine.send("s", "Go again.")
        engine.eventually(lambda: engine.ask("/Agent/s/approvals"))
        engine.cancel(cancelled)
        engine.eventually(lambda: not engine.ask("/Agent/s/approvals"))
        engine.eventually(lambda: _ends(tmp_path) == ["complete", "cancelled"])
    assert sum(one.had_effect for one in World(tmp_path).all()) == ROUNDS
    records = asyncio.run(open_store(tmp_path, "").read("s"))
    given = [record.entry for record in records if isinstance(record.entry, ApprovalGiven)]
    assert [(one.call_id, one.by) for one in given] == [(call_id, "carol") for call_id in answered]


def _ends(folder: Path) -> list[str]:
    records = asyncio.run(open_store(folder, "").read("s"))
    return [record.entry.finish for record in records if isinstance(record.entry, TurnEnded)]


def test_workers_that_are_killed_lose_no_turn_and_repeat_no_effect(tmp_path: Path) -> None:
    with restate_engine(tmp_path) as engine:
        found = kill_workers(engine, tmp_path, kills=4, seed=7)
    assert found.turns >= 20
    assert sum(found.hit.values()) > 0

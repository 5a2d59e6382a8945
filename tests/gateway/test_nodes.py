"""Gateways on one database are one gateway; `make nodes` sends and kills more."""

from __future__ import annotations

from pathlib import Path

from gateway.nodes import Plan, spread_at_random
from postgres_server import schema_url


def test_conversations_that_hit_another_node_each_time_keep_their_seals_and_routes(tmp_path: Path) -> None:
    plan = Plan(nodes=2, conversations=3, turns=3, kills=1, seed=915)
    found = spread_at_random(tmp_path, schema_url(tmp_path), plan)
    assert found.requests >= 18
    assert found.kills == 1
    assert found.signatures > 0

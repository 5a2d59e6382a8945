"""A killed gateway costs at most the reply that was under way; `make chaos` kills more often."""

from __future__ import annotations

from pathlib import Path

from gateway.crashes import kill_again_and_again


def test_a_killed_gateway_forgets_no_reply_that_a_client_has_seen_to_its_end(tmp_path: Path) -> None:
    found = kill_again_and_again(tmp_path, kills=2, seed=7)
    assert found.kills == 2
    assert found.signatures > 0

"""Attacks that take minutes, here in small: `make worker-kills`, `make conversations` and `make key-timing` try more often."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from gateway.key_timing import KINDS, medians
from gateway.many_conversations import converse
from gateway.worker_kills import kill_workers

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="it looks into /proc")


@pytest.mark.timeout(120)
def test_a_killed_worker_costs_no_agent_a_reply_that_it_has_seen_to_its_end(tmp_path: Path) -> None:
    found = kill_workers(tmp_path, kills=3, seed=7)
    assert found.kills == 3
    assert found.signatures > 0
    assert (found.missing, found.refused) == (0, 0)


def test_each_of_many_conversations_of_one_client_is_known(tmp_path: Path) -> None:
    found = converse(tmp_path, 40)
    assert found.known == 40
    assert len(found.memory) == 10


def test_keys_that_are_nearly_right_are_refused_like_any_other(tmp_path: Path) -> None:
    """How long that takes depends on the machine: here only that each is refused, and that all kinds are measured."""
    found = medians(tmp_path, 20, seed=7)
    assert set(found) == set(KINDS)
    assert min(found.values()) > 0

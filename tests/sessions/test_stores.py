"""All stores keep what the protocol promises: the public suite, run on ours."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from segue.testing.store_checks import CHECKS, Check, check_store, run_check
from sessions.stores_under_test import KINDS, opener


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("kind", KINDS)
def test_a_store_keeps_its_promises(kind: str, check: Check, tmp_path: Path) -> None:
    asyncio.run(run_check(check, opener(kind, tmp_path)))


def test_the_whole_suite_runs_on_one_place(tmp_path: Path) -> None:
    asyncio.run(check_store(opener("sqlite", tmp_path)))

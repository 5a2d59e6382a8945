from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from segue.emulators.rules import REGISTRY, Context, Refusal, first_enforced, rule

ROOT = Path(__file__).parents[2]
HIGH, MEDIUM, LOW = (Refusal(rule=c, message=c, confidence=c) for c in ("H", "M", "L"))


def test_how_strict_the_emulator_is_decides_which_rule_is_answered() -> None:
    broken = [LOW, MEDIUM, HIGH]
    assert first_enforced(broken, Context()) == HIGH
    assert first_enforced(broken, Context(strict=True)) == MEDIUM
    assert first_enforced(broken, Context(extra_rules=frozenset({"L"}))) == LOW
    assert first_enforced([LOW, MEDIUM], Context()) is None


def test_a_registered_check_stays_as_it_is() -> None:
    def check() -> int:
        return 3

    before = len(REGISTRY)
    try:
        assert rule("X-1", "L")(check) is check
    finally:
        del REGISTRY[before:]


@pytest.mark.timeout(300)
def test_every_rule_we_are_sure_of_is_shown_by_a_test_and_the_table_is_up_to_date() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "scripts.emulator_rules"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr

"""Our own row of the report: nothing fails, nothing is lost."""

from __future__ import annotations

import pytest

from segue.lab.known_gateways import started
from segue.lab.laboratory import check
from segue.lab.scenario import shipped_scenarios
from segue.lab.stage import open_stage

pytestmark = pytest.mark.timeout(300)


def test_our_gateway_holds_in_every_scenario() -> None:
    with open_stage() as (stage, served), started("segue", served) as gateway:
        results = check(gateway, stage, shipped_scenarios())
    wrong = [
        f"{outcome.trial.name}: {finding.says}"
        for result in results
        for outcome in result.outcomes
        for finding in outcome.findings
    ]
    assert wrong == []
    assert all(result.outcomes for result in results)

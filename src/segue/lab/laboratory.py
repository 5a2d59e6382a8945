"""Plays all scenarios through one gateway: which trials there are, and what came of them."""

from __future__ import annotations

from itertools import permutations
from typing import TYPE_CHECKING

from msgspec import Struct

from segue.lab.clients.client import CountingClient
from segue.lab.scenario import Scenario
from segue.lab.stage import CLIENTS
from segue.lab.trial import Trial, TrialOutcome, play

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from segue.lab.stage import Stage
    from segue.lab.trial import GatewayUnderTest


class ScenarioResult(Struct, frozen=True, kw_only=True):
    """One scenario through one gateway."""

    scenario: Scenario
    outcomes: tuple[TrialOutcome, ...] = ()
    not_offered: str = ""
    """Why it was not played."""

    @property
    def verdict(self) -> str:
        """`holds`, `loses` (accepted and answered, but something is gone), `fails`, or `not offered`."""
        if not self.outcomes:
            return "not offered"
        severities = {finding.severity for outcome in self.outcomes for finding in outcome.findings}
        return "fails" if "broken" in severities else "loses" if "lost" in severities else "holds"

    @property
    def held(self) -> int:
        return sum(1 for outcome in self.outcomes if not outcome.findings)


class LabRun(Struct, frozen=True, kw_only=True):
    """All scenarios through one gateway, on one day."""

    gateway: str
    version: str
    date: str
    segue: str
    """The version of the lab."""
    results: tuple[ScenarioResult, ...]


def check(
    gateway: GatewayUnderTest,
    stage: Stage,
    scenarios: Iterable[Scenario],
    *,
    on_result: Callable[[ScenarioResult], None] = lambda _: None,
) -> tuple[ScenarioResult, ...]:
    results = []
    for scenario in scenarios:
        result = _play(scenario, gateway, stage)
        on_result(result)
        results.append(result)
    return tuple(results)


def _play(scenario: Scenario, gateway: GatewayUnderTest, stage: Stage) -> ScenarioResult:
    reason = _reason_against(scenario, gateway)
    if reason:
        return ScenarioResult(scenario=scenario, not_offered=reason)
    outcomes = tuple(play(trial, gateway, stage) for trial in trials(scenario, gateway))
    why = "" if outcomes else "the gateway has no door and model for it"
    return ScenarioResult(scenario=scenario, outcomes=outcomes, not_offered=why)


def _reason_against(scenario: Scenario, gateway: GatewayUnderTest) -> str:
    if scenario.name in gateway.exceptions:
        return gateway.exceptions[scenario.name]
    if scenario.claim and scenario.claim not in gateway.claims:
        return f"the gateway does not claim it ({scenario.claim})"
    return ""


def trials(scenario: Scenario, gateway: GatewayUnderTest) -> Iterator[Trial]:
    """Every door × every provider, or ordered pair of them, behind that door × whole and streamed."""
    counts = any(step.count for step in scenario.steps)
    for wire in scenario.wires:
        if wire not in gateway.doors or (counts and not issubclass(CLIENTS[wire], CountingClient)):
            continue
        reached = gateway.models if gateway.behind is None else gateway.behind.get(wire, ())
        providers = [name for name in scenario.providers if name in reached and name in gateway.models]
        for chosen in permutations(providers, 2 if scenario.two_models else 1):
            for stream in scenario.streams:
                yield Trial(scenario, wire, chosen, stream)

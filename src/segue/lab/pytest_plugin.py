"""pytest for authors of gateways: ``pytest_plugins = ["segue.lab.pytest_plugin"]`` in their conftest.py.

`segue_lab` is the emulated providers on a port of their own, and the judge::

    def test_our_gateway(segue_lab):
        with our_gateway(openai=segue_lab.url("openai") + "/v1") as url:
            segue_lab.judge(url, models={"openai": "gpt-5"}, doors={"chat": "", "responses": ""})
"""

from __future__ import annotations

from typing import TYPE_CHECKING, final

import pytest

from segue.lab.known_gateways import KEY
from segue.lab.laboratory import GatewayUnderTest, ScenarioResult, check
from segue.lab.scenario import shipped_scenarios
from segue.lab.stage import Stage, open_stage

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from segue.emulators.server import Served
    from segue.lab.scenario import Scenario


@final
class Lab:
    """Emulated providers, and the judge of a gateway in front of them."""

    def __init__(self, stage: Stage, served: Served) -> None:
        self._stage, self._served = stage, served

    def url(self, provider: str) -> str:
        """The address of an emulated provider, to which its own paths (``/v1/…``) are added."""
        return self._served.url(provider)

    def judge(
        self,
        url: str,
        *,
        models: Mapping[str, str],
        doors: Mapping[str, str],
        key: str = KEY,
        claims: Collection[str] = (),
        exceptions: Mapping[str, str] | None = None,
        scenarios: Collection[Scenario] | None = None,
    ) -> tuple[ScenarioResult, ...]:
        """Play the scenarios; the test fails with all that does not hold. What is only lost is in the results."""
        gateway = GatewayUnderTest(
            name=url,
            url=url.rstrip("/"),
            key=key,
            doors=doors,
            models=models,
            claims=frozenset(claims),
            exceptions=exceptions or {},
        )
        results = check(gateway, self._stage, shipped_scenarios() if scenarios is None else scenarios)
        wrong = [
            f"{outcome.trial.name}: {finding.says}"
            for result in results
            for outcome in result.outcomes
            for finding in outcome.findings
            if finding.severity == "broken"
        ]
        if wrong:
            pytest.fail("\n".join(wrong), pytrace=False)
        return results


@pytest.fixture
def segue_lab() -> Iterator[Lab]:
    """Emulated providers on a port that closes with the test."""
    with open_stage() as (stage, served):
        yield Lab(stage, served)

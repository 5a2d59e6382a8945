"""What the lab writes about a run: JSON that is read again, JUnit, and a page."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from pathlib import Path

import pytest
from msgspec import structs

from lab.planted import PlantedFault, planted
from segue.lab.laboratory import LabRun, check, trials
from segue.lab.report import LabReport, as_json, as_junit, as_page, read_reports, report_of
from segue.lab.scenario import WIRES, ScenarioError, read_scenarios, shipped_scenarios
from segue.lab.stage import open_stage

NAMES = ("plain", "image", "cancelled call")


@pytest.fixture(scope="module")
def report() -> LabReport:
    """Of a gateway that writes its own words, with a trap in them, and that does not repair."""

    def shouted(body: object) -> object:
        return {"error": {"message": "</pre><script>alert(1)</script>\x1b[31m"}}

    scenarios = [scenario for scenario in shipped_scenarios() if scenario.name in NAMES]
    with open_stage() as (stage, served), planted(PlantedFault(reply=shouted), served.base_url) as gateway:
        results = check(gateway, stage, scenarios)
    return report_of(
        LabRun(gateway="planted <1>", version="9", date="2026-11-18", segue="0", results=results)
    )


def test_a_saved_report_is_read_again(report: LabReport) -> None:
    assert read_reports(as_json([report])) == [report]


def test_every_finding_shows_the_request_and_how_to_repeat_it(report: LabReport) -> None:
    findings = [finding for row in report.rows for finding in row.findings]
    assert findings
    for finding in findings:
        assert finding.request
        assert finding.seen
        assert finding.reproduction.startswith("curl -sN ")


def test_junit_counts_what_fails_and_what_is_not_offered(report: LabReport) -> None:
    suite = ET.fromstring(as_junit([report]))[0]  # noqa: S314 - we wrote it
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("3", "2", "1")


def test_the_page_has_no_script_and_says_each_verdict_in_words(report: LabReport) -> None:
    page = as_page([report, report])

    class Tags(HTMLParser):
        def __init__(self) -> None:
            super().__init__()
            self.names: set[str] = set()

        def handle_starttag(self, tag: str, attrs: object) -> None:
            self.names.add(tag)

    reader = Tags()
    reader.feed(page)
    assert "script" not in reader.names
    assert "&lt;script&gt;" in page
    assert page.count(">fails</a>") == 4
    assert page.count(">not offered</td>") == 2


@pytest.mark.parametrize("text", ["no toml", "[[scenario]]\nname = 1", "[[scenario]]\nname = 'a'\nwrong = 1"])
def test_a_file_of_scenarios_that_cannot_be_read_is_named(text: str, tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(text)
    with pytest.raises(ScenarioError, match=r"mine\.toml"):
        read_scenarios(file)


def test_the_scenario_on_the_page_can_be_played(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "conformance.md").read_text("utf-8")
    file = tmp_path / "page.toml"
    file.write_text(page.partition("```text\n[[scenario]]")[2].partition("```")[0].join(["[[scenario]]", ""]))
    (scenario,) = read_scenarios(file)
    with open_stage() as (stage, served), planted(PlantedFault(), served.base_url) as gateway:
        (result,) = check(gateway, stage, [scenario])
    assert result.verdict == "holds"


def test_tokens_are_counted_only_on_wires_that_can() -> None:
    """Whatever wires a scenario of somebody else names."""
    counted = next(scenario for scenario in shipped_scenarios() if scenario.name == "token count")
    everywhere = structs.replace(counted, wires=WIRES, claim="")
    with open_stage() as (_, served), planted(PlantedFault(), served.base_url) as gateway:
        assert {trial.wire for trial in trials(everywhere, gateway)} == {"messages", "gemini"}

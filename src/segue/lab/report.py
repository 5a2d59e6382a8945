"""The report of one run, or of several side by side: as values (JSON), as JUnit, and as a page."""

from __future__ import annotations

import html
import json
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import escape, quoteattr

import msgspec
from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from segue.lab.laboratory import LabRun, ScenarioResult

_MOST_FINDINGS = 3
"""Of one scenario on the page; the JSON has all."""
VERDICTS = ("holds", "loses", "fails", "not offered")
_MEANING = {
    "holds": "accepted by every provider, nothing lost",
    "loses": "answered, but something is gone on the way",
    "fails": "refused, wrong, or without an end",
    "not offered": "the gateway does not claim it, or has no door for it",
}


class FoundIn(Struct, frozen=True, kw_only=True):
    """One finding, as the JSON has it."""

    trial: str
    severity: str
    check: str
    says: str
    step: int
    request: Any
    seen: Any
    words: str
    reproduction: str


class ReportRow(Struct, frozen=True, kw_only=True):
    """One scenario through one gateway."""

    scenario: str
    capability: str
    shows: str
    source: str
    verdict: str
    trials: int
    held: int
    seconds: float
    not_offered: str
    findings: tuple[FoundIn, ...]


class LabReport(Struct, frozen=True, kw_only=True):
    """One run."""

    gateway: str
    version: str
    date: str
    segue: str
    rows: tuple[ReportRow, ...]


def report_of(run: LabRun) -> LabReport:
    rows = tuple(_row(result) for result in run.results)
    return LabReport(gateway=run.gateway, version=run.version, date=run.date, segue=run.segue, rows=rows)


def _row(result: ScenarioResult) -> ReportRow:
    scenario = result.scenario
    return ReportRow(
        scenario=scenario.name,
        capability=scenario.capability,
        shows=scenario.shows,
        source=scenario.source,
        verdict=result.verdict,
        trials=len(result.outcomes),
        held=result.held,
        seconds=round(sum(outcome.seconds for outcome in result.outcomes), 3),
        not_offered=result.not_offered,
        findings=tuple(
            FoundIn(
                trial=outcome.trial.name,
                severity=finding.severity,
                check=finding.check,
                says=finding.says,
                step=finding.step,
                request=finding.request,
                seen=finding.seen,
                words=finding.words,
                reproduction=finding.reproduction,
            )
            for outcome in result.outcomes
            for finding in outcome.findings
        ),
    )


def as_json(reports: Sequence[LabReport]) -> bytes:
    return msgspec.json.format(msgspec.json.encode(list(reports)), indent=1)


def read_reports(data: bytes) -> list[LabReport]:
    return msgspec.json.decode(data, type=list[LabReport])


def as_junit(reports: Iterable[LabReport]) -> str:
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', "<testsuites>"]
    for report in reports:
        failures = sum(row.verdict == "fails" for row in report.rows)
        skipped = sum(row.verdict == "not offered" for row in report.rows)
        lines.append(
            f"<testsuite name={quoteattr(f'{report.gateway} {report.version}'.strip())} tests='{len(report.rows)}' "
            f"failures='{failures}' skipped='{skipped}'>"
        )
        lines.extend(_junit_case(report, row) for row in report.rows)
        lines.append("</testsuite>")
    return "\n".join([*lines, "</testsuites>", ""])


def _junit_case(report: LabReport, row: ReportRow) -> str:
    names = f"classname={quoteattr(f'{report.gateway}.{row.capability}')} name={quoteattr(row.scenario)}"
    told = _xml_text("\n".join(f"{found.trial}: {found.says}" for found in row.findings))
    inside = {
        "fails": f"<failure message={quoteattr(_first_words(row))}>{told}</failure>",
        "loses": f"<system-out>{told}</system-out>",
        "not offered": f"<skipped message={quoteattr(row.not_offered)}/>",
    }.get(row.verdict, "")
    return f"<testcase {names} time='{row.seconds}'>{inside}</testcase>"


def _xml_text(text: str) -> str:
    """XML cannot hold most control characters, however they are written."""
    return escape("".join(letter if letter >= " " or letter in "\n\t" else "�" for letter in text))


def _first_words(row: ReportRow) -> str:
    return (
        _xml_text(f"{len(row.findings)} findings; the first: {row.findings[0].says}") if row.findings else ""
    )


def as_page(reports: Sequence[LabReport]) -> str:
    """A table of scenarios by gateways, and below it all that was found. No script, and nothing is fetched."""
    shown = {row.scenario: row for report in reports for row in report.rows}
    capabilities = dict.fromkeys(row.capability for row in shown.values())
    heads = "".join(
        f"<th scope=col>{_text(report.gateway)}<small>{_text(report.version)}<br>{_text(report.date)}</small></th>"
        for report in reports
    )
    body = []
    for capability in capabilities:
        span = len(reports) + 1
        body.append(f"<tr class=group><th scope=rowgroup colspan={span}>{_text(capability)}</th></tr>")
        for row in shown.values():
            if row.capability == capability:
                cells = "".join(_cell(report, row.scenario) for report in reports)
                body.append(
                    f"<tr><th scope=row>{_text(row.scenario)}<small>{_text(row.shows)}</small></th>{cells}</tr>"
                )
    legend = "".join(f"<li><b class={_class(word)}>{word}</b> {_MEANING[word]}</li>" for word in VERDICTS)
    details = "".join(_details(report, row) for report in reports for row in report.rows if row.findings)
    return _PAGE.format(
        title=_text("Conformance of " + ", ".join(report.gateway for report in reports)),
        heads=heads,
        body="".join(body),
        legend=legend,
        details=details or "<p>Nothing was found.</p>",
        version=_text(reports[0].segue if reports else ""),
    )


def _cell(report: LabReport, scenario: str) -> str:
    row = next((row for row in report.rows if row.scenario == scenario), None)
    if row is None:
        return "<td class=none>not run</td>"
    if not row.trials:
        return f"<td class=none title={_attribute(row.not_offered)}>not offered</td>"
    count = f"<small>{row.held} of {row.trials}</small>"
    if row.findings:
        return (
            f'<td class={_class(row.verdict)}><a href="#{_anchor(report, row)}">{row.verdict}</a>{count}</td>'
        )
    return f"<td class={_class(row.verdict)}>{row.verdict}{count}</td>"


def _details(report: LabReport, row: ReportRow) -> str:
    found = "".join(_finding(finding) for finding in _examples(row))
    left = len(row.findings) - len(_examples(row))
    more = f"<p class=more>and {left} more of the same kinds, in the JSON</p>" if left else ""
    source = (
        f"<p>Known from <a href={_attribute(row.source)}>{_text(row.source)}</a></p>" if row.source else ""
    )
    return (
        f'<section id="{_anchor(report, row)}"><h3>{_text(report.gateway)}: {_text(row.scenario)} '
        f"<b class={_class(row.verdict)}>{row.verdict}</b></h3><p>{_text(row.shows)}</p>{source}{found}{more}</section>"
    )


def _examples(row: ReportRow) -> list[FoundIn]:
    """The first of each kind: twelve doors that fail alike are one story."""
    kinds: dict[tuple[str, str], FoundIn] = {}
    for finding in row.findings:
        kinds.setdefault((finding.check, finding.says[:40]), finding)
    return [*kinds.values()][:_MOST_FINDINGS]


def _finding(finding: FoundIn) -> str:
    words = f"<p>The provider's words: <q>{_text(finding.words)}</q></p>" if finding.words else ""
    return (
        f"<article><h4>{_text(finding.trial)}, request {finding.step}</h4><p>{_text(finding.says)}</p>{words}"
        f"<details><summary>What the client sent</summary><pre>{_pretty(finding.request)}</pre></details>"
        f"<details><summary>What the provider saw</summary><pre>{_pretty(finding.seen)}</pre></details>"
        f"<details><summary>Reproduce</summary><pre>{_text(finding.reproduction)}</pre></details></article>"
    )


def _pretty(value: Any) -> str:
    return _text("nothing" if value is None else json.dumps(value, indent=1, ensure_ascii=False))


def _class(verdict: str) -> str:
    return verdict.partition(" ")[0] if verdict != "not offered" else "none"


def _anchor(report: LabReport, row: ReportRow) -> str:
    name = f"{report.gateway}-{report.version}-{row.scenario}"
    return "".join(letter if letter.isalnum() and letter.isascii() else "-" for letter in name)


def _text(text: str) -> str:
    return html.escape(text)


def _attribute(text: str) -> str:
    # What a report was read from is not ours to trust: an address is a link only if it is one of the web.
    return f'"{html.escape(text)}"' if text.startswith(("https://", "http://")) or ":" not in text else '""'


_PAGE = """<!doctype html>
<html lang=en><meta charset=utf-8><meta name=viewport content="width=device-width, initial-scale=1">
<meta http-equiv=Content-Security-Policy content="default-src 'none'; style-src 'unsafe-inline'">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; --line: #8883; --quiet: light-dark(#666, #aaa); }}
body {{ font: 15px/1.5 system-ui, sans-serif; max-width: 76rem; margin: 2rem auto; padding: 0 1rem; }}
h1 {{ font-size: 1.5rem; }} h3 {{ margin-bottom: 0; }} h4 {{ margin: 1rem 0 0; }} p {{ margin: .25rem 0; }}
.wide {{ overflow-x: auto; }}
table {{ border-collapse: collapse; width: 100%; }}
th, td {{ text-align: left; padding: .35rem .6rem; border-bottom: 1px solid var(--line); vertical-align: top; }}
th[scope=row] {{ font-weight: 500; width: 38%; }} .group th {{ padding-top: 1.2rem; text-transform: capitalize; }}
small {{ display: block; font-weight: 400; color: var(--quiet); }}
td a {{ color: inherit; }}
.holds, .loses, .fails, .none {{ font-weight: 600; border-left: 4px solid; padding-left: .5rem; }}
.holds {{ border-color: #2a8a4a; }} .loses {{ border-color: #c98a00; }} .fails {{ border-color: #c8303c; }}
.none {{ border-color: #8886; font-weight: 400; color: var(--quiet); }}
ul {{ list-style: none; padding: 0; }} li {{ margin: .2rem 0; }}
article {{ overflow-wrap: anywhere; border-left: 2px solid var(--line); padding-left: 1rem; margin: .6rem 0; }}
pre {{ overflow: auto; max-height: 24rem; padding: .6rem; background: #8881; font-size: 13px; white-space: pre-wrap; }}
.more {{ color: var(--quiet); }}
</style>
<h1>{title}</h1>
<p>Scenarios of the conformance lab of segue {version}: emulated providers stand behind each gateway, and both sides are judged.
A cell counts the combinations of door, provider, whole and streamed reply that hold.</p>
<ul>{legend}</ul>
<div class=wide><table><thead><tr><th scope=col>scenario</th>{heads}</tr></thead><tbody>{body}</tbody></table></div>
<h2>What was found</h2>
{details}
</html>
"""

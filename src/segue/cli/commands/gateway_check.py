"""`segue gateway check`: plays the scenarios of the conformance lab through any gateway and reports what holds."""

from __future__ import annotations

import os
import sys
import time
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from segue.cli.display.lists import print_json, print_table
from segue.cli.display.terminal import print_status
from segue.cli.exit_codes import Exit
from segue.errors import UsageError
from segue.text.terminal_text import sanitised

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from segue.emulators.server import Served
    from segue.lab.laboratory import GatewayUnderTest, ScenarioResult
    from segue.lab.report import LabReport, ReportRow
    from segue.lab.scenario import Scenario
    from segue.lab.stage import Stage

DESCRIPTION = """Starts emulated providers, plays scenarios through a gateway as clients of its doors, and judges what reached the
providers and what came back. Give the URL of a gateway that you have configured with the addresses that are printed, or
let segue start one: --for segue."""
_KEY_VARIABLE = "SEGUE_CHECK_KEY"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = DESCRIPTION
    parser.add_argument("url", nargs="?", default="", metavar="URL", help="of a gateway that runs")
    parser.add_argument(
        "--for",
        dest="names",
        action="append",
        default=[],
        metavar="NAME",
        help="configure and start this one",
    )
    parser.add_argument("--program", default="", metavar="PATH", help="of the one that --for starts")
    parser.add_argument(
        "--model",
        action="append",
        default=[],
        metavar="PROVIDER=NAME",
        help="how the gateway calls its models",
    )
    parser.add_argument(
        "--door", action="append", default=[], metavar="WIRE[=PATH]", help="chat, messages, responses, gemini"
    )
    parser.add_argument(
        "--claim", action="append", default=[], metavar="WORD", help="what it promises: repair, state, counts"
    )
    parser.add_argument(
        "--except",
        dest="exceptions",
        action="append",
        default=[],
        metavar="SCENARIO=WHY",
        help="do not judge it",
    )
    parser.add_argument(
        "--only", action="append", default=[], metavar="PATTERN", help="of names of scenarios"
    )
    parser.add_argument(
        "--scenarios", action="append", default=[], metavar="FILE", help="of yours, beside ours"
    )
    parser.add_argument("--port", type=int, default=8900, help="of the emulated providers (default: 8900)")
    parser.add_argument(
        "--wait", type=float, default=60.0, metavar="SECONDS", help="for the gateway to answer"
    )
    parser.add_argument("--page", default="", metavar="FILE", help="write a page (HTML)")
    parser.add_argument("--junit", default="", metavar="FILE", help="write JUnit XML")
    parser.add_argument("--save", default="", metavar="FILE", help="write the whole result as JSON")
    parser.add_argument(
        "--beside", action="append", default=[], metavar="FILE", help="show these saved results beside it"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(arguments: argparse.Namespace) -> int:
    from segue.lab.known_gateways import GatewayError, known_gateways, started  # noqa: PLC0415 - loads the emulators
    from segue.lab.scenario import ScenarioError  # noqa: PLC0415
    from segue.lab.stage import open_stage  # noqa: PLC0415

    if bool(arguments.url) == bool(arguments.names):
        raise UsageError("Give the URL of a gateway, or --for and the name of one to start.")
    if arguments.program and len(arguments.names) != 1:
        raise UsageError("--program belongs to one --for.")
    unknown = [name for name in arguments.names if name not in known_gateways()]
    if unknown:
        raise UsageError(f"segue cannot start {unknown[0]}. It can start: {', '.join(known_gateways())}.")
    earlier = _earlier(arguments.beside)
    try:
        scenarios = _scenarios(arguments)
        reports = []
        # A gateway that segue starts is told any port; one that runs already was told this one.
        with open_stage(arguments.port if arguments.url else 0) as (stage, served):
            for name in arguments.names:
                with started(name, served, program=arguments.program) as gateway:
                    reports.append(_check(gateway, stage, scenarios, arguments))
            if arguments.url:
                gateway = _running(arguments, served)
                reports.append(_check(gateway, stage, scenarios, arguments))
    except (GatewayError, ScenarioError) as error:
        raise UsageError(str(error), code="check_impossible") from error
    except OSError as error:
        raise UsageError(
            f"Port {arguments.port} cannot be opened: {error}.", hint="Choose another: --port"
        ) from error
    _write(arguments, [*earlier, *reports])
    if arguments.json:
        print_json(reports)
    failed = any(row.verdict == "fails" for report in reports for row in report.rows)
    return Exit.FINDINGS if failed else Exit.OK


def _scenarios(arguments: argparse.Namespace) -> list[Scenario]:
    from segue.lab.scenario import read_scenarios, shipped_scenarios  # noqa: PLC0415

    found = [*shipped_scenarios()]
    for file in arguments.scenarios:
        found.extend(read_scenarios(Path(file)))
    patterns = arguments.only
    chosen = [
        one for one in found if not patterns or any(fnmatchcase(one.name, pattern) for pattern in patterns)
    ]
    if not chosen:
        raise UsageError(
            f"No scenario is called {patterns[0]}.", hint=f"There are: {', '.join(s.name for s in found)}"
        )
    return chosen


def _running(arguments: argparse.Namespace, served: Served) -> GatewayUnderTest:
    """The gateway at the URL, once it answers."""
    from segue.lab.known_gateways import KEY, answers  # noqa: PLC0415
    from segue.lab.laboratory import GatewayUnderTest  # noqa: PLC0415
    from segue.lab.scenario import PROVIDERS, WIRES  # noqa: PLC0415

    models = dict(_pairs(arguments.model, "--model"))
    wrong = next((name for name in models if name not in PROVIDERS), None)
    if wrong is not None or not models:
        raise UsageError(
            f"--model needs the gateway's name for a model of {', '.join(PROVIDERS)}"
            + (f", not of {wrong}." if wrong else "."),
            hint="For example: --model anthropic=claude-sonnet-4-6 --model openai=gpt-5",
        )
    doors = dict(door.partition("=")[::2] for door in arguments.door) or dict.fromkeys(WIRES, "")
    if any(door not in WIRES for door in doors):
        raise UsageError(f"--door is one of {', '.join(WIRES)}.")
    for name, suffix in (("openai", "/v1"), ("anthropic", ""), ("gemini", "/v1beta")):
        print_status(f"{name}: {served.url(name)}{suffix} (any key)")
    print_status(f"Configure the gateway with these addresses. Waiting for {arguments.url} …")
    deadline = time.monotonic() + arguments.wait
    while not answers(arguments.url):
        if time.monotonic() > deadline:
            raise UsageError(
                f"No gateway answers at {arguments.url}.", hint="Start it, or wait longer: --wait"
            )
        time.sleep(0.5)
    return GatewayUnderTest(
        name=arguments.url,
        url=arguments.url.rstrip("/"),
        key=os.environ.get(_KEY_VARIABLE, KEY),
        doors=doors,
        models=models,
        claims=frozenset(arguments.claim),
        exceptions=dict(_pairs(arguments.exceptions, "--except")),
    )


def _pairs(words: Sequence[str], option: str) -> list[tuple[str, str]]:
    for word in words:
        if "=" not in word:
            raise UsageError(f"{option} {word} has no “=”.")
    return [(name, value) for name, _, value in (word.partition("=") for word in words)]


def _check(
    gateway: GatewayUnderTest, stage: Stage, scenarios: Sequence[Scenario], arguments: argparse.Namespace
) -> LabReport:
    from segue import __version__  # noqa: PLC0415
    from segue.lab.laboratory import LabRun, check  # noqa: PLC0415
    from segue.lab.report import report_of  # noqa: PLC0415

    print_status(f"{gateway.name} {gateway.version}".strip())
    results = check(gateway, stage, scenarios, on_result=_print_result)
    for scenario, why in gateway.exceptions.items():
        print_status(f"Not judged: {scenario}: {why}")
    date = time.strftime("%Y-%m-%d", time.gmtime())
    run = LabRun(gateway=gateway.name, version=gateway.version, date=date, segue=__version__, results=results)
    report = report_of(run)
    if not arguments.json:
        heads = ("SCENARIO", "VERDICT", "HOLDS", "FIRST FINDING")
        print_table([heads, *(_row(row) for row in report.rows)])
    return report


def _print_result(result: ScenarioResult) -> None:
    if sys.stderr.isatty():
        print_status(f"{result.scenario.name}: {result.verdict}")


def _row(row: ReportRow) -> tuple[str, ...]:
    first = row.findings[0].says if row.findings else row.not_offered
    held = f"{row.held} of {row.trials}" if row.trials else "-"
    return row.scenario, row.verdict, held, sanitised(first)[:100]


def _earlier(files: Sequence[str]) -> list[LabReport]:
    import msgspec  # noqa: PLC0415

    from segue.lab.report import read_reports  # noqa: PLC0415

    found: list[LabReport] = []
    for file in files:
        try:
            found.extend(read_reports(Path(file).read_bytes()))
        except (OSError, msgspec.DecodeError) as error:
            raise UsageError(f"{file} holds no saved result: {error}.", code="unreadable_file") from error
    return found


def _write(arguments: argparse.Namespace, reports: Sequence[LabReport]) -> None:
    from segue.lab.report import as_json, as_junit, as_page  # noqa: PLC0415

    written = {
        arguments.page: as_page(reports).encode(),
        arguments.junit: as_junit(reports).encode(),
        arguments.save: as_json(reports),
    }
    for name, data in written.items():
        if name:
            try:
                Path(name).write_bytes(data)
            except OSError as error:
                raise UsageError(f"{name} cannot be written: {error}.", code="unwritable_file") from error
            print_status(f"Written: {name}")

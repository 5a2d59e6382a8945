"""`segue verify`: sends hard histories to a real endpoint and compares its answers with the emulator's."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from segue.cli.command_table import add_set, read_settings
from segue.cli.display.terminal import Colours, print_status
from segue.cli.exit_codes import Exit
from segue.errors import UsageError
from segue.text.terminal_text import sanitised

if TYPE_CHECKING:
    import argparse

    from segue.providers.provider import Provider
    from segue.transports.transport import Transport
    from segue.verify.verification import Estimate, Verified, VerifyReport

DESCRIPTION = """Sends a few dozen small requests with hard histories to a model: unanswered calls, reused and foreign ids,
reasoning of others, images, a compacted chat. Shows what the provider accepts, with its words where it refuses, and where
its emulator here decides otherwise. The requests cost a little; the price is estimated and asked about first."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="PROVIDER/MODEL")
    parser.add_argument("--rules", action="store_true", help="also send what the emulator refuses")
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask before sending")
    parser.add_argument("--max-cost", type=float, metavar="USD", help="send nothing above this; stop there")
    parser.add_argument(
        "-o", "--output", default="", metavar="FILE", help="write the report as JSON: no content, no keys"
    )
    parser.add_argument(
        "--record", default="", metavar="FILE", help="write the exchanges, without keys, to play them again"
    )
    add_set(parser)


def run(arguments: argparse.Namespace) -> int:
    from segue.verify.verification import Verification, estimate  # noqa: PLC0415 - `--help` needs none of it

    provider, model = _provider(arguments)
    _say_what_is_known(provider)
    _confirm(arguments, estimate(provider.name, model))
    paint = Colours(sys.stdout)

    def show(result: Verified) -> None:
        sys.stdout.write(_line(result, paint) + "\n")
        sys.stdout.flush()

    verification = Verification(provider, model, max_cost=arguments.max_cost, on_result=show)
    report = asyncio.run(verification.run(rules=arguments.rules))
    if arguments.output:
        Path(arguments.output).write_bytes(report.encode())
        print_status(
            f"The report is in {arguments.output}. It contains no keys and no conversation of yours."
        )
    return _summarise(report)


def _say_what_is_known(provider: Provider) -> None:
    """What rests on documentation, and on less: this run may be the first that tries it."""
    address = provider.address
    if address is not None and address.documented:
        print_status(f"Known from documentation only, not tried against the provider: {address.documented}.")
    if address is not None and address.unconfirmed:
        print_status(f"Confirmed by no source: {address.unconfirmed}.")


def _provider(arguments: argparse.Namespace) -> tuple[Provider, str]:
    from segue.config.model_names import resolve_model  # noqa: PLC0415
    from segue.providers.config import read_provider_config  # noqa: PLC0415
    from segue.providers.factory import connect  # noqa: PLC0415
    from segue.transports.http import DEFAULT_TRANSPORT  # noqa: PLC0415
    from segue.transports.recordings import RecordingTransport  # noqa: PLC0415

    config = read_settings(arguments.sets).config
    route = resolve_model(arguments.model, config).routes[0]
    settings, _ = read_provider_config(route.provider, config.providers.get(route.provider, {}))
    transport: Transport = DEFAULT_TRANSPORT
    if arguments.record:
        transport = RecordingTransport(transport, Path(arguments.record))
    return connect(route.provider, settings, transport=transport), route.model


def _confirm(arguments: argparse.Namespace, expected: Estimate) -> None:
    price = "at an unknown price" if expected.cost is None else f"for about ${expected.cost:.3f}"
    what = (
        f"{expected.requests} requests, {expected.input_tokens} tokens in and at most {expected.output_tokens} out, "
        f"{price}"
    )
    if arguments.max_cost is not None and expected.cost is not None and expected.cost > arguments.max_cost:
        raise UsageError(
            f"It would take {what}; the limit is ${arguments.max_cost:.3f}.",
            code="too_expensive",
            hint="Allow more: --max-cost USD",
        )
    print_status(f"{arguments.model}: {what}.")
    if arguments.yes:
        return
    if not sys.stdin.isatty():
        raise UsageError(
            "Nobody can be asked whether to send them.", code="not_asked", hint="Allow it: --yes"
        )
    from segue.cli.interactive.prompts.secret_prompt import read_yes  # noqa: PLC0415 - slow to load

    if not asyncio.run(read_yes("Send them?")):
        raise UsageError("Nothing was sent.", code="not_asked")


def _line(result: Verified, paint: Colours) -> str:
    provider, emulator = result.provider, result.emulator
    colour = {"accepted": "green", "refused": "red"}.get(provider.verdict, "yellow")
    if emulator.verdict == "refused" and provider.verdict == "refused":
        colour = "green"
    status = f" ({provider.status})" if provider.status and provider.verdict != "accepted" else ""
    line = f"{paint(colour, provider.verdict + status):<10}  {sanitised(result.probe)}"
    if provider.words:
        line += f"\n            {sanitised(provider.words)}"
    if result.differs:
        line += (
            f"\n            {paint('yellow', 'the emulator')}: {emulator.verdict} {emulator.rule}".rstrip()
        )
    return line


def _summarise(report: VerifyReport) -> int:
    results = (*report.results, *report.rules)
    refused = sum(one.provider.verdict == "refused" for one in report.results)
    differ = sum(one.differs for one in results)
    cost = "" if report.cost is None else f" They cost ${report.cost:.4f}."
    print_status(
        f"{len(report.results)} histories: {refused} refused. {len(report.rules)} rules tried. "
        f"{differ} answers differ from the emulator's.{cost}"
    )
    if not report.complete:
        print_status("It was stopped before the end.")
        return Exit.PROVIDERS_FAILED
    return Exit.FINDINGS if report.findings else Exit.OK

"""`segue convert`: converts a request of one provider to the format of another."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import IO, TYPE_CHECKING

from segue.cli.display.terminal import print_status
from segue.cli.exit_codes import Exit
from segue.errors import UsageError
from segue.text.terminal_text import safe_json_bytes

if TYPE_CHECKING:
    import argparse

    from segue.interop.convert import Converted

DESCRIPTION = """Reads a request body, a bare list of messages, a segue conversation, or a session file of a program
that segue doctor knows, and writes the complete request body for the target to stdout. Repairs are reported on stderr."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--to", metavar="DIALECT", default="", help="the target format, or: conversation")
    parser.add_argument(
        "--from",
        dest="source",
        metavar="DIALECT",
        default="auto",
        help="the format of the input; default: auto",
    )
    parser.add_argument("--model", metavar="NAME", default="", help="the model that the request names")
    parser.add_argument("--strict", action="store_true", help="fail if something would be lost (exit 62)")
    parser.add_argument("--report", metavar="FILE", help="write the repairs as JSON")
    parser.add_argument(
        "--jsonl",
        action="store_true",
        help='one case per line, {"id","from","to","model","request"}; fields of a line override the flags',
    )
    parser.add_argument("file", metavar="FILE", nargs="?", default="-", help="default: stdin")


def run(arguments: argparse.Namespace) -> int:
    if arguments.jsonl:
        return _convert_lines(arguments)
    if not arguments.to:
        raise UsageError("The target is missing.", code="target_missing", hint="Add --to DIALECT.")
    from segue.interop.convert import write_request  # noqa: PLC0415 - loaded when there is something to convert
    from segue.interop.session_files import read_file  # noqa: PLC0415
    from segue.interop.source import target_name  # noqa: PLC0415

    to = target_name(arguments.to)
    with _opened(arguments.file) as stream:
        source, _ = read_file(stream.read(), arguments.source, model=arguments.model, to=to)
    converted = write_request(source, to=to, model=arguments.model, strict=arguments.strict)
    _report(converted, arguments.report)
    sys.stdout.buffer.write(safe_json_bytes(converted.body) + b"\n")
    sys.stdout.flush()
    return Exit.OK


def _convert_lines(arguments: argparse.Namespace) -> int:
    if arguments.report:
        raise UsageError(
            "--report cannot be used with --jsonl.",
            code="report_with_jsonl",
            hint="Each output line has its own repairs.",
        )
    from segue.interop.convert import Flags, answers  # noqa: PLC0415
    from segue.interop.source import target_name  # noqa: PLC0415

    if arguments.to:
        target_name(arguments.to)
    flags = Flags(to=arguments.to, source=arguments.source, model=arguments.model, strict=arguments.strict)
    out = sys.stdout.buffer
    with _opened(arguments.file) as stream:
        for line in answers(stream, flags):
            out.write(safe_json_bytes(line) + b"\n")
            out.flush()  # the sender may wait for each answer
    return Exit.OK


def _opened(name: str) -> IO[bytes]:
    if name != "-":
        return Path(name).open("rb")
    if sys.stdin.isatty():
        raise UsageError("There is no input.", code="no_input", hint="Name a FILE, or pipe one in.")
    return sys.stdin.buffer


def _report(converted: Converted, report: str | None) -> None:
    for note in converted.notes:
        print_status(f"note: {note}")
    for repair in converted.repairs:
        print_status(f"{'lost' if repair.lossy else 'repair'}: {repair}")
    if report:
        summary = {
            "from": converted.source,
            "to": converted.to,
            "model": converted.model,
            "notes": converted.notes,
            "repairs": [repair.as_dict() for repair in converted.repairs],
        }
        Path(report).write_text(json.dumps(summary, indent=2) + "\n", "utf-8")

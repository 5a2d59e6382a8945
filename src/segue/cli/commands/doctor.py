"""`segue doctor`: finds what providers would refuse in a transcript, and writes a repaired copy."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

from segue.cli.display.lists import print_json
from segue.cli.display.terminal import Colours, print_error, print_status
from segue.cli.display.turn_summary import counted
from segue.cli.error_report import error_lines
from segue.cli.exit_codes import Exit
from segue.errors import TranscriptError, UsageError
from segue.terminal_text import sanitised

if TYPE_CHECKING:
    import argparse

    from segue.interop.doctor import Examination, Finding

DESCRIPTION = """Checks a transcript: a request body of any provider, a segue conversation, or a session file
of Claude Code, Codex, Gemini CLI, Qwen Code, pi, opencode, Copilot CLI, Cline, Continue or llm. Shows what each target
would refuse, with its error message, and the repair. Writes nothing unless --fix names a file."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", nargs="?", help="the transcript; - is stdin")
    parser.add_argument(
        "--for",
        dest="targets",
        metavar="DIALECT",
        nargs="+",
        action="extend",
        default=[],
        help="the targets, or: all. Default: the provider the file was written for",
    )
    parser.add_argument(
        "--model", metavar="NAME", default="", help="the model that requests to the targets name"
    )
    parser.add_argument("--fix", metavar="OUT", help="write a repaired copy")
    parser.add_argument("--json", action="store_true", help="findings as JSON on stdout")


def run(arguments: argparse.Namespace) -> int:
    from segue.interop.doctor import examine, fix_transcript, unreadable  # noqa: PLC0415 - loaded when there is a file to look at
    from segue.interop.session_files import read_file  # noqa: PLC0415

    file, targets = _file_and_targets(arguments)
    data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    sole = targets[0] if len(targets) == 1 else ""
    try:
        source, lines = read_file(data, model=arguments.model, to=sole)
    except TranscriptError as error:
        _show(file, unreadable(error, sole), as_json=arguments.json)
        # Without a place in it, it is no transcript at all.
        return Exit.FINDINGS if error.path else Exit.USAGE
    examination = examine(source, targets, model=arguments.model, lines=lines)
    _show(file, examination, as_json=arguments.json)
    if arguments.fix:
        try:
            form, repaired = fix_transcript(source, targets, model=arguments.model)
        except TranscriptError as error:
            print_error(*error_lines(error))
            return Exit.FINDINGS
        _write(Path(arguments.fix), repaired + b"\n")
        print_status(f"{arguments.fix}: repaired copy written as {form}.")
    return Exit.OK if examination.clean else Exit.FINDINGS


def _show(file: str, examination: Examination, *, as_json: bool) -> None:
    if as_json:
        print_json({"file": file, **examination.as_dict()})
    else:
        sys.stdout.write(_report(file, examination, Colours(sys.stdout)))


def _file_and_targets(arguments: argparse.Namespace) -> tuple[str, list[str]]:
    """The file, also if it follows the targets, and the proper names of the targets."""
    from segue.dialects.registry import NAMES, proper_name  # noqa: PLC0415

    words = [word for target in arguments.targets for word in target.split(",") if word]
    file = arguments.file
    if file is None and words and words[-1] not in NAMES and words[-1] != "all":
        file = words.pop()
    if file is None:
        raise UsageError("The file is missing.", code="no_input", hint="segue doctor FILE")
    return file, [word if word == "all" else proper_name(word) for word in words]


def _write(out: Path, data: bytes) -> None:
    """Write the copy; a file that is replaced is kept as a backup."""
    if out.exists():
        before = out.read_bytes()
        if before == data:
            return
        number = 1
        while (kept := out.with_name(f"{out.name}.{number}.bak")).exists():
            number += 1
        kept.write_bytes(before)
        print_status(f"{out}: the previous file is kept as {kept}.")
    out.write_bytes(data)


def _report(file: str, examination: Examination, paint: Colours) -> str:
    form = examination.form or f"{examination.dialect} request"
    counts = f"{counted(examination.messages, 'message')}, {counted(examination.calls, 'call')}"
    lines = [paint("bold", sanitised(f"{file}: {form}, {counts}")), ""]
    for diagnosis in examination.diagnoses:
        if diagnosis.findings:
            model = f" ({diagnosis.model})" if diagnosis.model else ""
            lines.append(paint("bold", sanitised(f"{diagnosis.target}{model}")))
            for finding in diagnosis.findings:
                lines += _lines_of(finding, paint)
            lines.append("")
    lines += _table(examination, paint)
    return "\n".join(lines) + "\n"


_INDENT = " " * 10


def _lines_of(finding: Finding, paint: Colours) -> list[str]:
    colour = "red" if finding.level == "error" else "dim"
    ids = f" ({', '.join(finding.call_ids)})" if finding.call_ids else ""
    place = sanitised(f"{finding.place}: {finding.what}{ids}")
    code = finding.code if finding.level == "error" else "note"
    lines = [f"  {paint(colour, code.ljust(7))} {place}"]
    if finding.provider_error:
        lines.append(_wrapped(f"{finding.status} {finding.provider_error}"))
    lines.append(_wrapped(f"fix: {finding.fix}{' (the target sees less)' if finding.lossy else ''}"))
    return lines


def _wrapped(text: str) -> str:
    return textwrap.fill(
        sanitised(text), 110, initial_indent=_INDENT, subsequent_indent=_INDENT, break_long_words=False
    )


def _table(examination: Examination, paint: Colours) -> list[str]:
    rows = [f"{'target':<20}{'errors':>8}{'notes':>8}"]
    for diagnosis in examination.diagnoses:
        row = f"{diagnosis.target:<20}{diagnosis.errors:>8}{diagnosis.notes:>8}"
        rows.append(paint("red" if diagnosis.errors else "green", row))
    return rows

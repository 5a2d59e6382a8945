"""`segue doctor`: finds what providers would refuse in a transcript, and writes a repaired copy."""

from __future__ import annotations

import shutil
import sys
import textwrap
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import structs

from segue.cli.display.lists import print_json, print_table
from segue.cli.display.terminal import Colours, print_error, print_status
from segue.cli.display.turn_summary import counted
from segue.cli.error_report import error_lines
from segue.cli.exit_codes import Exit
from segue.errors import TranscriptError, UsageError
from segue.system.private_files import replace_file
from segue.text.terminal_text import sanitised

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from segue.interop.agents.repaired_session import RepairedSession
    from segue.interop.doctor import Examination, Finding
    from segue.interop.source import SourceRequest

DESCRIPTION = """Checks a transcript: a request body of any provider, a segue conversation, or a session file
of Claude Code, Codex, Gemini CLI, Qwen Code, pi, opencode, Copilot CLI, Cline, Continue or llm. Shows what each target
would refuse, with its error message, and the repair; of a session also what its own program does with the fault. Writes nothing
without --fix. Without FILE it lists the newest sessions on this machine; a program's name (claude, codex, gemini, pi, qwen)
stands for its last session. --self reports what holds commands of a model on this system."""
LISTED = 10
"""How many sessions are shown without a file."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file",
        metavar="FILE",
        nargs="?",
        help="the transcript, or a program whose last session is meant; - is stdin",
    )
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
    parser.add_argument(
        "--fix",
        metavar="OUT",
        nargs="?",
        const="",
        help="write a repaired copy to OUT; without OUT repair FILE itself and keep a backup",
    )
    parser.add_argument("--json", action="store_true", help="findings as JSON on stdout")
    parser.add_argument(
        "--self", action="store_true", dest="itself", help="what segue can do on this system: its sandbox"
    )


def run(arguments: argparse.Namespace) -> int:
    from segue.interop.agents.repaired_session import repair_session  # noqa: PLC0415
    from segue.interop.doctor import examine, unreadable  # noqa: PLC0415 - loaded when there is a file to look at
    from segue.interop.session_files import read_file  # noqa: PLC0415
    from segue.interop.stored_sessions import session_at  # noqa: PLC0415

    if arguments.itself:
        return _examine_system(as_json=arguments.json)
    file, out, targets = _files_and_targets(arguments)
    if not file:
        return _list_sessions(as_json=arguments.json)
    data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    sole = targets[0] if len(targets) == 1 else ""
    try:
        source, lines = read_file(data, model=arguments.model, to=sole)
    except TranscriptError as error:
        _show(file, unreadable(error, sole), as_json=arguments.json)
        # Without a place in it, it is no transcript at all.
        return Exit.FINDINGS if error.path else Exit.USAGE
    session = repair_session(data, source.form)
    examination = examine(source, targets, model=arguments.model, lines=lines, session=session)
    _show(file, examination, as_json=arguments.json)
    code = Exit.OK if examination.clean else Exit.FINDINGS
    if out is not None and not _fix(source, session, targets, arguments.model, file, out):
        return Exit.FINDINGS
    stored = session_at(Path(file)) if file != "-" and not targets else None
    if stored is not None and stored.resume_command and (examination.clean or out == file):
        print_status(f"Resume it with: {stored.resume_command}")
    return code


def _examine_system(*, as_json: bool) -> int:
    """What holds the commands of a model here, tried and not guessed. Exit code 1 if a sandbox is wanted and none works."""
    from segue.config.layers import load_settings  # noqa: PLC0415
    from segue.config.resources import open_sandbox  # noqa: PLC0415

    config = load_settings().config
    workspace = Path(config.tools.workspace).expanduser() if config.tools.workspace else Path.cwd()
    sandbox = open_sandbox(config, workspace)
    mechanism, policy = sandbox.mechanism, sandbox.policy()
    facts = {
        "sandbox": sandbox.mode,
        "mechanism": mechanism.name,
        "landlock": mechanism.landlock,
        "seccomp": mechanism.seccomp,
        "own_network": mechanism.has_own_network,
        "hosts_one_by_one": mechanism.limits_hosts,
        "hosts": list(policy.hosts),
        "writable": list(policy.writable),
        "read_only_within": list(policy.protected),
        "hidden": list(policy.hidden),
        "why": mechanism.why,
    }
    if as_json:
        print_json(facts)
    else:
        print_status(sandbox.summary())
        print_table(
            [
                ("fact", "here"),
                *((name.replace("_", " "), _fact(value)) for name, value in facts.items() if value != ""),
            ]
        )
    return Exit.FINDINGS if sandbox.is_missing else Exit.OK


def _fact(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(value) or "none"
    return {True: "yes", False: "no"}.get(value, str(value)) if isinstance(value, bool) else str(value)


def _fix(
    source: SourceRequest,
    session: RepairedSession | None,
    targets: list[str],
    model: str,
    file: str,
    out: str,
) -> bool:
    """Write the repaired copy: a session in its own format unless a target is named. False if it cannot be repaired."""
    from segue.interop.doctor import fix_transcript  # noqa: PLC0415
    from segue.interop.stored_sessions import holders_of  # noqa: PLC0415

    if out == "-":
        raise UsageError(
            "Standard input cannot be repaired in place.", code="no_output", hint="segue doctor - --fix OUT"
        )
    if session is not None and not targets:
        form, repaired = source.form, session.data
    elif out == file and source.session and not targets:
        raise UsageError(
            f"A {source.form} cannot be repaired in its own format.",
            code="no_repair",
            hint="segue doctor FILE --fix OUT writes the request that it would send next.",
        )
    else:
        try:
            form, repaired = fix_transcript(source, targets, model=model)
        except TranscriptError as error:
            print_error(*error_lines(error))
            return False
        repaired += b"\n"
    if holders := holders_of(Path(out)):
        raise UsageError(
            f"{out} is open in another program (process {', '.join(map(str, holders))}).",
            code="file_in_use",
            hint="Close that program, then try again.",
        )
    _write(Path(out), repaired)
    print_status(f"{out}: repaired{'' if out == file else ' copy written'} as {form}.")
    return True


def _list_sessions(*, as_json: bool) -> int:
    from segue.interop.agents.repaired_session import repair_session  # noqa: PLC0415
    from segue.interop.session_files import read_session_file  # noqa: PLC0415
    from segue.interop.stored_sessions import newest_sessions  # noqa: PLC0415

    rows = []
    for session in newest_sessions(LISTED):
        data = session.file.read_bytes()
        try:
            read = read_session_file(data)
            repaired = repair_session(data, read.form) if read is not None else None
            state = _state(repaired) if repaired is not None else "unknown format"
        except TranscriptError as error:
            state = f"cannot be read: {error.message}"
        rows.append((session, state))
    if as_json:
        print_json(
            [
                {
                    "program": session.program.name,
                    "file": str(session.file),
                    "id": session.id,
                    "folder": session.folder,
                    "modified": session.modified,
                    "state": state,
                    "resume": session.resume_command,
                }
                for session, state in rows
            ]
        )
    elif not rows:
        print_status("No sessions of Claude Code, Codex, Gemini CLI, pi or Qwen Code were found here.")
        print_status("Check a file with: segue doctor FILE")
    else:
        print_table(
            [("program", "last used", "folder", "state", "file")]
            + [
                (
                    session.program.title,
                    f"{datetime.fromtimestamp(session.modified).astimezone():%Y-%m-%d %H:%M}",
                    session.folder or "unknown",
                    state,
                    str(session.file),
                )
                for session, state in rows
            ]
        )
        print_status("Check one with: segue doctor FILE; repair it with: segue doctor FILE --fix")
    return Exit.OK


def _state(session: RepairedSession) -> str:
    effects = [fault.effect for fault in session.faults]
    if "refused" in effects:
        return "refused at every resume"
    return "loses content at every resume" if "lost" in effects else "fine"


def _show(file: str, examination: Examination, *, as_json: bool) -> None:
    if as_json:
        print_json({"file": file, **examination.as_dict()})
    else:
        sys.stdout.write(_report(file, examination, Colours(sys.stdout)))


def _files_and_targets(arguments: argparse.Namespace) -> tuple[str, str | None, list[str]]:
    """The file, also if it follows the targets or `--fix`, and empty if there is none; where the repair goes, None if it is not
    written; and the proper names of the targets."""
    from segue.dialects.registry import NAMES, proper_name  # noqa: PLC0415
    from segue.interop.stored_sessions import last_session, program_named, programs  # noqa: PLC0415
    from segue.text.suggestions import suggestion  # noqa: PLC0415

    words = [word for target in arguments.targets for word in target.split(",") if word]
    file, out = arguments.file or "", arguments.fix
    if not file and words and words[-1] not in NAMES and words[-1] != "all":
        file = words.pop()
    if not file and out:
        file, out = out, ""
    program = program_named(file)
    if program is not None and not Path(file).exists():
        file = str(last_session(program).file)
    elif file not in ("", "-") and not Path(file).exists():
        near = suggestion(file, [program.name for program in programs()])
        raise UsageError(
            f"There is no file {file}.", code="no_input", hint=near or "List the sessions: segue doctor"
        )
    if not file and (words or out is not None):
        raise UsageError("The file is missing.", code="no_input", hint="segue doctor FILE")
    return file, file if out == "" else out, [word if word == "all" else proper_name(word) for word in words]


def _write(out: Path, data: bytes) -> None:
    """Write the copy at once; a file that is replaced is kept as a backup, and its owner alone can read what nobody else could."""
    if out.exists():
        before = out.read_bytes()
        if before == data:
            return
        number = 1
        while (kept := out.with_name(f"{out.name}.{number}.bak")).exists():
            number += 1
        shutil.copy2(out, kept)
        print_status(f"{out}: the previous file is kept as {kept}.")
    replace_file(out, data)


def _report(file: str, examination: Examination, paint: Colours) -> str:
    form = examination.form or f"{examination.dialect} request"
    counts = f"{counted(examination.messages, 'message')}, {counted(examination.calls, 'call')}"
    lines = [paint("bold", sanitised(f"{file}: {form}, {counts}")), ""]
    for diagnosis in examination.diagnoses:
        if diagnosis.findings:
            model = f" ({diagnosis.model})" if diagnosis.model else ""
            lines.append(paint("bold", sanitised(f"{diagnosis.target}{model}")))
            for finding in _grouped(diagnosis.findings):
                lines += _lines_of(finding, paint)
            lines.append("")
    lines += _table(examination, paint)
    return "\n".join(lines) + "\n"


_PLACES = 3
"""How many places of notes that are alike are named."""


def _grouped(findings: Sequence[Finding]) -> list[Finding]:
    """Notes that say the same as one, with their places."""
    groups: dict[object, list[Finding]] = {}
    for number, finding in enumerate(findings):
        alike = (finding.kind, finding.what, finding.program, finding.fix)
        groups.setdefault(alike if finding.level == "note" else number, []).append(finding)
    return [_joined(group) for group in groups.values()]


def _joined(group: list[Finding]) -> Finding:
    places = [finding.place for finding in group]
    more = f" and {len(places) - _PLACES} more places" if len(places) > _PLACES else ""
    calls = tuple(dict.fromkeys(call for finding in group for call in finding.call_ids))
    if len(group) == 1:
        return group[0]
    return structs.replace(
        group[0], place="; ".join(places[:_PLACES]) + more, call_ids=calls if len(calls) <= _PLACES else ()
    )


_INDENT = " " * 10


def _lines_of(finding: Finding, paint: Colours) -> list[str]:
    colour = "red" if finding.level == "error" else "dim"
    ids = f" ({', '.join(finding.call_ids)})" if finding.call_ids else ""
    place = sanitised(f"{finding.place}: {finding.what}{ids}")
    code = finding.code if finding.level == "error" else "note"
    lines = [f"  {paint(colour, code.ljust(7))} {place}"]
    if finding.provider_error:
        lines.append(_wrapped(f"{finding.status} {finding.provider_error}"))
    if finding.program:
        lines.append(_wrapped(finding.program))
    if finding.fix:
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

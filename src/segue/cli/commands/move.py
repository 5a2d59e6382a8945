"""`segue move`: takes a session from one agent to another, which resumes it as one of its own."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from segue.cli.display.terminal import print_status
from segue.cli.exit_codes import Exit
from segue.conversation.json_text import read_json
from segue.errors import UsageError

if TYPE_CHECKING:
    import argparse

    from segue.interop.move import Move, SourceSession
    from segue.interop.sidecar import Sidecars

DESCRIPTION = """Writes a session of one agent as a session of another, where that agent finds it, and prints the command that
resumes it. SESSION is a file, or an agent whose last session is meant: claude, codex, gemini, pi, qwen, or opencode:ID.
opencode alone is its last session in this folder. AGENT is claude, codex, gemini, opencode, pi or qwen. The session itself is not touched. What the other agent cannot hold is
kept, and put back when the conversation returns."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("session", metavar="SESSION", help="a file, or an agent whose last session is meant")
    parser.add_argument("agent", metavar="AGENT", help="the agent that is to resume it")
    parser.add_argument(
        "--folder", metavar="DIR", default="", help="where it is to be resumed; default: where it was made"
    )
    parser.add_argument("--dry-run", action="store_true", help="say what would be written, and write nothing")
    parser.add_argument("--print", action="store_true", help="print the new session instead of writing it")
    parser.add_argument("--run", action="store_true", help="resume it at once")


def run(arguments: argparse.Namespace) -> int:
    from segue.config.paths import moved_sessions_directory  # noqa: PLC0415 - loaded when there is something to move
    from segue.interop.move import OPENCODE, plan_move  # noqa: PLC0415
    from segue.interop.sidecar import Sidecars  # noqa: PLC0415

    sidecars = Sidecars(moved_sessions_directory())
    source = _source(arguments.session)
    move = plan_move(source, arguments.agent, folder=arguments.folder, sidecars=sidecars)
    for note in move.notes:
        print_status(f"not seen there: {note}")
    if move.returns:
        print_status("its own earlier lines are put back as they were, with their signatures")
    if arguments.print:
        sys.stdout.buffer.write(move.data)
        return Exit.OK
    if arguments.dry_run:
        print_status(
            f"{len(move.plan.steps)} steps would be written for {arguments.agent}; nothing was written."
        )
        return Exit.OK
    command = _import(move, sidecars) if arguments.agent == OPENCODE else _write(move, sidecars)
    print_status(f"Resume it with: cd {shlex.quote(move.plan.folder)} && {shlex.join(command)}")
    if arguments.run:
        os.chdir(move.plan.folder)
        os.execvp(command[0], command)  # noqa: S606 - the agent takes the place of this process
    return Exit.OK


def _source(named: str) -> SourceSession:
    from segue.interop.move import OPENCODE, SourceSession, program_of  # noqa: PLC0415
    from segue.interop.stored_sessions import last_session, program_named, session_at  # noqa: PLC0415

    program = program_named(named)
    kind, _, session = named.partition(":")
    if program is not None and not Path(named).exists():
        stored = last_session(program)
        return SourceSession(
            program=program.name, data=stored.file.read_bytes(), id=_bare_id(stored.id), folder=stored.folder
        )
    if kind == OPENCODE and not Path(named).exists():
        session = session or _last_in_opencode()
        return SourceSession(program=OPENCODE, data=_exported(session), id=session, folder=str(Path.cwd()))
    file = Path(named)
    data = file.read_bytes()
    found = session_at(file)
    if found is not None:
        return SourceSession(
            program=found.program.name, data=data, id=_bare_id(found.id), folder=found.folder
        )
    return SourceSession(program=program_of(data), data=data)


def _bare_id(session_id: str) -> str:
    """pi resumes by a file, whose name ends with the id."""
    return Path(session_id).stem.rpartition("_")[2] if os.sep in session_id else session_id


def _write(move: Move, sidecars: Sidecars) -> list[str]:
    from segue.interop.move import write_move  # noqa: PLC0415

    stored = write_move(move, sidecars)
    print_status(f"Written: {stored.file}")
    return [word.replace("{id}", stored.id) for word in stored.program.resume]


def _opencode() -> str:
    found = shutil.which("opencode")
    if found is None:
        raise UsageError(
            "opencode is not in PATH.",
            code="no_program",
            hint="Install it, or use --print > FILE and opencode import FILE.",
        )
    return found


def _import(move: Move, sidecars: Sidecars) -> list[str]:
    """By opencode's own command: its database is not ours."""
    program = _opencode()
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        file.write(move.data)
        file.flush()
        done = subprocess.run(  # noqa: S603
            [program, "import", file.name],
            capture_output=True,
            text=True,
            check=False,
            cwd=move.plan.folder,
            timeout=120,
        )
    if done.returncode:
        raise UsageError(
            f"opencode did not import the session: {(done.stderr or done.stdout).strip()[-300:]}",
            code="import_failed",
            hint="Look at the session with --print.",
        )
    sidecars.keep(move.session_id, move.sidecar)
    return ["opencode", "-s", move.session_id]


def _last_in_opencode() -> str:
    words = [_opencode(), "session", "list", "-n", "1", "--format", "json"]
    done = subprocess.run(words, capture_output=True, check=False, timeout=120)  # noqa: S603
    listed = read_json(done.stdout) if done.stdout.strip() else []
    if not isinstance(listed, list) or not listed:
        raise UsageError("opencode has no sessions here.", code="no_session", hint="Start it in this folder.")
    return str(listed[0].get("id", ""))


def _exported(session: str) -> bytes:
    done = subprocess.run([_opencode(), "export", session], capture_output=True, check=False, timeout=120)  # noqa: S603
    if done.returncode:
        raise UsageError(
            f"opencode did not export the session: {done.stderr.decode(errors='replace').strip()[-300:]}",
            code="export_failed",
            hint="opencode session list shows the ids.",
        )
    return done.stdout

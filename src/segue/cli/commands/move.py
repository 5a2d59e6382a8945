"""`segue move`: takes a session from one agent to another, which resumes it as one of its own."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from segue.cli.command_table import read_settings
from segue.cli.display.terminal import print_status
from segue.cli.exit_codes import Exit
from segue.conversation.json_text import read_json
from segue.errors import TranscriptError, UsageError

if TYPE_CHECKING:
    import argparse

    from segue.interop.move import Move, Sidecars, SourceSession

_GATEWAY = "gateway"
_OPENCODE_SECONDS = 300
_CLIENTS = {
    "claude-cli": "claude",
    "codex": "codex",
    "geminicli": "gemini",
    "opencode": "opencode",
    "pi ": "pi",
    "pi/": "pi",
    "qwencode": "qwen",
}
"""How the User-Agent of an agent begins."""

DESCRIPTION = """Writes a session of one agent as a session of another, where that agent finds it, and prints the command that
resumes it. SESSION is a file, or an agent whose last session is meant: claude, codex, gemini, pi, qwen or opencode (opencode:ID
for a certain one); last is your last chat in segue, and segue:ID a certain one; gateway is the last conversation that ran through
the gateway, and gateway:ID one that segue gateway ps lists. AGENT is claude, codex, gemini, opencode, pi, qwen
or segue. The session itself is not touched. What the other agent cannot hold is kept, and put back when the conversation
returns."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("session", metavar="SESSION", help="a file, or an agent whose last session is meant")
    parser.add_argument("agent", metavar="AGENT", help="the agent that is to resume it")
    parser.add_argument(
        "--folder", metavar="DIR", default="", help="where it is to be resumed; default: where it was made"
    )
    parser.add_argument(
        "--model",
        metavar="PROVIDER/MODEL",
        default="",
        help="for opencode: who answers next, in its own words; default: the model that it is configured to use",
    )
    parser.add_argument(
        "--url",
        default="",
        help="for gateway: its address, if it runs elsewhere; its key is in SEGUE_GATEWAY_KEY",
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="show what would be written, and write nothing"
    )
    parser.add_argument("--print", action="store_true", help="print the new session instead of writing it")
    parser.add_argument("--run", action="store_true", help="resume it at once")


def run(arguments: argparse.Namespace) -> int:
    from segue.config.paths import moved_sessions_directory  # noqa: PLC0415 - loaded when there is something to move
    from segue.interop.move import (  # noqa: PLC0415
        OWN,
        Sidecars,
        plan_move,
    )
    from segue.interop.session_formats import OPENCODE  # noqa: PLC0415

    sidecars = Sidecars(moved_sessions_directory())
    source = _source(arguments.session, arguments.url)
    answers = arguments.model or (_opencode_model() if arguments.agent == OPENCODE else "")
    move = plan_move(source, arguments.agent, folder=arguments.folder, sidecars=sidecars, answers=answers)
    for note in move.notes:
        print_status(f"not seen there: {note}")
    if move.returns:
        print_status("its own earlier lines are put back as they were, with their signatures")
    if arguments.print:
        sys.stdout.buffer.write(move.data)
        return Exit.OK
    if arguments.dry_run:
        print_status(f"{_contents(move)} would be written for {arguments.agent}; nothing was written.")
        return Exit.OK
    write = {OPENCODE: _import, OWN: _take_in}.get(arguments.agent, _write)
    command = write(move, sidecars)
    print_status(f"Resume it with: cd {_from_home(move.plan.folder)} && {shlex.join(command)}")
    if arguments.run:
        os.chdir(move.plan.folder)
        os.execvp(command[0], command)  # noqa: S606 - the agent takes the place of this process
    return Exit.OK


def _contents(move: Move) -> str:
    steps = len(move.plan.steps)
    if move.returns:
        return f"these lines and {steps} new prompts and replies" if steps else "these lines"
    return f"{steps} prompts and replies"


def _from_home(path: str) -> str:
    """A path as it is typed in a shell."""
    home = str(Path.home())
    if path == home or not path.startswith(home + os.sep):
        return shlex.quote(path)
    return f"~{os.sep}{shlex.quote(path.removeprefix(home + os.sep))}"


def _source(named: str, url: str) -> SourceSession:
    from segue.interop.agent_sessions import source_session  # noqa: PLC0415
    from segue.interop.move import OWN, SourceSession  # noqa: PLC0415
    from segue.interop.session_formats import OPENCODE  # noqa: PLC0415
    from segue.interop.stored_sessions import last_session, program_named  # noqa: PLC0415

    kind, _, session = named.partition(":")
    if Path(named).exists():
        return source_session(Path(named))
    if (program := program_named(named)) is not None:
        return source_session(last_session(program).file)
    if kind == OPENCODE:
        session = session or _last_in_opencode()
        return SourceSession(program=OPENCODE, data=_exported(session), id=session, folder=str(Path.cwd()))
    if kind == _GATEWAY:
        return _from_gateway(session or "last", url)
    if named == "last" or kind == OWN:
        own, folder, document = asyncio.run(_own(session))
        return SourceSession(program=OWN, data=document, id=own, folder=folder)
    return source_session(Path(named))


def _from_gateway(conversation: str, url: str) -> SourceSession:
    from segue.cli.gateway_control import open_gateway  # noqa: PLC0415
    from segue.interop.move import SourceSession  # noqa: PLC0415

    found = open_gateway(url).document(conversation)
    if not found.whole:
        print_status("not held by the gateway: the beginning, which only the provider has")
    if found.thoughts:
        print_status(f"not given away by the gateway: {found.thoughts} thoughts of models")
    name = found.conversation.client.lower()
    client = next((program for start, program in _CLIENTS.items() if name.startswith(start)), "")
    return SourceSession(program="", data=bytes(found.document), client=client)


async def _own(name: str) -> tuple[str, str, bytes]:
    """The id, the folder and the document of a chat of ours; the last one without a name."""
    from segue.cli.commands.sessions import find_session  # noqa: PLC0415
    from segue.config.session_stores import open_store  # noqa: PLC0415
    from segue.sessions.export import export_session  # noqa: PLC0415

    store = open_store(read_settings([]).config)
    try:
        found = [await find_session(store, name)] if name else list(await store.find(limit=1))
        if not found:
            raise UsageError(
                "There is no chat yet.", code="no_session", hint="List them: segue sessions list"
            )
        return found[0].id, found[0].directory, await export_session(store, found[0].id)
    finally:
        await store.close()


def _take_in(move: Move, sidecars: Sidecars) -> list[str]:
    """Into the store of our own sessions."""
    from segue.config.session_stores import open_store  # noqa: PLC0415
    from segue.sessions.imports import import_session  # noqa: PLC0415

    async def take_in() -> str:
        store = open_store(read_settings([]).config)
        try:
            journal, _ = await import_session(
                store, move.data, title=move.plan.title, directory=move.plan.folder
            )
            await journal.close()
            return journal.session
        finally:
            await store.close()

    session = asyncio.run(take_in())
    sidecars.keep(session, move.sidecar)
    return ["segue", "-r", session]


def _write(move: Move, sidecars: Sidecars) -> list[str]:
    from segue.interop.move import write_move  # noqa: PLC0415

    stored = write_move(move, sidecars)
    print_status(f"Written: {_from_home(str(stored.file))}")
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


def _ask_opencode(*words: str, folder: str | None = None) -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(  # noqa: S603
            [_opencode(), *words], capture_output=True, check=False, cwd=folder, timeout=_OPENCODE_SECONDS
        )
    except subprocess.TimeoutExpired as error:
        raise UsageError(
            f"opencode {words[0]} did not end within {_OPENCODE_SECONDS} seconds.", code="no_answer"
        ) from error


def _opencode_model() -> str:
    """The model that opencode is configured to use; empty if it names none."""
    done = _ask_opencode("debug", "config")
    try:
        config = read_json(done.stdout)
    except TranscriptError:
        return ""
    model = config.get("model") if isinstance(config, dict) else None
    return model if isinstance(model, str) else ""


def _import(move: Move, sidecars: Sidecars) -> list[str]:
    """By opencode's own command: its database is not ours."""
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        file.write(move.data)
        file.flush()
        done = _ask_opencode("import", file.name, folder=move.plan.folder)
    if done.returncode:
        raise UsageError(
            f"opencode did not import the session: {_last_words(done)}",
            code="import_failed",
            hint="Look at the session with --print.",
        )
    sidecars.keep(move.session_id, move.sidecar)
    return ["opencode", "-s", move.session_id]


def _last_words(done: subprocess.CompletedProcess[bytes]) -> str:
    return (done.stderr or done.stdout).decode(errors="replace").strip()[-300:]


def _last_in_opencode() -> str:
    done = _ask_opencode("session", "list", "-n", "1", "--format", "json")
    listed = read_json(done.stdout) if done.stdout.strip() else []
    if not isinstance(listed, list) or not listed:
        raise UsageError("opencode has no sessions here.", code="no_session", hint="Start it in this folder.")
    return str(listed[0].get("id", ""))


def _exported(session: str) -> bytes:
    done = _ask_opencode("export", session)
    if done.returncode:
        raise UsageError(
            f"opencode did not export the session: {_last_words(done)}",
            code="export_failed",
            hint="opencode session list shows the ids.",
        )
    return done.stdout

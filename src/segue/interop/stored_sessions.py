"""The sessions that known programs keep on this machine: where they are, and the command that resumes one."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, final

from msgspec import Struct

from segue.conversation.json_text import read_json
from segue.errors import TranscriptError, UsageError
from segue.interop.added_formats import added_format, added_formats
from segue.interop.agents.session_file import fields, text_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from segue.interop.added_formats import SessionFormat

_HEAD: Final = 200
"""How many lines of a file are read to find out whose it is."""
_UUID: Final = 36
"""How long the id of a session is."""


@final
class StoredSession(Struct, frozen=True, kw_only=True):
    """One session file of a program."""

    program: SessionProgram
    file: Path
    modified: float
    id: str = ""
    """By which the program resumes it; empty if the file does not tell."""
    folder: str = ""
    """The working folder in which it was made; empty if the file does not name it."""

    @property
    def resume_command(self) -> str:
        """What to type to resume it; empty if that is not known."""
        if not self.id:
            return ""
        words = shlex.join([word.replace("{id}", self.id) for word in self.program.resume])
        return f"cd {shlex.quote(self.folder)} && {words}" if self.folder else words


@final
class SessionProgram(Struct, frozen=True, kw_only=True):
    """A program whose sessions are files of their own."""

    name: str
    """The word for it on the command line."""
    title: str
    form: str
    """What the reader of its files calls them."""
    home: str
    """The folder of its sessions in the user's home."""
    pattern: str
    """Its session files, below that folder."""
    resume: tuple[str, ...]
    identify: Callable[[Path, list[dict[str, Any]]], tuple[str, str]]
    """The session's id and working folder, from the file and the objects in its first lines."""
    variable: str = ""
    """The environment variable that names the folder instead, with what follows below it."""
    below: str = ""

    def folder(self, environment: Mapping[str, str], user: Path) -> Path:
        if self.variable and (named := environment.get(self.variable)):
            return Path(named) / self.below
        return user / self.home

    def sessions(self, environment: Mapping[str, str], user: Path) -> Iterator[StoredSession]:
        """All of them, in no order. Links are not followed."""
        for file in self.folder(environment, user).glob(self.pattern):
            with suppress(OSError):
                # A backup beside it ends otherwise.
                if file.suffix in (".json", ".jsonl") and not file.is_symlink() and file.is_file():
                    yield StoredSession(program=self, file=file, modified=file.stat().st_mtime)

    def identified(self, session: StoredSession) -> StoredSession:
        """With its id and working folder."""
        named, folder = self.identify(session.file, _first_objects(session.file))
        return StoredSession(
            program=self,
            file=session.file,
            modified=session.modified,
            id=named,
            folder=folder,
        )


def _first_objects(file: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    with suppress(OSError), file.open("rb") as lines:
        for _, line in zip(range(_HEAD), lines, strict=False):
            with suppress(TranscriptError):
                if isinstance(row := read_json(line), dict):
                    found.append(row)
    return found


def _first(rows: list[dict[str, Any]], name: str) -> str:
    return next((text for row in rows if (text := text_of(row.get(name)))), "")


def _by_file_name(file: Path, rows: list[dict[str, Any]]) -> tuple[str, str]:
    return file.stem, _first(rows, "cwd")


def _codex(file: Path, rows: list[dict[str, Any]]) -> tuple[str, str]:
    meta = next((fields(row.get("payload")) for row in rows if row.get("type") == "session_meta"), {})
    # `codex resume` works in any folder, but takes its tools to the one that it is started in.
    return text_of(meta.get("id")) or file.stem[-36:], text_of(meta.get("cwd"))


def _pi(file: Path, rows: list[dict[str, Any]]) -> tuple[str, str]:
    return str(file), _first(rows, "cwd")


def _gemini(file: Path, rows: list[dict[str, Any]]) -> tuple[str, str]:
    folder = ""
    with suppress(OSError, UnicodeDecodeError):
        folder = (file.parent.parent / ".project_root").read_text("utf-8").strip()
    return _first(rows, "sessionId"), folder


PROGRAMS: Final = (
    SessionProgram(
        name="claude",
        title="Claude Code",
        form="Claude Code session",
        home=".claude/projects",
        variable="CLAUDE_CONFIG_DIR",
        below="projects",
        pattern="*/*.jsonl",
        resume=("claude", "--resume", "{id}"),
        identify=_by_file_name,
    ),
    SessionProgram(
        name="codex",
        title="Codex",
        form="Codex rollout",
        home=".codex/sessions",
        variable="CODEX_HOME",
        below="sessions",
        pattern="**/rollout-*.jsonl",
        resume=("codex", "resume", "{id}"),
        identify=_codex,
    ),
    SessionProgram(
        name="gemini",
        title="Gemini CLI",
        form="Gemini CLI session",
        home=".gemini/tmp",
        pattern="*/chats/session-*",
        resume=("gemini", "--resume", "{id}"),
        identify=_gemini,
    ),
    SessionProgram(
        name="pi",
        title="pi",
        form="pi session",
        home=".pi/agent/sessions",
        variable="PI_CODING_AGENT_DIR",
        below="sessions",
        pattern="*/*.jsonl",
        resume=("pi", "--session", "{id}"),
        identify=_pi,
    ),
    SessionProgram(
        name="qwen",
        title="Qwen Code",
        form="Qwen Code session",
        home=".qwen/projects",
        pattern="*/chats/*.jsonl",
        resume=("qwen", "--resume", "{id}"),
        identify=_by_file_name,
    ),
)


def programs() -> tuple[SessionProgram, ...]:
    """All whose sessions are files: those above, and those that installed packages add."""
    return (*PROGRAMS, *map(_added, added_formats()))


def _added(added: SessionFormat) -> SessionProgram:
    return SessionProgram(
        name=added.name,
        title=added.title,
        form=f"{added.title} session",
        home=added.home,
        pattern=added.pattern,
        resume=added.resume,
        identify=lambda file, rows: (file.stem[-_UUID:], _first(rows, "cwd")),
    )


def program_named(name: str) -> SessionProgram | None:
    own = next((program for program in PROGRAMS if program.name == name), None)
    if own is not None or (added := added_format(name)) is None:
        return own
    return _added(added)


def newest_sessions(most: int, program: SessionProgram | None = None) -> list[StoredSession]:
    """The newest ones first, of one program or of all."""
    found = [
        session
        for one in (programs() if program is None else (program,))
        for session in one.sessions(os.environ, Path.home())
    ]
    found.sort(key=lambda session: session.modified, reverse=True)
    return [session.program.identified(session) for session in found[:most]]


def last_session(program: SessionProgram) -> StoredSession:
    """The one that was used last."""
    found = newest_sessions(1, program)
    if not found:
        raise UsageError(
            f"{program.title} has no sessions here.",
            code="no_session",
            hint=f"They would be in {program.folder(os.environ, Path.home())}.",
        )
    return found[0]


def session_at(file: Path) -> StoredSession | None:
    """The session that a file is, if it stands where its program keeps sessions."""
    for program in programs():
        folder = program.folder(os.environ, Path.home())
        with suppress(OSError, ValueError):
            if file.resolve().relative_to(folder.resolve()).match(program.pattern.replace("**/", "")):
                modified = file.stat().st_mtime
                return program.identified(
                    StoredSession(program=program, file=file.resolve(), modified=modified)
                )
    return None


def holders_of(file: Path) -> list[int]:
    """The processes that have the file open, as far as this system tells."""
    wanted = file.resolve()
    with suppress(OSError):
        others = [name for process in Path("/proc").iterdir() if (name := process.name).isdecimal()]
        return [int(name) for name in others if int(name) != os.getpid() and _has_open(name, wanted)]
    return []


def _has_open(process: str, file: Path) -> bool:
    with suppress(OSError):
        return any(handle.readlink() == file for handle in Path("/proc", process, "fd").iterdir())
    return False

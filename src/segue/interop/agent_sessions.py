"""Sessions of agents, for programs: read one as a conversation, and write a conversation as a session that an agent resumes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from msgspec import Struct

from segue.conversation.json_text import read_json
from segue.conversation.message import Conversation
from segue.errors import TranscriptError, UsageError
from segue.interop.agents.session_file import fields
from segue.interop.convert import write_request
from segue.interop.move import OWN, Sidecars, SourceSession, plan_move, write_move
from segue.interop.session_formats import program_of, session_format
from segue.interop.source import CONVERSATION, SourceRequest
from segue.interop.stored_sessions import last_session, program_named, session_at
from segue.system.private_files import create_new

if TYPE_CHECKING:
    from os import PathLike

    from segue.interop.move import Move

MOST_BYTES = 512 << 20
"""A larger file is no session that an agent could send."""


@final
class AgentSession(Struct, frozen=True, kw_only=True):
    """A session of an agent."""

    program: str
    """The agent, by its word on the command line; empty if the file is a request or a document."""
    conversation: Conversation
    """What the agent would send next."""
    id: str = ""
    """The agent's id of it; empty if the file has none."""
    folder: str = ""
    """The working folder in which it was made; empty if the file does not name it."""
    data: bytes = b""
    """The file."""

    def __repr__(self) -> str:
        return f"AgentSession(program={self.program!r}, id={self.id!r}, messages={len(self.conversation.messages)})"


@final
class WrittenSession(Struct, frozen=True, kw_only=True):
    """A session that was written for an agent."""

    program: str
    id: str
    file: Path
    resume: tuple[str, ...]
    """The command that resumes it, in its working folder."""
    folder: str
    notes: tuple[str, ...] = ()
    """What the agent does not see of the conversation."""
    returns: bool = False
    """Whether it contains lines of the agent's own earlier session, with their signatures."""


def read_session(path: str | PathLike[str]) -> AgentSession:
    """The session in a file. Raises UsageError if the file cannot be opened, TranscriptError if no format recognises it."""
    source = source_session(Path(path))
    conversation, _ = source.source.adopted()
    return AgentSession(
        program=source.program,
        conversation=conversation,
        id=source.id,
        folder=source.folder,
        data=source.data,
    )


def source_session(file: Path) -> SourceSession:
    """A file to be moved, not yet read as a session."""
    data = read_bytes(file)
    stored = session_at(file)
    if stored is None:
        return SourceSession(program=program_of(data), data=data)
    return SourceSession(program=stored.program.name, data=data, id=_bare_id(stored.id), folder=stored.folder)


def newest_session(program: str) -> AgentSession:
    """The one that an agent used last. Raises UsageError if there is none."""
    known = program_named(program)
    if known is None:
        raise UsageError(f"{program} keeps no session files that segue knows.", code="no_files")
    return read_session(last_session(known).file)


def write_session(
    conversation: Conversation | AgentSession,
    program: str,
    *,
    folder: str | PathLike[str] = "",
    file: str | PathLike[str] | None = None,
    sidecars: str | PathLike[str] | None = None,
) -> WrittenSession:
    """Write a new session where its agent finds it; an existing one is never touched.

    `folder`: the working folder in which it is to be resumed; default: the one of the session, else the current one. `file`: where
    to write it instead; opencode, which imports sessions, needs it. `sidecars`: a private folder for what the agent cannot hold; with
    it, a session that returns to its first agent gets its own lines back. Raises UsageError and TranscriptError.
    """
    if program == OWN:
        raise UsageError(
            "A chat of segue is no session file.",
            code="no_files",
            hint="Import it: segue sessions import FILE",
        )
    written = session_format(program)
    store = Sidecars(Path(sidecars)) if sidecars is not None else None
    move = plan_move(_source(conversation), program, folder=str(folder), sidecars=store)
    if file is None:
        stored = write_move(move, store)
        named, place = stored.id, stored.file
    else:
        named, place = move.session_id, Path(file)
        _write_new(place, move, store)
    return WrittenSession(
        program=program,
        id=move.session_id,
        file=place,
        resume=tuple(word.replace("{id}", named) for word in written.resume),
        folder=move.plan.folder,
        notes=move.notes,
        returns=move.returns,
    )


def _source(conversation: Conversation | AgentSession) -> SourceSession:
    if isinstance(conversation, AgentSession):
        held = conversation
        return SourceSession(program=held.program, data=held.data, id=held.id, folder=held.folder)
    source = SourceRequest(dialect="", messages=conversation.messages, conversation=conversation)
    return SourceSession(program="", data=write_request(source, to=CONVERSATION).body)


def _write_new(file: Path, move: Move, sidecars: Sidecars | None) -> None:
    try:
        create_new(file, move.data)
    except FileExistsError as error:
        raise UsageError(f"{file} exists already.", code="exists", hint="Choose another file.") from error
    except OSError as error:
        raise UsageError(f"{file} cannot be written: {error}.", code="unwritable_file") from error
    if sidecars is not None:
        sidecars.keep(move.session_id, move.sidecar)


def read_bytes(file: Path) -> bytes:
    """A session file, whole. Raises UsageError if that is not possible."""
    try:
        if not file.is_file():
            raise UsageError(f"{file} is no file.", code="unreadable_file")
        if file.stat().st_size > MOST_BYTES:
            raise TranscriptError(
                f"{file} has more than {MOST_BYTES >> 20} MiB.",
                code="too_large",
                hint="No agent can send such a session.",
            )
        return file.read_bytes()
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error}.", code="unreadable_file") from error


def _object(data: bytes) -> dict[str, Any]:
    return fields(read_json(data))


def _bare_id(session_id: str) -> str:
    """pi resumes by a file, whose name ends with the id."""
    return Path(session_id).stem.rpartition("_")[2] if "/" in session_id else session_id

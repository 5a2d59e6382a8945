"""A session of one program as a session of another, which that program itself resumes.

What the other program cannot hold (seals, ids, its own tools' names) stays in a sidecar, with the file that it came from. When the
conversation returns to a program that it was in before, that program's own lines stand in the new session as they were, and
only what was added elsewhere is converted.
"""

from __future__ import annotations

import os
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, final
from uuid import uuid4

import msgspec
from msgspec import Struct, structs

from segue.conversation.blocks import Text, ToolCall, ToolResult
from segue.conversation.message import Conversation, Message
from segue.errors import TranscriptError, UsageError
from segue.interop.agents.opencode import session_id
from segue.interop.agents.repaired_session import repair_session
from segue.interop.agents.session_draft import SessionDraft
from segue.interop.agents.session_file import SessionPlan
from segue.interop.agents.session_steps import HISTORY, ModelReply, Prompt, Step, steps_of
from segue.interop.agents.tool_names import ToolNames
from segue.interop.convert import write_request
from segue.interop.doctor import examine
from segue.interop.repair import repair_conversation
from segue.interop.session_files import read_file
from segue.interop.session_formats import OPENCODE, WRITERS, AgentFormat, session_format
from segue.interop.source import CONVERSATION, SourceRequest
from segue.interop.stored_sessions import StoredSession, program_named
from segue.system.private_files import create_new, write_private

if TYPE_CHECKING:
    from collections.abc import Sequence


_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,80}")


@final
class Sidecar(Struct, frozen=True, kw_only=True):
    """One move, kept under the id of the session that was written."""

    program: str
    """The program that it was written for."""
    written: str
    """What was written, whole."""
    source_program: str
    """Where it came from."""
    source_id: str
    source: str
    """The file that it came from, whole."""
    version: int = 1


class Sidecars:
    """Private files in a folder of ours, one for each session that was written."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def keep(self, session_id: str, sidecar: Sidecar) -> None:
        if _ID.fullmatch(session_id) is None:
            raise UsageError(f"{session_id!r} is no id of a session.", code="bad_id")
        write_private(self._file(session_id), msgspec.json.encode(sidecar).decode())

    def find(self, session_id: str) -> Sidecar | None:
        """None if there is none, or it cannot be read."""
        if _ID.fullmatch(session_id) is None:  # what a file names is no path of ours
            return None
        file = self._file(session_id)
        if file.is_symlink():
            return None
        try:
            return msgspec.json.decode(file.read_bytes(), type=Sidecar)
        except (OSError, ValueError):
            return None

    def _file(self, session_id: str) -> Path:
        return self._folder / f"{session_id}.json"


OWN: Final = "segue"
"""Our own chat."""
_TITLE: Final = 60


@final
class SourceSession(Struct, frozen=True, kw_only=True):
    """A session to be moved."""

    program: str
    """Empty if it is no session of a program: a request, or a document."""
    data: bytes
    id: str = ""
    folder: str = ""
    client: str = ""
    """The program whose tools its calls name, where it is none of that program's own sessions."""

    @property
    def tools_of(self) -> str:
        return self.program or self.client

    @property
    def source(self) -> SourceRequest:
        return read_file(self.data)[0]


@final
class Move(Struct, frozen=True, kw_only=True):
    """A session that was planned for another program, and is not written yet."""

    target: str
    plan: SessionPlan
    data: bytes
    sidecar: Sidecar
    notes: tuple[str, ...] = ()
    """What the target will not see, in words."""
    returns: bool = False
    """Whether the target's own lines of an earlier session stand in it."""

    @property
    def session_id(self) -> str:
        return session_id(self.plan) if self.target == OPENCODE else self.plan.id


def plan_move(
    session: SourceSession,
    target: str,
    *,
    folder: str = "",
    sidecars: Sidecars | None = None,
    answers: str = "",
    now: datetime | None = None,
) -> Move:
    """Raises TranscriptError if the file cannot be read, UsageError if there is nothing to move. `sidecars`: None if nothing is
    put back. `answers`: as in `SessionPlan`."""
    if target != OWN:
        session_format(target)
    found = _history(session, target, sidecars)
    if not found.steps and not found.rows and found.began_with is None:
        raise UsageError(
            "The session holds no messages.", code="empty_session", hint="Choose another session."
        )
    foreign = bool(session.tools_of) and session.tools_of != target
    plan = SessionPlan(
        id=str(uuid4()),
        folder=_working_folder(folder or session.folder),
        title=_title(found.steps),
        steps=found.steps,
        note=_note(session.tools_of) if foreign and not found.returns else "",
        answers=answers,
        began=now if now is not None else datetime.now(UTC),
        model=next(
            (step.model for step in reversed(found.steps) if type(step) is ModelReply and step.model), ""
        ),
    )
    if target == OWN:
        data = session.data if found.began_with is None else _document(found.began_with, plan.steps)
    else:
        data = _written(target, plan, found.rows)
        _check(data)
    sidecar = Sidecar(
        program=target,
        written=data.decode("utf-8", "replace"),
        source_program=session.program,
        source_id=session.id,
        source=session.data.decode("utf-8", "replace"),
    )
    notes = found.notes if target != OWN or found.returns else ()  # the file is taken in as it is
    return Move(target=target, plan=plan, data=data, sidecar=sidecar, notes=notes, returns=found.returns)


@final
class _History(Struct, frozen=True):
    """What a new session holds: rows of the target's own, and steps behind them."""

    steps: tuple[Step, ...]
    notes: tuple[str, ...] = ()
    rows: tuple[dict[str, Any], ...] = ()
    began_with: SourceRequest | None = None
    """The conversation of our own chat that the steps follow."""

    @property
    def returns(self) -> bool:
        return bool(self.rows) or self.began_with is not None


def _history(session: SourceSession, target: str, sidecars: Sidecars | None) -> _History:
    """The way back through the programs that the conversation was in, as far as nothing was changed there."""
    added: tuple[Step, ...] = ()
    notes: tuple[str, ...] = ()
    at = session
    while sidecars is not None and at.id:
        sidecar = sidecars.find(at.id)
        if sidecar is None or sidecar.program != at.program:
            break
        tail = _added_since(at, sidecar, target)
        if tail is None:
            notes = (
                *notes,
                f"{_title_of(at.program)} changed the session since it was moved there: what was before cannot be put back",
            )
            break
        added, notes = (*tail.steps, *added), (*tail.notes, *notes)
        at = SourceSession(
            program=sidecar.source_program,
            data=sidecar.source.encode(),
            id=sidecar.source_id,
            folder=at.folder,
        )
        if at.program == target == OWN:
            return _History(added, notes, began_with=at.source)
        if at.program == target and target in WRITERS:
            repaired = repair_session(at.data, at.source.form)
            data = repaired.data if repaired is not None else at.data
            return _History(added, notes, tuple([row for _, row in SessionDraft(data).rows]))
    whole = _steps(session.data, session.tools_of, target)
    return _History(whole.steps, (*notes, *whole.notes))


def _steps(data: bytes, program: str, target: str) -> _History:
    source, _ = read_file(data)
    conversation, _ = source.adopted()
    found = steps_of(repair_conversation(conversation, source.ledger), ToolNames(program or OWN, target))
    return _History(found.steps, found.notes)


def _added_since(session: SourceSession, sidecar: Sidecar, target: str) -> _History | None:
    """What was said since the session was written; None if what was written is no longer its beginning."""
    whole = _steps(session.data, session.program, target)
    written = _steps(sidecar.written.encode(), session.program, target).steps
    if [*map(_content, whole.steps[: len(written)])] != [*map(_content, written)]:
        return None
    return _History(whole.steps[len(written) :], whole.notes)


def _content(step: Step) -> Step:
    """A step without its model, of which some programs keep the last one alone."""
    return structs.replace(step, model="") if type(step) is ModelReply else step


def _written(target: str, plan: SessionPlan, rows: Sequence[dict[str, Any]]) -> bytes:
    if rows:
        return AgentFormat(target).continued(plan, rows)
    return session_format(target).write(plan)


def _document(began_with: SourceRequest, steps: Sequence[Step]) -> bytes:
    """A document of ours: the conversation as it was, with the steps behind it."""
    conversation = began_with.conversation or Conversation()
    for step in steps:
        if type(step) is Prompt:
            conversation = conversation.append(Message("user", step.parts))
        elif type(step) is ModelReply:
            said = (Text(step.text),) if step.text else ()
            calls = tuple(ToolCall("", call.name, call.arguments, native_id=call.id) for call in step.calls)
            conversation = conversation.append(Message("model", (*said, *calls)))
            given = conversation.messages[-1].calls
            results = tuple(
                ToolResult(
                    own.id,
                    call.name,
                    None if call.failed else call.output,
                    error=call.output if call.failed else None,
                    media=call.media,
                )
                for own, call in zip(given, step.calls, strict=True)
            )
            conversation = conversation.append(Message("tool", results)) if results else conversation
    whole = structs.replace(began_with, conversation=conversation, messages=conversation.messages)
    return write_request(whole, to=CONVERSATION).body


def _check(data: bytes) -> None:
    """The program's own provider takes what was written, or nothing is written."""
    source, lines = read_file(data)
    repaired = repair_session(data, source.form)
    examined = examine(source, lines=lines, session=repaired)
    for diagnosis in examined.diagnoses:
        for finding in diagnosis.findings:
            if finding.level == "error":
                raise TranscriptError(
                    f"The session would be refused: {finding.what}.",
                    code="unmovable",
                    path=finding.place,
                    hint="Repair it first: segue doctor FILE --fix",
                )


def _working_folder(named: str) -> str:
    try:
        return os.path.realpath(named or os.curdir)
    except (OSError, ValueError) as error:  # a null byte, or half a character
        raise UsageError(
            f"{named!r} is no folder: {error}.",
            code="bad_folder",
            hint="Name the folder in which the session is to be resumed: --folder DIR",
        ) from error


def _title(steps: Sequence[Step]) -> str:
    text = next((step.text for step in steps if type(step) is Prompt and step.text.strip()), "")
    line = " ".join(text.split())
    return line if len(line) <= _TITLE else f"{line[: _TITLE - 1]}…"


def _title_of(program: str) -> str:
    known = program_named(program)
    return known.title if known is not None else program


def _note(program: str) -> str:
    return f"This conversation began in {_title_of(program)}. {HISTORY}"


def write_move(move: Move, sidecars: Sidecars | None, *, home: Path | None = None) -> StoredSession:
    """Write the session where its program finds it, and the sidecar. An existing file is never touched."""
    program = program_named(move.target)
    if program is None:
        raise UsageError(
            f"{move.target} keeps no session files.",
            code="no_files",
            hint=f"Write it for its own import: segue move … {move.target} --print",
        )
    folder = home if home is not None else program.folder(os.environ, Path.home())
    file = session_format(move.target).file(move.plan, folder)
    try:
        _write_below(folder, file, move, sidecars, program.title)
    except OSError as error:
        raise UsageError(
            f"{file} cannot be written: {error.strerror or error}.",
            code="unwritable_file",
            hint="Print it instead: segue move … --print",
        ) from error
    return program.identified(StoredSession(program=program, file=file, modified=file.stat().st_mtime))


def _write_below(folder: Path, file: Path, move: Move, sidecars: Sidecars | None, title: str) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Before anything is made below it: making folders follows links, too.
    if not file.parent.resolve().is_relative_to(folder.resolve()):
        raise UsageError(
            f"{file.parent} leads outside the folder of {title}.",
            code="outside",
            hint="Remove the link that is in the way.",
        )
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if sidecars is not None:
        sidecars.keep(move.session_id, move.sidecar)
    create_new(file, move.data)

"""The formats of sessions that segue writes: those of the agents that it knows, and those that installed packages add."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, final

from segue.errors import TranscriptError, UsageError
from segue.interop.added_formats import SessionFormat, added_format, added_formats
from segue.interop.agents.claude_code import ClaudeCodeWriter
from segue.interop.agents.codex import CodexWriter
from segue.interop.agents.gemini_cli import GeminiCliWriter
from segue.interop.agents.opencode import opencode_document, session_id
from segue.interop.agents.pi import PiWriter
from segue.interop.agents.qwen_code import QwenCodeWriter
from segue.interop.agents.session_file import SessionPlan, SessionWriter, as_lines
from segue.interop.session_files import read_file
from segue.interop.stored_sessions import program_named

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from segue.conversation.message import Conversation

WRITERS: Final[dict[str, Callable[[], SessionWriter]]] = {
    "claude": ClaudeCodeWriter,
    "codex": CodexWriter,
    "gemini": GeminiCliWriter,
    "pi": PiWriter,
    "qwen": QwenCodeWriter,
}
OPENCODE: Final = "opencode"
NAMES: Final = (*WRITERS, OPENCODE)
_OPENCODE_FORM: Final = "opencode session"


@final
class AgentFormat:
    """The format of an agent whose sessions are files."""

    def __init__(self, name: str) -> None:
        program = program_named(name)
        if program is None:
            raise UsageError(f"{name} keeps no session files.", code="no_files")
        self.name = name
        self.title = program.title
        self.home = program.home
        self.pattern = program.pattern
        self.resume = program.resume
        self._form = program.form
        self._writer = WRITERS[name]()

    def read(self, data: bytes) -> Conversation | None:
        return _read(data, self._form)

    def write(self, plan: SessionPlan) -> bytes:
        return self.continued(plan, ())

    def continued(self, plan: SessionPlan, rows: Sequence[dict[str, Any]]) -> bytes:
        """A session that begins with rows of an earlier one of the same agent."""
        writer = self._writer
        before = writer.again(list(rows), plan) if rows else writer.head(plan)
        return as_lines([*before, *writer.rows(plan, before)])

    def file(self, plan: SessionPlan, home: Path) -> Path:
        return self._writer.file(plan, home)


@final
class OpencodeFormat:
    """opencode keeps a database, which is written through its own import alone: the file is a document for it."""

    name = OPENCODE
    title = "opencode"
    home = ""
    pattern = ""
    resume = ("opencode", "-s", "{id}")

    def read(self, data: bytes) -> Conversation | None:
        return _read(data, _OPENCODE_FORM)

    def write(self, plan: SessionPlan) -> bytes:
        return opencode_document(plan)

    def file(self, plan: SessionPlan, home: Path) -> Path:
        return home / f"{session_id(plan)}.json"


def _read(data: bytes, form: str) -> Conversation | None:
    try:
        source, _ = read_file(data)
    except UsageError:  # no dialect recognises it
        return None
    return source.adopted()[0] if source.form == form else None


def session_format(name: str) -> SessionFormat:
    """Of an agent. Raises UsageError if segue does not know it, and no installed package adds it."""
    if name == OPENCODE:
        return OpencodeFormat()
    if name in WRITERS:
        return AgentFormat(name)
    if (added := added_format(name)) is not None:
        return added
    raise UsageError(
        f"segue cannot write sessions of {name}.",
        code="unknown_program",
        hint=f"Known are {', '.join(NAMES)}, and what installed packages add: segue plugins",
    )


def program_of(data: bytes) -> str:
    """Whose session a file is; empty if it is none that can be moved back."""
    try:
        form = read_file(data)[0].form
    except (TranscriptError, UsageError):
        return ""
    added = {f"{one.title} session": one.name for one in added_formats()}
    return FORMS.get(form) or added.get(form, "")


FORMS: Final = {
    **{program.form: name for name in WRITERS if (program := program_named(name)) is not None},
    _OPENCODE_FORM: OPENCODE,
}
"""What the reader calls a file → the agent's name."""

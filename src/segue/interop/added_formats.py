"""Formats of sessions that installed packages add, by entry points of the group `segue.session_formats`."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final, Protocol

from segue.errors import SegueError, UsageError
from segue.interop.source import SourceRequest
from segue.plugins import contribution, contributions

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from segue.conversation.message import Conversation
    from segue.interop.agents.session_file import SessionPlan
    from segue.plugins import Contribution

KIND: Final = "session format"
_WORDS: Final = ("name", "title", "home", "pattern")
_FUNCTIONS: Final = ("read", "write", "file")


class SessionFormat(Protocol):
    """The sessions of one agent: read, and written so that the agent itself resumes them."""

    @property
    def name(self) -> str:
        """The word for it on the command line."""
        ...

    @property
    def title(self) -> str: ...

    @property
    def home(self) -> str:
        """The folder of its sessions in the user's home."""
        ...

    @property
    def pattern(self) -> str:
        """Its session files, below that folder: `*/*.jsonl`. A file's name ends with the id of its session."""
        ...

    @property
    def resume(self) -> tuple[str, ...]:
        """The command that resumes a session, with {id}; empty if there is none."""
        ...

    def read(self, data: bytes) -> Conversation | None:
        """What the agent would send next; None if the file is not one of its sessions. Raises TranscriptError if it is one that
        cannot be read."""
        ...

    def write(self, plan: SessionPlan) -> bytes:
        """A whole session. What the format cannot hold is dropped."""
        ...

    def file(self, plan: SessionPlan, home: Path) -> Path:
        """Where the agent looks for it: a new file below `home`, the folder of its sessions."""
        ...


def added_format(name: str) -> SessionFormat | None:
    """None if no package adds it. Raises UsageError, which names the package, if it cannot be used."""
    found = contribution(KIND, name)
    return plugin_format(found) if found is not None else None


def added_formats() -> tuple[SessionFormat, ...]:
    """All that can be used; `segue plugins` reports the others."""
    return tuple([added for _, added in _usable()])


def plugin_format(one: Contribution) -> SessionFormat:
    """A class, a function without parameters, or the format itself. Raises UsageError."""
    found = one.load()
    if isinstance(found, type) or not hasattr(found, "read"):
        try:
            found = found()
        except Exception as error:
            raise one.failure("cannot be made", error) from error
    missing = [name for name in _WORDS if not isinstance(getattr(found, name, None), str)]
    missing += [name for name in _FUNCTIONS if not callable(getattr(found, name, None))]
    missing += [] if isinstance(getattr(found, "resume", None), tuple) else ["resume"]
    if missing:
        raise one.failure("is no session format", AttributeError(f"without {', '.join(missing)}"))
    if found.name != one.name:
        raise one.failure("has another name", ValueError(found.name))
    return found  # type: ignore[no-any-return]


def read_added(data: bytes) -> SourceRequest | None:
    """A session of an added format; None if it is none. Raises UsageError, which names the package, if its reader fails."""
    for one, added in _usable():
        try:
            conversation = added.read(data)
        except SegueError:
            raise
        except Exception as error:
            raise one.failure("cannot read this file", error) from error
        if conversation is not None:
            return SourceRequest(
                dialect="",
                messages=conversation.messages,
                system=conversation.system,
                conversation=conversation,
                form=f"{added.title} session",
                session=True,
            )
    return None


def _usable() -> Iterator[tuple[Contribution, SessionFormat]]:
    for one in contributions(KIND):
        with suppress(UsageError):
            yield one, plugin_format(one)

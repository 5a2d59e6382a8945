"""What the exit codes mean. The same in every command."""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    """How a command ended."""

    OK = 0
    FINDINGS = 1
    """`segue doctor` found something; `segue demo` could not show what it promises."""
    USAGE = 2
    """The command was called in a way it cannot be, or its file is not there."""
    INTERNAL = 70
    """A fault of ours."""
    UNRENDERABLE = 61
    """The transcript cannot be read, or cannot be said to the target."""
    WOULD_LOSE = 62
    """With --strict: the target would be told less than the transcript holds."""
    INTERRUPTED = 130

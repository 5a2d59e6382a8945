"""What the exit codes mean. The same in every command; docs/cli.md has the table."""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    """How a command ended."""

    OK = 0
    FINDINGS = 1
    """`segue doctor` found something; `segue demo` could not show what it promises; a provider is not well."""
    USAGE = 2
    """The command was called in a way it cannot be, or its file is not there."""
    NO_KEY = 41
    """No provider can be used: the key is missing or wrong, or nothing is configured."""
    INPUT = 42
    """The provider or the session does not take what was asked: unknown model, refused content, unreadable input."""
    CONFIG = 52
    """The configuration cannot be used."""
    TURN_LIMIT = 53
    """A limit stopped the turn: --max-turns, --max-cost or --timeout."""
    TOOL = 54
    """A tool cannot be used at all: its file or its server is not there."""
    PROVIDERS_FAILED = 60
    """Every provider that was asked failed, or could not be reached."""
    UNRENDERABLE = 61
    """The transcript cannot be read, or cannot be said to the target."""
    WOULD_LOSE = 62
    """With --strict: the target would be told less than the transcript holds."""
    INTERNAL = 70
    """A fault of ours."""
    INTERRUPTED = 130
    """Ctrl-C. The session is whole."""
    TERMINATED = 143
    """SIGTERM, or the terminal was closed. The session is whole."""

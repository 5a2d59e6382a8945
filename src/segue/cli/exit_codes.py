"""The exit codes, the same for every command. docs/cli.md has the table."""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    """How a command ended."""

    OK = 0
    FINDINGS = 1
    """`segue doctor` found something, a request of `segue demo` was refused, a provider is not healthy, a gateway fails a scenario, a session was not
    copied, or a request of a batch has no answer."""
    USAGE = 2
    """Wrong arguments, or a file that does not exist."""
    NO_KEY = 41
    """No provider can be used: the key is missing or wrong, or none is configured."""
    INPUT = 42
    """The request is not acceptable: unknown model, refused content, unreadable input, unusable session."""
    CONFIG = 52
    """The configuration is invalid."""
    TURN_LIMIT = 53
    """A limit stopped the turn: --max-turns, --max-cost or --timeout."""
    TOOL = 54
    """A tool cannot be loaded: its file or its server does not exist."""
    PROVIDERS_FAILED = 60
    """Every provider failed or could not be reached."""
    UNRENDERABLE = 61
    """The transcript cannot be read, or cannot be rendered for the target."""
    WOULD_LOSE = 62
    """With --strict: the target would see less than the transcript holds."""
    INTERNAL = 70
    """A bug in segue."""
    INTERRUPTED = 130
    """Ctrl-C. The session is saved and valid."""
    TERMINATED = 143
    """SIGTERM, or the terminal was closed. The session is saved and valid."""

"""What went wrong, for people: one place that turns errors into words and exit codes."""

from __future__ import annotations

from typing import Final

from segue.cli.display.terminal import print_error, print_status
from segue.cli.exit_codes import Exit
from segue.errors import (
    JournalError,
    ProtocolError,
    ProviderError,
    Remedy,
    SegueError,
    TranscriptError,
    TransportError,
    UsageError,
)

BY_CODE: Final = {
    "config": Exit.CONFIG,
    "no_provider": Exit.NO_KEY,
    "missing_key": Exit.NO_KEY,
    "tool_unusable": Exit.TOOL,
    "too_expensive": Exit.TURN_LIMIT,
    "timed_out": Exit.TURN_LIMIT,
    "would_lose": Exit.WOULD_LOSE,
    "bad_input": Exit.INPUT,
    "bad_answer": Exit.INPUT,
}
BY_REMEDY: Final[dict[Remedy, Exit]] = {
    "fix": Exit.INPUT,
    "shrink": Exit.INPUT,
    "log_in": Exit.NO_KEY,
    "pay": Exit.PROVIDERS_FAILED,
    "wait": Exit.PROVIDERS_FAILED,
    "go_elsewhere": Exit.PROVIDERS_FAILED,
    "report": Exit.INTERNAL,
}
"""Of what a provider said. Who should act differs by remedy, not by class."""


def explain(error: BaseException, *, about: str = "") -> Exit:
    """Say what happened on stderr and give the exit code for it. `about`: the model that was asked."""
    if isinstance(error, SegueError):
        print_error(*lines_about(error, about=about))
        return code_of(error)
    if isinstance(error, BaseExceptionGroup):
        return explain(error.exceptions[0])
    if isinstance(error, OSError):
        where = f": {error.filename}" if error.filename else ""
        print_status(f"segue: {error.strerror or error}{where}")
        return Exit.USAGE
    print_status(f"segue: something went wrong inside: {type(error).__name__}: {error}")
    print_status("       Please report it; --debug shows where it came from.")
    return Exit.INTERNAL


def lines_about(error: SegueError, *, about: str = "") -> list[str]:
    """What happened and where; then what to do, if anybody knows. `about`: the model that was asked."""
    place = f" (at {error.path})" if error.path else ""
    next_step = error.hint or _advice(error, about.partition("/")[0])
    return [f"{_who(error, about)}{error.message}{place}", *([next_step] if next_step else [])]


def _who(error: SegueError, about: str) -> str:
    """Whose words these are: a provider's message says neither who sent it nor to whom."""
    if not about or not isinstance(error, ProviderError):
        return ""
    status = f" refused (HTTP {error.status})" if error.status else ""
    request = f" [request {error.request_id}]" if error.request_id else ""
    return f"{about}{status}{request}: "


def code_of(error: SegueError) -> Exit:
    if error.code in BY_CODE:
        return BY_CODE[error.code]
    match error:
        case TranscriptError():
            return Exit.UNRENDERABLE
        case UsageError():
            return Exit.USAGE
        case JournalError():
            return Exit.INPUT
        case ProviderError() | TransportError() | ProtocolError():
            return BY_REMEDY[error.remedy]
        case _:
            return BY_REMEDY[error.remedy]


_NEXT: Final[dict[Remedy, str]] = {
    "fix": "Check the model's name (`segue models PROVIDER` lists them) and what it was asked for.",
    "log_in": "`segue keys set PROVIDER` stores a key; `segue health` tells which providers answer.",
    "pay": "Top the account up, or take another model: -m provider/model.",
    "wait": "Try again in a while, or name another model to fall back on: --fallback provider/model.",
    "go_elsewhere": "Name another model to fall back on: --fallback provider/model. `segue health` asks all of them.",
    "shrink": "Start a new conversation, or take a model with a larger window: -m provider/model.",
}


def _advice(error: SegueError, provider: str = "") -> str:
    """What to do next, where the error itself does not say."""
    if isinstance(error, UsageError | TranscriptError):
        return ""
    return _NEXT.get(error.remedy, "").replace("PROVIDER", provider or "PROVIDER")

"""Errors for people: the lines on stderr and the exit code of every error."""

from __future__ import annotations

from typing import Final

from segue.cli.display.terminal import print_error, print_status
from segue.cli.exit_codes import Exit
from segue.errors import (
    InvalidRequestError,
    JournalError,
    OverloadError,
    ProviderError,
    RateLimitError,
    Remedy,
    SegueError,
    TranscriptError,
    TransportError,
    UsageError,
    status_of,
)

debug = False
"""Set by --debug: errors are reported with all that is known of them."""
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
"""For errors of providers: who can act depends on the remedy, not on the class."""
_ADVICE: Final[dict[Remedy, str]] = {
    "fix": "Check the name of the model (list them: segue models PROVIDER) and the request.",
    "log_in": "Store a key: segue keys set PROVIDER. Check all providers: segue health",
    "pay": "Add credit to the account, or use another model: -m provider/model",
    "wait": "Try again later, or name another model to fall back on: --fallback provider/model",
    "go_elsewhere": "Name another model to fall back on: --fallback provider/model. Check all providers: segue health",
    "shrink": "Start a new session, or use a model with a larger context window: -m provider/model",
}
_TROUBLE: Final[tuple[tuple[type[SegueError], str], ...]] = (
    (OverloadError, "is overloaded"),
    (RateLimitError, "limits requests"),
    (TransportError, "cannot be reached"),
)
"""What is wrong with a provider, in a few words."""


def report_error(error: BaseException, *, model: str = "") -> Exit:
    """Print the error on stderr and return its exit code. `model`: the one that was asked, if any."""
    if isinstance(error, SegueError):
        print_error(*error_lines(error, model=model))
        return exit_code(error)
    if isinstance(error, BaseExceptionGroup):
        return report_error(error.exceptions[0])
    if isinstance(error, OSError):
        file = f": {error.filename}" if error.filename else ""
        print_status(f"segue: {error.strerror or error}{file}")
        return Exit.USAGE
    print_status(f"segue: internal error: {type(error).__name__}: {error}")
    print_status("       Please report it. Show the traceback: --debug")
    return Exit.INTERNAL


def error_lines(error: SegueError, *, model: str = "") -> list[str]:
    """What happened and where; then what to do, if that is known."""
    place = f" (at {error.path})" if error.path else ""
    hint = error.hint
    if not hint and not isinstance(error, UsageError | TranscriptError):
        hint = _ADVICE.get(error.remedy, "").replace("PROVIDER", model.partition("/")[0] or "PROVIDER")
    lines = [f"{_sender(error, model)}{error.message}{place}", *([hint] if hint else [])]
    return [*lines, *_details(error)] if debug else lines


def _details(error: SegueError) -> list[str]:
    """What is known of a request that was refused."""
    if not isinstance(error, InvalidRequestError):
        return []
    calls = [f"call {ours} was sent as {theirs}" for ours, theirs in error.call_ids]
    return [*calls, *(f"repair: {repair}" for repair in error.repairs)]


def _sender(error: SegueError, model: str) -> str:
    """A provider's message names neither the provider nor the model."""
    if not model or not isinstance(error, ProviderError):
        return ""
    status = f" refused (HTTP {error.status})" if error.status else ""
    request = f" [request {error.request_id}]" if error.request_id else ""
    return f"{model}{status}{request}: "


def exit_code(error: SegueError) -> Exit:
    if error.code in BY_CODE:
        return BY_CODE[error.code]
    match error:
        case TranscriptError():
            return Exit.UNRENDERABLE
        case UsageError():
            return Exit.USAGE
        case JournalError():
            return Exit.INPUT
        case _:
            return BY_REMEDY[error.remedy]


def trouble_words(error: SegueError, model: str) -> str:
    """`Anthropic is overloaded (HTTP 529)`; the provider's own words for everything else."""
    from segue.providers.hosts.addresses import find_address  # noqa: PLC0415 - most errors need none

    name, status = model.partition("/")[0], status_of(error)
    address = find_address(name)
    who = name if address is None else address.title
    place = f" (HTTP {status})" if status else ""
    for kind, words in _TROUBLE:
        if isinstance(error, kind):
            return f"{who} {words}{place}"
    return f"{who} failed{place}: {error.message}".rstrip(" .:")

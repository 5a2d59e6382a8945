"""Every error segue raises, arranged by who can act on it.

    SegueError
    ├── UsageError          the caller passed something we cannot use         fix
    ├── TranscriptError     a conversation cannot be read or rendered         fix
    ├── ProviderError       the provider answered with a refusal
    │   ├── InvalidRequestError    fix          ├── RateLimitError       wait
    │   ├── CredentialsError       log_in       ├── OverloadError        go_elsewhere
    │   ├── QuotaError             pay          ├── ContextLengthError   shrink
    │   └── ContentPolicyError     fix
    ├── TransportError      the provider could not be reached                 wait
    ├── ProtocolError       the provider broke its own dialect                go_elsewhere
    ├── RouteError          no member of a router can answer                  go_elsewhere
    │   ├── RouteBusyError         wait         └── RouteTooSmallError   shrink
    └── JournalError        what we remember does not fit what happened       report
        ├── StoreUnreachableError  wait         └── StoreRefusedError    fix

Callers act on `remedy`, a word of a closed list, never on class names or sentences; `hint` is a sentence for people.
"""

from __future__ import annotations

from contextlib import contextmanager
from copy import copy
from math import isfinite
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = [
    "ContentPolicyError",
    "ContextLengthError",
    "CredentialsError",
    "InvalidRequestError",
    "JournalError",
    "OverloadError",
    "ProtocolError",
    "ProviderError",
    "QuotaError",
    "RateLimitError",
    "Remedy",
    "RouteBusyError",
    "RouteError",
    "RouteTooSmallError",
    "SegueError",
    "StoreRefusedError",
    "StoreUnreachableError",
    "TranscriptError",
    "TransportError",
    "UsageError",
]

Remedy: TypeAlias = Literal["fix", "log_in", "pay", "wait", "go_elsewhere", "shrink", "report"]
"""What would help against an error, and who can do it."""


class SegueError(Exception):
    """What happened, where, and what would help."""

    remedy: ClassVar[Remedy] = "report"
    default_code: ClassVar[str] = "error"
    answer: Any = None
    """Raised by a chat: the `Answer` of the failed turn, with the part before the failure; None otherwise."""
    provider: str = ""
    """The name of the provider that was asked; empty if none was."""
    address: str = ""
    """Where it was asked, as the message may name it: for the operator of segue, not for the clients of a gateway."""
    unbilled: bool = False
    """Whether the provider took nothing of the request: it was not reached, or refused it by its status. Whatever else goes
    wrong may cost what the request and its reply came to until then."""

    def __init__(self, message: str, *, code: str = "", path: str = "", hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.code = code or self.default_code
        self.path = path
        self.hint = hint

    def __str__(self) -> str:
        place = f"{self.path}: " if self.path else ""
        advice = f" {self.hint}" if self.hint else ""
        return f"{place}{self.message}{advice}"

    def as_dict(self) -> dict[str, Any]:
        """The form for reports and JSON output."""
        return {
            "code": self.code,
            "message": self.message,
            "path": self.path,
            "remedy": self.remedy,
            "hint": self.hint,
        }


class UsageError(SegueError):
    """The caller passed something we cannot use."""

    remedy: ClassVar[Remedy] = "fix"
    default_code = "usage"


class TranscriptError(SegueError):
    """A conversation cannot be read or rendered; `path` leads to the block."""

    remedy: ClassVar[Remedy] = "fix"
    default_code = "transcript"


class ProviderError(SegueError):
    """The provider answered with a refusal."""

    remedy: ClassVar[Remedy] = "go_elsewhere"
    default_code = "provider_error"
    wire: str = ""
    """The wire format in which it came; empty if it is no provider's own."""
    members: Mapping[str, Any] = MappingProxyType({})
    """All that it came with, as JSON: clients of the same wire get what we have no place for."""

    def __init__(
        self,
        message: str,
        *,
        code: str = "",
        path: str = "",
        hint: str = "",
        status: int | None = None,
        request_id: str = "",
        retry_after: float | None = None,
        body: bytes = b"",
    ) -> None:
        super().__init__(message, code=code, path=path, hint=hint)
        self.status = status
        self.request_id = request_id
        self.retry_after = retry_after
        self.body = body


class InvalidRequestError(ProviderError):
    """The provider does not accept this request."""

    remedy: ClassVar[Remedy] = "fix"
    default_code = "invalid_request"
    call_ids: tuple[tuple[str, str], ...] = ()
    """The calls in the request: our id of each, and the id that was sent."""
    repairs: tuple[str, ...] = ()
    """What was changed to make the request."""

    def as_dict(self) -> dict[str, Any]:
        details: dict[str, Any] = {}
        if self.call_ids:
            details["call_ids"] = dict(self.call_ids)
        if self.repairs:
            details["repairs"] = list(self.repairs)
        return {**super().as_dict(), **details}


class CredentialsError(ProviderError):
    """The key is missing, wrong, or not allowed to do this."""

    remedy: ClassVar[Remedy] = "log_in"
    default_code = "credentials"


class QuotaError(ProviderError):
    """The account has no money or quota left."""

    remedy: ClassVar[Remedy] = "pay"
    default_code = "quota"


class RateLimitError(ProviderError):
    """Too many requests for now; `retry_after` is how long to wait, if the provider gave it."""

    remedy: ClassVar[Remedy] = "wait"
    default_code = "rate_limit"


class OverloadError(ProviderError):
    """The provider is overloaded or failed on its own side."""

    remedy: ClassVar[Remedy] = "go_elsewhere"
    default_code = "overload"


class ContextLengthError(ProviderError):
    """The conversation is too long for the model."""

    remedy: ClassVar[Remedy] = "shrink"
    default_code = "context_length"


class ContentPolicyError(ProviderError):
    """The provider refused the content."""

    remedy: ClassVar[Remedy] = "fix"
    default_code = "content_policy"


class TransportError(SegueError):
    """The provider could not be reached, or the connection broke."""

    remedy: ClassVar[Remedy] = "wait"
    default_code = "transport"


class ProtocolError(SegueError):
    """The provider sent something its own dialect does not allow."""

    remedy: ClassVar[Remedy] = "go_elsewhere"
    default_code = "protocol"


class RouteError(SegueError):
    """No member of a router can answer; `failures` holds the reason for each, `retry_after` when one may answer again."""

    remedy: ClassVar[Remedy] = "go_elsewhere"
    default_code = "no_route"

    def __init__(
        self,
        message: str,
        *,
        code: str = "",
        path: str = "",
        hint: str = "",
        failures: tuple[tuple[str, SegueError], ...] = (),
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message, code=code, path=path, hint=hint)
        self.failures = failures
        self.retry_after = retry_after

    def as_dict(self) -> dict[str, Any]:
        failures = [{"member": name, **error.as_dict()} for name, error in self.failures]
        return {**super().as_dict(), **({"failures": failures} if failures else {})}


class RouteBusyError(RouteError):
    """No member can answer now, but one may later."""

    remedy: ClassVar[Remedy] = "wait"
    default_code = "routes_busy"


class RouteTooSmallError(RouteError):
    """The conversation fits into no member that could answer; the largest takes `limit` tokens."""

    remedy: ClassVar[Remedy] = "shrink"
    default_code = "routes_too_small"

    def __init__(
        self,
        message: str,
        *,
        hint: str = "",
        limit: int = 0,
        failures: tuple[tuple[str, SegueError], ...] = (),
    ) -> None:
        super().__init__(message, hint=hint, failures=failures)
        self.limit = limit


class JournalError(SegueError):
    """What we remember does not fit what happened."""

    remedy: ClassVar[Remedy] = "report"
    default_code = "journal"


class StoreUnreachableError(JournalError):
    """The database that keeps what we remember does not answer."""

    remedy: ClassVar[Remedy] = "wait"
    default_code = "store_unreachable"
    may_be_done = True
    """Whether what it was asked for may be done all the same: it heard the question, or may yet hear it."""


class StoreRefusedError(JournalError):
    """The database that should keep what we remember does not let us in, or is not one that we can use."""

    remedy: ClassVar[Remedy] = "fix"
    default_code = "store_refused"


_CLOSED = frozenset({*range(300, 400), 401, 402, 403})
"""Nobody gets in by knocking again, and a redirect leads to the same place every time."""


def is_transient(error: SegueError) -> bool:
    """Whether the same request may succeed later."""
    return error.remedy in ("wait", "go_elsewhere") and status_of(error) not in _CLOSED


def status_of(error: SegueError) -> int | None:
    """The HTTP status of the provider's answer; None if there was none."""
    status = getattr(error, "status", None)
    return status if isinstance(status, int) else None


def retry_after_of(error: SegueError) -> float | None:
    """What the provider asked for, if that is a time at all."""
    asked = getattr(error, "retry_after", None)
    return max(0.0, asked) if isinstance(asked, (int, float)) and isfinite(asked) else None


E = TypeVar("E", bound=SegueError)


def prefixed(error: E, doing: str) -> E:
    """A copy of the error whose message begins with what was being done; the error itself is its cause."""
    copied = copy(error)
    copied.message = f"{doing}: {error.message}"
    copied.args = (copied.message,)
    copied.__cause__ = error
    return copied


@contextmanager
def while_doing(what: str) -> Iterator[None]:
    """Errors raised inside begin with what was being done."""
    try:
        yield
    except SegueError as error:
        raise prefixed(error, what) from error

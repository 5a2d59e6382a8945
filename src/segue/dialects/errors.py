"""What errors have in common on every wire: the class a status stands for, the headers that matter, and the status
and message that an error of ours has for a client. Each dialect adds only what is special to its own wire.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, final

import msgspec
from msgspec import Struct, structs

from segue.errors import (
    ContentPolicyError,
    ContextLengthError,
    CredentialsError,
    InvalidRequestError,
    OverloadError,
    ProtocolError,
    ProviderError,
    QuotaError,
    RateLimitError,
    SegueError,
    TranscriptError,
    TransportError,
    UsageError,
)
from segue.redaction import redact_text

if TYPE_CHECKING:
    from collections.abc import Mapping

T = TypeVar("T")
Phrases: TypeAlias = tuple[tuple[str, type[ProviderError]], ...]
"""Parts of messages in lower case, and the errors they stand for; the first that is found counts."""
REDIRECT = "redirect"
TOOLS_UNSUPPORTED = "tools_unsupported"
"""The code of the error for tools offered to a model that takes none: they can still be described in the prompt."""
_NO_STREAM = "streaming_not_supported"
"""The code of gateways that name no parameter."""
_BY_STATUS: Mapping[int, type[ProviderError]] = {
    401: CredentialsError,
    402: QuotaError,
    403: CredentialsError,
    408: OverloadError,
    409: OverloadError,  # OAI-04, ANT-90: two requests collided, the same one may succeed now
    413: ContextLengthError,
    424: OverloadError,  # something behind the server failed
    425: OverloadError,
    429: RateLimitError,
    451: ContentPolicyError,
}
_REQUEST_IDS = ("request-id", "x-request-id", "x-trace-id", "apim-request-id", "x-groq-request-id", "cf-ray")
_USER = re.compile(r"//[^/]*@")
_QUERY = re.compile(r"[?#].*", re.DOTALL)
_MAX_LOCATION = 300
MAX_MESSAGE = 8_000
"""Characters of a message that are looked at and kept."""
_MAX_CODE = 200
_MAX_BODY = 65_536
"""Bytes of a body that an error holds."""
_WAIT = re.compile(r"try again in ((?:[\d.]{1,12}(?:ms|h|m|s))+)", re.IGNORECASE)
_SPAN = re.compile(r"([\d.]+)(ms|h|m|s)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


@final
class FailedResponse(Struct, frozen=True):
    """The HTTP side of an error."""

    status: int | None = None
    request_id: str = ""
    retry_after: float | None = None
    body: bytes = b""
    location: str = ""
    """Where a redirect leads, without what may be secret in it."""

    def with_status(self, status: Any) -> FailedResponse:
        """The same with the status that the error itself names, if it is one and the response has none."""
        if self.status is not None or not isinstance(status, int) or isinstance(status, bool):
            return self
        return structs.replace(self, status=status)

    def judged_by(self, status: int) -> FailedResponse:
        """The same with the status that the error itself names, if it names one: whoever reads it judges by this one."""
        return structs.replace(self, status=status) if status and not self._is_redirect else self

    def words(self, message: Any) -> str:
        """The message of an error, or the start of the body where it has none: both are judged alike."""
        if isinstance(message, str) and message:
            return message
        return excerpt(self.body, self.status) if self.body.strip() else ""

    def error(
        self,
        kind: type[ProviderError],
        message: str,
        *,
        code: Any = "",
        path: Any = "",
        request_id: Any = "",
        retry_after: float | None = None,
    ) -> ProviderError:
        """The error as we raise it, without secrets. What is given here comes from the body."""
        if self._is_redirect:
            return self._redirect()
        return kind(
            redact_text(message[:MAX_MESSAGE]) or excerpt(self.body, self.status),
            code=redact_text(code[:_MAX_CODE]) if isinstance(code, str) else "",
            path=path if isinstance(path, str) else "",
            status=self.status,
            request_id=request_id if isinstance(request_id, str) and request_id else self.request_id,
            retry_after=retry_after if self.retry_after is None else self.retry_after,
            body=redacted_body(self.body),
        )

    @property
    def _is_redirect(self) -> bool:
        return self.status is not None and 300 <= self.status < 400

    def _redirect(self) -> ProviderError:
        """Whatever the body of a redirect is about, the address is what has to be changed."""
        return ProviderError(
            f"The provider answered with status {self.status}, a redirect to {self.location or 'nowhere'}.",
            code=REDIRECT,
            hint="Check the base_url of the provider: redirects are not followed, because they would carry the key along.",
            status=self.status,
            request_id=self.request_id,
            retry_after=self.retry_after,
            body=redacted_body(self.body),
        )


IN_REPLY = FailedResponse()
"""An error inside a reply or a stream has no HTTP side of its own."""


def read_response(status: int, headers: Mapping[str, str], body: bytes) -> tuple[FailedResponse, Any]:
    """The HTTP side of an error, and its body as JSON; None if it is not JSON."""
    try:
        value = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        value = None
    location = _address(headers.get("location", ""))
    return FailedResponse(status, request_id(headers), retry_after(headers), body, location), value


def class_of_status(status: int | None) -> type[ProviderError]:
    """The error that an HTTP status stands for, where the wire has nothing better. None: it broke a reply off."""
    if status is None:
        return OverloadError
    known = _BY_STATUS.get(status)
    if known is not None:
        return known
    if 400 <= status < 500:
        return InvalidRequestError
    return OverloadError if status >= 500 else ProviderError


def class_of_error(
    message: str, phrases: Phrases, status: int | None, *names: tuple[Mapping[str, type[ProviderError]], Any]
) -> type[ProviderError]:
    """The error that a message is about, else the first that a code or type stands for in its table, else the status."""
    found = class_by_phrase(message, phrases)
    for table, name in names:
        found = found or (table.get(name) if isinstance(name, str) else None)
    return found or class_of_status(status)


def class_by_phrase(message: str, phrases: Phrases) -> type[ProviderError] | None:
    """The error that a message is about; None if it contains none of the phrases."""
    lowered = message.lower()
    return next((found for phrase, found in phrases if phrase in lowered), None)


def refuses_stream(error: SegueError) -> bool:
    """Whether a provider refused the field `stream` and nothing else: it may answer the same request with a whole reply.

    OpenAI does so for organisations that are not verified, and for models that it does not stream (OAI-08).
    """
    return isinstance(error, InvalidRequestError) and (error.path == "stream" or error.code == _NO_STREAM)


def fault_place(fault: Mapping[str, Any]) -> str:
    """The place in the request that a fault found by a server's schema check is about; empty if it names none."""
    location = fault.get("loc")
    steps = [step for step in location if step != "body"] if isinstance(location, list) else []
    place = ""
    for step in steps:
        place += f"[{step}]" if isinstance(step, int) else f".{step}" if place else str(step)
    return place


def first_fault_place(faults: Any) -> str:
    """The place of the first of a list of them; empty if it is no such list."""
    first = faults[0] if isinstance(faults, list) and faults else None
    return fault_place(first) if isinstance(first, dict) else ""


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds to wait, if the headers give them as a number. Dates need a clock, which is not available here."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            seconds = float(headers.get(name, "")) * unit
        except ValueError:
            continue
        if math.isfinite(seconds) and seconds >= 0:
            return seconds
    return None


def wait_in(message: str) -> float | None:
    """The wait that a rate limit gives in its sentence: 12ms, 3.89s, 6m0s (OAI-03). None if there is none."""
    found = _WAIT.search(message)
    if found is None:
        return None
    spans = [(amount, unit) for amount, unit in _SPAN.findall(found[1].lower()) if amount.count(".") < 2]
    return sum(float(amount.strip(".") or 0) * _SECONDS[unit] for amount, unit in spans)


def request_id(headers: Mapping[str, str]) -> str:
    return next((headers[name] for name in _REQUEST_IDS if headers.get(name)), "")


def _address(location: str) -> str:
    """A Location to show: queries and user names hold tokens."""
    bare = _USER.sub("//", _QUERY.sub("", location))
    return "".join(sign for sign in redact_text(bare) if sign.isprintable())[:_MAX_LOCATION]


def redacted_body(body: bytes) -> bytes:
    """The start of a body, without anything that looks like a key."""
    body = body[:_MAX_BODY]
    text = body.decode("utf-8", "replace")
    redacted = redact_text(text)
    return body if redacted == text else redacted.encode("utf-8", "replace")


def excerpt(body: bytes, status: int | None) -> str:
    """The message of an error whose body has none."""
    text = " ".join(redact_text(body[:2000].decode("utf-8", "replace")).split())
    if status is None:
        return text[:300] or "The provider ended its reply with an error."
    return text[:300] or f"The provider answered with status {status} and no explanation."


def with_envelope(error: ProviderError, wire: str, envelope: Any) -> ProviderError:
    """An error that keeps all of what it came in, without secrets: its wire may have members that are newer than we are, and
    clients that act on them."""
    if error.code == REDIRECT:
        return error
    error.wire, error.members = wire, _members(envelope)
    return error


def _members(envelope: Any) -> dict[str, Any]:
    try:
        text = msgspec.json.encode(envelope).decode()
        read = msgspec.json.decode(redact_text(text)) if len(text) <= _MAX_BODY else None
    except (TypeError, ValueError, OverflowError, RecursionError):
        read = None
    return read if isinstance(read, dict) else {}


# The other way


def in_envelope(envelope: dict[str, Any], error: SegueError, wire: str) -> dict[str, Any]:
    """The envelope of an error for a client, with what else the error came with if that was on the client's own wire."""
    if not isinstance(error, ProviderError) or error.wire != wire:
        return envelope
    return _filled(envelope, error.members)


def _filled(ours: dict[str, Any], came: Mapping[str, Any]) -> dict[str, Any]:
    filled = dict(ours)
    for name, value in came.items():
        held = filled.get(name)
        if held is None:
            filled[name] = value
        elif isinstance(held, dict) and isinstance(value, dict):
            filled[name] = _filled(held, value)
    return filled


def own_member(error: SegueError, wire: str, name: str, default: T) -> Any:
    """A member of the error object as the wire itself gave it; the default if it gave none, or the error is another wire's."""
    came = error.members.get("error") if isinstance(error, ProviderError) and error.wire == wire else None
    return came[name] if isinstance(came, dict) and name in came else default


STATUSES: Mapping[type[SegueError], int] = {
    CredentialsError: 401,
    QuotaError: 402,
    RateLimitError: 429,
    OverloadError: 503,
    ContextLengthError: 400,
    ContentPolicyError: 400,
    InvalidRequestError: 400,
    TranscriptError: 400,
    UsageError: 400,
    TransportError: 504,
    ProtocolError: 502,
}
"""The status that an error has for a client, unless a wire has another one for it. Any other error is 500."""


_OWN_STATUSES = frozenset((403, 404, 405, 408, 409, 413, 415, 422, 426))
"""Statuses that a refused request keeps: they tell a client more than the usual one."""


def status_for(error: SegueError, statuses: Mapping[type[SegueError], int] = STATUSES) -> int:
    if isinstance(error, InvalidRequestError) and error.status in _OWN_STATUSES:
        return error.status
    return entry_for(error, statuses, 500)


def entry_for(error: SegueError, table: Mapping[type[SegueError], T], default: T) -> T:
    """The entry for the class of an error, or for the nearest class above it."""
    return next((table[kind] for kind in type(error).__mro__ if kind in table), default)


def message_for(error: SegueError, leads: Phrases, phrases: Phrases) -> str:
    """The message for a client. Where the wire has no code for an error, a phrase that clients look for leads it."""
    message = redact_text(str(error)) or "The request failed."
    lead = next((lead for lead, kind in leads if type(error) is kind), "")
    return f"{lead}: {message}" if lead and class_by_phrase(message, phrases) is not type(error) else message


def unencodable(wire: str, what: str, index: int | None = None) -> TranscriptError:
    """A transcript holds what a wire cannot express: refused, never repaired by a dialect.

    `index`: the step that holds it; None if it is the transcript as such.
    """
    return TranscriptError(
        f"The {wire} wire cannot express {what}.",
        code="rendered_for_another_target",
        path="" if index is None else f"steps[{index}]",
        hint="Render the conversation with the rules of this dialect first.",
    )

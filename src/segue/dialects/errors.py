"""Errors of providers on every wire, and errors of ours for the clients of every wire. What the wires call them is data, in
errors.toml; a dialect only knows where in its envelope they stand.
"""

from __future__ import annotations

import math
import re
import tomllib
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar, final

import msgspec
from msgspec import Struct, structs

from segue.errors import (
    ContentPolicyError,
    ContextLengthError,
    CredentialsError,
    InvalidRequestError,
    OverloadError,
    ProviderError,
    QuotaError,
    RateLimitError,
    SegueError,
    TranscriptError,
)
from segue.text.redaction import redact_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

T = TypeVar("T")
ErrorClass: TypeAlias = type[ProviderError]
_Name: TypeAlias = Literal[
    "invalid_request", "credentials", "quota", "rate_limit", "overload", "context_length", "content_policy"
]
"""Classes of errors as errors.toml names them."""
_CLASSES: Mapping[str, ErrorClass] = {
    kind.default_code: kind
    for kind in (
        *(InvalidRequestError, CredentialsError, QuotaError, RateLimitError, OverloadError),
        *(ContextLengthError, ContentPolicyError),
    )
}
REDIRECT = "redirect"
TOOLS_UNSUPPORTED = "tools_unsupported"
"""The code of the error for tools offered to a model that takes none: they can still be described in the prompt."""
_NO_STREAM = "streaming_not_supported"
"""The code of gateways that name no parameter."""
_REQUEST_IDS = ("request-id", "x-request-id", "x-trace-id", "apim-request-id", "x-groq-request-id", "cf-ray")
_USER = re.compile(r"//[^/]*@")
_QUERY = re.compile(r"[?#].*", re.DOTALL)
_MAX_LOCATION = 300
MAX_MESSAGE = 8_000
"""Characters of a message that are looked at and kept."""
_MAX_CODE = 200
_MAX_BODY = 65_536
"""Bytes of a body that an error holds."""
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
            return message[:MAX_MESSAGE]  # patterns are searched in it, and a server may send megabytes
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


def _members(envelope: Any) -> dict[str, Any]:
    try:
        text = msgspec.json.encode(envelope).decode()
        read = msgspec.json.decode(redact_text(text)) if len(text) <= _MAX_BODY else None
    except (TypeError, ValueError, OverflowError, RecursionError):
        read = None
    return read if isinstance(read, dict) else {}


# Tables


@final
class _Common(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    kept: frozenset[int]
    classes: dict[str, _Name]
    statuses: dict[str, int]


@final
class _Table(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What errors.toml holds of one wire; the file says what each field is."""

    says: dict[_Name, tuple[str, ...]] = {}
    names: dict[_Name, tuple[str, ...]] = {}
    names_of: dict[str, dict[_Name, tuple[str, ...]]] = {}
    says_after_names: dict[_Name, tuple[str, ...]] = {}
    says_below: int = 1000
    no_tools: tuple[str, ...] = ()
    waits: str = ""
    classes: dict[str, _Name] = {}
    statuses: dict[str, int] = {}
    types: dict[str, tuple[str, ...]] = {}
    leads: dict[_Name, str] = {}
    exact_leads: bool = False


@final
class _Tables(Struct, frozen=True):
    common: _Common
    wires: dict[str, _Table]


@cache
def _tables() -> _Tables:
    text = files(__package__).joinpath("errors.toml").read_text("utf-8")
    return msgspec.convert(tomllib.loads(text), _Tables)


@cache
def wire_errors(wire: str) -> WireErrors:
    """The errors of a wire, by its table. Most conversations never ask for it."""
    tables = _tables()
    return WireErrors(wire, tables.wires[wire], tables.common)


def class_of_status(status: int | None) -> ErrorClass:
    """The error that an HTTP status stands for, where the wire has nothing better. None: it broke a reply off."""
    return _class_of_status(status, _tables().common.classes)


def _class_of_status(status: int | None, classes: Mapping[str, str]) -> ErrorClass:
    if status is None:
        return OverloadError
    if known := classes.get(str(status)):
        return _CLASSES[known]
    if 400 <= status < 500:
        return InvalidRequestError
    return OverloadError if status >= 500 else ProviderError


_Patterns: TypeAlias = list[tuple[re.Pattern[str], ErrorClass]]


def _pattern(parts: Iterable[str]) -> re.Pattern[str]:
    return re.compile("|".join(parts) or "(?!)", re.IGNORECASE)


def _patterns(said: Mapping[_Name, Iterable[str]]) -> _Patterns:
    return [(_pattern(parts), _CLASSES[kind]) for kind, parts in said.items()]


def _found(patterns: _Patterns, message: str) -> ErrorClass | None:
    return next((kind for pattern, kind in patterns if pattern.search(message)), None)


def _by_name(names: Mapping[_Name, Iterable[str]]) -> dict[str, ErrorClass]:
    return {name: _CLASSES[kind] for kind, found in names.items() for name in found}


def _entry(error: SegueError, table: Mapping[Any, T]) -> T | None:
    """The entry for the class of an error, or for the nearest class above it."""
    names = [getattr(kind, "default_code", "") for kind in type(error).__mro__]
    return next((table[name] for name in names if name in table), None)


@final
class WireErrors:
    """Reads the errors of a provider and writes ours for its clients, by the table of one wire."""

    def __init__(self, wire: str, table: _Table, common: _Common) -> None:
        self.wire = wire
        self._says = _patterns(table.says)
        self._says_after_names = _patterns(table.says_after_names)
        self._says_below = table.says_below
        self._names = _by_name(table.names)
        self._names_of = {server: _by_name(names) for server, names in table.names_of.items()}
        self._no_tools = _pattern(table.no_tools)
        self._waits = _pattern([table.waits] if table.waits else [])
        self._classes = {**common.classes, **table.classes}
        self._kept = common.kept
        self._statuses = {**common.statuses, **table.statuses}
        self._types = table.types
        self._leads = table.leads
        exact = {kind: (re.escape(lead),) for kind, lead in table.leads.items()}
        self._lead_patterns = _patterns(exact) if table.exact_leads else self._says

    def kind_of(self, message: str, names: Iterable[Any], status: int | None, server: str = "") -> ErrorClass:
        """The class of an error: by its message, else by its codes and types, the most specific first, else by its status."""
        is_telling = status is None or status < self._says_below
        if is_telling and (found := _found(self._says, message)):
            return found
        if self._no_tools.search(message):
            return InvalidRequestError
        if found := self._named(names, server):
            return found
        found = _found(self._says_after_names, message)
        # With these statuses the message may be about anything; but a filter, too, forbids (403).
        is_clear = status is not None and 401 <= status <= 404
        if found and (not is_clear or (status == 403 and found is ContentPolicyError)):
            return found
        return _class_of_status(status, self._classes)

    def _named(self, names: Iterable[Any], server: str) -> ErrorClass | None:
        own = self._names_of.get(server, {})
        for name in names:
            if isinstance(name, str):
                known = own.get(name) or self._names.get(name)
                if known := known or self._names.get(name.lower().partition(".")[0]):
                    return known
        return None

    def is_named(self, name: str) -> bool:
        """Whether it is a code or a type that the provider has."""
        return name in self._names

    def error(
        self,
        response: FailedResponse,
        kind: ErrorClass,
        message: str,
        *,
        code: Any = "",
        path: Any = "",
        request_id: Any = "",
        wait: float | None = None,
        envelope: Any,
    ) -> ProviderError:
        """An error as we raise it, with all of the envelope that it came in: its wire may have members that are newer than we are,
        and clients that act on them."""
        error = response.error(
            kind,
            message,
            code=TOOLS_UNSUPPORTED if self._no_tools.search(message) else code,
            path=path,
            request_id=request_id,
            retry_after=self._wait_in(message) if wait is None else wait,
        )
        if error.code != REDIRECT:
            error.wire, error.members = self.wire, _members(envelope)
        return error

    def _wait_in(self, message: str) -> float | None:
        """The wait that a rate limit gives in its sentence: 12ms, 3.89s, 6m0s (OAI-03). None if there is none."""
        found = self._waits.search(message)
        if found is None:
            return None
        spans = [(amount, unit) for amount, unit in _SPAN.findall(found[1].lower()) if amount.count(".") < 2]
        return sum(float(amount.strip(".") or 0) * _SECONDS[unit] for amount, unit in spans)

    # The other way

    def status_for(self, error: SegueError) -> int:
        if isinstance(error, InvalidRequestError) and error.status in self._kept:
            return error.status
        return _entry(error, self._statuses) or 500

    def type_for(self, error: SegueError) -> tuple[str, str | None]:
        """What an error is called on this wire, and its code; None if it has none."""
        status, types = self.status_for(error), self._types
        kind, *codes = _entry(error, types) or types.get(str(status)) or types[f"{status // 100}xx"]
        return kind, codes[0] if codes else None

    def message_for(self, error: SegueError) -> str:
        """The message for a client. Where the wire has no code for an error, a phrase that clients look for leads it."""
        message = redact_text(str(error)) or "The request failed."
        lead = _entry(error, self._leads)
        is_told = not lead or _found(self._lead_patterns, message) is type(error)
        return message if is_told else f"{lead}: {message}"

    def own_members(self, error: SegueError) -> Mapping[str, Any]:
        """What an error came with, if it came on this wire."""
        return error.members if isinstance(error, ProviderError) and error.wire == self.wire else {}

    def in_envelope(self, envelope: dict[str, Any], error: SegueError) -> dict[str, Any]:
        """The envelope of an error for a client, with what else the error came with if that was on the client's own wire."""
        return _filled(envelope, self.own_members(error))


def _filled(ours: dict[str, Any], came: Mapping[str, Any]) -> dict[str, Any]:
    filled = dict(ours)
    for name, value in came.items():
        held = filled.get(name)
        if held is None:
            filled[name] = value
        elif isinstance(held, dict) and isinstance(value, dict):
            filled[name] = _filled(held, value)
    return filled


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

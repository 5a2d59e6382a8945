"""Errors of OpenAI and of the servers that use its wire, both ways. Vendor wording lives here."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
from msgspec import Struct

from segue.dialects.errors import (
    MAX_MESSAGE,
    STATUSES,
    TOOLS_UNSUPPORTED,
    FailedResponse,
    class_of_status,
    entry_for,
    first_fault_place,
    in_envelope,
    read_response,
    status_for,
    wait_in,
    with_envelope,
)
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
    TransportError,
)
from segue.redaction import redact_text

if TYPE_CHECKING:
    from segue.dialects.openai_chat.rules import Variant

WIRE = "openai_chat"
"""All servers of this wire have the same error object."""
ErrorClass: TypeAlias = type[ProviderError]

BY_CODE: Mapping[str, ErrorClass] = {
    "invalid_api_key": CredentialsError,
    "wrong_api_key": CredentialsError,
    "invalid_authentication_error": CredentialsError,
    "authentication_error": CredentialsError,
    "permission_error": CredentialsError,
    "permission_denied_error": CredentialsError,
    "insufficient_quota": QuotaError,
    "exceeded_current_quota_error": QuotaError,  # KIM-21
    "billing_hard_limit_reached": QuotaError,
    "billing_not_active": QuotaError,
    "arrearage": QuotaError,
    "rate_limit_exceeded": RateLimitError,  # OAI-03
    "rate_limit_error": RateLimitError,
    "rate_limit_reached_error": RateLimitError,  # KIM-21
    "ratelimitreached": RateLimitError,
    "limit_requests": RateLimitError,
    "throttling": RateLimitError,
    "requests": RateLimitError,
    "tokens": RateLimitError,
    "engine_overloaded_error": OverloadError,
    "overloaded_error": OverloadError,
    "server_error": OverloadError,
    "service_unavailable": OverloadError,
    "internal_server_error": OverloadError,
    "tool_use_failed": OverloadError,  # GRQ-01: the model's own mistake, reported as a bad request
    "context_length_exceeded": ContextLengthError,  # CHAT-70
    "exceed_context_size_error": ContextLengthError,  # LCP-02
    "too_many_prompt_tokens": ContextLengthError,
    "max_tokens_per_request": ContextLengthError,
    "content_filter": ContentPolicyError,
    "content_policy_violation": ContentPolicyError,
    "datainspectionfailed": ContentPolicyError,
    "data_inspection_failed": ContentPolicyError,
    "model_not_found": InvalidRequestError,
    "unsupported_parameter": InvalidRequestError,
    "unsupported_value": InvalidRequestError,
}
"""Codes and types that mean one thing only. For those that may mean anything, phrases and status decide."""

_GLM: Mapping[str, ErrorClass] = {
    **dict.fromkeys(("1000", "1001", "1002", "1003", "1004", "1110", "1111", "1112"), CredentialsError),
    **dict.fromkeys(("1113", "1304", "1308", "1309"), QuotaError),
    **dict.fromkeys(("1302", "1303", "1305"), RateLimitError),
    "1301": ContentPolicyError,
    "1261": ContextLengthError,
    "1234": OverloadError,
}
_MINIMAX: Mapping[str, ErrorClass] = {
    **dict.fromkeys(("1000", "1001", "1013", "1024", "1033"), OverloadError),
    **dict.fromkeys(("1002", "1039", "1041"), RateLimitError),
    **dict.fromkeys(("1004", "2049"), CredentialsError),
    **dict.fromkeys(("1008", "2056"), QuotaError),
    **dict.fromkeys(("1026", "1027"), ContentPolicyError),
    "2013": InvalidRequestError,  # MMX-01
}
BY_VARIANT: Mapping[str, Mapping[str, ErrorClass]] = {"glm": _GLM, "minimax": _MINIMAX}
"""Codes that mean something with one server only."""

_TOO_LARGE = re.compile(r"request too large for|tokens must be reduced", re.IGNORECASE)
"""OAI-03: reported as a rate limit, but waiting will never help."""

_POLICY = re.compile(
    r"content management policy|content policy|usage polic(y|ies)|safety system|considered high risk"
    r"|inappropriate content|flagged (as|by|for)|was flagged",
    re.IGNORECASE,
)
_CONTEXT = re.compile(
    r"maximum context length|context[ _]length|context window|prompt (is )?too long|available context size"
    r"|exceeded model token limit|token limit (reached|exceeded)|input tokens exceeds|length of all messages is too long"
    r"|prompt exceeds max length|range of input length|`inputs` tokens \+ `max_new_tokens`"
    r"|context size has been exceeded|body: length limit exceeded",
    re.IGNORECASE,
)
_QUOTA = re.compile(
    r"exceeded (your|the) current quota|insufficient[ _](balance|credits?|funds|quota)|credit balance"
    r"|requires more credits|account .{0,40}in arrears|spending limit",
    re.IGNORECASE,
)
_KEY = re.compile(
    r"(incorrect|invalid|wrong) api[ -]?key|authentication fails|no auth credentials", re.IGNORECASE
)
_RATE = re.compile(r"rate[ -]limit|too many requests", re.IGNORECASE)
_BUSY = re.compile(r"overloaded|at capacity|currently loading|temporarily unavailable", re.IGNORECASE)
_NO_TOOLS = re.compile(
    r"does not support (tools|tool use|tool calling|function calling)|no endpoints found that support tool use"
    r"|requires --enable-auto-tool-choice|tools param requires --jinja|tool calling.{0,20} not supported"
    r"|tools is not supported in this model",
    re.IGNORECASE,
)
"""OLL-07, ORT-02, and the messages of servers that were started without tools."""
BY_PHRASE: tuple[tuple[re.Pattern[str], ErrorClass], ...] = (
    (_CONTEXT, ContextLengthError),
    (_QUOTA, QuotaError),
    (_KEY, CredentialsError),
    (_POLICY, ContentPolicyError),
    (_RATE, RateLimitError),
    (_BUSY, OverloadError),
)


def decode_error(variant: Variant, status: int, headers: Mapping[str, str], body: bytes) -> ProviderError:
    response, value = read_response(status, headers, body)
    read = _error_from(variant, _read(value) if value is not None else _ErrorFields(""), response)
    return with_envelope(read, WIRE, value)


def error_in_reply(variant: Variant, error: Any) -> ProviderError:
    """An error that came where an answer was expected, after status 200 (CHAT-64, ORT-01)."""
    fields = _read({"error": error} if not isinstance(error, Mapping) or "error" not in error else error)
    return with_envelope(_error_from(variant, fields, FailedResponse()), WIRE, {"error": error})


def _error_from(variant: Variant, fields: _ErrorFields, response: FailedResponse) -> ProviderError:
    message = fields.message = response.words(fields.message)
    wait = wait_in(message)
    response = response.judged_by(fields.status)
    return response.error(
        _classify(variant, fields, response.status),
        message,
        code=TOOLS_UNSUPPORTED if _NO_TOOLS.search(message) else fields.code,
        path=fields.param,
        request_id=fields.request_id,
        retry_after=fields.wait if wait is None else wait,
    )


class _ErrorFields(Struct):
    """What an error body holds, whatever its form."""

    message: str
    names: list[str] = []
    param: str = ""
    request_id: str = ""
    status: int = 0
    wait: float | None = None

    @property
    def code(self) -> str:
        """The most specific name: a code or a type, but not the status again."""
        return next((name for name in self.names if not (len(name) == 3 and name.isdigit())), "")


def _read(value: Any) -> _ErrorFields:
    if isinstance(value, list) and value:  # Gemini's own server on this wire
        value = value[0]
    if not isinstance(value, Mapping):
        return _ErrorFields(_text(value))
    inner = value.get("error")
    base = value.get("base_resp")  # MiniMax, with status 200
    if isinstance(base, Mapping) and not inner:
        inner = {"message": base.get("status_msg"), "code": base.get("status_code")}
    fields: Mapping[str, Any] = inner if isinstance(inner, Mapping) else value
    message = _text(fields.get("message") or fields.get("detail") or fields.get("msg"))
    if not isinstance(inner, Mapping):  # XAI-01, and many others: the error is the sentence
        message = _text(inner) or message
    names = (fields.get("code"), fields.get("type"))
    wait = value.get("estimated_time")
    found = _ErrorFields(
        message,
        [str(name) for name in names if isinstance(name, str | int) and name],
        _text(fields.get("param")) or first_fault_place(fields.get("detail")),
        _text(value.get("request_id") or fields.get("request_id")),
        _status(fields),
        float(wait) if isinstance(wait, int | float) else None,
    )
    _read_upstream(found, fields.get("metadata"))
    return found


def _read_upstream(found: _ErrorFields, metadata: Any) -> None:
    """ORT-01: the error of the provider behind OpenRouter."""
    raw = metadata.get("raw") if isinstance(metadata, Mapping) else None
    if not raw:
        return
    try:
        inner = _read(msgspec.json.decode(raw)) if isinstance(raw, str) else _read(raw)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        inner = _ErrorFields(_text(raw))
    found.message = f"{found.message}: {inner.message}" if inner.message else found.message
    found.names += inner.names
    found.param = found.param or inner.param


def _status(fields: Mapping[str, Any]) -> int:
    for name in ("status_code", "http_code", "code"):
        value = fields.get(name)
        if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) == 3:
            value = int(value)
        if isinstance(value, int) and 400 <= value <= 599:
            return value
    return 0


def _text(value: Any) -> str:
    """The start of a text: patterns are searched in it, and a server may send megabytes."""
    if isinstance(value, str):
        return value[:MAX_MESSAGE]
    if not value:
        return ""
    try:
        return msgspec.json.encode(value)[:MAX_MESSAGE].decode("utf-8", "ignore")
    except (TypeError, ValueError, OverflowError, RecursionError):
        return str(value)[:MAX_MESSAGE]


def _classify(variant: Variant, fields: _ErrorFields, status: int | None) -> ErrorClass:
    message = fields.message
    if _TOO_LARGE.search(message):
        return ContextLengthError
    if _NO_TOOLS.search(message):
        return InvalidRequestError
    own = BY_VARIANT.get(variant.name, {})
    for name in fields.names:
        kind = own.get(name) or BY_CODE.get(name.lower()) or BY_CODE.get(name.lower().partition(".")[0])
        if kind is not None:
            return kind
    if status is None or not 401 <= status <= 404:  # these are clear; the message may be about anything
        for names, kind in BY_PHRASE:
            if names.search(message):
                return kind
    if status == 498:  # Groq: no capacity
        return OverloadError
    if status == 403 and _POLICY.search(message):
        return ContentPolicyError
    return class_of_status(status)


# The other way

_STATUSES = {**STATUSES, QuotaError: 429, ProviderError: 502, TransportError: 502}
_CODES: Mapping[type[SegueError], tuple[str, str]] = {
    CredentialsError: ("authentication_error", "invalid_api_key"),
    QuotaError: ("insufficient_quota", "insufficient_quota"),
    RateLimitError: ("requests", "rate_limit_exceeded"),
    ContextLengthError: ("invalid_request_error", "context_length_exceeded"),
    ContentPolicyError: ("invalid_request_error", "content_policy_violation"),
    OverloadError: ("server_error", "service_unavailable"),
}
"""Type and code."""


def encode_error(error: SegueError) -> tuple[int, bytes]:
    """The status and body with which a server on this wire answers."""
    status, envelope = envelope_of(error)
    return status, msgspec.json.encode(envelope)


def envelope_of(error: SegueError) -> tuple[int, dict[str, Any]]:
    status = status_for(error, _STATUSES)
    default = ("server_error" if status >= 500 else "invalid_request_error", "")
    kind, code = entry_for(error, _CODES, default)
    message = redact_text(f"{error.message} {error.hint}".strip())
    fields = {"message": message, "type": kind, "param": error.path or None}
    envelope = {"error": {**fields, "code": code or error.code or None}}
    return status, in_envelope(envelope, error, WIRE)

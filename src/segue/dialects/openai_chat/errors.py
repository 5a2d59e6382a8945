"""Refusals in the words of OpenAI and of the servers that speak its wire, both ways. Vendor wording lives here."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from segue.dialects.errors import TOOLS_UNSUPPORTED
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
    TransportError,
)
from segue.redaction import redact_text

if TYPE_CHECKING:
    from segue.dialects.openai_chat.wire import Variant

Kind: TypeAlias = type[ProviderError]

BY_CODE: Mapping[str, Kind] = {
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
    "tool_use_failed": OverloadError,  # GRQ-01: the model's own mistake, told as a bad request
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
"""Codes and types that say one thing only. Those that may mean anything are told apart by words and status."""

_GLM: Mapping[str, Kind] = {
    **dict.fromkeys(("1000", "1001", "1002", "1003", "1004", "1110", "1111", "1112"), CredentialsError),
    **dict.fromkeys(("1113", "1304", "1308", "1309"), QuotaError),
    **dict.fromkeys(("1302", "1303", "1305"), RateLimitError),
    "1301": ContentPolicyError,
    "1261": ContextLengthError,
    "1234": OverloadError,
}
_MINIMAX: Mapping[str, Kind] = {
    **dict.fromkeys(("1000", "1001", "1013", "1024", "1033"), OverloadError),
    **dict.fromkeys(("1002", "1039", "1041"), RateLimitError),
    **dict.fromkeys(("1004", "2049"), CredentialsError),
    **dict.fromkeys(("1008", "2056"), QuotaError),
    **dict.fromkeys(("1026", "1027"), ContentPolicyError),
    "2013": InvalidRequestError,  # MMX-01
}
BY_VARIANT: Mapping[str, Mapping[str, Kind]] = {"glm": _GLM, "minimax": _MINIMAX}
"""Codes that mean something with one server only."""

_TOO_LARGE = re.compile(r"request too large for|tokens must be reduced", re.IGNORECASE)
"""OAI-03: told as a rate limit, but waiting will never help."""

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
"""OLL-07, ORT-02, and what servers say that were started without tools."""
BY_WORDS: tuple[tuple[re.Pattern[str], Kind], ...] = (
    (_CONTEXT, ContextLengthError),
    (_QUOTA, QuotaError),
    (_KEY, CredentialsError),
    (_POLICY, ContentPolicyError),
    (_RATE, RateLimitError),
    (_BUSY, OverloadError),
)

BY_STATUS: Mapping[int, Kind] = {
    400: InvalidRequestError,
    401: CredentialsError,
    402: QuotaError,
    403: CredentialsError,
    404: InvalidRequestError,
    408: OverloadError,
    413: ContextLengthError,
    422: InvalidRequestError,
    424: OverloadError,
    429: RateLimitError,
    451: ContentPolicyError,
    498: OverloadError,
}

_AGAIN_IN = re.compile(r"try again in ((?:[\d.]+(?:ms|h|m|s))+)")
_SPAN = re.compile(r"([\d.]+)(ms|h|m|s)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_REQUEST_IDS = ("x-request-id", "request-id", "x-trace-id", "apim-request-id", "x-groq-request-id", "cf-ray")
_KEPT = 65_536
"""Bytes of a body that an error keeps."""


def decode_error(variant: Variant, status: int, headers: Mapping[str, str], body: bytes) -> ProviderError:
    try:
        told: Any = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        told = None
    text = body[:_KEPT].decode("utf-8", "replace")
    refusal = _read(told) if told is not None else _Refusal(text.strip())
    message = refusal.message or f"The provider answered with status {status}."
    kind = _classify(variant, refusal, message, refusal.status or status)
    return kind(
        redact_text(message),
        code=TOOLS_UNSUPPORTED if _NO_TOOLS.search(message) else redact_text(refusal.code),
        path=refusal.param,
        status=status,
        request_id=next((headers[name] for name in _REQUEST_IDS if headers.get(name)), refusal.request_id),
        retry_after=_retry_after(headers, refusal),
        body=redact_text(text).encode(),
    )


def error_in_reply(variant: Variant, told: Any) -> ProviderError:
    """An error that came where an answer was expected, after status 200 (CHAT-64, ORT-01)."""
    refusal = _read({"error": told} if not isinstance(told, Mapping) or "error" not in told else told)
    message = refusal.message or "The provider broke off with an error."
    kind = _classify(variant, refusal, message, refusal.status)
    return kind(
        redact_text(message),
        code=TOOLS_UNSUPPORTED if _NO_TOOLS.search(message) else redact_text(refusal.code),
        path=refusal.param,
        status=refusal.status or None,
        request_id=refusal.request_id,
        retry_after=_retry_after({}, refusal),
    )


class _Refusal:
    """What an error body says, whatever its form."""

    __slots__ = ("message", "param", "request_id", "status", "wait", "words")

    def __init__(self, message: str) -> None:
        self.message = message
        self.words: list[str] = []
        self.param = ""
        self.request_id = ""
        self.status = 0
        self.wait: float | None = None

    @property
    def code(self) -> str:
        """The most telling word: a code or a type, but not the status said again."""
        return next((word for word in self.words if not (len(word) == 3 and word.isdigit())), "")


def _read(told: Any) -> _Refusal:
    if isinstance(told, list) and told:  # Gemini's own server on this wire
        told = told[0]
    if not isinstance(told, Mapping):
        return _Refusal(_text(told))
    inner = told.get("error")
    base = told.get("base_resp")  # MiniMax, with status 200
    if isinstance(base, Mapping) and not inner:
        inner = {"message": base.get("status_msg"), "code": base.get("status_code")}
    fields: Mapping[str, Any] = inner if isinstance(inner, Mapping) else told
    message = _text(fields.get("message") or fields.get("detail") or fields.get("msg"))
    if not isinstance(inner, Mapping):  # XAI-01, and many others: the error is the sentence
        message = _text(inner) or message
    refusal = _Refusal(message)
    refusal.words = [
        str(word) for word in (fields.get("code"), fields.get("type")) if isinstance(word, str | int) and word
    ]
    refusal.param = _text(fields.get("param"))
    refusal.request_id = _text(told.get("request_id") or fields.get("request_id"))
    refusal.status = _status(fields)
    wait = told.get("estimated_time")
    refusal.wait = float(wait) if isinstance(wait, int | float) else None
    _read_upstream(refusal, fields.get("metadata"))
    return refusal


def _read_upstream(refusal: _Refusal, metadata: Any) -> None:
    """ORT-01: what the provider behind OpenRouter said."""
    raw = metadata.get("raw") if isinstance(metadata, Mapping) else None
    if not raw:
        return
    try:
        inner = _read(msgspec.json.decode(raw)) if isinstance(raw, str) else _read(raw)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        inner = _Refusal(_text(raw))
    refusal.message = f"{refusal.message}: {inner.message}" if inner.message else refusal.message
    refusal.words += inner.words
    refusal.param = refusal.param or inner.param


def _status(fields: Mapping[str, Any]) -> int:
    for name in ("status_code", "http_code", "code"):
        value = fields.get(name)
        if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) == 3:
            value = int(value)
        if isinstance(value, int) and 400 <= value <= 599:
            return value
    return 0


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if not value:
        return ""
    try:
        return msgspec.json.encode(value).decode()
    except (TypeError, ValueError, OverflowError, RecursionError):
        return str(value)


def _classify(variant: Variant, refusal: _Refusal, message: str, status: int) -> Kind:
    if _TOO_LARGE.search(message):
        return ContextLengthError
    if _NO_TOOLS.search(message):
        return InvalidRequestError
    own = BY_VARIANT.get(variant.name, {})
    for word in refusal.words:
        kind = own.get(word) or BY_CODE.get(word.lower()) or BY_CODE.get(word.lower().partition(".")[0])
        if kind is not None:
            return kind
    if not 401 <= status <= 404:  # these say it all; the sentence may speak of anything
        for words, kind in BY_WORDS:
            if words.search(message):
                return kind
    known = BY_STATUS.get(status)
    if known is None:
        known = InvalidRequestError if 400 <= status < 500 else OverloadError
    if known is CredentialsError and status == 403 and _POLICY.search(message):
        return ContentPolicyError
    return known


def _retry_after(headers: Mapping[str, str], refusal: _Refusal) -> float | None:
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        value = headers.get(name, "").strip()
        # A date needs a clock to be understood, and is rare.
        if re.fullmatch(r"\d{1,9}(\.\d+)?", value) and float(value) > 0:
            return float(value) * unit
    found = _AGAIN_IN.search(refusal.message)
    if found:
        spans = [(amount, unit) for amount, unit in _SPAN.findall(found[1]) if amount.count(".") < 2]
        return sum(float(amount.strip(".") or 0) * _SECONDS[unit] for amount, unit in spans)
    return refusal.wait


_SAID: tuple[tuple[type[SegueError], int, str, str], ...] = (
    (CredentialsError, 401, "authentication_error", "invalid_api_key"),
    (QuotaError, 429, "insufficient_quota", "insufficient_quota"),
    (RateLimitError, 429, "requests", "rate_limit_exceeded"),
    (ContextLengthError, 400, "invalid_request_error", "context_length_exceeded"),
    (ContentPolicyError, 400, "invalid_request_error", "content_policy_violation"),
    (InvalidRequestError, 400, "invalid_request_error", ""),
    (OverloadError, 503, "server_error", "service_unavailable"),
    (ProviderError, 502, "server_error", ""),
    (TransportError, 502, "server_error", ""),
    (ProtocolError, 502, "server_error", ""),
)


def encode_error(error: SegueError) -> tuple[int, bytes]:
    """The same refusal as a server on this wire would give it: the status and the envelope."""
    status, envelope = envelope_of(error)
    return status, msgspec.json.encode(envelope)


def envelope_of(error: SegueError) -> tuple[int, dict[str, Any]]:
    fixable = error.remedy == "fix"
    otherwise = (
        SegueError,
        400 if fixable else 500,
        "invalid_request_error" if fixable else "server_error",
        "",
    )
    _, status, word, code = next((said for said in _SAID if isinstance(error, said[0])), otherwise)
    told = {"message": redact_text(error.message), "type": word, "param": error.path or None}
    return status, {"error": {**told, "code": code or error.code or None}}

"""Google's error answers: the envelope with its typed details, and its words for trouble on its own side."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec

from segue.emulators.http import ErrorWords
from segue.emulators.rules import Context, Refusal, rule

if TYPE_CHECKING:
    from segue.emulators.faults import Fault

STATUSES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    405: "UNIMPLEMENTED",
    409: "ABORTED",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
OVERLOADED = "The model is overloaded. Please try again later."
MESSAGES = {
    401: "Request had invalid authentication credentials.",
    403: "The caller does not have permission",
    503: OVERLOADED,
    504: "The request timed out. Please try again.",
}
NO_KEY = (
    "Method doesn't allow unregistered callers (callers without established identity). Please use API Key or other"
    " form of API consumer identity to call this API."
)
WRONG_KEY = "API key not valid. Please pass a valid API key."
RPC = "type.googleapis.com/google.rpc"
QUOTA = "generativelanguage.googleapis.com/generate_content_paid_tier_input_token_count"
QUOTA_ID = "GenerateContentPaidTierInputTokensPerModelPerMinute"
LIMIT = 1_000_000
# One line of what the parser could not place (GEM-11).
MISFIT = re.compile(
    r"Invalid JSON payload received\. Unknown name \".*?\"(?: at '(.*?)')?: .*|Invalid value at '(.*?)' .*"
)


def envelope(refusal: Refusal, context: Context) -> dict[str, Any]:
    status = refusal.type if refusal.type.isupper() else STATUSES.get(refusal.status, "UNKNOWN")
    error: dict[str, Any] = {"code": refusal.status, "message": refusal.message, "status": status}
    details = _details(refusal, context)
    return {"error": {**error, "details": details} if details else error}


def _details(refusal: Refusal, context: Context) -> list[dict[str, Any]]:
    if refusal.status == 429:
        return _quota_details(refusal.retry_after, context)
    if refusal.code == "API_KEY_INVALID":
        service = {"service": "generativelanguage.googleapis.com"}
        info = {"@type": f"{RPC}.ErrorInfo", "reason": refusal.code, "domain": "googleapis.com"}
        words = {"@type": f"{RPC}.LocalizedMessage", "locale": "en-US", "message": refusal.message}
        return [{**info, "metadata": service}, words]
    violations = list(_violations(refusal.message))
    return [{"@type": f"{RPC}.BadRequest", "fieldViolations": violations}] if violations else []


@rule("GEM-11")
def _violations(message: str) -> list[dict[str, str]]:
    found = []
    for line in message.split("\n"):
        misfit = MISFIT.fullmatch(line)
        if misfit is None:
            return []
        field = misfit[1] or misfit[2]
        found.append({"field": field, "description": line} if field else {"description": line})
    return found


@rule("GEM-44")
def _quota_details(wait: float | None, context: Context) -> list[dict[str, Any]]:
    violation = {
        "quotaMetric": QUOTA,
        "quotaId": QUOTA_ID,
        "quotaDimensions": {"model": context.model, "location": "global"},
        "quotaValue": str(LIMIT),
    }
    link = {
        "description": "Learn more about Gemini API quotas",
        "url": "https://ai.google.dev/gemini-api/docs/rate-limits",
    }
    details: list[dict[str, Any]] = [
        {"@type": f"{RPC}.Help", "links": [link]},
        {"@type": f"{RPC}.QuotaFailure", "violations": [violation]},
    ]
    if wait is not None:
        details.append({"@type": f"{RPC}.RetryInfo", "retryDelay": f"{wait:g}s"})
    return details


def headers(refusal: Refusal | None, context: Context) -> dict[str, str]:  # noqa: ARG001 - every provider's take both
    """No Retry-After: the waiting time stands in the body (GEM-44)."""
    return {"content-type": "application/json; charset=UTF-8", "server": "scaffolding on HTTPServer2"}


@rule("GEM-44")
def fault(fault: Fault, context: Context) -> Refusal:
    """Google's words for an error status that has nothing to do with the request's shape."""
    usual = MESSAGES.get(fault.status, "An internal error has occurred. Please retry or report the problem.")
    if fault.status == 429:
        usual = (
            "You exceeded your current quota, please check your plan and billing details. For more information on"
            " this error, head to: https://ai.google.dev/gemini-api/docs/rate-limits. To monitor your current usage,"
            f" head to: https://ai.dev/rate-limit. \n* Quota exceeded for metric: {QUOTA}, limit: {LIMIT},"
            f" model: {context.model}"
        )
        if fault.retry_after is not None:
            usual += f"\nPlease retry in {fault.retry_after:g}s."
    kind = STATUSES.get(fault.status, "UNAVAILABLE" if fault.status > 500 else "UNKNOWN")
    return Refusal("GEM-44", usual, type=kind)


@rule("GEM-57")
def stream_error(refusal: Refusal, context: Context) -> bytes:
    """An error after the stream has begun is one more chunk, the last."""
    return b"data: " + msgspec.json.encode(envelope(refusal, context)) + b"\r\n\r\n"


@rule("GEM-00")
def wrong_key(key: str) -> Refusal:
    if not key:
        return Refusal("GEM-00", NO_KEY, status=403, type="PERMISSION_DENIED")
    return Refusal("GEM-00", WRONG_KEY, type="INVALID_ARGUMENT", code="API_KEY_INVALID")


def not_json(_: bytes, problem: str) -> Refusal:
    return Refusal("GEM-11", f"Invalid JSON payload received. {problem}", type="INVALID_ARGUMENT")


ERRORS = ErrorWords(
    provider="gemini",
    envelope=envelope,
    headers=headers,
    fault=fault,
    not_json=not_json,
    wrong_key=wrong_key,
    stream_error=stream_error,
)

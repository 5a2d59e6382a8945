"""What refusals have in common on every wire: the class a status stands for, when to come back, and discretion."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from segue.errors import (
    ContextLengthError,
    CredentialsError,
    InvalidRequestError,
    OverloadError,
    ProviderError,
    QuotaError,
    RateLimitError,
    TranscriptError,
)
from segue.redaction import redact_text

if TYPE_CHECKING:
    from collections.abc import Mapping

_BY_STATUS: Mapping[int, type[ProviderError]] = {
    401: CredentialsError,
    402: QuotaError,
    403: CredentialsError,
    408: OverloadError,
    409: OverloadError,  # two requests got in each other's way: the same one may succeed now
    413: ContextLengthError,
    425: OverloadError,
    429: RateLimitError,
}
TOOLS_UNSUPPORTED = "tools_unsupported"
"""The code of the error for tools offered to a model that cannot take any: they can still be told in words."""
_REQUEST_IDS = ("request-id", "x-request-id", "apim-request-id", "cf-ray")


def class_of_status(status: int) -> type[ProviderError]:
    """The error an HTTP status stands for, when nothing better is known."""
    known = _BY_STATUS.get(status)
    if known is not None:
        return known
    if 400 <= status < 500:
        return InvalidRequestError
    return OverloadError if status >= 500 else ProviderError


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds to wait, when the headers say it in seconds. Dates need a clock, which we do not have here."""
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


def clean_body(body: bytes) -> bytes:
    """A refusal's body, fit to be kept."""
    told = body.decode("utf-8", "replace")
    clean = redact_text(told)
    return body if clean == told else clean.encode("utf-8", "replace")


def excerpt(body: bytes, status: int) -> str:
    """The message of a refusal whose body is not what this wire says refusals look like."""
    told = " ".join(redact_text(body[:2000].decode("utf-8", "replace")).split())
    return told[:300] or f"The provider answered with status {status} and no explanation."


def unencodable(wire: str, what: str, index: int | None = None) -> TranscriptError:
    """A transcript holds what a wire cannot express: refused, never repaired by a dialect.

    `index`: the step that holds it; None if it is the transcript as such.
    """
    return TranscriptError(
        f"The {wire} wire cannot say {what}.",
        code="rendered_for_another_target",
        path="" if index is None else f"steps[{index}]",
        hint="Render the conversation with the rules of this dialect first.",
    )

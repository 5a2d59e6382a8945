"""OpenAI's error answers: the envelope, the headers beside it, and its words for trouble on the server's side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from segue.emulators.http import sse
from segue.emulators.rules import Context, Refusal, rule

if TYPE_CHECKING:
    from segue.emulators.faults import Fault

NO_KEY = (
    "You didn't provide an API key. You need to provide your API key in an Authorization header using Bearer auth "
    "(i.e. Authorization: Bearer YOUR_KEY), or as the password field (with blank username) if you're accessing the "
    "API from your browser and are prompted for a username and password. You can obtain an API key from "
    "https://platform.openai.com/account/api-keys."
)
NOT_JSON = (
    "We could not parse the JSON body of your request. (HINT: This likely means you aren't using your HTTP library "
    "correctly. The OpenAI API expects a JSON payload, but what was sent was not valid JSON. If you have trouble "
    "figuring out how to fix this, please contact us through our help center at help.openai.com.)"
)
SERVER_ERROR = (
    "The server had an error while processing your request. Sorry about that! You can retry your request, or contact "
    "us through our help center at help.openai.com if the error persists."
)


def envelope(refusal: Refusal, context: Context) -> dict[str, Any]:  # noqa: ARG001 - every provider's envelope takes both
    return {
        "error": {
            "message": refusal.message,
            "type": refusal.type,
            "param": refusal.param,
            "code": refusal.code,
        }
    }


@rule("OAI-03", "H")
def headers(refusal: Refusal | None, context: Context) -> dict[str, str]:
    common = {
        "x-request-id": f"req_{context.reply_id}",
        "openai-organization": "emulated",
        "openai-processing-ms": "1",
        "openai-version": "2020-10-01",
        "x-ratelimit-limit-requests": "10000",
        "x-ratelimit-remaining-requests": "9999",
        "x-ratelimit-reset-requests": "6ms",
        "x-ratelimit-limit-tokens": "30000000",
        "x-ratelimit-remaining-tokens": "29999000",
        "x-ratelimit-reset-tokens": "2ms",
    }
    if refusal is not None and refusal.retry_after is not None:
        common["retry-after"] = f"{max(1, round(refusal.retry_after))}" if refusal.retry_after else "0"
        common["retry-after-ms"] = f"{round(refusal.retry_after * 1000)}"
    return common


@rule("OAI-03", "H")
def fault(fault: Fault, context: Context) -> Refusal:
    """OpenAI's words for an error status that has nothing to do with the request's shape."""
    match fault.status:
        case 429:
            wait = fault.retry_after if fault.retry_after is not None else 1.0
            text = (
                f"Rate limit reached for {context.model or 'gpt-4.1'} in organization org-emulated on tokens per min "
                f"(TPM): Limit 30000, Used 28039, Requested 3906. Please try again in {wait}s. "
                "Visit https://platform.openai.com/account/rate-limits to learn more."
            )
            return Refusal("OAI-03", text, type="tokens", code="rate_limit_exceeded")
        case 401:
            return Refusal("OAI-03", _incorrect("sk-emulated"), code="invalid_api_key")
        case 503:
            text = "The engine is currently overloaded, please try again later"
            return Refusal("OAI-03", text, type="server_error")
        case status if status >= 500:
            return Refusal("OAI-03", SERVER_ERROR, type="server_error")
        case _:
            return Refusal("OAI-03", "Bad request")


@rule("CHAT-64", "H")
def stream_error(refusal: Refusal, context: Context) -> bytes:
    """After HTTP 200 an error is one more data line; the stream ends without [DONE]."""
    return sse(envelope(refusal, context))


@rule("OAI-00", "H")
def wrong_key(key: str) -> Refusal:
    if not key:
        return Refusal("OAI-00", NO_KEY, status=401)
    return Refusal("OAI-00", _incorrect(key), status=401, code="invalid_api_key")


def _incorrect(key: str) -> str:
    shown = key if len(key) < 13 else key[:8] + "*" * (len(key) - 12) + key[-4:]
    return (
        f"Incorrect API key provided: {shown}. "
        "You can find your API key at https://platform.openai.com/account/api-keys."
    )


@rule("OAI-00", "H")
def not_json(*_: object) -> Refusal:
    return Refusal("OAI-00", NOT_JSON)

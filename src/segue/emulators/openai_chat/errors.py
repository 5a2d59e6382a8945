"""OpenAI's error answers: the envelope, the headers beside it, its words for trouble on the server's side, and for a
body of the wrong shape; Chat Completions and Responses share them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from segue.emulators.http import ErrorWords, sse
from segue.emulators.rules import Complaints, Confidence, Context, Refusal, rule

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from segue.emulators.faults import Fault


Types: TypeAlias = "Mapping[str, tuple[type | tuple[type, ...], str]]"
"""Parameters with their types, and the words for these."""


_KINDS: Mapping[type, str] = {
    type(None): "null",
    bool: "a boolean",
    str: "a string",
    int: "an integer",
    float: "a decimal",
    list: "an array",
}


def kind(value: object) -> str:
    """A JSON value's type with its article, as in "expected a string, but got an object instead"."""
    return _KINDS.get(type(value), "an object")


def listing(values: Sequence[str]) -> str:
    """`'a', 'b', and 'c'`."""
    quoted = [f"'{value}'" for value in values]
    if len(quoted) < 3:
        return " and ".join(quoted)
    return ", ".join(quoted[:-1]) + ", and " + quoted[-1]


@rule("CHAT-00", "H")
@rule("RESP-00", "H")
def not_an_object(rule_id: str, body: object) -> Refusal:
    text = f"Invalid type for request body: expected an object, but got {kind(body)} instead."
    return Refusal(rule_id, text, code="invalid_type")


def _refused(rule_id: str, text: str, code: str, path: str, confidence: Confidence = "H") -> Refusal:
    return Refusal(rule_id, text, code=code, param=path, confidence=confidence)


def missing(rule_id: str, path: str, confidence: Confidence = "H") -> Refusal:
    text = f"Missing required parameter: '{path}'."
    return _refused(rule_id, text, "missing_required_parameter", path, confidence)


def unknown(rule_id: str, path: str, confidence: Confidence = "H") -> Refusal:
    return _refused(rule_id, f"Unknown parameter: '{path}'.", "unknown_parameter", path, confidence)


def wrong_type(
    rule_id: str, path: str, expected: str, value: object, confidence: Confidence = "H"
) -> Refusal:
    text = f"Invalid type for '{path}': expected {expected}, but got {kind(value)} instead."
    return _refused(rule_id, text, "invalid_type", path, confidence)


def wrong_value(
    rule_id: str, path: str, value: str, allowed: Sequence[str], confidence: Confidence = "H"
) -> Refusal:
    text = f"Invalid value: '{value}'. Supported values are: {listing(allowed)}."
    return _refused(rule_id, text, "invalid_value", path, confidence)


def empty_array(rule_id: str, path: str, confidence: Confidence = "H") -> Refusal:
    text = f"Invalid '{path}': empty array. Expected an array with minimum length 1, but got an empty array instead."
    return _refused(rule_id, text, "empty_array", path, confidence)


def long_array(rule_id: str, path: str, most: int, length: int) -> Refusal:
    text = (
        f"Invalid '{path}': array too long. "
        f"Expected an array with maximum length {most}, but got an array with length {length} instead."
    )
    return _refused(rule_id, text, "array_above_max_length", path)


def long_string(rule_id: str, path: str, most: int, length: int, confidence: Confidence = "H") -> Refusal:
    text = (
        f"Invalid '{path}': string too long. "
        f"Expected a string with maximum length {most}, but got a string with length {length} instead."
    )
    return _refused(rule_id, text, "string_above_max_length", path, confidence)


def empty_string(rule_id: str, path: str) -> Refusal:
    text = f"Invalid '{path}': empty string. Expected a string with minimum length 1, but got an empty string instead."
    return _refused(rule_id, text, "empty_string", path)


def no_match(rule_id: str, path: str, pattern: str, confidence: Confidence = "H") -> Refusal:
    text = f"Invalid '{path}': string does not match pattern. Expected a string that matches the pattern '{pattern}'."
    return _refused(rule_id, text, "invalid_value", path, confidence)


def below_minimum(rule_id: str, path: str, least: int, value: float) -> Refusal:
    sort = "integer" if isinstance(value, int) and path.endswith("tokens") else "decimal"
    text = (
        f"Invalid '{path}': {sort} below minimum value. Expected a value >= {least}, but got {value} instead."
    )
    return _refused(rule_id, text, f"{sort}_below_min_value", path)


def above_maximum(rule_id: str, path: str, most: int, value: float) -> Refusal:
    text = (
        f"Invalid '{path}': decimal above maximum value. Expected a value <= {most}, but got {value} instead."
    )
    return _refused(rule_id, text, "decimal_above_max_value", path)


def unsupported_parameter(rule_id: str, path: str, hint: str = "", confidence: Confidence = "H") -> Refusal:
    text = f"Unsupported parameter: '{path}' is not supported with this model."
    return _refused(rule_id, f"{text} {hint}".rstrip(), "unsupported_parameter", path, confidence)


def no_such_model(model: str) -> Refusal:
    """Known from recordings."""
    return Refusal(
        "RESP-51",
        f"The model `{model}` does not exist or you do not have access to it.",
        status=404,
        code="model_not_found",
    )


@rule("OAI-08", "H")
def unstreamed(body: Mapping[str, Any], context: Context) -> Complaints:
    """Some models are streamed only to organisations that have proved who they are; all get whole replies of them."""
    if body.get("stream") is True and context.facts.get("streams") is False:
        text = (
            "Your organization must be verified to stream this model. Please go to: "
            "https://platform.openai.com/settings/organization/general and click on Verify Organization. "
            "If you just verified, it can take up to 15 minutes for access to propagate."
        )
        yield _refused("OAI-08", text, "unsupported_value", "stream")


def unsupported_effort(rule_id: str, param: str, effort: str, model: str, levels: Sequence[str]) -> Refusal:
    return Refusal(
        rule_id,
        f"Unsupported value: '{effort}' is not supported with the '{model}' model. "
        f"Supported values are: {listing(levels)}.",
        code="unsupported_value",
        param=param,
    )


def wrong_types(rule_id: str, body: Mapping[str, Any], types: Types) -> Complaints:
    """Parameters that are there, but not of the type that the specification names."""
    for name, (kinds, expected) in types.items():
        value = body.get(name)
        if value is None:
            continue
        if not isinstance(value, kinds) or (kinds is not bool and isinstance(value, bool)):
            yield wrong_type(rule_id, name, expected, value)


def out_of_range(rule_id: str, body: Mapping[str, Any], ranges: Mapping[str, tuple[int, int]]) -> Complaints:
    for name, (least, most) in ranges.items():
        value = body.get(name)
        if not isinstance(value, (int, float)) or isinstance(value, bool):
            continue
        if value < least:
            yield below_minimum(rule_id, name, least, value)
        elif value > most:
            yield above_maximum(rule_id, name, most, value)


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


ERRORS = ErrorWords(
    provider="openai",
    envelope=envelope,
    headers=headers,
    fault=fault,
    not_json=not_json,
    wrong_key=wrong_key,
    stream_error=stream_error,
)

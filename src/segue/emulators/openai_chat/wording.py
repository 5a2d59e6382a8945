"""OpenAI's own sentences for a body of the wrong shape; Chat Completions and Responses share them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from segue.emulators.rules import Complaints, Confidence, Context, Refusal, rule

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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


def no_such_model(rule_id: str, model: str) -> Refusal:
    """Known from recordings."""
    return Refusal(
        rule_id,
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

"""OpenAI's own sentences for a body of the wrong shape; Chat Completions and Responses share them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from segue.emulators.rules import Confidence, Refusal

if TYPE_CHECKING:
    from collections.abc import Sequence


def kind(value: object) -> str:
    """A JSON value's type with its article, as in "expected a string, but got an object instead"."""
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case str():
            return "a string"
        case int():
            return "an integer"
        case float():
            return "a decimal"
        case list():
            return "an array"
        case _:
            return "an object"


def listing(values: Sequence[str]) -> str:
    """`'a', 'b', and 'c'`."""
    quoted = [f"'{value}'" for value in values]
    if len(quoted) < 3:
        return " and ".join(quoted)
    return ", ".join(quoted[:-1]) + ", and " + quoted[-1]


def missing(rule: str, path: str, confidence: Confidence = "H") -> Refusal:
    return Refusal(
        rule,
        f"Missing required parameter: '{path}'.",
        code="missing_required_parameter",
        param=path,
        confidence=confidence,
    )


def unknown(rule: str, path: str, confidence: Confidence = "H") -> Refusal:
    return Refusal(
        rule, f"Unknown parameter: '{path}'.", code="unknown_parameter", param=path, confidence=confidence
    )


def wrong_type(rule: str, path: str, expected: str, value: object, confidence: Confidence = "H") -> Refusal:
    return Refusal(
        rule,
        f"Invalid type for '{path}': expected {expected}, but got {kind(value)} instead.",
        code="invalid_type",
        param=path,
        confidence=confidence,
    )


def wrong_value(
    rule: str, path: str, value: str, allowed: Sequence[str], confidence: Confidence = "H"
) -> Refusal:
    return Refusal(
        rule,
        f"Invalid value: '{value}'. Supported values are: {listing(allowed)}.",
        code="invalid_value",
        param=path,
        confidence=confidence,
    )


def empty_array(rule: str, path: str, confidence: Confidence = "H") -> Refusal:
    return Refusal(
        rule,
        f"Invalid '{path}': empty array. Expected an array with minimum length 1, but got an empty array instead.",
        code="empty_array",
        param=path,
        confidence=confidence,
    )


def long_array(rule: str, path: str, most: int, length: int) -> Refusal:
    return Refusal(
        rule,
        f"Invalid '{path}': array too long. Expected an array with maximum length {most}, but got an array with length {length} instead.",
        code="array_above_max_length",
        param=path,
    )


def long_string(rule: str, path: str, most: int, length: int, confidence: Confidence = "H") -> Refusal:
    return Refusal(
        rule,
        f"Invalid '{path}': string too long. Expected a string with maximum length {most}, but got a string with length {length} instead.",
        code="string_above_max_length",
        param=path,
        confidence=confidence,
    )


def empty_string(rule: str, path: str, confidence: Confidence = "H") -> Refusal:
    return Refusal(
        rule,
        f"Invalid '{path}': empty string. Expected a string with minimum length 1, but got an empty string instead.",
        code="empty_string",
        param=path,
        confidence=confidence,
    )


def no_match(rule: str, path: str, pattern: str, confidence: Confidence = "H") -> Refusal:
    return Refusal(
        rule,
        f"Invalid '{path}': string does not match pattern. Expected a string that matches the pattern '{pattern}'.",
        code="invalid_value",
        param=path,
        confidence=confidence,
    )


def below_minimum(rule: str, path: str, least: int, value: float) -> Refusal:
    sort = "integer" if isinstance(value, int) and path.endswith("tokens") else "decimal"
    return Refusal(
        rule,
        f"Invalid '{path}': {sort} below minimum value. Expected a value >= {least}, but got {value} instead.",
        code=f"{sort}_below_min_value",
        param=path,
    )


def above_maximum(rule: str, path: str, most: int, value: float) -> Refusal:
    return Refusal(
        rule,
        f"Invalid '{path}': decimal above maximum value. Expected a value <= {most}, but got {value} instead.",
        code="decimal_above_max_value",
        param=path,
    )


def unsupported_parameter(rule: str, path: str, hint: str = "", confidence: Confidence = "H") -> Refusal:
    return Refusal(
        rule,
        f"Unsupported parameter: '{path}' is not supported with this model." + (f" {hint}" if hint else ""),
        code="unsupported_parameter",
        param=path,
        confidence=confidence,
    )


def no_such_model(rule: str, model: str) -> Refusal:
    """Known from recordings."""
    return Refusal(
        rule,
        f"The model `{model}` does not exist or you do not have access to it.",
        status=404,
        code="model_not_found",
    )


def unsupported_effort(rule: str, param: str, effort: str, model: str, levels: Sequence[str]) -> Refusal:
    return Refusal(
        rule,
        f"Unsupported value: '{effort}' is not supported with the '{model}' model. "
        f"Supported values are: {listing(levels)}.",
        code="unsupported_value",
        param=param,
    )

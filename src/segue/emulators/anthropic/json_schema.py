"""Whether a value is a JSON Schema of draft 2020-12, as far as its own keywords go."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

TYPES = frozenset({"array", "boolean", "integer", "null", "number", "object", "string"})
DEEPEST = 100


def is_valid(schema: object, depth: int = 0) -> bool:
    if isinstance(schema, bool):
        return True
    if not isinstance(schema, dict) or depth > DEEPEST:
        return False
    return all(_fits(keyword, value, depth) for keyword, value in schema.items())


def _fits(keyword: str, value: Any, depth: int) -> bool:
    if keyword in _SUBSCHEMA:
        return is_valid(value, depth + 1)
    if keyword in _SUBSCHEMAS:
        return isinstance(value, list) and bool(value) and all(is_valid(item, depth + 1) for item in value)
    if keyword in _NAMED_SUBSCHEMAS:
        return isinstance(value, dict) and all(is_valid(item, depth + 1) for item in value.values())
    plain = _PLAIN.get(keyword)
    return plain is None or plain(value)


def _is_type(value: Any) -> bool:
    if isinstance(value, list):
        return bool(value) and all(isinstance(item, str) and item in TYPES for item in value)
    return isinstance(value, str) and value in TYPES


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_size(value: Any) -> bool:
    return _is_number(value) and value >= 0 and value % 1 == 0


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _is_pattern(value: Any) -> bool:
    if not isinstance(value, str):
        return False
    try:
        re.compile(value)
    except re.error:
        # The dialect is ECMA 262: what only Python cannot read may well be legal there.
        return "\\p{" in value or "(?<" in value
    return True


_SUBSCHEMA = frozenset(
    {
        "additionalProperties",
        "contains",
        "contentSchema",
        "else",
        "if",
        "items",
        "not",
        "propertyNames",
        "then",
        "unevaluatedItems",
        "unevaluatedProperties",
    }
)
_SUBSCHEMAS = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_NAMED_SUBSCHEMAS = frozenset({"$defs", "definitions", "dependentSchemas", "patternProperties", "properties"})
_PLAIN: Mapping[str, Callable[[Any], bool]] = {
    "$ref": _is_text,
    "$id": _is_text,
    "$schema": _is_text,
    "$anchor": _is_text,
    "title": _is_text,
    "description": _is_text,
    "format": _is_text,
    "pattern": _is_pattern,
    "type": _is_type,
    "required": _is_names,
    "enum": lambda value: isinstance(value, list),
    "minimum": _is_number,
    "maximum": _is_number,
    # Booleans here are the spelling of draft 4.
    "exclusiveMinimum": _is_number,
    "exclusiveMaximum": _is_number,
    "multipleOf": _is_number,
    "minLength": _is_size,
    "maxLength": _is_size,
    "minItems": _is_size,
    "maxItems": _is_size,
    "minProperties": _is_size,
    "maxProperties": _is_size,
    "uniqueItems": lambda value: isinstance(value, bool),
}

"""Whether a value is a JSON Schema of draft 2020-12, as far as its own keywords go, and what conforms to it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

TYPES = frozenset({"array", "boolean", "integer", "null", "number", "object", "string"})
_CLASSES = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}
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


def conforms(value: Any, schema: Mapping[str, Any], depth: int = 0) -> bool:
    """Whether a value has the type, members and choices that a schema asks for; other keywords are not judged."""
    kind = schema.get("type")
    kinds = kind if isinstance(kind, list) else [kind]
    if depth > DEEPEST or (kind is not None and not any(_has_type(value, name) for name in kinds)):
        return False
    if isinstance(schema.get("enum"), list) and value not in schema["enum"]:
        return False
    if isinstance(value, list) and isinstance(schema.get("items"), dict):
        return all(conforms(item, schema["items"], depth + 1) for item in value)
    return not isinstance(value, dict) or _members_conform(value, schema, depth)


def _members_conform(value: Mapping[str, Any], schema: Mapping[str, Any], depth: int) -> bool:
    properties = schema.get("properties")
    known = properties if isinstance(properties, dict) else {}
    required = schema.get("required")
    names = [name for name in required if isinstance(name, str)] if isinstance(required, list) else []
    if any(name not in value for name in names):
        return False
    if schema.get("additionalProperties") is False and any(name not in known for name in value):
        return False
    return all(
        conforms(value[name], inner, depth + 1)
        for name, inner in known.items()
        if name in value and isinstance(inner, dict)
    )


def _has_type(value: Any, kind: Any) -> bool:
    if kind == "number":
        return _is_number(value)
    if kind == "integer":
        return _is_number(value) and value % 1 == 0
    return kind not in _CLASSES or isinstance(value, _CLASSES[kind])


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

"""Is a value a JSON Schema of draft 7? Mistakes are reported in the words of the reference validator."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

Check: TypeAlias = Callable[[object], Iterator[str]]

_TYPES = frozenset({"array", "boolean", "integer", "null", "number", "object", "string"})
_NUMBERS = frozenset({"maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum"})
_STRINGS = frozenset(
    {
        "$id",
        "$schema",
        "$ref",
        "$comment",
        "title",
        "description",
        "pattern",
        "format",
        "contentMediaType",
        "contentEncoding",
    }
)
_COUNTS = frozenset({"maxLength", "minLength", "maxItems", "minItems", "maxProperties", "minProperties"})
_FLAGS = frozenset({"readOnly", "uniqueItems"})
_SCHEMAS = frozenset(
    {"additionalItems", "contains", "additionalProperties", "propertyNames", "if", "then", "else", "not"}
)
_SCHEMA_LISTS = frozenset({"allOf", "anyOf", "oneOf"})
_SCHEMA_MAPS = frozenset({"definitions", "properties", "patternProperties"})
_MAX_DEPTH = 100


def mistakes(schema: object, depth: int = 0) -> Iterator[str]:
    """What is wrong with the schema, outermost first; nothing when it is valid."""
    if isinstance(schema, bool) or depth > _MAX_DEPTH:
        return
    if not isinstance(schema, dict):
        yield f"{schema!r} is not of type 'object', 'boolean'"
        return
    for keyword, value in schema.items():
        yield from _keyword(keyword, value, depth + 1)


def _keyword(keyword: str, value: object, depth: int) -> Iterator[str]:
    if keyword in _SCHEMAS:
        yield from mistakes(value, depth)
    elif keyword in _SCHEMA_LISTS:
        yield from _schema_list(value, depth)
    elif keyword in _SCHEMA_MAPS:
        yield from _schema_map(value, depth)
    elif keyword == "items":
        yield from _either(value, mistakes(value, depth), _schema_list(value, depth))
    elif keyword == "dependencies":
        yield from _dependencies(value, depth)
    else:
        yield from _plain(keyword, value)


def _plain(keyword: str, value: object) -> Iterator[str]:
    if keyword == "type":
        yield from _type(value)
    elif keyword == "required":
        yield from _names(value)
    elif keyword in _COUNTS:
        yield from _count(value)
    elif keyword in _NUMBERS or keyword == "multipleOf":
        yield from _number(value, positive=keyword == "multipleOf")
    elif keyword in _STRINGS and not isinstance(value, str):
        yield f"{value!r} is not of type 'string'"
    elif keyword in _FLAGS and not isinstance(value, bool):
        yield f"{value!r} is not of type 'boolean'"
    elif keyword in ("enum", "examples") and not isinstance(value, list):
        yield f"{value!r} is not of type 'array'"


def _either(value: object, *attempts: Iterator[str]) -> Iterator[str]:
    if all(next(attempt, None) is not None for attempt in attempts):
        yield f"{value!r} is not valid under any of the given schemas"


def _type(value: object) -> Iterator[str]:
    known = isinstance(value, str) and value in _TYPES
    several = (
        isinstance(value, list)
        and len(value) > 0
        and all(isinstance(name, str) and name in _TYPES for name in value)
        and len(set(value)) == len(value)
    )
    if not known and not several:
        yield f"{value!r} is not valid under any of the given schemas"


def _names(value: object) -> Iterator[str]:
    if not isinstance(value, list):
        yield f"{value!r} is not of type 'array'"
        return
    for name in value:
        if not isinstance(name, str):
            yield f"{name!r} is not of type 'string'"
            return
    if len(set(value)) != len(value):
        yield f"{value!r} has non-unique elements"


def _count(value: object) -> Iterator[str]:
    whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    if isinstance(value, bool) or not whole:
        yield f"{value!r} is not of type 'integer'"
    elif isinstance(value, int | float) and value < 0:
        yield f"{value!r} is less than the minimum of 0"


def _number(value: object, *, positive: bool) -> Iterator[str]:
    if isinstance(value, bool) or not isinstance(value, int | float):
        yield f"{value!r} is not of type 'number'"
    elif positive and value <= 0:
        yield f"{value!r} is less than or equal to the minimum of 0"


def _schema_list(value: object, depth: int) -> Iterator[str]:
    if not isinstance(value, list):
        yield f"{value!r} is not of type 'array'"
    elif not value:
        yield f"{value!r} should be non-empty"
    else:
        for schema in value:
            yield from mistakes(schema, depth)


def _schema_map(value: object, depth: int) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f"{value!r} is not of type 'object'"
        return
    for schema in value.values():
        yield from mistakes(schema, depth)


def _dependencies(value: object, depth: int) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f"{value!r} is not of type 'object'"
        return
    for entry in value.values():
        yield from _either(entry, mistakes(entry, depth), _names(entry))

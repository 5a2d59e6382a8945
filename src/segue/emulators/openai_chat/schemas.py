"""JSON schemas of tool arguments: what OpenAI demands of them, and what `strict: true` adds.

Chat Completions and Responses share these rules; only the path to the schema differs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from segue.emulators.openai_chat.wording import wrong_type
from segue.emulators.rules import Complaints, Refusal, rule

COMBINATORS = ("oneOf", "anyOf", "allOf", "enum", "const", "not")
INNER = ("properties", "$defs", "definitions")


def schema_complaints(name: str, tool: Mapping[str, Any], path: str) -> Complaints:
    """`tool` holds `parameters` and `strict`; `path` leads to the parameters."""
    if "parameters" not in tool or tool["parameters"] is None:
        return
    schema = tool["parameters"]
    yield from not_an_object(schema, path)
    if not isinstance(schema, Mapping):
        return
    yield from not_an_object_schema(name, schema, path)
    yield from combinator_at_the_top(name, schema, path)
    if tool.get("strict") is True:
        yield from not_strict(name, schema, path)


def _invalid(rule_id: str, name: str, path: str, reason: str) -> Refusal:
    return Refusal(
        rule_id,
        f"Invalid schema for function '{name}': {reason}",
        code="invalid_function_parameters",
        param=path,
    )


@rule("CHAT-34", "M")
def not_an_object(schema: object, path: str) -> Complaints:
    if not isinstance(schema, Mapping):
        yield wrong_type("CHAT-34", path, "an object", schema, "M")


@rule("CHAT-32", "H")
def not_an_object_schema(name: str, schema: Mapping[str, Any], path: str) -> Complaints:
    """An empty schema is a function without arguments; anything else says `type: object`.

    The same refusal is also reported with `'type: null'` in place of `'type: "None"'`.
    """
    if schema and schema.get("type") != "object":
        found = schema.get("type")
        spelt = '"None"' if found is None else f'"{found}"'
        yield _invalid(
            "CHAT-32", name, path, f"schema must be a JSON Schema of 'type: \"object\"', got 'type: {spelt}'."
        )


@rule("CHAT-33", "H")
def combinator_at_the_top(name: str, schema: Mapping[str, Any], path: str) -> Complaints:
    """Older reports have the same sentence without `'const'`."""
    if any(key in schema for key in COMBINATORS):
        yield _invalid(
            "CHAT-33",
            name,
            path,
            "schema must have type 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'const'/'not' at the top level.",
        )


@rule("CHAT-35", "H")
@rule("RESP-31", "H")
def not_strict(name: str, schema: Mapping[str, Any], path: str) -> Complaints:
    for place, part in _objects(schema):
        if "allOf" in part:
            yield _strictly(name, path, place, "'allOf' is not permitted.")
        if part.get("type") != "object" and "properties" not in part:
            continue
        if part.get("additionalProperties") is not False:
            yield _strictly(
                name, path, place, "'additionalProperties' is required to be supplied and to be false."
            )
        absent = _absent_keys(part)
        if absent:
            yield _strictly(
                name,
                path,
                place,
                "'required' is required to be supplied and to be an array including every key in properties. "
                f"Missing '{absent[0]}'.",
            )


def _strictly(name: str, path: str, place: tuple[str, ...], reason: str) -> Refusal:
    return _invalid("CHAT-35", name, path, f"In context={place}, {reason}")


def _absent_keys(part: Mapping[str, Any]) -> list[str]:
    properties, required = part.get("properties"), part.get("required")
    if not isinstance(properties, Mapping):
        return []
    named = required if isinstance(required, list) else []
    return [key for key in properties if key not in named]


def _objects(schema: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], Mapping[str, Any]]]:
    """Every sub-schema with its place, outermost first; a loop, because a hostile schema may be very deep."""
    waiting: list[tuple[tuple[str, ...], Any]] = [((), schema)]
    while waiting:
        place, part = waiting.pop()
        if not isinstance(part, Mapping):
            continue
        yield place, part
        inner: list[tuple[tuple[str, ...], Any]] = []
        for key in INNER:
            named = part.get(key)
            if isinstance(named, Mapping):
                inner += [((*place, key, str(name)), value) for name, value in named.items()]
        for key in ("anyOf", "allOf"):
            listed = part.get(key)
            if isinstance(listed, list):
                inner += [((*place, key, str(n)), value) for n, value in enumerate(listed)]
        if "items" in part:
            inner.append(((*place, "items"), part["items"]))
        waiting += reversed(inner)

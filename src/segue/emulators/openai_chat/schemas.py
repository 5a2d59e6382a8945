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
        yield from not_strict(f"function '{name}'", schema, path)


def answer_schema_complaints(wanted: object, param: str) -> Complaints:
    """`wanted`: what holds `name`, `schema` and `strict` of an answer."""
    if (
        isinstance(wanted, Mapping)
        and wanted.get("strict") is True
        and isinstance(wanted.get("schema"), Mapping)
    ):
        yield from not_strict(f"response_format '{wanted.get('name')}'", wanted["schema"], param)


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
def not_strict(what: str, schema: Mapping[str, Any], path: str) -> Complaints:
    """`what`: the function or the response_format, by its name. Beyond the specification: what strict mode refuses by reports of 2026
    (a keyword beside `$ref`: langchainjs#11381; `oneOf`: oh-my-pi#920; no `type`: clawpatch#60; `uniqueItems`: clownfish#280; a format:
    oh-my-pi#206; no `items`: mcp-digitalocean#265)."""
    for place, part in _objects(schema):
        for reason in _not_strict_here(part):
            yield Refusal(
                "CHAT-35",
                f"Invalid schema for {what}: In context={place}, {reason}",
                code="invalid_function_parameters" if what.startswith("function") else "invalid_json_schema",
                param=path,
            )


_STRICT_FORMATS = ("date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid")


def _not_strict_here(part: Mapping[str, Any]) -> Iterator[str]:
    for keyword in ("allOf", "oneOf", "not", "if", "uniqueItems", "patternProperties"):
        if keyword in part:
            yield f"'{keyword}' is not permitted."
    if "$ref" in part and (beside := sorted(part.keys() - {"$ref", *INNER})):
        yield f"$ref cannot have keywords {{{', '.join(map(repr, beside))}}}."
    if not part.keys() & {"type", "anyOf", "$ref", "allOf", "oneOf"}:
        yield "schema must have a 'type' key."
    if isinstance(part.get("format"), str) and part["format"] not in _STRICT_FORMATS:
        yield f"'{part['format']}' is not a valid format."
    if part.get("type") == "array" and not isinstance(part.get("items"), Mapping):
        yield "array schema missing items."
    if part.get("type") == "object" or "properties" in part:
        if part.get("additionalProperties") is not False:
            yield "'additionalProperties' is required to be supplied and to be false."
        if absent := _absent_keys(part):
            yield (
                "'required' is required to be supplied and to be an array including every key in properties. "
                f"Missing '{absent[0]}'."
            )


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

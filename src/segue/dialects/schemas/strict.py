"""Schemas that a reply is held to word by word: what OpenAI's strict mode takes, and Anthropic's structured outputs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from segue.conversation.json_safe import ensure_json_safe
from segue.dialects.schemas.cleanup import MANY, NAMED, ONE, read_schema

if TYPE_CHECKING:
    from collections.abc import Mapping

_REFUSED: Final = frozenset(
    {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength"}
    | {"maxItems", "uniqueItems", "minProperties", "maxProperties"}
)
"""What Anthropic refuses in the schema of an answer; of `minItems` it takes 0 and 1.
https://platform.claude.com/docs/en/build-with-claude/structured-outputs"""


def closed_schema(schema: dict[str, Any]) -> tuple[dict[str, Any] | None, list[str]]:
    """The schema as Anthropic takes it, every object closed, and what could not be expressed; None, and why, if none of it
    can be."""
    lost: list[str] = []
    try:
        written = _closed(schema, "", lost)
    except _OpenError as error:
        return None, [f"{error.args[0] or 'root'}: properties that are not named cannot be allowed"]
    if _refers_to_itself(schema):
        return None, ["the target takes no schema that refers to itself"]
    return written, lost


def can_be_closed(schema: dict[str, Any]) -> bool:
    return closed_schema(ensure_json_safe(schema))[0] is not None


class _OpenError(Exception):
    """Something is left open that must be closed; the path to it, or why."""


def _closed(node: Any, path: str, lost: list[str]) -> Any:
    if not isinstance(node, dict):
        return node
    written: dict[str, Any] = {}
    for key, value in node.items():
        place = f"{path}.{key}" if path else key
        if key in _REFUSED or (key == "minItems" and value not in (0, 1)):
            lost.append(f"{place}: the target refuses this keyword")
        elif key in NAMED and isinstance(value, dict):
            written[key] = {name: _closed(held, f"{place}.{name}", lost) for name, held in value.items()}
        elif key in MANY and isinstance(value, list):
            written[key] = [_closed(held, f"{place}[{at}]", lost) for at, held in enumerate(value)]
        elif key in ONE:
            written[key] = _closed(value, place, lost)
        else:
            written[key] = value
    if node.get("type") == "object" or "properties" in node:
        if node.get("additionalProperties", False) is not False or "patternProperties" in node:
            raise _OpenError(path)
        written["additionalProperties"] = False
    return written


def _refers_to_itself(schema: dict[str, Any]) -> bool:
    """Whether a definition can be reached from itself, or is not there at all."""
    left = {"#": _references(schema)}
    for part in ("$defs", "definitions"):
        named = schema.get(part)
        for name, held in named.items() if isinstance(named, dict) else ():
            left[f"#/{part}/{name}"] = _references(held)
    while done := {name for name, named in left.items() if not named}:
        left = {name: named - done for name, named in left.items() if name not in done}
    return bool(left)


def _references(node: Any) -> set[str]:
    if isinstance(node, list):
        return set().union(*map(_references, node))
    if not isinstance(node, dict):
        return set()
    inner = [held for key, held in node.items() if key not in ("$defs", "definitions")]
    own = {node["$ref"]} if isinstance(node.get("$ref"), str) else set()
    return own.union(*map(_references, inner))


_STRICT_FORMATS: Final = frozenset(
    {"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"}
)
_UNSAID: Final = frozenset(
    {
        "default",
        "examples",
        "discriminator",
        "deprecated",
        "readOnly",
        "writeOnly",
        "$schema",
        "$id",
        "$anchor",
        "$comment",
    }
)
"""What strict mode refuses, and without which nothing is lost of which values are right."""
_DESCRIBED: Final = frozenset(
    {
        "minLength",
        "maxLength",
        "uniqueItems",
        "minProperties",
        "maxProperties",
        "contentEncoding",
        "contentMediaType",
    }
)
"""What strict mode refuses, and a description can say."""
_INEXPRESSIBLE: Final = frozenset(
    {
        "not",
        "if",
        "then",
        "else",
        "dependentRequired",
        "dependentSchemas",
        "patternProperties",
        "propertyNames",
    }
    | {"contains", "minContains", "maxContains", "unevaluatedItems", "unevaluatedProperties", "contentSchema"}
)
_JSON_TYPES: Final[Mapping[type, str]] = {
    type(None): "null",
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    dict: "object",
    list: "array",
}


def strict_schema(schema: dict[str, Any]) -> tuple[dict[str, Any] | None, list[str]]:
    """The schema as OpenAI's strict mode takes it, and what its descriptions say instead; None, and why, where it must be sent without.
    https://developers.openai.com/api/docs/guides/structured-outputs"""
    read, notes = read_schema(schema)
    try:
        written = _strictly(read, "", notes)
    except _OpenError as error:
        return None, [str(error.args[0])]
    if written.get("type") != "object":
        return None, ["root: it is no object"]
    return written, notes


def _strictly(node: Any, path: str, notes: list[str]) -> dict[str, Any]:
    if not isinstance(node, dict):
        raise _OpenError(f"{path or 'root'}: it is left open")
    if refused := sorted(_INEXPRESSIBLE & node.keys()):
        raise _OpenError(f"{path or 'root'}: strict schemas have no {refused[0]}")
    node = _plain_choice({key: held for key, held in node.items() if key not in _UNSAID}, path, notes)
    written: dict[str, Any] = {}
    remarks: list[str] = []
    for key, held in node.items():
        place = f"{path}.{key}" if path else key
        if key in _DESCRIBED or (key == "format" and held not in _STRICT_FORMATS) or _looks_around(key, held):
            remarks.append(f"{key}: {json.dumps(held, ensure_ascii=False)}")
            notes.append(f"{path or 'root'}: {key} goes into the description")
        elif key in NAMED and isinstance(held, dict):
            written[key] = {name: _strictly(inner, f"{place}.{name}", notes) for name, inner in held.items()}
        elif key in MANY and isinstance(held, list):
            written[key] = [_strictly(inner, f"{place}[{at}]", notes) for at, inner in enumerate(held)]
        elif key == "items":
            written[key] = _strictly(held, place, notes)
        else:
            written[key] = held
    if remarks:
        written["description"] = f"{written.get('description', '')} ({'; '.join(remarks)})".strip()
    return _closed_and_typed(written, path)


def _plain_choice(node: dict[str, Any], path: str, notes: list[str]) -> dict[str, Any]:
    """Without `oneOf`, `allOf` and tuples."""
    node = dict(node)
    if "allOf" in node:
        if len(node["allOf"]) != 1 or "anyOf" in node:
            raise _OpenError(f"{path or 'root'}: strict schemas have no allOf")
        node["anyOf"] = node.pop("allOf")
    if "oneOf" in node:
        if "anyOf" in node:
            raise _OpenError(f"{path or 'root'}: strict schemas have no oneOf")
        node["anyOf"] = node.pop("oneOf")
    if "prefixItems" in node:
        items = [*node.pop("prefixItems"), *([node["items"]] if isinstance(node.get("items"), dict) else [])]
        different = [item for at, item in enumerate(items) if item not in items[:at]]
        node["items"] = different[0] if len(different) == 1 else {"anyOf": different}
        notes.append(f"{path or 'root'}: which item stands where cannot be expressed")
    return node


def _looks_around(key: str, held: Any) -> bool:
    return key == "pattern" and isinstance(held, str) and "(?" in held.replace("(?:", "")


def _closed_and_typed(node: dict[str, Any], path: str) -> dict[str, Any]:
    if "$ref" in node:
        # Nothing may stand beside a reference, but beside a choice it may.
        said = {key: node[key] for key in ("description",) if node.get(key)}
        return {"anyOf": [{"$ref": node["$ref"]}], **said} if said else {"$ref": node["$ref"]}
    if "type" not in node and "anyOf" not in node:
        values = node["enum"] if "enum" in node else [node["const"]] if "const" in node else []
        types = list(dict.fromkeys(_JSON_TYPES.get(type(value), "object") for value in values))
        if not types:
            raise _OpenError(f"{path or 'root'}: it is left open")
        node["type"] = types[0] if len(types) == 1 else types
    kinds = node.get("type", ())
    kinds = (kinds,) if isinstance(kinds, str) else kinds
    if "array" in kinds and "items" not in node:
        raise _OpenError(f"{path or 'root'}: its items are left open")
    if "object" in kinds:
        node.setdefault("properties", {})
    if "properties" in node and not (
        node.get("additionalProperties") is False and {*node.get("required", ())} == node["properties"].keys()
    ):
        raise _OpenError(f"{path or 'root'}: it allows other properties, or does not require all")
    return node


def is_strict(schema: Any) -> bool:
    """Whether every object in it names all its properties as required and allows no others."""
    if isinstance(schema, list):
        return all(is_strict(inner) for inner in schema)
    if not isinstance(schema, dict):
        return True
    properties, required = schema.get("properties") or {}, schema.get("required") or []
    definitions = schema.get("$defs") or {}
    if not (isinstance(properties, dict) and isinstance(required, list) and isinstance(definitions, dict)):
        return False
    if schema.get("type") == "object" or "properties" in schema:
        names = {name for name in required if isinstance(name, str)}
        if schema.get("additionalProperties") is not False or names != set(properties):
            return False
    named = (*properties.values(), *definitions.values())
    inner = (schema.get("items"), schema.get("anyOf"), schema.get("prefixItems"))
    return "allOf" not in schema and all(is_strict(held) for held in (*named, *inner))

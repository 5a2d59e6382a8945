"""Schemas that a reply is held to word by word: what OpenAI's strict mode takes, and Anthropic's structured outputs."""

from __future__ import annotations

from typing import Any, Final

from segue.conversation.json_safe import ensure_json_safe
from segue.dialects.schemas.cleanup import MANY, NAMED, ONE

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
    """An object allows properties that it does not name; the path to it."""


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

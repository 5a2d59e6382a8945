"""Whether a schema is one that strict mode takes (CHAT-35, RESP-31)."""

from __future__ import annotations

from typing import Any


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

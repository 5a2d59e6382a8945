"""Several schemas as one: what holds for all of them, and what holds for any of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from segue.dialects.schemas.cleanup import TYPES, resolve

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from segue.dialects.schemas.cleanup import Schema

ANNOTATIONS = frozenset({"title", "description", "default", "examples", "deprecated", "$comment"})
_COMBINATORS = ("allOf", "anyOf", "oneOf")
_ROOT_ONLY = ("enum", "const", "not")
_MAX_NESTING = 20


def both(one: Schema, other: Schema, path: str, notes: list[str]) -> Schema:
    """One schema that asks for what both ask for; of two values that disagree the first stands."""
    merged = dict(one)
    for key, value in other.items():
        held: Any = merged.get(key)
        if key not in merged or held == value:
            merged[key] = value
        elif key == "properties":
            merged[key] = _joined(held, value, "allOf")
        elif key == "required":
            merged[key] = [*held, *(name for name in value if name not in held)]
        elif key == "allOf":
            merged[key] = [*held, *value]
        elif key == "type":
            merged[key] = _common_type(held, value, path, notes)
        elif key == "enum":
            merged[key] = [allowed for allowed in held if allowed in value] or held
        elif key in ("additionalProperties", "unevaluatedProperties") and value is False:
            merged[key] = False
        elif key not in ANNOTATIONS:
            notes.append(f"{path or 'root'}: two different {key}, the first stands")
    return merged


def either(branches: Sequence[Schema]) -> Schema:
    """One object schema that takes whatever one of the branches takes, and more."""
    merged: Schema = {}
    for branch in branches:
        for key, value in branch.items():
            if key != "properties":
                merged.setdefault(key, value)
        merged["properties"] = _joined(merged.get("properties", {}), branch.get("properties", {}), "anyOf")
    required = [branch.get("required", ()) for branch in branches]
    shared = [name for name in required[0] if all(name in names for names in required)]
    kept = {key: value for key, value in merged.items() if all(b.get(key) == value for b in branches)}
    kept["properties"] = merged["properties"]
    kept.pop("required", None)
    if shared:
        kept["required"] = shared
    return kept


def as_object(read: Schema, notes: list[str]) -> Schema:
    """The schema with an object at its root and no combinator beside it (CHAT-32, CHAT-33, ANT-41)."""
    flat = _flattened(read, read, notes, 0)
    if not _may_be_object(flat):
        notes.append(f"root: arguments are an object, not {flat['type']}; left open")
        flat = {key: value for key, value in flat.items() if key in ("description", "title")}
    for key in _ROOT_ONLY:
        if key in flat:
            del flat[key]
            notes.append(f"root: {key} cannot be expressed")
    # `type` and `properties` come first: that is how people read a schema.
    flat.pop("type", None)
    return {"type": "object", "properties": {}, **flat}


def _flattened(node: Any, root: Schema, notes: list[str], nesting: int) -> Schema:
    if not isinstance(node, dict) or nesting > _MAX_NESTING:
        return {}
    flat = dict(node)
    for key in (*_COMBINATORS, "$ref"):
        flat.pop(key, None)
    if "$ref" in node:
        found = resolve(root, node["$ref"])
        if found is None or nesting == _MAX_NESTING:
            notes.append("root: its reference leads nowhere, left open")
        flat = both(flat, _flattened(found, root, notes, nesting + 1), "", notes)
    for part in node.get("allOf", ()):
        flat = both(flat, _flattened(part, root, notes, nesting + 1), "", notes)
    for key in ("anyOf", "oneOf"):
        if not node.get(key):
            continue
        branches = [_flattened(branch, root, notes, nesting + 1) for branch in node[key]]
        objects = [branch for branch in branches if _may_be_object(branch)]
        if len(branches) > 1 or not objects:
            notes.append(f"root: the choice between {len(branches)} shapes ({key}) is sent as one shape")
        if objects:
            flat = both(flat, either(objects), "", notes)
    return flat


def _may_be_object(schema: Schema) -> bool:
    kinds = schema.get("type", "object")
    return "object" in (kinds if isinstance(kinds, list) else [kinds])


def _joined(one: Schema, other: Schema, how: str) -> Schema:
    joined = dict(one)
    for name, schema in other.items():
        held = joined.get(name, schema)
        joined[name] = schema if held == schema else {how: [*_parts(held, how), *_parts(schema, how)]}
    return joined


def _parts(schema: Any, how: str) -> Iterable[Any]:
    if isinstance(schema, dict) and set(schema) == {how}:
        parts: list[Any] = schema[how]
        return parts
    return [schema]


def _common_type(one: Any, other: Any, path: str, notes: list[str]) -> Any:
    first, second = (kinds if isinstance(kinds, list) else [kinds] for kinds in (one, other))
    common = [kind for kind in TYPES if kind in first and kind in second]
    if "number" in first + second and "integer" in first + second and "number" not in common:
        common = list(dict.fromkeys([*common, "integer"]))
    if not common:
        notes.append(f"{path or 'root'}: no value is of both types, the first stands")
        return one
    return common if len(common) > 1 else common[0]

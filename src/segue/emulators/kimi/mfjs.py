"""Moonshot Flavored JSON Schema: what the tool schemas of Kimi may hold (KIM-15).

The sentences are those of the vendor's open-source validator. Which level of it runs differs by endpoint: mistakes
that were seen refused are H, its remaining limits M.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from msgspec import Struct

from segue.emulators.rules import Confidence

Schema: TypeAlias = Mapping[str, Any]
Place: TypeAlias = tuple[str, ...]

_TYPES: Mapping[str, tuple[type, ...]] = {
    "null": (type(None),),
    "boolean": (bool,),
    "object": (dict,),
    "array": (list,),
    "number": (int, float),
    "integer": (int,),
    "string": (str,),
}
_BESIDE = frozenset({"description", "title"})
_ROOT_ONLY = frozenset({"$defs", "$id"})
_RESERVED = frozenset({"$defs", "$ref", "anyOf", "required", "additionalProperties"})
_MAX_PROPERTIES, _MAX_DEPTH, _MAX_ANY_OF, _MAX_ENUM_VALUES = 100, 5, 10, 500


class Mistake(Struct, frozen=True):
    """One thing that is wrong with a schema, and where."""

    place: Place
    what: str
    confidence: Confidence = "H"

    def __str__(self) -> str:
        return f"At path '{'.'.join(self.place) or 'root'}': {self.what}"


def mistakes(root: Schema) -> Iterator[Mistake]:
    """A loop, not a recursion: a hostile schema may be very deep."""
    waiting: list[tuple[Place, Any, int]] = [((), root, 0)]
    properties = values = 0
    while waiting:
        place, node, depth = waiting.pop()
        yield from _node(place, node, root)
        if not isinstance(node, dict):
            continue
        properties += len(node["properties"]) if isinstance(node.get("properties"), dict) else 0
        values += len(node["enum"]) if isinstance(node.get("enum"), list) else 0
        if depth == _MAX_DEPTH + 1:
            yield Mistake(place, "schema depth exceeds maximum limit", "M")
        waiting += reversed(list(_inside(place, node, depth)))
    if properties > _MAX_PROPERTIES:
        yield Mistake((), f"the number of properties exceeds maximum limit {_MAX_PROPERTIES}", "M")
    if values > _MAX_ENUM_VALUES:
        yield Mistake((), f"the number of enum values exceeds maximum limit {_MAX_ENUM_VALUES}", "M")


def _inside(place: Place, node: Schema, depth: int) -> Iterator[tuple[Place, Any, int]]:
    for key in ("properties", "$defs"):
        named = node.get(key)
        for name, inner in named.items() if isinstance(named, dict) else ():
            if isinstance(inner, dict):
                yield (*place, key, name), inner, depth + (key == "properties")
    branches = node.get("anyOf")
    for inner in branches if isinstance(branches, list) else ():
        yield (*place, "anyOf"), inner, depth
    if isinstance(node.get("items"), dict):
        yield (*place, "items"), node["items"], depth
    extra = node.get("additionalProperties")
    if isinstance(extra, dict) and extra:
        yield (*place, "additionalProperties"), extra, depth


def _node(place: Place, node: object, root: Schema) -> Iterator[Mistake]:
    if not isinstance(node, dict):
        yield Mistake(place, "schema must be a dict")
        return
    if "$ref" in node:
        yield from _reference(place, node, root)
    elif "anyOf" in node:
        yield from _any_of(place, node)
    else:
        yield from _types(place, node)
    if place:
        for keyword in sorted(_ROOT_ONLY & node.keys()):
            yield Mistake(place, f"{keyword} must be at root level", "M")
    yield from _properties(place, node)
    yield from _required(place, node)
    if "items" in node and not (isinstance(node["items"], dict) and node["items"]):
        yield Mistake(place, "items must be an object")
    yield from _enum(place, node)


def _types(place: Place, node: Schema) -> Iterator[Mistake]:
    if "type" not in node:
        if place or node:
            yield Mistake(place, "type is not defined")
        return
    named = node["type"] if isinstance(node["type"], list) else [node["type"]]
    if not all(isinstance(name, str) for name in named):
        yield Mistake(place, "type must be string or array of strings")
    elif not named:
        yield Mistake(place, "type array cannot be empty")
    elif unknown := [name for name in named if name not in _TYPES]:
        yield Mistake(place, f"invalid type: {unknown[0]}")


def _reference(place: Place, node: Schema, root: Schema) -> Iterator[Mistake]:
    target = node["$ref"]
    if not isinstance(target, str):
        yield Mistake(place, "$ref must be a string")
        return
    if "type" in node:
        yield Mistake(
            place,
            "when using $ref, type should be defined in the referenced schema instead of the parent schema",
        )
    yield from _siblings(place, node, "$ref")
    if target == "#":
        return
    if not target.startswith("#/$defs/"):
        yield Mistake(place, "references must start with #/$defs/")
        return
    definitions = root.get("$defs")
    found = definitions.get(target.removeprefix("#/$defs/")) if isinstance(definitions, dict) else None
    if not isinstance(found, dict):
        yield Mistake(place, f"$defs not found for reference {target}")
    elif doubled := sorted(_BESIDE & node.keys() & found.keys()):
        yield Mistake(place, f"conflicting keywords found after $ref expansion: {', '.join(doubled)}")


def _any_of(place: Place, node: Schema) -> Iterator[Mistake]:
    if "type" in node:
        yield Mistake(
            place, "when using anyOf, type should be defined in anyOf items instead of the parent schema"
        )
    yield from _siblings(place, node, "anyOf")
    branches = node["anyOf"]
    if not isinstance(branches, list):
        yield Mistake(place, "anyOf must be an array")
    elif not 1 <= len(branches) <= _MAX_ANY_OF:
        yield Mistake(place, f"anyOf must have between 1 and {_MAX_ANY_OF} items", "M")


def _siblings(place: Place, node: Schema, keyword: str) -> Iterator[Mistake]:
    allowed = _BESIDE | {keyword, "type"} | (frozenset() if place else _ROOT_ONLY | {"$schema"})
    for name in sorted(node.keys() - allowed):
        yield Mistake(place, f"keyword '{name}' is not allowed at the same level as {keyword}")


def _properties(place: Place, node: Schema) -> Iterator[Mistake]:
    if "properties" not in node:
        return
    named = node["properties"]
    if not isinstance(named, dict):
        yield Mistake(place, "properties must be an object")
        return
    for name, inner in named.items():
        if not isinstance(inner, dict):
            yield Mistake((*place, "properties"), f"property schema for '{name}' must be an object")
        if name in _RESERVED:
            yield Mistake((*place, "properties"), f"property name '{name}' is reserved for JSON Schema", "M")


def _required(place: Place, node: Schema) -> Iterator[Mistake]:
    if "required" not in node:
        return
    required, named = node["required"], node.get("properties")
    if not isinstance(required, list):
        yield Mistake(place, "required must be an array")
        return
    for name in required:
        if not isinstance(name, str):
            yield Mistake(place, "items in required array must be strings")
        elif isinstance(named, dict) and name not in named:
            yield Mistake(place, f"required property '{name}' is not defined in properties")
        elif named is None:
            yield Mistake(place, "'properties' keyword is missing")


def _enum(place: Place, node: Schema) -> Iterator[Mistake]:
    if "enum" not in node:
        return
    values, kinds = node["enum"], node.get("type")
    if not isinstance(values, list):
        yield Mistake(place, "enum must be an array")
        return
    if not values:
        yield Mistake(place, "enum array cannot be empty")
    listed = kinds if isinstance(kinds, list) else [kinds]
    names = [name for name in listed if isinstance(name, str) and name in _TYPES]
    if len(names) < len(listed):
        return
    for value in values:
        if not any(_is(value, name) for name in names):
            yield Mistake(
                (*place, "enum"),
                f"enum value ({_spelt(value)}) does not match any type in [{' '.join(names)}]",
            )


def _is(value: object, name: str) -> bool:
    if isinstance(value, bool):
        return name == "boolean"
    if name == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _TYPES[name])


def _spelt(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return "<nil>" if value is None else str(value)

"""Any JSON value read as a JSON Schema: what is no legal keyword is dropped and named, references are written out.

Depth and size are bounded, so a schema that refers to itself, or that grows without end when its references are
written out, is cut where it begins to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from segue.conversation.json_safe import ensure_json_safe

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

Schema: TypeAlias = dict[str, Any]

TYPES = ("string", "number", "integer", "boolean", "object", "array", "null")
_TYPES = frozenset(TYPES)
MAX_DEPTH = 40
MAX_NODES = 10_000

ONE = frozenset(
    {
        "additionalItems",
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
"""Keywords that hold a schema."""
MANY = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
"""Keywords that hold a list of schemas."""
NAMED = frozenset({"$defs", "definitions", "dependentSchemas", "patternProperties", "properties"})
"""Keywords that hold schemas by name."""


def _is_type(value: Any) -> bool:
    return (
        value in TYPES
        if isinstance(value, str)
        else _is_names(value) and bool(value) and set(value) <= _TYPES
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_size(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_names(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_text, value)) and len(set(value)) == len(value)


def _is_list(value: Any) -> bool:
    return isinstance(value, list) and bool(value)


_FITS: Mapping[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("$ref", "$id", "$schema", "$anchor", "$comment", "title", "description"), _is_text),
    **dict.fromkeys(("format", "pattern", "contentMediaType", "contentEncoding"), _is_text),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), _is_number),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems"), _is_size),
    **dict.fromkeys(("minProperties", "maxProperties", "minContains", "maxContains"), _is_size),
    "multipleOf": lambda value: _is_number(value) and value > 0,
    "uniqueItems": lambda value: isinstance(value, bool),
    "readOnly": lambda value: isinstance(value, bool),
    "writeOnly": lambda value: isinstance(value, bool),
    "deprecated": lambda value: isinstance(value, bool),
    "type": _is_type,
    "required": _is_names,
    "enum": _is_list,
    "examples": lambda value: isinstance(value, list),
}


def read_schema(value: Any, *, inline: bool = False) -> tuple[Schema, list[str]]:
    """The value as a valid schema, its references kept or written out, and what had to be dropped."""
    if value is None:
        return {}, []
    if not isinstance(value, dict):
        return {}, ["the schema is not an object and was dropped"]
    root = ensure_json_safe(value)
    reader = _Reader(root, inline=inline)
    return reader.read(root, "", (), 0), reader.notes


class _Reader:
    def __init__(self, root: Schema, *, inline: bool) -> None:
        self.root = root
        self.inline = inline
        self.notes: list[str] = []
        self.left = MAX_NODES

    def note(self, path: str, what: str) -> None:
        self.notes.append(f"{path or 'root'}: {what}")

    def read(self, node: Any, path: str, followed: tuple[str, ...], depth: int) -> Schema:
        """One schema. Where a boolean may stand for it, the caller has looked already."""
        self.left -= 1
        if depth > MAX_DEPTH or self.left < 0:
            self.note(path, "too deep or too large, left open here")
            return {}
        if not isinstance(node, dict):
            if node is not True:
                self.note(path, "not a schema, left open")
            return {}
        if self.inline and "$ref" in node:
            return self._follow(node, path, followed, depth)
        return self._keywords(_modern(node), path, followed, depth)

    def _keywords(self, node: Schema, path: str, followed: tuple[str, ...], depth: int) -> Schema:
        read: Schema = {}
        for key, value in node.items():
            place = f"{path}.{key}" if path else key
            if key in ONE:
                read[key] = self._one(key, value, place, followed, depth)
            elif key in MANY and _is_list(value):
                read[key] = self._each(value, place, followed, depth)
            elif key in NAMED and isinstance(value, dict):
                if not (self.inline and key in ("$defs", "definitions")):
                    read[key] = {
                        name: self._one(key, held, f"{place}.{name}", followed, depth)
                        for name, held in value.items()
                    }
            elif key not in MANY and key not in NAMED and _FITS.get(key, _anything)(value):
                read[key] = value
            else:
                self.note(place, "not valid, dropped")
        return read

    def _one(self, key: str, value: Any, path: str, followed: tuple[str, ...], depth: int) -> Schema | bool:
        # Whether more properties or items may come is a boolean as often as a schema.
        closes = key.startswith(("additional", "unevaluated")) or not self.inline
        if isinstance(value, bool) and closes:
            return value
        return self.read(value, path, followed, depth + 1)

    def _each(self, values: Iterable[Any], path: str, followed: tuple[str, ...], depth: int) -> list[Schema]:
        return [
            self.read(value, f"{path}[{index}]", followed, depth + 1) for index, value in enumerate(values)
        ]

    def _follow(self, node: Schema, path: str, followed: tuple[str, ...], depth: int) -> Schema:
        reference = node["$ref"]
        beside = {key: value for key, value in node.items() if key != "$ref"}
        found = resolve(self.root, reference)
        if found is None:
            self.note(path, f"reference {str(reference)[:80]} leads nowhere, left open")
            return self._keywords(_modern(beside), path, followed, depth)
        if reference in followed or (reference == "#" and depth):
            self.note(path, f"{reference} contains itself, cut here")
            kept: Schema = {key: found[key] for key in ("type", "description") if key in found}
            return self._keywords({**kept, **beside}, path, followed, depth)
        return self.read({**found, **beside}, path, (*followed, reference), depth + 1)


def _anything(_value: Any) -> bool:
    return True


def _modern(node: Schema) -> Schema:
    """Forms of older drafts as those of today: tuples of items, and exclusive bounds as flags."""
    changed: Schema = {}
    if isinstance(node.get("items"), list):
        changed["prefixItems"] = node["items"] or None
        if "additionalItems" in node:
            changed["items"] = node["additionalItems"]
    for bound, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        flag = node.get(exclusive)
        if isinstance(flag, bool):
            changed[exclusive] = node.get(bound) if flag else None
            if flag:
                changed[bound] = None
    if not changed:
        return node
    gone = {"additionalItems", "items"} if "prefixItems" in changed else set()
    merged = {**{key: value for key, value in node.items() if key not in gone}, **changed}
    return {key: value for key, value in merged.items() if key not in changed or value is not None}


def resolve(root: Schema, reference: Any) -> Schema | None:
    """What a reference within the document leads to."""
    if not isinstance(reference, str) or not reference.startswith("#"):
        return None
    held: Any = root
    for step in reference[1:].split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~").replace("%25", "%")
        if isinstance(held, list) and name.isdecimal() and int(name) < len(held):
            held = held[int(name)]
        elif isinstance(held, dict) and name in held:
            held = held[name]
        else:
            return None
    # "#name" is an anchor, which hardly any schema of a tool has.
    return held if isinstance(held, dict) and (reference == "#" or "/" in reference) else None

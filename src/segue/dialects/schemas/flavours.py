"""A tool's JSON Schema in the flavour of each target, and what could not be expressed in it.

Every function takes any JSON value, changes nothing, and gives a schema that the target accepts together with a list
of sentences, one for each thing that was lost or written in another way.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache, wraps
from itertools import filterfalse
from typing import TYPE_CHECKING, Any

import msgspec

from segue.dialects.schemas.cleanup import Schema, read_schema
from segue.dialects.schemas.union import ANNOTATIONS, as_object, both

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_ENCODER = msgspec.json.Encoder()
_WORTH_REMEMBERING = 20_000
_ANTHROPIC_KEY = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
GEMINI_KEYWORDS = frozenset(  # GEM-28
    {"type", "format", "title", "description", "nullable", "enum", "default", "example", "pattern"}
    | {"properties", "required", "propertyOrdering", "minProperties", "maxProperties", "anyOf"}
    | {"items", "minItems", "maxItems", "minLength", "maxLength", "minimum", "maximum"}
)
_GEMINI_FORMATS = frozenset({"enum", "date-time", "float", "double", "int32", "int64"})
_OLLAMA = frozenset({"anyOf", "type", "items", "description", "enum", "properties", "required"})  # OLL-17
_KIMI_RESERVED = frozenset({"$defs", "$ref", "anyOf", "required", "additionalProperties"})
_KIMI_REFUSED = frozenset(
    {"not", "if", "then", "else", "contains", "dependentSchemas", "patternProperties", "propertyNames"}
    | {"unevaluatedItems", "unevaluatedProperties"}
)
_KIMI_DEPTH, _KIMI_PROPERTIES, _KIMI_BRANCHES, _KIMI_VALUES = 5, 100, 10, 500
_HARMLESS = frozenset(
    {"$schema", "$id", "$comment", "$anchor", "title", "examples", "readOnly", "writeOnly", "deprecated"}
)
"""Keywords whose loss changes nothing about which arguments are right."""
_TYPE_NAMES: Mapping[type, str] = {
    type(None): "null",
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    dict: "object",
}
_OPEN = ["string", "number", "boolean", "object", "array", "null"]


def _cached(write: Callable[[Any], tuple[Schema, list[str]]]) -> Callable[[Any], tuple[Schema, list[str]]]:
    """The same tools are offered again with every request: their schemas are worked out once.

    What is given back is the caller's as far as its outermost object goes; what lies inside is shared.
    """

    @lru_cache(maxsize=512)
    def known(data: bytes) -> tuple[Schema, list[str]]:
        return write(msgspec.json.decode(data))

    @wraps(write)
    def written(schema: Any) -> tuple[Schema, list[str]]:
        try:
            data = _ENCODER.encode(schema)
            written, notes = known(data) if len(data) < _WORTH_REMEMBERING else write(schema)
        except (msgspec.DecodeError, TypeError, ValueError, OverflowError, RecursionError):
            written, notes = write(schema)  # not JSON: worked out from the value itself
        return dict(written), list(notes)

    return written


@_cached
def object_root(schema: Any) -> tuple[Schema, list[str]]:
    """For OpenAI and Mistral: valid in drafts 7 and 2020-12, an object at the root, no combinator beside it."""
    read, notes = read_schema(schema)
    return as_object(read, notes), notes


@_cached
def mistral(schema: Any) -> tuple[Schema, list[str]]:
    """The same, without the names of a schema (MIS-13)."""
    written, notes = object_root(schema)
    return {name: held for name, held in written.items() if name not in ("$id", "$schema")}, notes


@_cached
def anthropic(schema: Any) -> tuple[Schema, list[str]]:
    """The same, with the keys that Anthropic takes."""
    written, notes = object_root(schema)
    refused = [*filterfalse(_ANTHROPIC_KEY.fullmatch, written["properties"])]
    if refused:
        notes += [f"properties.{name}: the target refuses this name" for name in refused]
        written["properties"] = {
            name: held for name, held in written["properties"].items() if name not in refused
        }
        written["required"] = [name for name in written.get("required", ()) if name not in refused]
    return written, notes


@_cached
def gemini(schema: Any) -> tuple[Schema, list[str]]:
    """The 22 keywords of `parameters` (GEM-28, GEM-30). Empty where there are no arguments: leave it out then."""
    read, notes = read_schema(schema, inline=True)
    root = as_object(read, notes)
    return (_Gemini(notes).write(root, "") if root["properties"] else {}), notes


@_cached
def kimi(schema: Any) -> tuple[Schema, list[str]]:
    """Moonshot's flavour (KIM-14, KIM-15)."""
    read, notes = read_schema(schema, inline=True)
    return _Kimi(notes).write(as_object(read, notes), "", 0), notes


@_cached
def ollama(schema: Any) -> tuple[Schema, list[str]]:
    """What Ollama keeps of a schema (OLL-17); the rest goes into the descriptions."""
    read, notes = read_schema(schema, inline=True)
    written = _write_ollama(as_object(read, notes), "", notes)
    return {"type": "object", "properties": {}, **written}, notes


def _simple(node: Schema, path: str, notes: list[str]) -> Schema:
    """Without `allOf`, `oneOf`, `const` and tuples, which none of the small flavours has."""
    while "allOf" in node:
        parts = node["allOf"]
        node = {key: value for key, value in node.items() if key != "allOf"}
        for part in parts:
            node = both(node, part, path, notes)
    simple = dict(node)
    if "const" in simple:
        simple["enum"] = [simple.pop("const")]
    if "oneOf" in simple:
        branches = simple.pop("oneOf")
        simple = both(simple, {"anyOf": branches}, path, notes)
        notes.append(f"{path or 'root'}: oneOf is sent as anyOf")
    if "prefixItems" in simple:
        rest = simple.get("items")
        items = [*simple.pop("prefixItems"), *([rest] if isinstance(rest, dict) and rest else [])]
        simple["items"] = items[0] if all(item == items[0] for item in items) else {"anyOf": items}
        notes.append(f"{path or 'root'}: which item stands where cannot be expressed")
    if isinstance(simple.get("items"), bool):
        del simple["items"]
    return simple


def _types_of(node: Schema) -> list[str]:
    """The types a schema allows, given or to be guessed from its keywords; none if it allows all."""
    if "type" in node:
        return node["type"] if isinstance(node["type"], list) else [node["type"]]
    if "enum" in node:
        return list(dict.fromkeys(_type_of(value) for value in node["enum"]))
    for keyword, kind in (("properties", "object"), ("items", "array"), ("pattern", "string")):
        if keyword in node:
            return [kind]
    return []


def _type_of(value: Any) -> str:
    return _TYPE_NAMES.get(type(value), "array")


def _is_of(value: Any, kinds: list[str]) -> bool:
    kind = _type_of(value)
    return kind in kinds or (kind == "integer" and "number" in kinds)


def _keep_known_required(node: Schema, path: str, notes: list[str]) -> None:
    """Only properties that are sent may be required (GEM-30, KIM-15)."""
    if "required" not in node:
        return
    properties = node.get("properties", {})
    known = [name for name in node["required"] if name in properties]
    if len(known) < len(node["required"]):
        notes.append(f"{path or 'root'}: required names that are no properties were dropped")
    node["required"] = known
    if not known:
        del node["required"]


def _reduced(
    node: Schema, allowed: frozenset[str], path: str, notes: list[str], remarks: tuple[str, ...] = ()
) -> Schema:
    """What the target has a keyword for; a plain constraint that it has none for goes into the description."""
    kept: Schema = {}
    for key, value in node.items():
        if key in allowed:
            kept[key] = value
        elif key in _HARMLESS or (key.startswith(("additional", "unevaluated")) and value in (True, {})):
            continue
        elif isinstance(value, str | int | float) and not key.startswith(("additional", "unevaluated")):
            remarks = (*remarks, f"{key}: {json.dumps(value, ensure_ascii=False)}")
            notes.append(f"{path or 'root'}: {key} goes into the description")
        else:
            notes.append(f"{path or 'root'}: {key} cannot be expressed")
    if remarks and "description" in allowed:
        described = kept.get("description", "")
        kept["description"] = f"{described} ({'; '.join(remarks)})".strip()
    return kept


def _branches(node: Schema, path: str, notes: list[str]) -> list[Schema]:
    """The branches of a choice, each with what stood beside the choice."""
    beside = {key: value for key, value in node.items() if key != "anyOf"}
    return [both(branch, beside, path, notes) for branch in node["anyOf"]]


class _Gemini:
    def __init__(self, notes: list[str]) -> None:
        self.notes = notes

    def write(self, node: Any, path: str) -> Schema:
        if not isinstance(node, dict):
            return {}
        node = _simple(node, path, self.notes)
        if "anyOf" in node:
            return self._choice(_branches(node, path, self.notes), path)
        kinds = _types_of(node)
        named = [kind for kind in kinds if kind != "null"]
        if len(named) > 1:
            return self._choice([_only(node, kind) for kind in kinds], path)
        node.pop("type", None)
        if named:
            node["type"] = named[0]
        if len(named) < len(kinds):
            node["nullable"] = True
        return self._written(node, path)

    def _choice(self, branches: list[Schema], path: str) -> Schema:
        """A choice stands alone, without keywords beside it; "or null" is a flag of each branch."""
        real = [branch for branch in branches if branch.get("type") != "null"]
        written = [self.write(branch, path) for branch in real]
        if len(real) < len(branches):
            written = [{**branch, "nullable": True} for branch in written] or [{"nullable": True}]
        return written[0] if len(written) == 1 else {"anyOf": written}

    def _written(self, node: Schema, path: str) -> Schema:
        remarks = self._values(node)
        allowed = GEMINI_KEYWORDS
        if node.get("format", "enum") not in _GEMINI_FORMATS:
            allowed = allowed - {"format"}
        if remarks:
            self.notes.append(f"{path or 'root'}: the values of enum go into the description")
        written = _reduced(node, allowed, path, self.notes, remarks)
        if "properties" in written:
            written["properties"] = {
                name: self.write(held, f"{path}.{name}" if path else name)
                for name, held in written["properties"].items()
            }
        if written.get("type") == "array":
            written["items"] = self.write(written.get("items"), f"{path}[]") or {"type": "string"}
        elif "items" in written:
            del written["items"]
        _keep_known_required(written, path, self.notes)
        return written

    def _values(self, node: Schema) -> tuple[str, ...]:
        """An `enum` lists texts, none of them empty; other values are returned as text."""
        values = node.get("enum")
        if values is None:
            return ()
        if None in values:
            node["nullable"] = True
        real = [value for value in values if value is not None]
        if real and all(isinstance(value, str) and value for value in real):
            node["enum"] = real
            return ()
        del node["enum"]
        return (f"one of: {json.dumps(values, ensure_ascii=False)}",)


def _only(node: Schema, kind: str) -> Schema:
    """The schema as far as it is about one type."""
    narrowed = {**node, "type": kind}
    if "enum" in narrowed:
        narrowed["enum"] = [value for value in narrowed["enum"] if _is_of(value, [kind])]
        if not narrowed["enum"]:
            del narrowed["enum"]
    for keyword, owner in (("properties", "object"), ("required", "object"), ("items", "array")):
        if owner != kind:
            narrowed.pop(keyword, None)
    return narrowed


class _Kimi:
    def __init__(self, notes: list[str]) -> None:
        self.notes = notes
        self.properties = _KIMI_PROPERTIES
        self.values = _KIMI_VALUES

    def write(self, node: Any, path: str, depth: int) -> Schema:
        node = _simple(node, path, self.notes) if isinstance(node, dict) else {}
        for keyword in sorted(_KIMI_REFUSED & node.keys()):
            del node[keyword]
            self.notes.append(f"{path or 'root'}: {keyword} cannot be expressed")
        if "anyOf" in node:
            return self._choice(node, path, depth)
        kinds = _types_of(node) or _OPEN
        node["type"] = kinds if len(kinds) > 1 else kinds[0]
        self._values(node, kinds, path)
        if "properties" in node:
            node["properties"] = self._properties(node["properties"], path, depth)
        if "items" in node:
            node["items"] = self.write(node["items"], f"{path}[]", depth)
        if isinstance(node.get("additionalProperties"), dict):
            extra = node["additionalProperties"]
            node["additionalProperties"] = self.write(extra, f"{path}.*", depth) if extra else True
        if "required" in node and "properties" not in node:
            node["properties"] = {}
        _keep_known_required(node, path, self.notes)
        return {key: value for key, value in node.items() if key not in _HARMLESS or key == "title"}

    def _choice(self, node: Schema, path: str, depth: int) -> Schema:
        """The type stands in the branches, and only title and description beside them."""
        remarks: Schema = {key: node[key] for key in ("title", "description") if key in node}
        branches = _branches(
            {key: value for key, value in node.items() if key not in ANNOTATIONS}, path, self.notes
        )
        if len(branches) > _KIMI_BRANCHES:
            self.notes.append(f"{path or 'root'}: more than {_KIMI_BRANCHES} alternatives, left open")
            return {"type": _OPEN, **remarks}
        return {"anyOf": [self.write(branch, path, depth) for branch in branches], **remarks}

    def _values(self, node: Schema, kinds: list[str], path: str) -> None:
        if "enum" not in node:
            return
        values = [value for value in node["enum"] if _is_of(value, kinds)]
        self.values -= len(values)
        if not values or self.values < 0:
            del node["enum"]
            self.notes.append(f"{path or 'root'}: enum cannot be expressed")
        elif len(values) < len(node["enum"]):
            self.notes.append(f"{path or 'root'}: values of another type were dropped from enum")
            node["enum"] = values

    def _properties(self, named: Schema, path: str, depth: int) -> Schema:
        written: Schema = {}
        for name, held in named.items():
            place = f"{path}.{name}" if path else name
            if name in _KIMI_RESERVED:
                self.notes.append(f"{place}: the target reserves this name")
            elif depth >= _KIMI_DEPTH or self.properties <= 0:
                self.notes.append(f"{place}: too deep or too many properties, dropped")
            else:
                self.properties -= 1
                written[name] = self.write(held, place, depth + 1)
        return written


def _write_ollama(node: Any, path: str, notes: list[str]) -> Schema:
    node = _simple(node, path, notes) if isinstance(node, dict) else {}
    written = _reduced(node, _OLLAMA, path, notes)
    if "anyOf" in written:
        written["anyOf"] = [_write_ollama(branch, path, notes) for branch in written["anyOf"]]
    if "properties" in written:
        written["properties"] = {
            name: _write_ollama(held, f"{path}.{name}" if path else name, notes)
            for name, held in written["properties"].items()
        }
    if "items" in written:
        written["items"] = _write_ollama(written["items"], f"{path}[]", notes)
    return written

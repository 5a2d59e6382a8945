"""The tool list and the tool choice, and whether a tool's schema is a JSON Schema of draft 2020-12: ANT-40 … ANT-44."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any

from segue.emulators.anthropic import typed_blocks
from segue.emulators.rules import Complaints, Refusal, rule

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from segue.emulators.anthropic.typed_blocks import Body

INVALID_SCHEMA = (
    "JSON schema is invalid. It must match JSON Schema draft 2020-12 (https://json-schema.org/draft/2020-12)."
    " Learn more about tool use at https://platform.claude.com/docs/en/agents-and-tools/tool-use/overview."
)
PROPERTY_KEY = r"[a-zA-Z0-9_.-]{1,64}"


def complaints(body: Body) -> Complaints:
    yield from unique_names(body)
    for index, tool in typed_blocks.tools_of(body):
        if typed_blocks.is_custom(tool) and isinstance(tool.get("input_schema"), dict):
            yield from input_schema(tool["input_schema"], f"tools.{index}.custom.input_schema")
            yield from strict_schema(tool, f"tools.{index}.custom")
            yield from examples(tool, f"tools.{index}.custom")
    yield from all_deferred(body)
    yield from choice_without_tools(body)
    yield from history_names(body)
    yield from blocks_without_tools(body)


@rule("ANT-42")
def unique_names(body: Body) -> Complaints:
    names = Counter(
        typed_blocks.text_of(tool.get("name")) for _, tool in typed_blocks.tools_of(body) if "name" in tool
    )
    if any(times > 1 for times in names.values()):
        yield Refusal("ANT-42", "tools: Tool names must be unique.")


@rule("ANT-41")
def input_schema(schema: Body, path: str) -> Complaints:
    if any(key in schema for key in ("oneOf", "allOf", "anyOf")):
        text = f"{path}: input_schema does not support oneOf, allOf, or anyOf at the top level"
        yield Refusal("ANT-41", text)
    if "type" not in schema:
        yield Refusal("ANT-41", f"{path}.type: Field required", confidence="M")
    elif schema["type"] != "object":
        yield Refusal("ANT-41", f"{path}.type: Input should be 'object'")
    if not is_valid(schema):
        yield Refusal("ANT-41", f"{path}: {INVALID_SCHEMA}")
    if any(not re.fullmatch(PROPERTY_KEY, key) for key in typed_blocks.record_of(schema.get("properties"))):
        text = f"{path}.properties: Property keys should match pattern '^{PROPERTY_KEY}$'"
        yield Refusal("ANT-41", text, confidence="M")


# Of the next four the rulebook has the rule, not the words.
@rule("ANT-42")
def strict_schema(tool: Body, path: str) -> Complaints:
    schema = typed_blocks.record_of(tool.get("input_schema"))
    if tool.get("strict") is True and schema.get("additionalProperties") is not False:
        text = f"{path}: For 'object' type, 'additionalProperties' must be explicitly set to false"
        yield Refusal("ANT-42", text)


@rule("ANT-42")
def all_deferred(body: Body) -> Complaints:
    tools = [tool for _, tool in typed_blocks.tools_of(body)]
    if tools and all(tool.get("defer_loading") is True for tool in tools):
        yield Refusal("ANT-42", "At least one tool must have defer_loading=false.")


@rule("ANT-42")
def examples(tool: Body, path: str) -> Complaints:
    schema = typed_blocks.record_of(tool.get("input_schema"))
    for index, example in enumerate(typed_blocks.list_of(tool.get("input_examples"))):
        if not conforms(example, schema):
            text = f"{path}.input_examples.{index}: Input does not match the tool's input_schema"
            yield Refusal("ANT-42", text)


@rule("ANT-43")
def choice_without_tools(body: Body) -> Complaints:
    choice = typed_blocks.choice_of(body)
    if choice not in ("any", "tool"):
        return
    names = [typed_blocks.text_of(tool.get("name")) for _, tool in typed_blocks.tools_of(body)]
    wanted = typed_blocks.record_of(body.get("tool_choice")).get("name")
    if not names:
        yield Refusal("ANT-43", "tool_choice may only be specified while providing tools.")
    elif choice == "tool" and wanted not in names:
        yield Refusal("ANT-43", f"Tool '{wanted}' not found in provided tools", confidence="M")


@rule("ANT-40", "M")
def history_names(body: Body) -> Complaints:
    for block in typed_blocks.blocks_of(body):
        name = block.text("name")
        if block.type == "tool_use" and not re.fullmatch(r"[a-zA-Z0-9_-]{1,128}", name):
            text = f"{block.path}.tool_use.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'"
            yield Refusal("ANT-40", text, confidence="M")


@rule("ANT-44", "L")
def blocks_without_tools(body: Body) -> Complaints:
    """Refused in old reports, accepted in newer ones: only for those who want the old behaviour."""
    if body.get("tools"):
        return
    if any(block.type in ("tool_use", "tool_result") for block in typed_blocks.blocks_of(body)):
        text = "Requests which include `tool_use` or `tool_result` blocks must define tools."
        yield Refusal("ANT-44", text, confidence="L")


TYPES = frozenset({"array", "boolean", "integer", "null", "number", "object", "string"})
_CLASSES = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}
DEEPEST = 100


def is_valid(schema: object, depth: int = 0) -> bool:
    if isinstance(schema, bool):
        return True
    if not isinstance(schema, dict) or depth > DEEPEST:
        return False
    return all(_fits(keyword, value, depth) for keyword, value in schema.items())


def _fits(keyword: str, value: Any, depth: int) -> bool:
    if keyword in _SUBSCHEMA:
        return is_valid(value, depth + 1)
    if keyword in _SUBSCHEMAS:
        return isinstance(value, list) and bool(value) and all(is_valid(item, depth + 1) for item in value)
    if keyword in _NAMED_SUBSCHEMAS:
        return isinstance(value, dict) and all(is_valid(item, depth + 1) for item in value.values())
    plain = _PLAIN.get(keyword)
    return plain is None or plain(value)


def conforms(value: Any, schema: Mapping[str, Any], depth: int = 0) -> bool:
    """Whether a value has the type, members and choices that a schema asks for; other keywords are not judged."""
    kind = schema.get("type")
    kinds = kind if isinstance(kind, list) else [kind]
    if depth > DEEPEST or (kind is not None and not any(_has_type(value, name) for name in kinds)):
        return False
    if isinstance(schema.get("enum"), list) and value not in schema["enum"]:
        return False
    if isinstance(value, list) and isinstance(schema.get("items"), dict):
        return all(conforms(item, schema["items"], depth + 1) for item in value)
    return not isinstance(value, dict) or _members_conform(value, schema, depth)


def _members_conform(value: Mapping[str, Any], schema: Mapping[str, Any], depth: int) -> bool:
    properties = schema.get("properties")
    known = properties if isinstance(properties, dict) else {}
    required = schema.get("required")
    names = [name for name in required if isinstance(name, str)] if isinstance(required, list) else []
    if any(name not in value for name in names):
        return False
    if schema.get("additionalProperties") is False and any(name not in known for name in value):
        return False
    return all(
        conforms(value[name], inner, depth + 1)
        for name, inner in known.items()
        if name in value and isinstance(inner, dict)
    )


def _has_type(value: Any, kind: Any) -> bool:
    if kind == "number":
        return _is_number(value)
    if kind == "integer":
        return _is_number(value) and value % 1 == 0
    return kind not in _CLASSES or isinstance(value, _CLASSES[kind])


def _is_type(value: Any) -> bool:
    if isinstance(value, list):
        return bool(value) and all(isinstance(item, str) and item in TYPES for item in value)
    return isinstance(value, str) and value in TYPES


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_size(value: Any) -> bool:
    return _is_number(value) and value >= 0 and value % 1 == 0


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _is_pattern(value: Any) -> bool:
    if not isinstance(value, str):
        return False
    try:
        re.compile(value)
    except re.error:
        # The dialect is ECMA 262: what only Python cannot read may well be legal there.
        return "\\p{" in value or "(?<" in value
    return True


_SUBSCHEMA = frozenset(
    {
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
_SUBSCHEMAS = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_NAMED_SUBSCHEMAS = frozenset({"$defs", "definitions", "dependentSchemas", "patternProperties", "properties"})
_PLAIN: Mapping[str, Callable[[Any], bool]] = {
    "$ref": _is_text,
    "$id": _is_text,
    "$schema": _is_text,
    "$anchor": _is_text,
    "title": _is_text,
    "description": _is_text,
    "format": _is_text,
    "pattern": _is_pattern,
    "type": _is_type,
    "required": _is_names,
    "enum": lambda value: isinstance(value, list),
    "minimum": _is_number,
    "maximum": _is_number,
    # Booleans here are the spelling of draft 4.
    "exclusiveMinimum": _is_number,
    "exclusiveMaximum": _is_number,
    "multipleOf": _is_number,
    "minLength": _is_size,
    "maxLength": _is_size,
    "minItems": _is_size,
    "maxItems": _is_size,
    "minProperties": _is_size,
    "maxProperties": _is_size,
    "uniqueItems": lambda value: isinstance(value, bool),
}

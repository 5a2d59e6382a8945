"""Rules about `tools`, `tool_choice`, `parallel_tool_calls` (CHAT-21, CHAT-30 … CHAT-38) and the schemas of tools, also of strict ones."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from segue.emulators.openai_chat import errors
from segue.emulators.openai_chat.errors import wrong_type
from segue.emulators.rules import Complaints, Confidence, Refusal, rule

TOOLS_MAX, NAME_MAX = 128, 64
NAME_PATTERN = "^[a-zA-Z0-9_-]+$"
_NAME = re.compile(r"[a-zA-Z0-9_-]+")
CHOICES = ("none", "auto", "required")
CHOICE_TYPES = ("allowed_tools", "function", "custom")


def tool_complaints(body: Mapping[str, Any]) -> Complaints:
    tools = body.get("tools")
    yield from no_tools_in_the_list(tools)
    yield from too_many_tools(tools)
    for index, tool in enumerate(tools if isinstance(tools, list) else ()):
        yield from one_tool(tool, index)
    yield from choice_without_tools(body)
    yield from unknown_choice(body)
    yield from parallel_without_tools(body)


@rule("CHAT-30", "M")
def no_tools_in_the_list(tools: object) -> Complaints:
    if tools == []:
        yield errors.empty_array("CHAT-30", "tools", "M")
    elif tools is not None and not isinstance(tools, list):
        yield errors.wrong_type("CHAT-00", "tools", "an array of objects", tools)


@rule("CHAT-31", "H")
def too_many_tools(tools: object) -> Complaints:
    if isinstance(tools, list) and len(tools) > TOOLS_MAX:
        yield errors.long_array("CHAT-31", "tools", TOOLS_MAX, len(tools))


def one_tool(tool: object, index: int) -> Complaints:
    path = f"tools[{index}]"
    if not isinstance(tool, Mapping):
        yield errors.wrong_type("CHAT-00", path, "an object", tool)
        return
    match tool.get("type"):
        case "function":
            yield from function_tool(tool, path)
        case "custom":
            yield from custom_tool(tool, path)
        case None:
            yield errors.missing("CHAT-00", f"{path}.type")
        case other:
            yield errors.wrong_value("CHAT-00", f"{path}.type", str(other), ("function", "custom"))


def function_tool(tool: Mapping[str, Any], path: str) -> Complaints:
    function = tool.get("function")
    if not isinstance(function, Mapping):
        yield errors.missing("CHAT-00", f"{path}.function")
        return
    yield from bad_name(function.get("name"), f"{path}.function.name")
    name = function.get("name")
    yield from schema_complaints(str(name), function, f"{path}.function.parameters")


def custom_tool(tool: Mapping[str, Any], path: str) -> Complaints:
    custom = tool.get("custom")
    if isinstance(custom, Mapping):
        yield from bad_name(custom.get("name"), f"{path}.custom.name")
    else:
        yield errors.missing("CHAT-00", f"{path}.custom")


@rule("CHAT-21", "H")
def bad_name(
    name: object,
    path: str,
    most: int = NAME_MAX,
    rule_id: str = "CHAT-21",
    pattern_confidence: Confidence = "H",
) -> Complaints:
    """1..64 of letters, digits, underscore and dash; in the history the pattern is only M."""
    if name is None:
        yield errors.missing(rule_id, path)
    elif not isinstance(name, str):
        yield errors.wrong_type(rule_id, path, "a string", name)
    elif not name:
        yield errors.empty_string(rule_id, path)
    elif len(name) > most:
        yield errors.long_string(rule_id, path, most, len(name), pattern_confidence)
    elif not _NAME.fullmatch(name):
        yield errors.no_match(rule_id, path, NAME_PATTERN, pattern_confidence)


@rule("CHAT-37", "H")
def choice_without_tools(body: Mapping[str, Any]) -> Complaints:
    if body.get("tool_choice") is not None and not body.get("tools"):
        yield _only_with_tools("CHAT-37", "tool_choice")


@rule("CHAT-37", "H")
def unknown_choice(body: Mapping[str, Any]) -> Complaints:
    choice = body.get("tool_choice")
    match choice:
        case None:
            return
        case str():
            if choice not in CHOICES:
                yield errors.wrong_value("CHAT-37", "tool_choice", choice, CHOICES)
        case {"type": "function", "function": {"name": str(name)}}:
            yield from _unoffered(name, body)
        case {"type": "function"}:
            yield errors.missing("CHAT-37", "tool_choice.function")
        case {"type": str(sort)}:
            if sort not in CHOICE_TYPES:
                yield errors.wrong_value("CHAT-37", "tool_choice.type", sort, CHOICE_TYPES)
        case {}:
            yield errors.missing("CHAT-37", "tool_choice.type")
        case _:
            yield errors.wrong_type("CHAT-37", "tool_choice", "one of a string or object", choice)


def _unoffered(name: str, body: Mapping[str, Any]) -> Complaints:
    tools = body.get("tools")
    offered = tools if isinstance(tools, list) else []
    names = [tool["function"].get("name") for tool in offered if _is_function(tool)]
    if offered and name not in names:
        yield Refusal(
            "CHAT-37",
            f"Invalid value for 'tool_choice': no function named '{name}' was specified in the 'tools' parameter.",
            param="tool_choice",
            confidence="M",
        )


def _is_function(tool: object) -> bool:
    return isinstance(tool, Mapping) and isinstance(tool.get("function"), Mapping)


@rule("CHAT-38", "H")
def parallel_without_tools(body: Mapping[str, Any]) -> Complaints:
    if body.get("parallel_tool_calls") is not None and not body.get("tools"):
        yield _only_with_tools("CHAT-38", "parallel_tool_calls")


def _only_with_tools(rule_id: str, name: str) -> Refusal:
    return Refusal(
        rule_id,
        f"Invalid value for '{name}': '{name}' is only allowed when 'tools' are specified.",
        param=name,
    )


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

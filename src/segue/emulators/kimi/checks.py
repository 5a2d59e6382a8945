"""Everything that Moonshot refuses in a chat request, in the order in which it looks: shape, options, tools, messages."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from msgspec import Struct

from segue.emulators.model import model_facts
from segue.emulators.rules import Complaints, Confidence, Context, Refusal, rule

_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_-]{0,63}")
_BUILTIN = re.compile(r"\$[a-zA-Z_][a-zA-Z0-9_-]{0,63}")


def complaints(body: object, context: Context) -> Complaints:
    """The rules that a chat request breaks."""
    shape = list(wrong_shape(body))
    yield from shape
    if shape or not isinstance(body, Mapping):
        return
    thinking = is_thinking(body, context)
    yield from thinking_and_effort(body)
    yield from kept_thinking(body, context)
    yield from fixed_temperature(body, context)
    yield from tool_complaints(body)
    yield from forced_choice(body, context, thinking=thinking)
    yield from message_complaints(body["messages"], thinking=thinking)
    yield from too_long(body, context)


def is_thinking(body: Mapping[str, Any], context: Context) -> bool:
    """KIM-07: some models always think, some unless the request forbids it, some never."""
    mode = context.facts.get("thinking", "never")
    asked = body.get("thinking")
    kind = asked.get("type") if isinstance(asked, Mapping) else None
    return mode == "always" or (mode == "default" and kind != "disabled")


@rule("KIM-00")
def wrong_shape(body: object) -> Complaints:
    """What every JSON API checks before it reads on; the wording is plain, no report quotes it."""
    if not isinstance(body, Mapping):
        yield Refusal("KIM-00", "Invalid request: request body must be a JSON object")
        return
    if not isinstance(body.get("model"), str) or not body["model"]:
        yield Refusal("KIM-00", "Invalid request: model is required")
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        yield Refusal("KIM-00", "Invalid request: messages must be a non-empty array")
        return
    for position, message in enumerate(messages):
        wrong = _wrong_message(message)
        if wrong:
            yield Refusal("KIM-00", f"Invalid request: {wrong} at position {position}")
    for name, kind in (("tools", list), ("thinking", Mapping)):
        if body.get(name) is not None and not isinstance(body[name], kind):
            yield Refusal("KIM-00", f"Invalid request: {name} has the wrong type")


def _wrong_message(message: object) -> str | None:
    if not isinstance(message, Mapping):
        return "message must be an object"
    if message.get("role") not in ("system", "user", "assistant", "tool"):
        return f"unsupported role {message.get('role')}"
    if not isinstance(message.get("content"), str | list | None):
        return "content must be a string or an array"
    calls = message.get("tool_calls")
    if calls is not None and not isinstance(calls, list):
        return "tool_calls must be an array"
    if calls and not all(map(_is_call, calls)):
        return "malformed tool call"
    return None


def _is_call(call: object) -> bool:
    if not isinstance(call, Mapping) or not isinstance(call.get("id"), str):
        return False
    function = call.get("function")
    return (
        isinstance(function, Mapping)
        and isinstance(function.get("name"), str)
        and isinstance(function.get("arguments"), str)
    )


@rule("KIM-08")
def thinking_and_effort(body: Mapping[str, Any]) -> Complaints:
    if body.get("thinking") is not None and body.get("reasoning_effort") is not None:
        yield Refusal("KIM-08", "cannot specify both 'thinking' and 'reasoning_effort'")


@rule("KIM-08")
def kept_thinking(body: Mapping[str, Any], context: Context) -> Complaints:
    """No report quotes the words of these two refusals, only that they happen."""
    asked = body.get("thinking") or {}
    if asked.get("keep") is not None and not context.facts.get("keep"):
        yield Refusal("KIM-08", f"Invalid request: thinking.keep is not supported by model {context.model}")
    if asked and asked.get("type") not in ("enabled", "disabled"):
        yield Refusal(
            "KIM-08", "Invalid request: thinking.type must be one of 'enabled', 'disabled'", confidence="M"
        )


@rule("KIM-12", "M")
def fixed_temperature(body: Mapping[str, Any], context: Context) -> Complaints:
    if context.facts.get("fixed_sampling") and body.get("temperature", 1) not in (1, None):
        yield Refusal("KIM-12", "invalid temperature: only 1 is allowed for this model", confidence="M")


def tool_complaints(body: Mapping[str, Any]) -> Complaints:
    tools = body.get("tools")
    yield from no_tools(tools)
    for tool in tools or ():
        function = tool.get("function") if isinstance(tool, Mapping) else None
        if not isinstance(function, Mapping):
            yield Refusal("KIM-00", "Invalid request: tools.function is required")
            continue
        yield from tool_name(function.get("name"), builtin=tool.get("type") == "builtin_function")
        if tool.get("type") != "builtin_function":
            yield from root_type(function)
            yield from flavored_schema(function)


@rule("KIM-16", "M")
def no_tools(tools: object) -> Complaints:
    if tools == []:
        yield Refusal("KIM-16", "Invalid request: tools must not be empty", confidence="M")


@rule("KIM-13")
def tool_name(name: object, *, builtin: bool) -> Complaints:
    pattern = _BUILTIN if builtin else _NAME
    if not isinstance(name, str) or not pattern.fullmatch(name):
        yield Refusal(
            "KIM-13",
            "function name is invalid, must start with a letter and can contain letters, numbers, "
            "underscores, and dashes",
        )


@rule("KIM-14")
def root_type(function: Mapping[str, Any]) -> Complaints:
    schema = function.get("parameters")
    if not (isinstance(schema, Mapping) and schema.get("type") == "object"):
        yield Refusal("KIM-14", 'tools.function.parameters.type is required and must be "object"')


@rule("KIM-15")
def flavored_schema(function: Mapping[str, Any]) -> Complaints:
    schema = function.get("parameters")
    if not isinstance(schema, dict) or schema.get("type") != "object":
        return
    for mistake in mistakes(schema):
        yield Refusal(
            "KIM-15",
            f"tools.function.parameters is not a valid moonshot flavored json schema, details: <{mistake}>",
            confidence=mistake.confidence,
        )


@rule("KIM-09")
def forced_choice(body: Mapping[str, Any], context: Context, *, thinking: bool) -> Complaints:
    choice = body.get("tool_choice")
    forced = "required" if choice == "required" else "specified" if isinstance(choice, Mapping) else None
    if forced is None or not thinking:
        return
    if forced == "required" and context.facts.get("forced_choice"):
        return
    yield Refusal("KIM-09", f"tool_choice '{forced}' is incompatible with thinking enabled")


@rule("KIM-21")
def too_long(body: Mapping[str, Any], context: Context) -> Complaints:
    """Several clients quote the same words, with what was asked for in brackets."""
    limit = context.facts.get("context")
    size = prompt_tokens(body)
    if isinstance(limit, int) and size > limit:
        yield Refusal(
            "KIM-21", f"Invalid request: Your request exceeded model token limit: {limit} (requested: {size})"
        )


def prompt_tokens(body: Mapping[str, Any]) -> int:
    """Tokens of everything that is read, counted from its text. Pictures and films are not text."""
    messages: list[Message] = body["messages"]
    tools = body.get("tools")
    offered = model_facts.count_value_tokens(tools) if tools else 0
    return offered + sum(4 + _message_tokens(message) for message in messages)


def _message_tokens(message: Message) -> int:
    content = message.get("content")
    parts = content if isinstance(content, list) else [{"text": content}]
    texts = [part.get("text") for part in parts if isinstance(part, Mapping)]
    texts.append(message.get("reasoning_content"))
    calls = message.get("tool_calls")
    return sum(model_facts.count_tokens(text) for text in texts if isinstance(text, str)) + (
        model_facts.count_value_tokens(calls) if calls else 0
    )


Message: TypeAlias = Mapping[str, Any]
_PARTS = ("text", "image_url", "video_url")


def message_complaints(messages: Sequence[Message], *, thinking: bool) -> Complaints:
    for position, message in enumerate(messages):
        yield from empty_text(message)
        yield from empty_message(message, position)
        yield from foreign_parts(message)
    yield from repeated_ids(messages)
    yield from pairing(messages)
    if thinking:
        yield from missing_reasoning(messages)


def calls_of(message: Message) -> Sequence[Message]:
    return (message.get("tool_calls") or ()) if message.get("role") == "assistant" else ()


@rule("KIM-10")
def empty_text(message: Message) -> Complaints:
    content = message.get("content")
    parts = content if isinstance(content, list) else ()
    if any(
        isinstance(part, Mapping) and part.get("type") == "text" and not part.get("text") for part in parts
    ):
        yield Refusal("KIM-10", "text content is empty")


@rule("KIM-10")
@rule("KIM-23", "M")
def empty_message(message: Message, position: int) -> Complaints:
    """Reasoning alone does not fill a message; a result or a system message may be empty."""
    role = message.get("role")
    if role in ("tool", "system") or message.get("content") or calls_of(message) or message.get("partial"):
        return
    yield Refusal("KIM-10", f"message at position {position} with role '{role}' must not be empty")


@rule("KIM-11", "M")
def foreign_parts(message: Message) -> Complaints:
    content = message.get("content")
    for part in content if isinstance(content, list) else ():
        kind = part.get("type") if isinstance(part, Mapping) else None
        if kind not in _PARTS:
            yield Refusal("KIM-11", f"Invalid request: unsupported content type {kind}", confidence="M")


@rule("KIM-04")
def repeated_ids(messages: Sequence[Message]) -> Complaints:
    seen: set[str] = set()
    for call in (call for message in messages for call in calls_of(message)):
        if call["id"] in seen:
            yield Refusal("KIM-04", f"Invalid request: tool call id {call['id']} is duplicated")
        seen.add(call["id"])


def pairing(messages: Sequence[Message]) -> Complaints:
    """Results stand right behind their calls, in any order."""
    open_ids: list[str] = []
    known: frozenset[str] = frozenset()
    for message in messages:
        if message.get("role") == "tool":
            yield from unknown_result(message, known)
            open_ids = [call_id for call_id in open_ids if call_id != message.get("tool_call_id")]
            continue
        yield from unanswered_calls(open_ids)
        open_ids = [call["id"] for call in calls_of(message)]
        known = frozenset(open_ids)
    yield from unanswered_calls(open_ids)


@rule("KIM-05")
def unanswered_calls(open_ids: Sequence[str]) -> Complaints:
    if open_ids:
        yield Refusal(
            "KIM-05",
            "an assistant message with 'tool_calls' must be followed by tool messages responding to each "
            "'tool_call_id'. The following tool_call_ids did not have response messages: "
            + ", ".join(dict.fromkeys(open_ids)),
        )


@rule("KIM-06")
def unknown_result(message: Message, known: frozenset[str]) -> Complaints:
    """An empty id shows as two spaces."""
    given = message.get("tool_call_id")
    identifier = given if isinstance(given, str) else ""
    if identifier not in known:
        yield Refusal("KIM-06", f"tool_call_id {identifier} is not found")


@rule("KIM-07")
def missing_reasoning(messages: Sequence[Message]) -> Complaints:
    """An empty string counts as reasoning, an absent field does not."""
    for index, message in enumerate(messages):
        if calls_of(message) and not isinstance(message.get("reasoning_content"), str):
            yield Refusal(
                "KIM-07",
                "thinking is enabled but reasoning_content is missing in assistant tool call message "
                f"at index {index}",
            )


Schema: TypeAlias = Mapping[str, Any]
Place: TypeAlias = tuple[str, ...]

# Moonshot Flavored JSON Schema (KIM-15). The sentences are those of the vendor's open-source validator. Which level of it runs
# differs by endpoint: mistakes that were seen refused are H, its remaining limits M.
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

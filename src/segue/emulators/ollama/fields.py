"""Types of what a native chat request holds: messages, their calls and images, and the offered tools."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from segue.emulators.ollama import gojson
from segue.emulators.rules import Complaints, Refusal, rule

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


def unreadable(rule_id: str, body: object, fields: Mapping[str, gojson.Check]) -> Complaints:
    for sentence in gojson.decode(body, "ChatRequest", "api.ChatRequest", fields):
        yield Refusal(rule_id, sentence)


def _message(**fields: gojson.Check) -> Mapping[str, gojson.Check]:
    return {"messages": gojson.listing(gojson.struct(fields, "api.Message"), "[]api.Message")}


def _call(*, function: Mapping[str, gojson.Check], **fields: gojson.Check) -> gojson.Check:
    inner = gojson.struct(function, "api.ToolCallFunction")
    return gojson.listing(gojson.struct({**fields, "function": inner}, "api.ToolCall"), "[]api.ToolCall")


def wrong_messages(body: Mapping[str, Any]) -> Complaints:
    skeleton = list(unreadable("OLL-00", body, _message(tool_calls=_call(function={}))))
    yield from skeleton
    if not skeleton:
        yield from wrong_content(body)
        yield from wrong_arguments(body)
        yield from wrong_fields(body)


@rule("OLL-01")
def wrong_content(body: Mapping[str, Any]) -> Complaints:
    yield from unreadable("OLL-01", body, _message(content=gojson.STRING))


def _arguments(value: object, path: str) -> Iterator[str]:  # noqa: ARG001 — a Check
    if value is not None and not isinstance(value, dict):
        yield "Value looks like object, but can't find closing '}' symbol"


@rule("OLL-02")
def wrong_arguments(body: Mapping[str, Any]) -> Complaints:
    """Arguments are an object; the JSON text that other APIs want is refused."""
    yield from unreadable("OLL-02", body, _message(tool_calls=_call(function={"arguments": _arguments})))


@rule("OLL-04")
def wrong_fields(body: Mapping[str, Any]) -> Complaints:
    """Images are raw base64. `name` is no field of a message; like all unknown fields it is ignored."""
    function = {"name": gojson.STRING, "index": gojson.integer}
    fields = _message(
        role=gojson.STRING,
        thinking=gojson.STRING,
        images=gojson.listing(gojson.base64, "[]api.ImageData"),
        tool_calls=_call(function=function, id=gojson.STRING),
        tool_name=gojson.STRING,
        tool_call_id=gojson.STRING,
    )
    yield from unreadable("OLL-04", body, fields)


def _properties(value: object, path: str) -> Iterator[str]:
    if value is None:
        return
    if not isinstance(value, dict):
        yield gojson.mismatch(value, path, "map[string]api.ToolProperty")
        return
    for schema in value.values():
        yield from _PROPERTY(schema, path)


def _type_names(value: object, path: str) -> Iterator[str]:  # noqa: ARG001 — a Check
    listed = value if isinstance(value, list) else [value]
    if value is not None and not all(isinstance(name, str) for name in listed):
        yield f"invalid property type: {msgspec.json.encode(value).decode()}"


_NAMES = gojson.listing(gojson.STRING, "[]string")
_PROPERTY = gojson.struct(
    {
        "type": _type_names,
        "description": gojson.STRING,
        "enum": gojson.plain("array", "[]interface {}"),
        "required": _NAMES,
        "anyOf": gojson.plain("array", "[]api.ToolProperty"),
    },
    "api.ToolProperty",
)
_PARAMETERS = gojson.struct(
    {"type": gojson.STRING, "properties": _properties, "required": _NAMES}, "api.ToolFunctionParameters"
)
_FUNCTION = gojson.struct(
    {"name": gojson.STRING, "description": gojson.STRING, "parameters": _PARAMETERS}, "api.ToolFunction"
)
TOOLS = gojson.listing(gojson.struct({"type": gojson.STRING, "function": _FUNCTION}, "api.Tool"), "api.Tools")


@rule("OLL-17")
def tool_schemas(body: Mapping[str, Any]) -> Complaints:
    """Only a few keywords are read, but those must have the right type; names are free."""
    yield from unreadable("OLL-17", body, {"tools": TOOLS})

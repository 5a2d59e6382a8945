"""Rules about `tools`, `tool_choice` and `parallel_tool_calls` (CHAT-21, CHAT-30 … CHAT-38)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from segue.emulators.openai_chat import wording
from segue.emulators.openai_chat.schemas import schema_complaints
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
        yield wording.empty_array("CHAT-30", "tools", "M")
    elif tools is not None and not isinstance(tools, list):
        yield wording.wrong_type("CHAT-00", "tools", "an array of objects", tools)


@rule("CHAT-31", "H")
def too_many_tools(tools: object) -> Complaints:
    if isinstance(tools, list) and len(tools) > TOOLS_MAX:
        yield wording.long_array("CHAT-31", "tools", TOOLS_MAX, len(tools))


def one_tool(tool: object, index: int) -> Complaints:
    path = f"tools[{index}]"
    if not isinstance(tool, Mapping):
        yield wording.wrong_type("CHAT-00", path, "an object", tool)
        return
    match tool.get("type"):
        case "function":
            yield from function_tool(tool, path)
        case "custom":
            yield from custom_tool(tool, path)
        case None:
            yield wording.missing("CHAT-00", f"{path}.type")
        case other:
            yield wording.wrong_value("CHAT-00", f"{path}.type", str(other), ("function", "custom"))


def function_tool(tool: Mapping[str, Any], path: str) -> Complaints:
    function = tool.get("function")
    if not isinstance(function, Mapping):
        yield wording.missing("CHAT-00", f"{path}.function")
        return
    yield from bad_name(function.get("name"), f"{path}.function.name")
    name = function.get("name")
    yield from schema_complaints(str(name), function, f"{path}.function.parameters")


def custom_tool(tool: Mapping[str, Any], path: str) -> Complaints:
    custom = tool.get("custom")
    if isinstance(custom, Mapping):
        yield from bad_name(custom.get("name"), f"{path}.custom.name")
    else:
        yield wording.missing("CHAT-00", f"{path}.custom")


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
        yield wording.missing(rule_id, path)
    elif not isinstance(name, str):
        yield wording.wrong_type(rule_id, path, "a string", name)
    elif not name:
        yield wording.empty_string(rule_id, path)
    elif len(name) > most:
        yield wording.long_string(rule_id, path, most, len(name), pattern_confidence)
    elif not _NAME.fullmatch(name):
        yield wording.no_match(rule_id, path, NAME_PATTERN, pattern_confidence)


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
                yield wording.wrong_value("CHAT-37", "tool_choice", choice, CHOICES)
        case {"type": "function", "function": {"name": str(name)}}:
            yield from _unoffered(name, body)
        case {"type": "function"}:
            yield wording.missing("CHAT-37", "tool_choice.function")
        case {"type": str(sort)}:
            if sort not in CHOICE_TYPES:
                yield wording.wrong_value("CHAT-37", "tool_choice.type", sort, CHOICE_TYPES)
        case {}:
            yield wording.missing("CHAT-37", "tool_choice.type")
        case _:
            yield wording.wrong_type("CHAT-37", "tool_choice", "one of a string or object", choice)


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

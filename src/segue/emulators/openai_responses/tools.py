"""Rules about `tools` and `tool_choice` of Responses: flat tools, hosted types, strictness (RESP-30 … RESP-34)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import structs

from segue.emulators.openai_chat import errors
from segue.emulators.openai_chat.tools import CHOICES, bad_name, schema_complaints
from segue.emulators.rules import Complaints, Refusal, rule

NAME_MAX = 128
SAME_AS_CHAT = {"CHAT-32": "RESP-32", "CHAT-33": "RESP-32", "CHAT-34": "RESP-32", "CHAT-35": "RESP-31"}
TYPES = (
    "function",
    "custom",
    "file_search",
    "web_search",
    "web_search_2025_08_26",
    "web_search_preview",
    "web_search_preview_2025_03_11",
    "computer",
    "computer_use_preview",
    "code_interpreter",
    "image_generation",
    "mcp",
    "local_shell",
    "shell",
    "apply_patch",
    "namespace",
    "tool_search",
)


def tool_complaints(body: Mapping[str, Any]) -> Complaints:
    tools = body.get("tools")
    if tools is not None and not isinstance(tools, list):
        yield errors.wrong_type("RESP-00", "tools", "an array of objects", tools)
    for index, tool in enumerate(tools if isinstance(tools, list) else ()):
        yield from one_tool(tool, f"tools[{index}]")
    yield from choice(body)


@rule("RESP-30", "H")
def one_tool(tool: object, path: str) -> Complaints:
    """Flat: name and parameters stand beside the type; a Chat-shaped tool has no name here."""
    if not isinstance(tool, Mapping):
        yield errors.wrong_type("RESP-00", path, "an object", tool)
        return
    sort = tool.get("type")
    if sort is None:
        yield errors.missing("RESP-30", f"{path}.type")
    elif sort not in TYPES:
        yield errors.wrong_value("RESP-30", f"{path}.type", str(sort), TYPES, "M")
    if sort in ("function", "custom"):
        yield from bad_name(tool.get("name"), f"{path}.name", NAME_MAX, "RESP-30")
    if sort == "function":
        yield from bad_schema(tool, path)


@rule("RESP-31", "H")
@rule("RESP-32", "H")
def bad_schema(tool: Mapping[str, Any], path: str) -> Complaints:
    for refusal in schema_complaints(str(tool.get("name")), tool, f"{path}.parameters"):
        yield structs.replace(refusal, rule=SAME_AS_CHAT[refusal.rule])


@rule("RESP-33", "H")
def choice(body: Mapping[str, Any]) -> Complaints:
    wanted = body.get("tool_choice")
    match wanted:
        case None:
            return
        case str():
            if wanted not in CHOICES:
                yield errors.wrong_value("RESP-33", "tool_choice", wanted, CHOICES)
            elif wanted == "required" and not _offered(body):
                yield _not_among_tools("required")
        case {"type": "function", "name": str(name)}:
            if name not in [tool.get("name") for tool in _offered(body)]:
                yield _not_among_tools("function")
        case {"type": "function"}:
            yield errors.missing("RESP-33", "tool_choice.name")
        case {"type": str()}:
            return
        case {}:
            yield errors.missing("RESP-33", "tool_choice.type")
        case _:
            yield errors.wrong_type("RESP-33", "tool_choice", "one of a string or object", wanted)


def _offered(body: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The tools of the request and those that its items introduce: a recorded response lists both."""
    given = body.get("input")
    items = [body, *(given if isinstance(given, list) else ())]
    lists = [
        item.get("tools")
        for item in items
        if item is body or (isinstance(item, Mapping) and item.get("type") == "additional_tools")
    ]
    return [tool for tools in lists if isinstance(tools, list) for tool in tools if isinstance(tool, Mapping)]


def _not_among_tools(wanted: str) -> Refusal:
    return Refusal(
        "RESP-33",
        f"Tool choice '{wanted}' not found in 'tools' parameter.",
        param="tool_choice",
        confidence="M",
    )

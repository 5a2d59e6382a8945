"""Rules about one input item at a time: its type, role, parts, ids, lengths (RESP-01 … 05, 14, 20 … 23, 32 … 42)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from segue.emulators.openai_chat import errors
from segue.emulators.openai_chat.tools import bad_name
from segue.emulators.rules import Complaints, Refusal, rule

TYPES = (
    "message",
    "file_search_call",
    "computer_call",
    "computer_call_output",
    "web_search_call",
    "function_call",
    "function_call_output",
    "tool_search_call",
    "tool_search_output",
    "additional_tools",
    "configuration_update",
    "reasoning",
    "compaction",
    "image_generation_call",
    "code_interpreter_call",
    "local_shell_call",
    "local_shell_call_output",
    "shell_call",
    "shell_call_output",
    "apply_patch_call",
    "apply_patch_call_output",
    "mcp_list_tools",
    "mcp_approval_request",
    "mcp_approval_response",
    "mcp_call",
    "custom_tool_call",
    "custom_tool_call_output",
    "compaction_trigger",
    "item_reference",
    "program",
    "program_output",
)
ROLES = ("assistant", "system", "developer", "user")
INPUT_PARTS = ("input_text", "input_image", "input_file", "input_audio")
OUTPUT_PARTS = ("output_text", "refusal")
PREFIXES: Mapping[str, str] = {
    "function_call": "fc",
    "function_call_output": "fc",
    "custom_tool_call": "ctc",
    "message": "msg",
    "reasoning": "rs",
}
ID_MAX, CALL_ID_MAX, NAME_MAX = 64, 64, 128
TEXT_MAX, IMAGE_MAX, FILE_MAX, ARGUMENTS_MAX = 10_485_760, 20_971_520, 73_400_320, 1_048_576
_ID = re.compile(r"[a-zA-Z0-9_-]+")


def type_of(item: Mapping[str, Any]) -> str:
    """An item without a type is a message."""
    sort = item.get("type", "message")
    return sort if isinstance(sort, str) else ""


def items_in(body: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The input as items; a string is one user message."""
    given = body.get("input")
    if isinstance(given, str):
        return [{"type": "message", "role": "user", "content": given}]
    return [item for item in given if isinstance(item, Mapping)] if isinstance(given, list) else []


def item_complaints(item: object, index: int) -> Complaints:
    path = f"input[{index}]"
    if not isinstance(item, Mapping):
        yield errors.wrong_type("RESP-00", path, "an object", item)
        return
    yield from unknown_type(item, path)
    yield from item_id(item, path)
    match type_of(item):
        case "message":
            yield from message(item, path)
        case "function_call":
            yield from function_call(item, path)
        case "custom_tool_call":
            yield from call_id(item, path)
            yield from bad_name(item.get("name"), f"{path}.name", NAME_MAX, "RESP-32", "M")
        case "function_call_output" | "custom_tool_call_output":
            yield from call_id(item, path)
            yield from output(item, path)
        case "shell_call" | "local_shell_call" | "apply_patch_call" | "computer_call":
            yield from call_id(item, path)
            yield from typed_call(item, path)
        case (
            "shell_call_output"
            | "local_shell_call_output"
            | "apply_patch_call_output"
            | "computer_call_output"
        ):
            yield from typed_output(item, path)
        case "additional_tools":
            yield from additional_tools(item, path)
        case "reasoning":
            yield from reasoning(item, path)
        case "item_reference":
            if not isinstance(item.get("id"), str):
                yield errors.missing("RESP-00", f"{path}.id")
        case _:
            return


@rule("RESP-00", "H")
def unknown_type(item: Mapping[str, Any], path: str) -> Complaints:
    sort = item.get("type", "message")
    if sort not in TYPES:
        yield errors.wrong_value("RESP-00", f"{path}.type", str(sort), TYPES)


@rule("RESP-21", "H")
@rule("RESP-22", "H")
def item_id(item: Mapping[str, Any], path: str) -> Complaints:
    """An item's own id may be left out (RESP-23); if it is there, it is of the type's family."""
    value = item.get("id")
    if value is None or item.get("type") == "item_reference":
        return
    path = f"{path}.id"
    if not isinstance(value, str):
        yield errors.wrong_type("RESP-22", path, "a string", value)
    elif len(value) > ID_MAX:
        yield errors.long_string("RESP-22", path, ID_MAX, len(value))
    elif not _ID.fullmatch(value):
        yield _bad_id(
            "RESP-22",
            path,
            value,
            "contains letters, numbers, underscores, or dashes, but this value contained additional characters",
        )
    else:
        prefix = PREFIXES.get(type_of(item), "")
        if not value.startswith(prefix):
            yield _bad_id("RESP-21", path, value, f"begins with '{prefix}'")


def _bad_id(rule_id: str, path: str, value: str, wanted: str) -> Refusal:
    return Refusal(
        rule_id,
        f"Invalid '{path}': '{value}'. Expected an ID that {wanted}.",
        code="invalid_value",
        param=path,
    )


@rule("RESP-01", "H")
def message(item: Mapping[str, Any], path: str) -> Complaints:
    role, content = item.get("role"), item.get("content")
    if role is None:
        yield errors.missing("RESP-01", f"{path}.role")
    elif role not in ROLES:
        yield errors.wrong_value("RESP-01", f"{path}.role", str(role), ROLES)
    if "content" not in item:
        yield errors.missing("RESP-01", f"{path}.content")
    elif not isinstance(content, (str, list)):
        yield errors.wrong_type("RESP-01", f"{path}.content", "one of an array of objects or string", content)
    yield from text_too_long(content, f"{path}.content")
    for position, part in enumerate(content if isinstance(content, list) else ()):
        yield from part_of_another_role(part, str(role), f"{path}.content[{position}]")
        yield from part_shape(part, f"{path}.content[{position}]")


@rule("RESP-02", "H")
def part_of_another_role(part: object, role: str, path: str) -> Complaints:
    allowed = OUTPUT_PARTS if role == "assistant" else INPUT_PARTS
    sort = part.get("type") if isinstance(part, Mapping) else None
    if isinstance(sort, str) and sort not in allowed:
        yield errors.wrong_value("RESP-02", path, sort, allowed)


@rule("RESP-00", "H")
def part_shape(part: object, path: str) -> Complaints:
    if not isinstance(part, Mapping):
        yield errors.wrong_type("RESP-00", path, "an object", part)
        return
    sort = part.get("type")
    if not isinstance(sort, str):
        yield errors.missing("RESP-00", f"{path}.type")
        return
    needed = {"input_text": "text", "output_text": "text", "refusal": "refusal"}.get(sort)
    if needed is not None and part.get(needed) is None:
        yield errors.missing("RESP-00", f"{path}.{needed}")
    elif needed is not None and not isinstance(part[needed], str):
        yield errors.wrong_type("RESP-00", f"{path}.{needed}", "a string", part[needed])
    for key in ("text", "image_url", "file_data"):
        yield from text_too_long(part.get(key), f"{path}.{key}")


@rule("RESP-05", "H")
def text_too_long(value: object, path: str) -> Complaints:
    most = {"image_url": IMAGE_MAX, "file_data": FILE_MAX, "arguments": ARGUMENTS_MAX}.get(
        path.rpartition(".")[2], TEXT_MAX
    )
    if isinstance(value, str) and len(value) > most:
        yield errors.long_string("RESP-05", path, most, len(value))


@rule("RESP-20", "H")
def call_id(item: Mapping[str, Any], path: str) -> Complaints:
    value = item.get("call_id")
    path = f"{path}.call_id"
    if value is None:
        yield errors.missing("RESP-20", path)
    elif not isinstance(value, str):
        yield errors.wrong_type("RESP-20", path, "a string", value)
    elif not value:
        yield errors.empty_string("RESP-20", path)
    elif len(value) > CALL_ID_MAX:
        yield errors.long_string("RESP-20", path, CALL_ID_MAX, len(value))


@rule("RESP-32", "H")
def function_call(item: Mapping[str, Any], path: str) -> Complaints:
    """Names of the history are not empty; their pattern is only M."""
    yield from call_id(item, path)
    yield from bad_name(item.get("name"), f"{path}.name", NAME_MAX, "RESP-32", "M")
    yield from arguments(item, f"{path}.arguments")


@rule("RESP-35", "H")
def arguments(item: Mapping[str, Any], path: str) -> Complaints:
    value = item.get("arguments")
    if "arguments" not in item:
        yield errors.missing("RESP-35", path)
    elif not isinstance(value, str):
        yield errors.wrong_type("RESP-35", path, "a string", value)
    yield from text_too_long(value, path)


@rule("RESP-14", "H")
def output(item: Mapping[str, Any], path: str) -> Complaints:
    """Text, or parts as a user may send them: a tool may answer with a picture."""
    value = item.get("output")
    path = f"{path}.output"
    if "output" not in item:
        yield errors.missing("RESP-14", path)
    elif not isinstance(value, (str, list)):
        yield errors.wrong_type("RESP-14", path, "one of an array of objects or string", value)
    yield from text_too_long(value, path)
    for position, part in enumerate(value if isinstance(value, list) else ()):
        sort = part.get("type") if isinstance(part, Mapping) else None
        if isinstance(sort, str) and sort not in INPUT_PARTS[:3]:
            yield errors.wrong_value("RESP-14", f"{path}[{position}]", sort, INPUT_PARTS[:3])
        yield from part_shape(part, f"{path}[{position}]")


GIVEN: Mapping[str, tuple[str, ...]] = {
    "shell_call": ("action",),
    "local_shell_call": ("action",),
    "apply_patch_call": ("operation",),
    "computer_call": ("action", "actions"),
}
"""What a call of such a kind asks for: one of these fields."""


@rule("RESP-16", "M")
def typed_call(item: Mapping[str, Any], path: str) -> Complaints:
    """By the official types: such a call has no arguments, but an action or an operation."""
    fields = GIVEN[type_of(item)]
    found = next((name for name in fields if item.get(name) is not None), None)
    if found is None:
        yield errors.missing("RESP-16", f"{path}.{fields[0]}", "M")
    elif not isinstance(item[found], list if found == "actions" else Mapping):
        yield errors.wrong_type("RESP-16", f"{path}.{found}", "an object", item[found], "M")
    for name in ("name", "arguments", "output"):
        if name in item:
            yield errors.unknown("RESP-16", f"{path}.{name}", "M")


@rule("RESP-17", "M")
def typed_output(item: Mapping[str, Any], path: str) -> Complaints:
    """By the official types: each kind of call has an output of its own form."""
    kind, value = type_of(item), item.get("output")
    if kind == "local_shell_call_output" and item.get("call_id") is None:
        if not isinstance(item.get("id"), str):
            yield errors.missing("RESP-17", f"{path}.id", "M")
    else:
        yield from call_id(item, path)
    path = f"{path}.output"
    if kind == "apply_patch_call_output":
        status = item.get("status")
        if status not in ("completed", "failed"):
            yield errors.wrong_value("RESP-17", path, str(status), ("completed", "failed"), "M")
        if value is not None and not isinstance(value, str):
            yield errors.wrong_type("RESP-17", path, "a string", value, "M")
    elif value is None:
        yield errors.missing("RESP-17", path, "M")
    elif kind == "shell_call_output":
        yield from shell_chunks(value, path)
    elif kind == "computer_call_output":
        yield from screenshot(value, path)
    elif not isinstance(value, str):
        yield errors.wrong_type("RESP-17", path, "a string", value, "M")


def shell_chunks(value: object, path: str) -> Complaints:
    if not isinstance(value, list):
        yield errors.wrong_type("RESP-17", path, "an array of objects", value, "M")
        return
    for position, chunk in enumerate(value):
        place = f"{path}[{position}]"
        if not isinstance(chunk, Mapping):
            yield errors.wrong_type("RESP-17", place, "an object", chunk, "M")
            continue
        for name, kind, what in (
            ("stdout", str, "a string"),
            ("stderr", str, "a string"),
            ("outcome", Mapping, "an object"),
        ):
            if name not in chunk:
                yield errors.missing("RESP-17", f"{place}.{name}", "M")
            elif not isinstance(chunk[name], kind):
                yield errors.wrong_type("RESP-17", f"{place}.{name}", what, chunk[name], "M")
        outcome = chunk.get("outcome")
        if isinstance(outcome, Mapping) and outcome.get("type") not in ("exit", "timeout"):
            ended = str(outcome.get("type"))
            yield errors.wrong_value("RESP-17", f"{place}.outcome.type", ended, ("exit", "timeout"), "M")


def screenshot(value: object, path: str) -> Complaints:
    if not isinstance(value, Mapping):
        yield errors.wrong_type("RESP-17", path, "an object", value, "M")
    elif value.get("type") != "computer_screenshot":
        sort = str(value.get("type"))
        yield errors.wrong_value("RESP-17", f"{path}.type", sort, ("computer_screenshot",), "M")
    elif not isinstance(value.get("image_url") or value.get("file_id"), str):
        yield errors.missing("RESP-17", f"{path}.image_url", "M")


@rule("RESP-18", "M")
def additional_tools(item: Mapping[str, Any], path: str) -> Complaints:
    if item.get("role") != "developer":
        yield errors.wrong_value("RESP-18", f"{path}.role", str(item.get("role")), ("developer",), "M")
    if not isinstance(item.get("tools"), list):
        yield errors.wrong_type(
            "RESP-18", f"{path}.tools", "an array of objects", item.get("tools"), confidence="M"
        )


def reasoning(item: Mapping[str, Any], path: str) -> Complaints:
    yield from summary(item, path)
    yield from plain_reasoning(item, path)
    yield from reasoning_status(item, path)


@rule("RESP-40", "H")
def summary(item: Mapping[str, Any], path: str) -> Complaints:
    value = item.get("summary")
    if value is None:
        yield errors.missing("RESP-40", f"{path}.summary")
    elif not isinstance(value, list):
        yield errors.wrong_type("RESP-40", f"{path}.summary", "an array of objects", value)
    sealed = item.get("encrypted_content")
    if sealed is not None and not isinstance(sealed, str):
        yield errors.wrong_type("RESP-40", f"{path}.encrypted_content", "a string", sealed)
    if item.get("id") is None and sealed is None:
        yield errors.missing("RESP-40", f"{path}.id", "M")


@rule("RESP-41", "H")
def plain_reasoning(item: Mapping[str, Any], path: str) -> Complaints:
    content = item.get("content")
    if isinstance(content, list) and content:
        yield errors.long_array("RESP-41", f"{path}.content", 0, len(content))


@rule("RESP-42", "M")
def reasoning_status(item: Mapping[str, Any], path: str) -> Complaints:
    if "status" in item:
        yield errors.unknown("RESP-42", f"{path}.status", "M")

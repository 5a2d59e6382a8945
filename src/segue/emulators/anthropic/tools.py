"""The tool list and the tool choice: ANT-40 … ANT-44."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from segue.emulators.anthropic import json_schema, typed_blocks
from segue.emulators.rules import Complaints, Refusal, rule

if TYPE_CHECKING:
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
    if not json_schema.is_valid(schema):
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
        if not json_schema.conforms(example, schema):
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

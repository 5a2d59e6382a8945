"""All complaints about a request: its fields, the model, the tools, the settings, and the steps with those before them."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any

from segue.emulators.gemini_interactions import steps
from segue.emulators.gemini_interactions.steps import refused
from segue.emulators.rules import Complaints, Context, Refusal, rule

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

HELD = "interactions"
FIELDS = frozenset(
    {"model", "agent", "agent_config", "input", "system_instruction", "tools", "generation_config", "store"}
    | {"response_format", "response_mime_type", "response_modalities", "previous_interaction_id", "stream"}
    | {"background", "continuation_token", "environment", "webhook_config", "cached_content", "labels"}
    | {"safety_settings", "service_tier"}
)
CONFIG = frozenset(
    {"max_output_tokens", "seed", "stop_sequences", "temperature", "top_p", "thinking_level"}
    | {"thinking_summaries", "tool_choice", "image_config", "speech_config", "video_config"}
    | {"transcription_config"}
)
TOOLS = frozenset(
    {"function", "google_search", "code_execution", "computer_use", "file_search", "google_maps"}
    | {"mcp_server", "retrieval", "url_context"}
)
LEVELS = ("minimal", "low", "medium", "high", "xhigh")
CHOICES = ("auto", "any", "none", "validated")
NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}")
AGENTS = re.compile(r"(deep-research|antigravity|code-mender)[a-z0-9.-]*")
TYPES: tuple[tuple[str, type | tuple[type, ...], str], ...] = (
    ("model", str, "a string"),
    ("agent", str, "a string"),
    ("system_instruction", str, "a string"),
    ("previous_interaction_id", str, "a string"),
    ("continuation_token", str, "a string"),
    ("store", bool, "a boolean"),
    ("background", bool, "a boolean"),
    ("stream", bool, "a boolean"),
    ("tools", list, "a list"),
    ("generation_config", dict, "an object"),
    ("response_format", (dict, list), "an object or a list"),
    ("labels", dict, "an object"),
)


def complaints(body: object, context: Context) -> Complaints:
    if not isinstance(body, dict):
        yield refused("INT-03", "The request must be a JSON object.")
        return
    yield from fields(body)
    yield from who(body, context)
    yield from unstored(body)
    yield from unknown_parent(body, context)
    yield from tools(body)
    yield from config(body, context)
    yield from given(body, context)


@rule("INT-03")
def fields(body: Mapping[str, Any]) -> Complaints:
    for name in body.keys() - FIELDS:
        yield refused("INT-03", f"Unknown parameter '{name}'.")
    for name, kind, wanted in TYPES:
        if body.get(name) is not None and not isinstance(body[name], kind):
            yield refused("INT-03", f"Invalid value at '{name}': expected {wanted}.")


@rule("INT-03")
@rule("INT-11")
def who(body: Mapping[str, Any], context: Context) -> Complaints:
    model, agent = body.get("model"), body.get("agent")
    if (model is None) == (agent is None):
        yield refused("INT-03", "Exactly one of 'model' and 'agent' is required.")
    if agent is not None and not AGENTS.fullmatch(str(agent)):
        yield Refusal("INT-11", f"Agent '{agent}' not found.", status=404)
    if model is not None and (not context.facts or context.facts.get("embedding")):
        yield Refusal("INT-03", f"Model '{model}' not found.", status=404)
    if agent is not None and body.get("generation_config") is not None:
        yield refused("INT-03", "'generation_config' cannot be used with an agent.", "M")
    if model is not None and body.get("agent_config") is not None:
        yield refused("INT-03", "'agent_config' cannot be used with a model.", "M")


@rule("INT-07", "M")
def unstored(body: Mapping[str, Any]) -> Complaints:
    if body.get("background") is True and body.get("store") is False:
        yield refused("INT-07", "Background interactions must be stored: 'store' must not be false.", "M")


@rule("INT-06")
@rule("INT-08")
@rule("INT-10")
def unknown_parent(body: Mapping[str, Any], context: Context) -> Complaints:
    if body.get("continuation_token") is not None:  # none was given out
        yield refused("INT-08", "Invalid continuation token.")
    parent = body.get("previous_interaction_id")
    held = context.memory.get(HELD)
    if parent is None or held is None:
        return
    record = held.get(parent)
    if record is None or record["account"] != context.account or record["expires"] <= context.now:
        yield Refusal("INT-10", f"Interaction {parent} not found.", status=404)
    elif record["interaction"]["status"] in ("in_progress", "queued"):
        yield refused("INT-06", f"Interaction {parent} is still in progress.", "M")
    elif record["interaction"]["status"] in ("failed", "cancelled"):
        yield refused("INT-06", f"Interaction {parent} did not complete.", "M")


@rule("INT-03")
def tools(body: Mapping[str, Any]) -> Complaints:
    offered = body.get("tools")
    names: Counter[str] = Counter()
    for index, tool in enumerate(offered if isinstance(offered, list) else ()):
        path = f"tools[{index}]"
        kind = tool.get("type") if isinstance(tool, dict) else None
        if kind not in TOOLS:
            yield refused("INT-03", f"Invalid value at '{path}.type': unknown tool type {kind!r}.")
            continue
        if kind != "function":
            continue
        name = tool.get("name")
        if not isinstance(name, str) or not NAME.fullmatch(name):
            yield refused("INT-03", f"Invalid function name at '{path}.name'.")
        names[str(name)] += 1
        for extra in tool.keys() - {"type", "name", "description", "parameters"}:
            yield refused("INT-03", f"Unknown parameter '{extra}' at '{path}'.", "M")
        if tool.get("parameters") is not None and not isinstance(tool["parameters"], dict):
            yield refused("INT-03", f"Invalid value at '{path}.parameters': expected an object.")
    for name, times in names.items():
        if times > 1:
            yield refused("INT-03", f"Duplicate function declaration found: {name}", "M")


@rule("INT-03")
def config(body: Mapping[str, Any], context: Context) -> Complaints:
    held = body.get("generation_config")
    if not isinstance(held, dict):
        return
    for name in held.keys() - CONFIG:
        yield refused("INT-03", f"Unknown parameter '{name}' at 'generation_config'.")
    level, levels = held.get("thinking_level"), context.facts.get("thinking_levels", ())
    if level is not None and level not in LEVELS:
        yield refused("INT-03", f"Invalid value at 'generation_config.thinking_level': {level!r}.")
    elif level is not None and levels and level not in levels:
        text = f"'{level}' is not a supported thinking level for this model. Allowed: {', '.join(levels)}."
        yield refused("INT-03", text)
    if held.get("thinking_summaries") not in (None, "auto", "none"):
        yield refused("INT-03", "Invalid value at 'generation_config.thinking_summaries'.")
    temperature = held.get("temperature")
    if temperature is not None and not (
        isinstance(temperature, int | float) and not isinstance(temperature, bool) and 0 <= temperature <= 2
    ):
        yield refused("INT-03", "Invalid value at 'generation_config.temperature'.", "M")
    for name in ("max_output_tokens", "seed"):
        value = held.get(name)
        if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
            yield refused("INT-03", f"Invalid value at 'generation_config.{name}': expected an integer.")
    yield from choice(held.get("tool_choice"), body)


def choice(given_choice: Any, body: Mapping[str, Any]) -> Complaints:
    if given_choice is None:
        return
    allowed = given_choice.get("allowed_tools") if isinstance(given_choice, dict) else None
    mode = allowed.get("mode", "auto") if isinstance(allowed, dict) else given_choice
    if mode not in CHOICES:
        yield refused("INT-03", "Invalid value at 'generation_config.tool_choice'.")
        return
    offered = body.get("tools")
    names = (
        {tool.get("name") for tool in offered if isinstance(tool, dict) and tool.get("type") == "function"}
        if isinstance(offered, list)
        else set()
    )
    if mode in ("any", "validated") and not names:
        yield refused("INT-03", "'tool_choice' demands a call, and no function is offered.", "M")
    for name in allowed.get("tools") or () if isinstance(allowed, dict) else ():
        if name not in names:
            yield refused("INT-03", f"'tool_choice' allows '{name}', which is not offered.", "M")


def before(body: Mapping[str, Any], memory: Mapping[str, Any]) -> list[Any]:
    """The steps of the interactions before this one (INT-06)."""
    record = memory.get(HELD, {}).get(body.get("previous_interaction_id"))
    return list(record["steps"]) if record else []


def given(body: Mapping[str, Any], context: Context) -> Complaints:
    found: Sequence[Any] = steps.steps_in(body)
    if not found:
        yield refused("INT-03", "Missing required parameter: 'input'.")
        return
    yield from steps.shapes(found)
    if not all(isinstance(step, dict) for step in found):
        return
    whole = [*before(body, context.memory), *found]
    known = body.get("previous_interaction_id") is None or HELD in context.memory
    yield from steps.pairing(whole, known=known)
    if known:
        yield from steps.order(whole, context)
    yield from steps.foreign_signatures(whole, context)
    yield from steps.unsigned_calls(whole, context)

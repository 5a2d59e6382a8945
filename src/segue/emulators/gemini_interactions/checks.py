"""All complaints about a request: its fields, the model, the tools, the settings, and the steps with those before them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from segue.emulators import signatures
from segue.emulators.gemini import thoughts
from segue.emulators.rules import Complaints, Confidence, Context, Refusal, rule

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


Step: TypeAlias = Mapping[str, Any]
CONTENTS = frozenset({"text", "image", "document", "audio", "video"})
_SERVED = (
    *("code_execution", "file_search", "google_maps", "google_search", "mcp_server_tool", "processing"),
    *("retrieval", "url_context"),
)
SERVED = frozenset(f"{tool}_{part}" for tool in _SERVED for part in ("call", "result"))
STEP_FIELDS = {
    "user_input": {"content"},
    "model_output": {"content", "error"},
    "thought": {"signature", "summary"},
    "function_call": {"id", "name", "arguments"},
    "function_result": {"call_id", "name", "result", "is_error"},
}
NEEDED = {"function_call": ("id", "name", "arguments"), "function_result": ("call_id", "result")}
CONTENT_FIELDS = {
    "text": {"text", "annotations"},
    "image": {"data", "uri", "mime_type", "resolution"},
    "document": {"data", "uri", "mime_type"},
    "audio": {"data", "uri", "mime_type", "channels", "sample_rate"},
    "video": {"data", "uri", "mime_type", "name", "processing", "resolution"},
}
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]*={0,2}")


def refused(rule_id: str, message: str, confidence: Confidence = "H") -> Refusal:
    return Refusal(rule_id, message, confidence=confidence)


def steps_in(body: Mapping[str, Any]) -> list[Any]:
    """The steps that the input stands for, in whichever of its forms (INT-03)."""
    given = body.get("input")
    if isinstance(given, str):
        return [{"type": "user_input", "content": [{"type": "text", "text": given}]}]
    if isinstance(given, dict):
        return [{"type": "user_input", "content": [given]}]
    if not isinstance(given, list):
        return []
    kinds = [item.get("type") if isinstance(item, dict) else None for item in given]
    if kinds and all(kind in CONTENTS for kind in kinds):
        return [{"type": "user_input", "content": given}]
    return given


@rule("INT-03")
@rule("INT-04")
def shapes(steps: Sequence[Any]) -> Complaints:
    for index, step in enumerate(steps):
        path = f"input[{index}]"
        if not isinstance(step, dict):
            yield refused("INT-03", f"Invalid value at '{path}': expected an object.")
            continue
        kind = step.get("type")
        if kind in SERVED:
            yield from _signature(step, path)
            continue
        if kind not in STEP_FIELDS:
            yield refused("INT-03", f"Invalid value at '{path}.type': unknown step type {kind!r}.")
            continue
        for name in NEEDED.get(kind, ()):
            if step.get(name) is None:
                yield refused("INT-04", f"Missing required parameter: '{path}.{name}'.")
        for name in step.keys() - STEP_FIELDS[kind] - {"type"}:
            yield refused("INT-04", f"Unknown parameter '{name}' at '{path}'.", "M")
        yield from _FORMS[kind](step, path)


def _said(step: Step, path: str) -> Complaints:
    content = step.get("content")
    if not isinstance(content, list):
        yield refused("INT-04", f"Invalid value at '{path}.content': expected a list.")
        return
    if step["type"] == "user_input" and not content:
        yield refused("INT-04", f"Invalid value at '{path}.content': must not be empty.", "M")
    yield from contents(content, f"{path}.content")


def contents(listed: Sequence[Any], path: str) -> Complaints:
    for index, content in enumerate(listed):
        place = f"{path}[{index}]"
        kind = content.get("type") if isinstance(content, dict) else None
        if kind not in CONTENTS:
            yield refused("INT-04", f"Invalid value at '{place}.type': unknown content type {kind!r}.")
            continue
        for name in content.keys() - CONTENT_FIELDS[kind] - {"type"}:
            yield refused("INT-04", f"Unknown parameter '{name}' at '{place}'.", "M")
        if kind == "text":
            if not isinstance(content.get("text"), str):
                yield refused("INT-04", f"Invalid value at '{place}.text': expected a string.")
        else:
            yield from _shown(content, place)


def _shown(content: Mapping[str, Any], path: str) -> Complaints:
    data, uri, mime = (content.get(name) for name in ("data", "uri", "mime_type"))
    if not data and not uri:
        yield refused("INT-04", f"One of 'data' or 'uri' is required at '{path}'.")
    if data is not None and not (isinstance(data, str) and _BASE64.fullmatch(data)):
        yield refused("INT-04", f"Invalid value at '{path}.data': Base64 decoding failed.")
    for name, value in (("uri", uri), ("mime_type", mime)):
        if value is not None and not isinstance(value, str):
            yield refused("INT-04", f"Invalid value at '{path}.{name}': expected a string.")
    if data and not mime:
        yield refused("INT-04", f"Missing required parameter: '{path}.mime_type'.", "M")


def _signature(step: Step, path: str) -> Complaints:
    value = step.get("signature")
    if value is not None and not (isinstance(value, str) and _BASE64.fullmatch(value)):
        yield refused("INT-04", f"Invalid value at '{path}.signature': Base64 decoding failed.")


def _thought(step: Step, path: str) -> Complaints:
    yield from _signature(step, path)
    summary = step.get("summary")
    if summary is not None:
        if not isinstance(summary, list):
            yield refused("INT-04", f"Invalid value at '{path}.summary': expected a list.")
        else:
            yield from contents(summary, f"{path}.summary")


def _call(step: Step, path: str) -> Complaints:
    for name in ("id", "name"):
        if step.get(name) is not None and not (isinstance(step[name], str) and step[name]):
            yield refused("INT-04", f"Invalid value at '{path}.{name}': expected a string.")
    if step.get("arguments") is not None and not isinstance(step["arguments"], dict):
        yield refused("INT-04", f"Invalid value at '{path}.arguments': expected an object.")


def _result(step: Step, path: str) -> Complaints:
    if step.get("call_id") is not None and not (isinstance(step["call_id"], str) and step["call_id"]):
        yield refused("INT-04", f"Invalid value at '{path}.call_id': expected a string.")
    result = step.get("result")
    if isinstance(result, list):
        yield from contents(result, f"{path}.result")
    elif result is not None and not isinstance(result, str | dict):
        yield refused("INT-04", f"Invalid value at '{path}.result': expected text, an object or contents.")
    if step.get("is_error") is not None and not isinstance(step["is_error"], bool):
        yield refused("INT-04", f"Invalid value at '{path}.is_error': expected a boolean.")


_FORMS = {
    "user_input": _said,
    "model_output": _said,
    "thought": _thought,
    "function_call": _call,
    "function_result": _result,
}


# Across steps


@rule("INT-06")
def pairing(steps: Sequence[Step], *, known: bool) -> Complaints:
    """`known`: whether all that stands before the steps is among them."""
    waiting: dict[str, str] = {}
    seen: set[str] = set()
    for index, step in enumerate(steps):
        kind = step.get("type")
        if kind == "function_call":
            name = str(step.get("id"))
            if name in seen:
                yield refused("INT-06", f"Duplicate function_call id '{name}' at 'input[{index}]'.", "M")
            seen.add(name)
            waiting[name] = str(step.get("name"))
        elif kind == "function_result":
            name = str(step.get("call_id"))
            if name in waiting:
                called = waiting.pop(name)
                if step.get("name") not in (None, "", called):
                    text = f"The function_result for '{name}' names '{step['name']}', the call '{called}'."
                    yield refused("INT-06", text, "M")
            elif name in seen:
                yield refused("INT-06", f"Function call '{name}' was answered before.", "M")
            elif known:
                yield refused("INT-06", f"No function_call found for function_result with call_id '{name}'.")
        elif kind == "user_input" and waiting:
            yield _unanswered(waiting)
            waiting.clear()
    if waiting:
        yield _unanswered(waiting)


def _unanswered(waiting: Mapping[str, str]) -> Refusal:
    return refused("INT-06", f"Function call '{next(iter(waiting))}' has no function_result.")


@rule("INT-07", "M")
def order(steps: Sequence[Step], context: Context) -> Complaints:
    """Some models go on with what they said last (GEM-07)."""
    if not steps:
        return
    if steps[0].get("type") != "user_input":
        yield refused("INT-07", "The first step must be a user_input.", "M")
    ends = ("user_input", "function_result")
    if context.facts.get("may_end_with_model") is False and steps[-1].get("type") not in ends:
        yield refused("INT-07", "The last step must be a user_input or a function_result.", "M")


@rule("INT-04")
def foreign_signatures(steps: Sequence[Step], context: Context) -> Complaints:
    """A signature is that of what follows it, issued to this account for this generation of models."""
    if context.facts.get("trust_foreign_signatures"):
        return
    for index, step in enumerate(steps):
        signature = step.get("signature")
        if step.get("type") != "thought" or not signature:
            continue
        following = next(
            (after for after in steps[index + 1 :] if after.get("type") in ("function_call", "model_output")),
            {},
        )
        born = signatures.unseal(context.secret, thoughts.canonical(signature), thoughts.PREFIX)
        if born is None or any(born[key] != value for key, value in thoughts.owner(context).items()):
            yield refused("INT-04", "Corrupted thought signature.")
        elif born["part"] not in ("text", thoughts.bound(_part(following))):
            yield refused("INT-04", "Invalid thought signature.")


def _part(step: Step) -> dict[str, Any]:
    if step.get("type") != "function_call":
        return {}
    return {"function_call": {"name": step.get("name"), "args": step.get("arguments")}}


@rule("INT-04", "L")
def unsigned_calls(steps: Sequence[Step], context: Context) -> Complaints:
    """generateContent wants a signature on the first call of a step in the current turn; here nobody says so."""
    if context.facts.get("signatures_required") is not True:
        return
    last = max((index for index, step in enumerate(steps) if step.get("type") == "user_input"), default=-1)
    signed = called = False
    for step in steps[last + 1 :]:
        kind = step.get("type")
        signed = signed or (kind == "thought" and bool(step.get("signature")))
        if kind == "function_call" and not called and not signed:
            yield refused("INT-04", thoughts.MISSING.format(name=step.get("name"), position=last + 1), "L")
        called = kind == "function_call"
        signed = signed and kind != "function_result"


def texts_of(step: Step, field: str = "content") -> Iterator[str]:
    held = step.get(field)
    for content in held if isinstance(held, list) else ():
        if isinstance(content, dict) and isinstance(content.get("text"), str):
            yield content["text"]


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
    found: Sequence[Any] = steps_in(body)
    if not found:
        yield refused("INT-03", "Missing required parameter: 'input'.")
        return
    yield from shapes(found)
    if not all(isinstance(step, dict) for step in found):
        return
    whole = [*before(body, context.memory), *found]
    known = body.get("previous_interaction_id") is None or HELD in context.memory
    yield from pairing(whole, known=known)
    if known:
        yield from order(whole, context)
    yield from foreign_signatures(whole, context)
    yield from unsigned_calls(whole, context)

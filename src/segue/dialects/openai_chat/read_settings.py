"""What a foreign request asks for beside its messages, read: tools and options. What is not ours is kept as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_args

from segue.conversation.blocks import Origin
from segue.conversation.extra import Extra
from segue.conversation.options import Effort, Options
from segue.conversation.tools import CUSTOM_INPUT, Named, ToolSpec
from segue.dialects import request_messages
from segue.dialects.function_tools import function_tool, read_tool
from segue.dialects.openai_chat.read_messages import read_message
from segue.dialects.request_fields import flag, listed, number, record, text, texts, unknown, whole
from segue.dialects.request_settings import own_head, read_own

if TYPE_CHECKING:
    from collections.abc import Mapping

    from segue.conversation.tools import ToolChoice
    from segue.dialects.openai_chat.rules import Variant

EFFORTS: tuple[Effort, ...] = get_args(Effort)

_READ = frozenset(
    [
        *("messages", "model", "tools", "functions", "tool_choice", "function_call", "stream", "max_tokens"),
        *("max_completion_tokens", "temperature", "top_p", "top_k", "repetition_penalty", "repeat_penalty"),
        *("seed", "stop", "parallel_tool_calls", "response_format", "reasoning_effort", "thinking"),
        *("enable_thinking", "reasoning", "thinking_budget", "stream_options", "reasoning_split"),
    ]
)
_CHOICES: Mapping[str, ToolChoice] = {
    "auto": "auto",
    "none": "none",
    "required": "required",
    "any": "required",
}


def read_tools(variant: Variant, body: Mapping[str, Any]) -> tuple[ToolSpec, ...]:
    """The tools on offer; those of unknown kinds are the target's own."""
    found: list[ToolSpec] = []
    for field in ("tools", "functions"):
        for index, item in enumerate(listed(body.get(field), field)):
            path = f"{field}[{index}]"
            tool = record(item, path)
            kind = tool.get("type", "function")
            if field == "functions":
                found.append(function_tool(tool, path))
            elif kind == "custom" and isinstance(tool.get("custom"), dict):
                found.append(_custom(variant, tool, path))
            else:
                found.append(read_tool(tool, path, variant.name, typed=True))
    return tuple(found)


def _custom(variant: Variant, tool: dict[str, Any], path: str) -> ToolSpec:
    """A tool that takes a free text; to others it is a function of one text, and its grammar a part of the description."""
    held = tool["custom"]
    described = text(held.get("description"), f"{path}.custom.description")
    shape = held.get("format")
    grammar = shape.get("grammar") if isinstance(shape, dict) else None
    if isinstance(grammar, dict) and grammar.get("definition"):
        described = f"{described}\nThe input follows this grammar:\n{grammar['definition']}"
    return ToolSpec(
        text(held.get("name"), f"{path}.custom.name"),
        described,
        {"type": "object", "properties": {CUSTOM_INPUT: {"type": "string"}}, "required": [CUSTOM_INPUT]},
        kind="custom",
        extra=Extra(variant.name, form=tool),
    )


def leading_messages(variant: Variant, came: Extra, system: str) -> list[Any]:
    """The messages that the system prompt came in; none if it is another now, or of another wire."""
    origin = Origin(variant.name)
    return request_messages.leading_messages(
        came, variant.name, system, lambda message: read_message(variant, message, "messages", origin).text
    )


def read_options(variant: Variant, body: Mapping[str, Any], leading: list[Any] | None = None) -> Options:
    """`leading` are the messages that became the system prompt."""
    extra: dict[str, Any] = {}
    limit = body.get("max_completion_tokens")
    if limit is None:
        limit = body.get("max_tokens")
    penalty = body.get("repetition_penalty", body.get("repeat_penalty"))
    extra.update({field: value for field, value in body.items() if field not in _READ and value is not None})
    if body.get("stream_options") not in (None, {}, {"include_usage": True}, {"include_usage": False}):
        extra["stream_options"] = body["stream_options"]
    effort, budget = _thinking(body, extra)
    return Options(
        model=text(body.get("model"), "model"),
        stream=flag(body.get("stream"), "stream") or None,
        max_tokens=whole(limit, "max_tokens"),
        temperature=number(body.get("temperature"), "temperature"),
        top_p=number(body.get("top_p"), "top_p"),
        top_k=whole(body.get("top_k"), "top_k"),
        repeat_penalty=number(penalty, "repeat_penalty"),
        seed=whole(body.get("seed"), "seed"),
        stop=texts(body.get("stop"), "stop"),
        tool_choice=_choice(body, extra),
        parallel_calls=flag(body.get("parallel_tool_calls"), "parallel_tool_calls"),
        effort=effort,
        thinking_budget=budget,
        response_schema=_schema(body.get("response_format"), extra),
        own=_own(variant, body, extra, leading or []),
    )


def _own(variant: Variant, body: Mapping[str, Any], extra: dict[str, Any], leading: list[Any]) -> Extra:
    # CHAT-30: an empty list is refused where unknown fields are.
    empty = body.get("tools") == [] and variant.fields is not None
    apart = {"messages", "functions"} | ({"tools"} if body.get("tools") or empty else set())
    return read_own(variant.name, body, extra, apart, own_head(variant.name, leading))


def _choice(body: Mapping[str, Any], extra: dict[str, Any]) -> ToolChoice | None:
    field = "tool_choice" if body.get("tool_choice") is not None else "function_call"
    given = body.get(field)
    if given is None:
        return None
    if isinstance(given, str):
        if given not in _CHOICES:
            raise unknown(field, "choice", given, ", ".join(_CHOICES))
        return _CHOICES[given]
    choice = record(given, field)
    function = choice.get("function") if field == "tool_choice" else choice
    if isinstance(function, dict) and isinstance(function.get("name"), str):
        return Named(function["name"])
    extra[field] = given  # allowed_tools and custom tools have no counterpart
    return None


def _thinking(body: Mapping[str, Any], extra: dict[str, Any]) -> tuple[Effort | None, int | None]:
    """Effort and budget, in whichever field a server has them; what they cannot hold is kept."""
    efforts: dict[str, Effort] = {level: level for level in EFFORTS}
    level, budget = body.get("reasoning_effort"), body.get("thinking_budget")
    effort = efforts.get(level) if isinstance(level, str) else None
    if level is not None and effort is None:
        extra["reasoning_effort"] = level
    thinking, enabled, reasoning = body.get("thinking"), body.get("enable_thinking"), body.get("reasoning")
    if thinking == {"type": "disabled"} or enabled is False:
        effort = "none"
    elif thinking is not None:
        extra["thinking"] = thinking
    elif enabled is not None:
        extra["enable_thinking"] = enabled
    if isinstance(reasoning, dict) and reasoning.keys() <= {"effort", "max_tokens"}:
        budget = reasoning.get("max_tokens", budget)
        if reasoning.get("effort") in efforts:
            effort = efforts[reasoning["effort"]]
        elif reasoning.get("effort") is not None:
            extra["reasoning"] = reasoning
    elif reasoning is not None:
        extra["reasoning"] = reasoning
    return effort, whole(budget, "thinking_budget")


def _schema(given: Any, extra: dict[str, Any]) -> dict[str, Any] | None:
    if given is None:
        return None
    shape = record(given, "response_format").get("json_schema")
    schema = shape.get("schema") if isinstance(shape, dict) else None
    if isinstance(schema, dict):
        return schema
    if given != {"type": "text"}:
        extra["response_format"] = given
    return None

"""The options in a Messages request, with what it has in fields of this wire's own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from segue.conversation.extra import Extra
from segue.conversation.options import Options
from segue.conversation.tools import Named
from segue.dialects.anthropic_messages.tools import NAME
from segue.dialects.option_fields import OptionField, take_options
from segue.dialects.request_fields import flag, record, text, texts, whole
from segue.dialects.request_settings import read_own

if TYPE_CHECKING:
    from collections.abc import Mapping

    from segue.conversation.options import Effort
    from segue.conversation.tools import ToolChoice

LEVELS = ("low", "medium", "high", "xhigh", "max")
COMMON_LEVELS = ("low", "medium", "high", "max")
_KNOWN = frozenset(
    {"model", "messages", "system", "tools", "tool_choice", "max_tokens", "stream", "stop_sequences"}
    | {"temperature", "top_p", "top_k"}
)
_CHOICES: Mapping[Any, ToolChoice] = {"auto": "auto", "any": "required", "none": "none"}


SAMPLING = (
    OptionField("temperature", "temperature", most=1),
    OptionField("top_p", "top_p"),
    OptionField("top_k", "top_k"),
)


def decode_options(body: Mapping[str, Any], leading: list[Any] | None = None) -> Options:
    """`leading` are the messages that became part of the system prompt."""
    choice = record(body.get("tool_choice") or {}, "tool_choice")
    serial = flag(choice.get("disable_parallel_tool_use"), "tool_choice.disable_parallel_tool_use")
    thinking = record(body.get("thinking") or {}, "thinking")
    output = record(body.get("output_config") or {}, "output_config")
    return Options(
        model=text(body.get("model"), "model"),
        stream=flag(body.get("stream"), "stream") or None,
        max_tokens=whole(body.get("max_tokens"), "max_tokens"),
        **take_options(SAMPLING, {**body}),
        stop=texts(body.get("stop_sequences") or None, "stop_sequences"),
        tool_choice=_decode_choice(choice),
        parallel_calls=None if serial is None else not serial,
        effort=_decode_effort(thinking, output),
        thinking_budget=whole(thinking.get("budget_tokens"), "thinking.budget_tokens"),
        response_schema=_decode_format(output.get("format") or body.get("output_format")),
        own=_decode_own(body, leading or []),
    )


def _decode_choice(choice: dict[str, Any]) -> ToolChoice | None:
    if choice.get("type") == "tool":
        return Named(text(choice.get("name"), "tool_choice.name"))
    kind = choice.get("type")
    return _CHOICES.get(kind) if isinstance(kind, str) else None


def _decode_effort(thinking: dict[str, Any], output: dict[str, Any]) -> Effort | None:
    if thinking.get("type") in ("disabled", "between_tools"):
        return "none"
    level: Any = output.get("effort")
    return level if level in LEVELS else None


def _decode_format(shape: Any) -> dict[str, Any] | None:
    schema = shape.get("schema") if isinstance(shape, dict) else None
    return schema if isinstance(schema, dict) else None


def _decode_own(body: Mapping[str, Any], leading: list[Any]) -> Extra:
    extra = {key: value for key, value in body.items() if key not in _KNOWN}
    _drop_neutral(extra)
    system = body.get("system")
    pieces = system if isinstance(system, list) else []
    marks = [piece["cache_control"] for piece in pieces if piece.get("cache_control")]
    around = None
    if leading or marks:
        form = {"messages": leading, "system": system} if leading else {}
        around = Extra(NAME, hints={"cache_control": marks[0]} if marks else {}, form=form)
    apart = {"messages", "tools"} if body.get("tools") else {"messages"}
    return read_own(NAME, body, extra, apart, around)


def _drop_neutral(extra: dict[str, Any]) -> None:
    """Drop thinking and answer format as far as the neutral options express them in full."""
    thinking, output = extra.get("thinking"), dict(extra.pop("output_config", None) or {})
    level, shape = output.get("effort"), output.get("format")
    if isinstance(thinking, dict) and not thinking.keys() - {"type", "budget_tokens"}:
        if thinking.get("type") == "adaptive" and level in COMMON_LEVELS:
            del extra["thinking"], output["effort"]
        elif thinking.get("type") in ("enabled", "disabled") and level is None:
            del extra["thinking"]
    if isinstance(shape, dict) and shape.keys() == {"type", "schema"}:
        del output["format"]
    if output:
        extra["output_config"] = output

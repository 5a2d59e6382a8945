"""Everything in a Converse request beside the messages: the system prompt, tools, and how to generate.

What this wire has and our options do not (guardrails, service tiers) is kept in the options' `own`, in its own shape, and goes
back as it was. Settings of a family of models stand in `additionalModelRequestFields` (BDR-12).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import structs

from segue.conversation.extra import Extra
from segue.conversation.json_safe import encodable, ensure_json_safe
from segue.conversation.options import Options
from segue.conversation.tools import Named, ToolSpec
from segue.dialects.converse.cache_points import is_point, without_points
from segue.dialects.converse.read_messages import read_system
from segue.dialects.converse.rules import NAME, caches, takes_cache_points
from segue.dialects.converse.wire import CACHE_POINT
from segue.dialects.requests.extra_fields import FieldKinds, own
from segue.dialects.requests.json_fields import listed, record, text, texts, whole
from segue.dialects.requests.settings import (
    OptionField,
    RequestSettings,
    came_for_model,
    read_own,
    take_options,
    unthought_loop,
)
from segue.dialects.schemas import flavours
from segue.dialects.schemas.strict import closed_schema
from segue.transcript.blocks.value_text import json_of
from segue.transcript.steps import AnsweredCall, ModelStep

if TYPE_CHECKING:
    from collections.abc import Mapping

    from segue.conversation.options import Effort
    from segue.conversation.tools import ToolChoice
    from segue.dialects.card import ModelCard
    from segue.transcript.repairs import Repair
    from segue.transcript.steps import Transcript


_KINDS = FieldKinds(NAME)
STAND_IN: Final[dict[str, Any]] = {
    "toolSpec": {
        "name": "no_tool",
        "description": "Stands for tools that were used before and are not offered now. Do not call it.",
        "inputSchema": {"json": {"type": "object", "properties": {}}},
    }
}
"""BDR-04: a history with calls needs at least one tool."""


def tools_in(body: Mapping[str, Any]) -> Any:
    config = body.get("toolConfig")
    return config.get("tools") if isinstance(config, dict) else None


def read_tools(value: Any) -> list[ToolSpec]:
    tools: list[ToolSpec] = []
    for index, given in enumerate(listed(value, "toolConfig.tools")):
        path = f"toolConfig.tools[{index}]"
        tool = record(given, path)
        if tool == STAND_IN:
            continue
        if CACHE_POINT in tool:
            if tools:
                tools[-1] = _with_point(tools[-1], tool[CACHE_POINT])
        elif "toolSpec" in tool:
            tools.append(_read_tool(record(tool["toolSpec"], f"{path}.toolSpec"), f"{path}.toolSpec"))
        else:
            held = next(iter(tool.values()), None)
            name = held.get("name") if isinstance(held, dict) else None
            named = str(name or next(iter(tool), "tool"))
            tools.append(ToolSpec(named, kind="server", extra=Extra(NAME, fields=tool)))
    return tools


def _with_point(tool: ToolSpec, point: Any) -> ToolSpec:
    extra = tool.extra if tool.extra is not None else Extra(NAME)
    return structs.replace(tool, extra=structs.replace(extra, hints={CACHE_POINT: point}))


def _read_tool(spec: dict[str, Any], path: str) -> ToolSpec:
    name = text(spec.get("name"), f"{path}.name")
    described = text(spec.get("description"), f"{path}.description")
    given = spec.get("inputSchema")
    schema = given.get("json") if isinstance(given, dict) else None
    parameters = record(schema, f"{path}.inputSchema.json") if schema is not None else None
    strict = spec.get("strict")
    strictness = strict if isinstance(strict, bool) else None
    extra = _KINDS.kept(spec, plain_tool(name, described, parameters, strict=strictness))
    return ToolSpec(name, described, parameters, strictness, extra=extra)


def plain_tool(
    name: str, description: str, parameters: dict[str, Any] | None, *, strict: bool | None
) -> dict[str, Any]:
    """A tool with what every tool has, and nothing else."""
    return {"name": name, "description": description, "inputSchema": {"json": parameters}, "strict": strict}


_SAMPLING = (  # BDR-12
    OptionField("temperature", "temperature", 0, 1),
    OptionField("top_p", "topP", 0, 1),
)
_TOP_K = (OptionField("top_k", "top_k"),)
"""It stands where the family of the model has it."""
LEVELS: Final = ("low", "medium", "high", "xhigh", "max")
_COMMON_LEVELS: Final = ("low", "medium", "high")
_LEAST_BUDGET: Final = 1024
_DEFAULT_MAX_TOKENS: Final = 8192
"""What a budget for thinking is measured by where nobody asked for a limit and the card knows none."""
_BUDGETS: Mapping[str, int] = {
    "minimal": 1024,
    "low": 4096,
    "medium": 10_000,
    "high": 24_000,
    "xhigh": 32_000,
    "max": 60_000,
}
_ADDITIONAL: Final = "additionalModelRequestFields"
_ENCODED = frozenset(
    {"model", "modelId", "messages", "system", "toolConfig", "inferenceConfig", "outputConfig", _ADDITIONAL}
    | {CACHE_POINT}
)


def encode_settings(
    transcript: Transcript, tools: tuple[ToolSpec, ...], options: Options, card: ModelCard
) -> tuple[dict[str, Any], list[Repair]]:
    """`cachePoint` among them: to be put behind the last message."""

    def encoded(asked: Options) -> _Settings:
        settings = _Settings(transcript, asked, card)
        settings.limits()
        settings.thinking()
        settings.sampling()
        settings.answer()
        settings.additional()
        settings.add_extra(_ENCODED)
        return settings

    settings = encoded(options)
    config = settings.tool_config(tools)
    body = settings.as_they_came(decode_options, encoded)
    for name in ("model", "modelId", "toolConfig", "system"):
        body.pop(name, None)
    if config is not None:
        body["toolConfig"] = config
    system = settings.system()
    if system:
        body["system"] = system
    point = settings.extra.get(CACHE_POINT)
    settings.note_points()
    if isinstance(point, dict) and not settings.has_points:
        _mark(body, point, card)
    return body, settings.repairs


def _mark(body: dict[str, Any], point: dict[str, Any], card: ModelCard) -> None:
    """Have the cache keep what begins each request of a session."""
    if "system" in body and caches(card, "system"):
        body["system"] = [*body["system"], {CACHE_POINT: point}]
    if "toolConfig" in body and caches(card, "tools"):
        config = body["toolConfig"]
        body["toolConfig"] = {**config, "tools": [*config["tools"], {CACHE_POINT: point}]}
    if caches(card, "messages"):
        body[CACHE_POINT] = point


class _Settings(RequestSettings):
    def __init__(self, transcript: Transcript, options: Options, card: ModelCard) -> None:
        super().__init__(transcript, options, card)
        self._fields: dict[str, Any] = {}
        """Of the model's own."""
        self._output: dict[str, Any] = {}
        self._config: dict[str, Any] = {}
        self._thinks = False
        self.has_points = self._points_came()

    # The system prompt and cache points

    def system(self) -> list[Any]:
        came, system = own(self.options.own, NAME), self.transcript.system
        given = came.form.get("system") if came is not None else None
        if isinstance(given, list) and read_system(given) == system:
            return given if takes_cache_points(self.card, "system") else without_points(given)
        return [{"text": system}] if system.strip() else []

    def _points_came(self) -> bool:
        """Whether the request has cache points already."""
        came = own(self.options.own, NAME)
        given = came.form.get("system") if came is not None else None
        if isinstance(given, list) and any(map(is_point, given)):
            return True
        blocks = (block for step in self.transcript.steps for block in step.blocks)
        return any(_is_marked(block.extra) or _is_result_marked(block) for block in blocks)

    def note_points(self) -> None:
        """Points among the messages that this family of models refuses (BDR-13)."""
        if self.has_points and not takes_cache_points(self.card, "messages"):
            self.note("hints_dropped", "messages", f"the model takes no {CACHE_POINT}")

    # How to generate

    def limits(self) -> None:
        limit = self.output_limit()
        if limit is not None:
            self._config["maxTokens"] = limit
        stop = [stop_text for stop_text in self.options.stop if stop_text]
        if len(stop) < len(self.options.stop):
            self.not_sent("stop", "the target refuses empty stop sequences")
        if stop:
            self._config["stopSequences"] = stop

    def sampling(self) -> None:
        self.not_known("seed", "repeat_penalty")
        self.add_options(_SAMPLING, self._config)
        top_k: dict[str, int] = {}
        self.add_options(_TOP_K, top_k)
        for value in top_k.values():
            self._top_k(value)
        given = self.extra.get("inferenceConfig")
        if isinstance(given, dict):
            self._config = {**given, **self._config}
        if self._config:
            self.body["inferenceConfig"] = self._config

    def refusal(self, option: str, value: Any) -> str:
        harmless = option == "temperature" and value == 1
        return "not while thinking is on" if self._thinks and not harmless else ""

    def _top_k(self, value: int) -> None:
        if self.card.family == "claude":
            self._fields["top_k"] = value
        elif self.card.family == "nova":
            self._fields["inferenceConfig"] = {"topK": value}
        else:
            self.not_sent("top_k", "the model is not known to take it")

    def answer(self) -> None:
        schema, given = self.options.response_schema, self.extra.get("outputConfig")
        output = dict(given) if isinstance(given, dict) else {}
        output |= self._output
        if schema is not None and not self.card.answer_schema:
            self.not_sent("response_schema", "the model cannot be held to a schema")
        elif schema is not None and "textFormat" not in output:
            written, lost = closed_schema(ensure_json_safe(schema))
            if written is None:
                self.not_sent("response_schema", "; ".join(lost))
            else:
                structure = {"jsonSchema": {"schema": json_of(written), "name": "answer"}}
                output["textFormat"] = {"type": "json_schema", "structure": structure}
                if lost:
                    self.note("schema_reduced", "options.response_schema", "; ".join(lost))
        if output:
            self.body["outputConfig"] = output

    def additional(self) -> None:
        """Fields of the model's own, and those that came for it."""
        given = self.extra.get(_ADDITIONAL)
        if isinstance(given, dict) and given:
            if came_for_model(self.options, NAME) or (
                self.options.extra and _ADDITIONAL in self.options.extra
            ):
                self._fields = {**self._fields, **given}
            else:
                self.not_sent(_ADDITIONAL, "it came for another model")
        if self._fields:
            self.body[_ADDITIONAL] = self._fields

    # Thinking

    def thinking(self) -> None:
        options, card = self.options, self.card
        asked = {"effort": options.effort, "thinking_budget": options.thinking_budget}
        given = self.extra.get(_ADDITIONAL)
        came = given.get("thinking") if isinstance(given, dict) else None
        self._thinks = isinstance(came, dict) and came.get("type") in ("enabled", "adaptive")
        if not any(value is not None for value in asked.values()):
            return
        if card.family == "claude" and card.thinking in ("manual", "adaptive", "always"):
            config = self._claude_thinking()
            if config is not None and config.get("type") == "enabled" and unthought_loop(self.transcript):
                # BDR-15: in manual mode an open tool loop must begin with a thought of this very model.
                self.note("thinking_changed", "options.thinking", "off for now")
                config = {"type": "disabled"}
            if config is not None:
                self._fields["thinking"] = config
                self._thinks = config["type"] in ("enabled", "adaptive")
        elif card.family == "nova" and card.thinking == "level":
            self._nova_thinking()
        else:
            for name, value in asked.items():
                if value not in (None, "none"):
                    self.not_sent(name, "the model is not known to take it")

    def _claude_thinking(self) -> dict[str, Any] | None:
        effort, budget, mode = self.options.effort, self.options.thinking_budget, self.card.thinking
        if effort == "none":
            if budget is not None:
                self.not_sent("thinking_budget", "no thinking is asked for")
            if mode == "always":
                self.not_sent("effort", "thinking cannot be switched off on this model")
                return None
            return {"type": self.card.thinking_off}
        if mode == "manual":
            return self._counted(effort, budget)
        if budget is not None:
            self.not_sent("thinking_budget", "the model decides itself how long to think")
        if effort is not None:
            self._output["effort"] = self.level_below(effort, LEVELS, self.card.efforts or _COMMON_LEVELS)
        return {"type": "adaptive"}

    def _counted(self, effort: Effort | None, budget: int | None) -> dict[str, Any] | None:
        if budget is not None and effort is not None:
            self.not_sent("effort", "thinking_budget decides how long to think")
        limit = self._config.get("maxTokens") or self.card.output or _DEFAULT_MAX_TOKENS
        asked = "effort" if budget is None else "thinking_budget"
        tokens = min(_BUDGETS[effort or "medium"], limit // 2) if budget is None else budget
        if limit - 1 < _LEAST_BUDGET:
            self.not_sent(asked, f"thinking takes more than {_LEAST_BUDGET} tokens of max_tokens")
            return None
        fitting = min(max(tokens, _LEAST_BUDGET), limit - 1)
        if budget is not None and fitting != budget:
            self.not_sent(asked, f"sent as {fitting}")
        self._config.setdefault("maxTokens", limit)
        return {"type": "enabled", "budget_tokens": fitting}

    def _nova_thinking(self) -> None:
        effort = self.options.effort
        if self.options.thinking_budget is not None:
            self.not_sent("thinking_budget", "the model knows levels of thinking, not tokens")
        if effort == "none":
            self._fields["reasoningConfig"] = {"type": "disabled"}
        elif effort is not None:
            level = self.level_below(effort, LEVELS, _COMMON_LEVELS)
            self._fields["reasoningConfig"] = {"type": "enabled", "maxReasoningEffort": level}

    # Tools

    def tool_config(self, tools: tuple[ToolSpec, ...]) -> dict[str, Any] | None:
        offered = self.offered(tools)
        used = any(type(step) is ModelStep and step.calls for step in self.transcript.steps)
        if not self.takes(offered):
            return {"tools": [STAND_IN]} if used and self.card.tools else None  # BDR-04
        choice = self.tool_choice()
        if choice == "none":
            if not used:
                return None  # BDR-08: there is no other way
            self.note("choice_weakened", "options.tool_choice", "the target has no word for none")
            choice = "auto"
        marked = takes_cache_points(self.card, "tools")
        config: dict[str, Any] = {
            "tools": self.encode_tools(
                tools,
                lambda: [
                    entry for index, tool in offered for entry in self._entries(index, tool, marked=marked)
                ],
                form="marked" if marked else "",
            )
        }
        if choice is not None:
            config["toolChoice"] = self._choice(choice)
        if self.options.parallel_calls is False:
            self.not_sent("parallel_calls", "the target decides how many calls it makes at once")
        return config

    def _entries(self, index: int, tool: ToolSpec, *, marked: bool) -> list[dict[str, Any]]:
        extra = own(tool.extra, NAME)
        point = extra.hints.get(CACHE_POINT) if extra is not None else None
        if point is not None and not marked:
            self.note("hints_dropped", f"tools[{index}]", f"the model takes no {CACHE_POINT} here")
        points = [{CACHE_POINT: point}] if point is not None and marked else []
        if tool.kind == "server" and extra is not None:
            return [extra.fields, *points]
        return [{"toolSpec": self._tool(index, tool, extra)}, *points]

    def _tool(self, index: int, tool: ToolSpec, extra: Extra | None) -> dict[str, Any]:
        before, name = len(self.repairs), self.tool_name(tool.name)
        schema = self.tool_schema(tool, index, flavours.anthropic)
        spec: dict[str, Any] = {"name": name}
        if tool.description:
            spec["description"] = encodable(tool.description)
        spec["inputSchema"] = {"json": schema}
        if tool.strict is not None:
            if not tool.strict or schema.get("additionalProperties") is False:
                spec["strict"] = tool.strict
            else:
                self.note("option_not_sent", f"tools[{index}].strict", "the schema allows more properties")
        if extra is not None and len(self.repairs) == before:
            plain = plain_tool(name, tool.description, tool.parameters, strict=tool.strict)
            return structs.replace(extra, hints={}).written(plain)
        return spec

    def _choice(self, choice: ToolChoice) -> dict[str, Any]:
        named = type(choice) is Named
        forced = named or choice == "required"
        if forced and self._thinks:
            self.note("choice_weakened", "options.tool_choice", "not while thinking is on")
            return {"auto": {}}
        if named and not self.card.named_choice:
            self.note("choice_weakened", "options.tool_choice", "the model cannot be made to call one tool")
            return {"any": {}}
        if type(choice) is Named:
            return {"tool": {"name": self.tool_name(choice.name)}}
        return {"any" if forced else "auto": {}}


def _is_marked(extra: Extra | None) -> bool:
    return extra is not None and extra.dialect == NAME and CACHE_POINT in extra.hints


def _is_result_marked(block: object) -> bool:
    return type(block) is AnsweredCall and _is_marked(block.completion.extra)


# The other way

_KNOWN = frozenset({"model", "modelId", "messages", "system"})
_MODES: Mapping[str, ToolChoice] = {"auto": "auto", "any": "required"}


def decode_options(body: Mapping[str, Any], leading: list[Any] | None = None) -> Options:
    """`leading` are the messages that became part of the system prompt."""
    del leading
    extra = {key: value for key, value in body.items() if key not in _KNOWN}
    config = dict(record(extra.pop("inferenceConfig", None) or {}, "inferenceConfig"))
    additional = dict(record(extra.pop(_ADDITIONAL, None) or {}, _ADDITIONAL))
    output = dict(record(extra.pop("outputConfig", None) or {}, "outputConfig"))
    tool_config = record(extra.pop("toolConfig", None) or {}, "toolConfig")
    options = Options(
        model=text(body.get("model") or body.get("modelId"), "modelId"),
        max_tokens=whole(config.pop("maxTokens", None), "inferenceConfig.maxTokens"),
        **take_options(_SAMPLING, config, "inferenceConfig."),
        stop=texts(config.pop("stopSequences", None) or None, "inferenceConfig.stopSequences"),
        top_k=_decode_top_k(additional),
        tool_choice=_decode_choice(tool_config),
        response_schema=_decode_format(output),
        **_decode_thinking(additional, output),
    )
    rests = (("inferenceConfig", config), (_ADDITIONAL, additional), ("outputConfig", output))
    extra |= {name: rest for name, rest in rests if rest}
    system = body.get("system")
    points = [entry[CACHE_POINT] for entry in system if is_point(entry)] if isinstance(system, list) else []
    around = Extra(NAME, hints={CACHE_POINT: points[0]}) if points else None
    return structs.replace(options, own=read_own(NAME, body, extra, ("messages", "toolConfig"), around))


def _decode_top_k(additional: dict[str, Any]) -> int | None:
    value = additional.get("top_k")
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    del additional["top_k"]
    return value


def _decode_thinking(additional: dict[str, Any], output: dict[str, Any]) -> dict[str, Any]:
    """What our options can express of it; what they cannot stays where it was."""
    thinking, level = additional.get("thinking"), output.get("effort")
    known = level if isinstance(level, str) and level in LEVELS else None
    if isinstance(thinking, dict):
        mode, budget = thinking.get("type"), thinking.get("budget_tokens")
        if thinking.keys() == {"type", "budget_tokens"} and mode == "enabled" and type(budget) is int:
            del additional["thinking"]
            return {"thinking_budget": budget}
        if thinking == {"type": "disabled"} and level is None:
            del additional["thinking"]
            return {"effort": "none"}
        if thinking == {"type": "adaptive"} and known is not None:
            del additional["thinking"], output["effort"]
            return {"effort": known}
        return {}
    reasoning = additional.get("reasoningConfig")
    if isinstance(reasoning, dict):
        asked = reasoning.get("maxReasoningEffort")
        if reasoning.keys() == {"type", "maxReasoningEffort"} and asked in _COMMON_LEVELS:
            del additional["reasoningConfig"]
            return {"effort": asked}
        if reasoning == {"type": "disabled"}:
            del additional["reasoningConfig"]
            return {"effort": "none"}
    return {}


def _decode_format(output: dict[str, Any]) -> dict[str, Any] | None:
    shape = output.get("textFormat")
    structure = shape.get("structure") if isinstance(shape, dict) else None
    held = structure.get("jsonSchema") if isinstance(structure, dict) else None
    written = held.get("schema") if isinstance(held, dict) else None
    if not isinstance(written, str):
        return None
    try:
        schema = msgspec.json.decode(written)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return None
    if not isinstance(schema, dict):
        return None
    del output["textFormat"]
    return schema


def _decode_choice(config: dict[str, Any]) -> ToolChoice | None:
    given = config.get("toolChoice")
    if not isinstance(given, dict) or len(given) != 1:
        return None
    ((mode, held),) = given.items()
    if mode == "tool" and isinstance(held, dict):
        return Named(text(held.get("name"), "toolConfig.toolChoice.tool.name"))
    return _MODES.get(mode)

"""Everything in a Mistral request beside the messages: tools, sampling, thinking."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from segue.conversation.json_safe import encodable, is_json_safe, json_safe
from segue.conversation.options import Options
from segue.conversation.tools import Named, ToolSpec
from segue.dialects.request_fields import flag, items, number, record, text, unknown, whole
from segue.dialects.schemas import flavours
from segue.transcript.repairs import Repair

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from segue.conversation.options import Effort
    from segue.conversation.tools import ToolChoice
    from segue.dialects.card import ModelCard
    from segue.transcript.repairs import Kind
    from segue.transcript.steps import Transcript

HOTTEST = 1.5
_EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")  # MIS-11
_CHOICES: Mapping[Any, ToolChoice] = {
    "auto": "auto",
    "none": "none",
    "any": "required",
    "required": "required",
}


def encode_settings(
    transcript: Transcript, tools: tuple[ToolSpec, ...], options: Options, card: ModelCard
) -> tuple[dict[str, Any], list[Repair]]:
    settings = _Settings(transcript, options, card)
    settings.tools(tools)
    settings.sampling()
    settings.thinking()
    settings.format()
    for key, value in settings.extra.items():
        if key not in ("model", "messages", "tools"):
            settings.body.setdefault(key, value)
    return settings.body, settings.repairs


class _Settings:
    def __init__(self, transcript: Transcript, options: Options, card: ModelCard) -> None:
        self.transcript = transcript
        self.options = options
        self.card = card
        extra = options.extra or {}
        self.extra = dict(extra if is_json_safe(extra) else json_safe(extra))
        self.body: dict[str, Any] = {}
        self.repairs: list[Repair] = []

    def note(self, kind: Kind, path: str, decision: str = "") -> None:
        self.repairs.append(Repair(kind, self.transcript.target.dialect, path, decision=decision))

    def not_sent(self, option: str, decision: str = "") -> None:
        self.note("option_not_sent", f"options.{option}", decision)

    def tools(self, tools: tuple[ToolSpec, ...]) -> None:
        choice = self.options.tool_choice
        if not tools:
            if choice not in (None, "auto", "none"):
                self.not_sent("tool_choice", "there are no tools")
            return
        if not self.card.tools:
            self.note("option_not_sent", "tools", "the model takes no tools")
            return
        self.body["tools"] = [self._tool(index, tool) for index, tool in enumerate(tools)]
        self.body["tool_choice"] = self._choice(choice)
        if self.options.parallel_calls is not None:
            self.body["parallel_tool_calls"] = self.options.parallel_calls

    def _tool(self, index: int, tool: ToolSpec) -> dict[str, Any]:
        schema, lost = flavours.object_root(tool.parameters)
        if lost:
            self.note("schema_reduced", f"tools[{index}]", "; ".join(lost))
        for name in ("$id", "$schema"):  # MIS-13
            schema.pop(name, None)
        function: dict[str, Any] = {
            "name": self.transcript.names.get(tool.name, tool.name),
            "description": encodable(tool.description),
            "parameters": schema,
        }
        if tool.strict is not None:
            function["strict"] = tool.strict
        return {"type": "function", "function": function}

    def _choice(self, choice: ToolChoice | None) -> Any:  # MIS-12
        if not self.card.forced_choice and (choice == "required" or type(choice) is Named):
            self.note("choice_weakened", "options.tool_choice", "the model refuses a forced choice")
            choice = "auto"
        if type(choice) is Named:
            name = self.transcript.names.get(choice.name, choice.name)
            return {"type": "function", "function": {"name": name}}
        return "any" if choice == "required" else choice or "auto"

    def sampling(self) -> None:
        options = self.options
        if options.stream:
            self.body["stream"] = True
        asked = {
            "max_tokens": options.max_tokens,
            "random_seed": options.seed,
            "stop": list(options.stop) or None,
        }
        self.body.update((name, value) for name, value in asked.items() if value is not None)
        for name, value in (("temperature", options.temperature), ("top_p", options.top_p)):
            if value is None:
                continue
            if not self.card.sampling:
                self.not_sent(name, "the model takes no sampling parameters")
            elif name == "temperature" and value > HOTTEST:
                self.not_sent(name, f"{HOTTEST} is the most the target takes; sent as {HOTTEST}")
                self.body[name] = HOTTEST
            else:
                self.body[name] = value
        for name in ("top_k", "repeat_penalty"):
            if getattr(options, name) is not None:
                self.not_sent(name)

    def thinking(self) -> None:
        """MIS-11: most models refuse to hear of effort at all (MIS-V23), some are switched to thinking instead."""
        effort = self.options.effort
        own = self.extra.pop("reasoning_effort", None)
        if self.options.thinking_budget is not None:
            self.not_sent("thinking_budget", "the target does not count thoughts")
        if effort is None:
            return
        match self.card.thinking:
            case "effort" | "level":
                self.body["reasoning_effort"] = self._effort(effort)
            case "switch":
                if effort != "none":
                    self.body["prompt_mode"] = "reasoning"
            case "" if own == effort:  # the request itself said so, in this wire's own words
                self.body["reasoning_effort"] = own
            case _:
                self.not_sent("effort", "the model is not known to take it")

    def _effort(self, effort: Effort) -> str:
        """The asked effort, or the nearest the model has."""
        known = [level for level in _EFFORTS if not self.card.efforts or level in self.card.efforts]
        rank = _EFFORTS.index(effort)
        level = min(known, key=lambda name: abs(_EFFORTS.index(name) - rank), default=effort)
        if level != effort:
            self.not_sent("effort", f'the model does not know "{effort}"; sent as "{level}"')
        return level

    def format(self) -> None:
        schema = self.options.response_schema
        if schema is None or "response_format" in self.extra:
            return
        told = schema if is_json_safe(schema) else json_safe(schema)
        shape = {"name": "response", "schema": told, "strict": True}
        self.body["response_format"] = {"type": "json_schema", "json_schema": shape}


# The other way

_KNOWN = frozenset(
    {"model", "messages", "tools", "tool_choice", "parallel_tool_calls", "stream", "max_tokens"}
    | {"temperature", "top_p", "random_seed", "stop"}
)


def decode_options(body: Mapping[str, Any]) -> Options:
    extra = {key: value for key, value in body.items() if key not in _KNOWN and value is not None}
    effort = extra.get("reasoning_effort")
    return Options(
        model=text(body.get("model"), "model"),
        stream=flag(body.get("stream"), "stream") or False,
        max_tokens=whole(body.get("max_tokens"), "max_tokens"),
        temperature=number(body.get("temperature"), "temperature"),
        top_p=number(body.get("top_p"), "top_p"),
        seed=whole(body.get("random_seed"), "random_seed"),
        stop=_decode_stop(body.get("stop")),
        tool_choice=_decode_choice(body.get("tool_choice")),
        parallel_calls=flag(body.get("parallel_tool_calls"), "parallel_tool_calls"),
        effort=effort if effort in _EFFORTS else None,
        response_schema=_decode_format(extra),
        extra=extra or None,
    )


def _decode_stop(stop: Any) -> tuple[str, ...]:
    if stop is None:
        return ()
    return tuple(text(word, "stop") for word in ([stop] if isinstance(stop, str) else items(stop, "stop")))


def _decode_choice(choice: Any) -> ToolChoice | None:
    if choice is None:
        return None
    if isinstance(choice, dict):
        function = record(choice.get("function"), "tool_choice.function")
        return Named(text(function.get("name"), "tool_choice.function.name"))
    if not isinstance(choice, str) or choice not in _CHOICES:
        raise unknown("tool_choice", "choice", choice, "auto, none, any, required, or a function")
    return _CHOICES[choice]


def _decode_format(extra: dict[str, Any]) -> dict[str, Any] | None:
    shape = extra.get("response_format")
    held = shape.get("json_schema") if isinstance(shape, dict) else None
    schema = held.get("schema") if isinstance(held, dict) else None
    if not isinstance(schema, dict):
        return None
    if isinstance(held, dict) and held.keys() <= {"name", "schema", "strict"}:
        del extra["response_format"]
    return schema


def decode_tools(body: Mapping[str, Any]) -> Iterator[ToolSpec]:
    tools = body.get("tools")
    for index, given in enumerate(items(tools, "tools") if tools is not None else ()):
        path = f"tools[{index}]"
        function = record(record(given, path).get("function"), f"{path}.function")
        schema = function.get("parameters")
        yield ToolSpec(
            text(function.get("name"), f"{path}.function.name"),
            text(function.get("description"), f"{path}.function.description"),
            record(schema, f"{path}.function.parameters") if schema is not None else None,
            flag(function.get("strict"), f"{path}.function.strict"),
        )

"""Everything in a Mistral request beside the messages: tools, sampling, thinking."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from segue.conversation.json_safe import encodable, ensure_json_safe
from segue.conversation.options import Options
from segue.conversation.tools import Named, ToolSpec
from segue.dialects.function_tools import own_function
from segue.dialects.mistral.rules import NAME
from segue.dialects.option_fields import OptionField, take_options
from segue.dialects.own_fields import own
from segue.dialects.request_fields import flag, record, text, unknown
from segue.dialects.request_settings import RequestSettings, came_for_model, own_head, read_own
from segue.dialects.schemas import flavours

if TYPE_CHECKING:
    from collections.abc import Mapping

    from segue.conversation.tools import ToolChoice
    from segue.dialects.card import ModelCard
    from segue.transcript.repairs import Repair
    from segue.transcript.steps import Transcript

_OPTIONS = (
    OptionField("max_tokens", "max_tokens"),
    OptionField("seed", "random_seed"),
    OptionField("stop", "stop"),
    # MIS-V24: the hosted models are said to take more, and the schema that the provider publishes takes no more.
    OptionField("temperature", "temperature", most=1),
    OptionField("top_p", "top_p"),
)
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
    def encoded(asked: Options) -> _Settings:
        settings = _Settings(transcript, asked, card)
        settings.tools(tools)
        settings.sampling()
        settings.thinking()
        settings.format()
        settings.usage()
        settings.add_extra(("model", "messages", "tools"))
        return settings

    settings = encoded(options)
    return settings.as_they_came(decode_options, encoded), settings.repairs


class _Settings(RequestSettings):
    def tools(self, tools: tuple[ToolSpec, ...]) -> None:
        offered = self.offered(tools)
        if not self.takes(offered):
            return
        self.body["tools"] = self.encode_tools(
            tools, lambda: [self._tool(index, tool) for index, tool in offered]
        )
        self.body["tool_choice"] = self._choice()
        if self.options.parallel_calls is not None:
            self.body["parallel_tool_calls"] = self.options.parallel_calls

    def _tool(self, index: int, tool: ToolSpec) -> dict[str, Any]:
        extra, before = own(tool.extra, NAME), len(self.repairs)
        if tool.kind == "server" and extra is not None:
            return extra.fields
        schema = self.tool_schema(tool, index, flavours.object_root)
        for name in ("$id", "$schema"):  # MIS-13
            schema.pop(name, None)
        function: dict[str, Any] = {
            "name": self.tool_name(tool.name),
            "description": encodable(tool.description),
            "parameters": schema,
        }
        if tool.strict is not None:
            function["strict"] = tool.strict
        if extra is not None and len(self.repairs) == before:
            return own_function(tool, function["name"], extra)
        return {"type": "function", "function": function}

    def _choice(self) -> Any:  # MIS-12
        choice = self.tool_choice()
        if type(choice) is Named:
            name = self.tool_name(choice.name)
            return {"type": "function", "function": {"name": name}}
        return "any" if choice == "required" else choice or "auto"

    def sampling(self) -> None:
        if self.options.stream:
            self.body["stream"] = True
        self.add_options(_OPTIONS, self.body)
        self.not_known("top_k", "repeat_penalty")

    def thinking(self) -> None:
        """MIS-11: most models refuse effort at all (MIS-V23), some are switched to thinking instead."""
        effort = self.options.effort
        own = self.extra.pop("reasoning_effort", None)
        if self.options.thinking_budget is not None:
            self.not_sent("thinking_budget", "the target does not count thoughts")
        if effort is None:
            return
        match self.card.thinking:
            case "effort" | "level":
                self.body["reasoning_effort"] = self.nearest_level(effort, _EFFORTS, _EFFORTS.index(effort))
            case "switch":
                if effort != "none":
                    self.body["prompt_mode"] = "reasoning"
            case "" if own == effort and came_for_model(self.options, NAME):  # the request itself has it
                self.body["reasoning_effort"] = own
            case _:
                self.not_sent("effort", "the model is not known to take it")

    def format(self) -> None:
        schema = self.options.response_schema
        if schema is None or "response_format" in self.extra:
            return
        safe = ensure_json_safe(schema)
        shape = {"name": "response", "schema": safe, "strict": True}
        self.body["response_format"] = {"type": "json_schema", "json_schema": shape}

    def usage(self) -> None:
        """MIS-08: the wire reports usage unasked, and refuses to be asked for it."""
        if self.extra.pop("stream_options", None) is not None:
            self.note("hints_dropped", "stream_options", "the target refuses it")


# The other way

_KNOWN = frozenset({"model", "messages", "tools", "tool_choice", "parallel_tool_calls", "stream"})


def decode_options(body: Mapping[str, Any], leading: list[Any] | None = None) -> Options:
    """`leading` are the messages that became the system prompt."""
    extra = {key: value for key, value in body.items() if key not in _KNOWN and value is not None}
    effort = extra.get("reasoning_effort")
    apart = ("messages", "tools") if body.get("tools") else ("messages",)
    return Options(
        model=text(body.get("model"), "model"),
        stream=flag(body.get("stream"), "stream") or None,
        **take_options(_OPTIONS, extra),
        tool_choice=_decode_choice(body.get("tool_choice")),
        parallel_calls=flag(body.get("parallel_tool_calls"), "parallel_tool_calls"),
        effort=effort if effort in _EFFORTS else None,
        response_schema=_decode_format(extra),
        own=read_own(NAME, body, extra, apart, own_head(NAME, leading)),
    )


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

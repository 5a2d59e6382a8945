"""Everything in an Ollama request beside the messages: tools, options of the engine, thinking."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from segue.conversation.json_safe import encodable, ensure_json_safe
from segue.conversation.options import Options
from segue.conversation.tools import Named, ToolSpec
from segue.dialects.function_tools import own_function
from segue.dialects.ollama.rules import NAME
from segue.dialects.option_fields import OptionField, take_options
from segue.dialects.own_fields import own
from segue.dialects.request_fields import flag, record, text, whole
from segue.dialects.request_settings import RequestSettings, came_for_model, own_head, read_own
from segue.dialects.schemas import flavours

if TYPE_CHECKING:
    from collections.abc import Mapping

    from segue.dialects.card import ModelCard
    from segue.transcript.repairs import Repair
    from segue.transcript.steps import Transcript

_ENGINE = frozenset(  # OLL-14
    {"num_ctx", "num_batch", "num_gpu", "main_gpu", "use_mmap", "num_thread", "draft_num_predict", "num_keep"}
    | {"min_p", "typical_p", "repeat_last_n", "presence_penalty", "frequency_penalty", "mirostat"}
    | {"mirostat_tau", "mirostat_eta", "penalize_newline", "numa", "use_mlock", "low_vram"}
)
"""Options of the engine, which go inside `options`; any other field of the target's own stands beside it."""
_OPTIONS = (
    OptionField("max_tokens", "num_predict"),
    OptionField("repeat_penalty", "repeat_penalty"),
    OptionField("seed", "seed"),
    OptionField("stop", "stop"),
    OptionField("temperature", "temperature"),
    OptionField("top_p", "top_p"),
    OptionField("top_k", "top_k"),
)
"""Inside `options`."""
_LEVELS = ("low", "medium", "high", "max")  # OLL-08
_LEVEL_OF: Mapping[str, str] = {"minimal": "low", "xhigh": "high"}


def encode_settings(
    transcript: Transcript, tools: tuple[ToolSpec, ...], options: Options, card: ModelCard
) -> tuple[dict[str, Any], list[Repair]]:
    def encoded(asked: Options) -> _Settings:
        settings = _Settings(transcript, asked, card)
        settings.body["stream"] = bool(asked.stream)  # OLL-20: unasked, the server streams
        settings.tools(tools)
        settings.thinking()
        settings.engine()
        if asked.response_schema is not None:  # OLL-18
            settings.body["format"] = ensure_json_safe(asked.response_schema)
        settings.add_extra({"model", "messages", "tools", "options"} | _ENGINE)
        return settings

    settings = encoded(options)
    return settings.as_they_came(decode_options, encoded), settings.repairs


class _Settings(RequestSettings):
    def tools(self, tools: tuple[ToolSpec, ...]) -> None:
        choice = self.options.tool_choice
        if tools and not self.card.tools:  # OLL-07
            self.note("option_not_sent", "tools", "the model takes no tools")
            return
        offered = self.offered(tools)
        if choice == "none":  # the wire has no choice of tools: not offering them is the same
            offered = []
        elif tools and (choice == "required" or type(choice) is Named):
            self.note("choice_weakened", "options.tool_choice", "the target cannot be made to call a tool")
            if type(choice) is Named:
                offered = [(index, tool) for index, tool in offered if tool.name == choice.name] or offered
        elif not tools and choice not in (None, "auto"):
            self.not_sent("tool_choice", "there are no tools")
        if offered:
            self.body["tools"] = [self._tool(index, tool) for index, tool in offered]
        if tools and self.options.parallel_calls is False:
            self.not_sent("parallel_calls")

    def _tool(self, index: int, tool: ToolSpec) -> dict[str, Any]:
        extra = own(tool.extra, NAME)
        if extra is not None:  # the server ignores what it does not know
            return (
                extra.fields
                if tool.kind == "server"
                else own_function(tool, self.tool_name(tool.name), extra)
            )
        schema = self.tool_schema(tool, index, flavours.ollama)  # OLL-17
        if tool.strict:
            self.note("option_not_sent", f"tools[{index}].strict")
        function = {
            "name": self.tool_name(tool.name),
            "description": encodable(tool.description),
            "parameters": schema,
        }
        return {"type": "function", "function": function}

    def thinking(self) -> None:
        """OLL-08: a model that cannot think refuses a request for it; all accept `false`."""
        if not came_for_model(self.options, NAME):
            self.extra.pop("think", None)
        effort, own = self.options.effort, self.extra.get("think")
        if self.options.thinking_budget is not None:
            self.not_sent("thinking_budget", "the target does not count thoughts")
        if effort is None or own is not None:
            return
        if effort == "none":
            self.body["think"] = False
        elif self.card.thinking == "":
            self.not_sent("effort", "the model is not known to think")
        elif self.card.thinking == "switch":
            self.body["think"] = True
        else:
            self.body["think"] = self.nearest_level(
                effort, _LEVELS, _LEVELS.index(_LEVEL_OF.get(effort, effort))
            )

    def engine(self) -> None:
        given: dict[str, Any] = {}
        self.add_options(_OPTIONS, given)
        own = self.extra.get("options")
        inside = own if isinstance(own, dict) else {}
        engine = {name: value for name, value in self.extra.items() if name in _ENGINE}
        if engine_options := {**inside, **engine, **given}:
            self.body["options"] = engine_options


# The other way

_KNOWN = frozenset({"model", "messages", "tools", "stream", "options", "think", "format"})


def decode_options(body: Mapping[str, Any], leading: list[Any] | None = None) -> Options:
    """`leading` are the messages that became the system prompt."""
    extra = {key: value for key, value in body.items() if key not in _KNOWN and value is not None}
    engine = dict(record(body.get("options") or {}, "options"))
    think = body.get("think")
    shape = body.get("format")
    limit = whole(engine.get("num_predict"), "options.num_predict")
    options = take_options(_OPTIONS, engine, "options.")
    if limit is not None and limit <= 0:  # a value of the engine's own: no limit, or as much as fits
        engine["num_predict"], options["max_tokens"] = limit, None
    if engine:
        extra["options"] = engine
    if think is not None:
        extra["think"] = think
    if isinstance(shape, str):
        extra["format"] = shape
    streamed = flag(body.get("stream"), "stream")
    levels: dict[Any, Any] = {False: "none", True: "medium", **{level: level for level in _LEVELS}}
    apart = ("messages", "tools") if body.get("tools") else ("messages",)
    return Options(
        model=text(body.get("model"), "model"),
        stream=True if streamed is not False else None,  # OLL-20
        effort=levels.get(think) if isinstance(think, bool | str) else None,
        response_schema=shape if isinstance(shape, dict) else None,
        own=read_own(NAME, body, extra, apart, own_head(NAME, leading)),
        **options,
    )

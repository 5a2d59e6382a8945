"""Everything in an Ollama request beside the messages: tools, options of the engine, thinking."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from segue.conversation.json_safe import encodable, is_json_safe, json_safe
from segue.conversation.options import Options
from segue.conversation.tools import Named, ToolSpec
from segue.dialects.request_fields import flag, items, number, record, text, whole
from segue.dialects.schemas import flavours
from segue.transcript.repairs import Repair

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from segue.conversation.options import Effort
    from segue.dialects.card import ModelCard
    from segue.transcript.repairs import Kind
    from segue.transcript.steps import Transcript

_ENGINE = frozenset(  # OLL-14
    {"num_ctx", "num_batch", "num_gpu", "main_gpu", "use_mmap", "num_thread", "draft_num_predict", "num_keep"}
    | {"min_p", "typical_p", "repeat_last_n", "presence_penalty", "frequency_penalty", "mirostat"}
    | {"mirostat_tau", "mirostat_eta", "penalize_newline", "numa", "use_mlock", "low_vram"}
)
"""Options of the engine, which go inside `options`; any other field of the target's own stands beside it."""
_LEVELS = ("low", "medium", "high", "max")  # OLL-08
_LEVEL_OF: Mapping[str, str] = {"minimal": "low", "xhigh": "high"}


def encode_settings(
    transcript: Transcript, tools: tuple[ToolSpec, ...], options: Options, card: ModelCard
) -> tuple[dict[str, Any], list[Repair]]:
    settings = _Settings(transcript, options, card)
    settings.tools(tools)
    settings.thinking()
    settings.engine()
    if options.response_schema is not None:  # OLL-18
        schema = options.response_schema
        settings.body["format"] = schema if is_json_safe(schema) else json_safe(schema)
    for key, value in settings.extra.items():
        if key not in ("model", "messages", "tools", "options") and key not in _ENGINE:
            settings.body.setdefault(key, value)
    return settings.body, settings.repairs


class _Settings:
    def __init__(self, transcript: Transcript, options: Options, card: ModelCard) -> None:
        self.transcript = transcript
        self.options = options
        self.card = card
        extra = options.extra or {}
        self.extra = extra if is_json_safe(extra) else json_safe(extra)
        # OLL-20: unasked, the server streams.
        self.body: dict[str, Any] = {"stream": options.stream}
        self.repairs: list[Repair] = []

    def note(self, kind: Kind, path: str, decision: str = "") -> None:
        self.repairs.append(Repair(kind, self.transcript.target.dialect, path, decision=decision))

    def not_sent(self, option: str, decision: str = "") -> None:
        self.note("option_not_sent", f"options.{option}", decision)

    def tools(self, tools: tuple[ToolSpec, ...]) -> None:
        choice = self.options.tool_choice
        if tools and not self.card.tools:  # OLL-07
            self.note("option_not_sent", "tools", "the model takes no tools")
            return
        offered = tools
        if choice == "none":  # the wire has no choice of tools: not offering them is the same
            offered = ()
        elif tools and (choice == "required" or type(choice) is Named):
            self.note("choice_weakened", "options.tool_choice", "the target cannot be told to call a tool")
            if type(choice) is Named:
                offered = tuple(tool for tool in tools if tool.name == choice.name) or tools
        elif not tools and choice not in (None, "auto"):
            self.not_sent("tool_choice", "there are no tools")
        if offered:
            self.body["tools"] = [self._tool(index, tool) for index, tool in enumerate(offered)]
        if tools and self.options.parallel_calls is False:
            self.not_sent("parallel_calls")

    def _tool(self, index: int, tool: ToolSpec) -> dict[str, Any]:
        schema, lost = flavours.ollama(tool.parameters)  # OLL-17
        if lost:
            self.note("schema_reduced", f"tools[{index}]", "; ".join(lost))
        if tool.strict:
            self.note("option_not_sent", f"tools[{index}].strict")
        function = {
            "name": self.transcript.names.get(tool.name, tool.name),
            "description": encodable(tool.description),
            "parameters": schema,
        }
        return {"type": "function", "function": function}

    def thinking(self) -> None:
        """OLL-08: a model that cannot think refuses to be asked; all are used to being told not to."""
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
            self.body["think"] = self._level(effort)

    def _level(self, effort: Effort) -> str:
        """The asked level, or the nearest the model has."""
        known = [name for name in _LEVELS if not self.card.efforts or name in self.card.efforts]
        rank = _LEVELS.index(_LEVEL_OF.get(effort, effort))
        level = min(known, key=lambda name: abs(_LEVELS.index(name) - rank), default=_LEVELS[rank])
        if level != effort:
            self.not_sent("effort", f'the model does not know "{effort}"; sent as "{level}"')
        return level

    def engine(self) -> None:
        options = self.options
        asked = {
            "num_predict": options.max_tokens,
            "repeat_penalty": options.repeat_penalty,
            "seed": options.seed,
            "stop": list(options.stop) or None,
        }
        sampling = {"temperature": options.temperature, "top_p": options.top_p, "top_k": options.top_k}
        if self.card.sampling:
            asked.update(sampling)
        else:
            for name, value in sampling.items():
                if value is not None:
                    self.not_sent(name, "the model takes no sampling parameters")
        given = {name: value for name, value in asked.items() if value is not None}
        own = self.extra.get("options")
        inside = own if isinstance(own, dict) else {}
        engine = {name: value for name, value in self.extra.items() if name in _ENGINE}
        if told := {**inside, **engine, **given}:
            self.body["options"] = told


# The other way

_KNOWN = frozenset({"model", "messages", "tools", "stream", "options", "think", "format"})


def decode_options(body: Mapping[str, Any]) -> Options:
    extra = {key: value for key, value in body.items() if key not in _KNOWN and value is not None}
    engine = dict(record(body.get("options") or {}, "options"))
    stop = engine.pop("stop", None)
    think = body.get("think")
    shape = body.get("format")
    limit = whole(engine.get("num_predict"), "options.num_predict")
    if limit is not None and limit > 0:  # else a word of the engine's: no limit, or as much as fits
        del engine["num_predict"]
    options = {
        "max_tokens": limit if limit and limit > 0 else None,
        "temperature": number(engine.pop("temperature", None), "options.temperature"),
        "top_p": number(engine.pop("top_p", None), "options.top_p"),
        "top_k": whole(engine.pop("top_k", None), "options.top_k"),
        "repeat_penalty": number(engine.pop("repeat_penalty", None), "options.repeat_penalty"),
        "seed": whole(engine.pop("seed", None), "options.seed"),
    }
    if engine:
        extra["options"] = engine
    if think is not None:
        extra["think"] = think
    if isinstance(shape, str):
        extra["format"] = shape
    streamed = flag(body.get("stream"), "stream")
    effort: Any = "none" if think is False else think if think in _LEVELS else None
    return Options(
        model=text(body.get("model"), "model"),
        stream=streamed is not False,  # OLL-20
        stop=_decode_stop(stop),
        effort=effort,
        response_schema=shape if isinstance(shape, dict) else None,
        extra=extra or None,
        **options,  # type: ignore[arg-type]
    )


def _decode_stop(stop: Any) -> tuple[str, ...]:
    if stop is None:
        return ()
    listed = [stop] if isinstance(stop, str) else items(stop, "options.stop")
    return tuple(text(word, "options.stop") for word in listed)


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
        )

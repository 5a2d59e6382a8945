"""Everything in an Interactions request beside the steps: tools, how free their choice is, and how to generate.

What this wire has and our options do not (modalities, labels) is kept in the options' `own` and goes back as it was.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import structs

from segue.conversation.extra import Extra
from segue.conversation.json_safe import encodable, ensure_json_safe
from segue.conversation.options import Options
from segue.conversation.tools import Named, ToolSpec
from segue.dialects.gemini_interactions.rules import NAME
from segue.dialects.gemini_interactions.wire import CONTENTS, kind_of
from segue.dialects.requests.extra_fields import FieldKinds, own
from segue.dialects.requests.json_fields import flag, listed, record, text
from segue.dialects.requests.messages import model_field
from segue.dialects.requests.settings import OptionField, RequestSettings, read_own, take_options
from segue.dialects.schemas import flavours

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from segue.conversation.options import Effort
    from segue.conversation.tools import ToolChoice
    from segue.dialects.card import ModelCard
    from segue.transcript.repairs import Repair
    from segue.transcript.steps import Transcript

_KINDS = FieldKinds(NAME)
_OPTIONS = (
    OptionField("max_tokens", "max_output_tokens"),
    OptionField("stop", "stop_sequences", most=5),  # GEM-58
    OptionField("seed", "seed"),
    OptionField("temperature", "temperature"),
    OptionField("top_p", "top_p"),
)
_LEVELS = ("minimal", "low", "medium", "high")
_HIGHEST = "xhigh"
"""A level that only some models have: their cards name it."""
_CHOICES: Mapping[Any, ToolChoice] = {"auto": "auto", "any": "required", "none": "none"}
_WORDS: Mapping[Any, str] = {"required": "any", "none": "none"}


def encode_settings(
    transcript: Transcript, tools: tuple[ToolSpec, ...], options: Options, card: ModelCard
) -> tuple[dict[str, Any], list[Repair]]:
    def encoded(asked: Options) -> _Settings:
        settings = _Settings(transcript, asked, card)
        own_config = settings.extra.pop("generation_config", None)
        settings.tools(tools)
        settings.generation(own_config if isinstance(own_config, dict) else {})
        settings.answer_format()
        settings.add_extra(frozenset())
        return settings

    settings = encoded(options)
    body = settings.as_they_came(decode_options, encoded)
    came = own(options.own, NAME)
    body.pop("system_instruction", None)
    given = came.form.get("system_instruction") if came is not None else None
    if transcript.system:
        body["system_instruction"] = transcript.system
    elif given == "":
        body["system_instruction"] = ""
    head: dict[str, Any] = {}
    model = model_field(transcript, options)
    if "agent" not in body:
        head |= model
    elif str(body["agent"]).rpartition("/")[2] == model.get(
        "model"
    ):  # INT-11: it answers in place of a model
        body["agent"] = model["model"]
        body.pop("model", None)
    if options.stream:
        head["stream"] = True
    return {**head, **{name: value for name, value in body.items() if name not in head}}, settings.repairs


class _Settings(RequestSettings):
    def __init__(self, transcript: Transcript, options: Options, card: ModelCard) -> None:
        super().__init__(transcript, options, card, NAME)
        # INT-07: nothing of ours stays there, and thoughts come back with their signatures. What a request refers to all the same
        # was not resolved, and stays in it.
        self.body["store"] = self.extra.pop("store", False) is True

    # Tools

    def tools(self, tools: tuple[ToolSpec, ...]) -> None:
        offered = self.offered(tools)
        functions = [tool for _, tool in offered if tool.kind != "server"]
        if functions and not self.takes(functions):
            offered = [(index, tool) for index, tool in offered if tool.kind == "server"]
            functions = []
        if not offered:
            self.takes(())
            return
        self.body["tools"] = self.encode_tools(
            tools, lambda: [self._tool(index, tool) for index, tool in offered]
        )
        if functions and self.options.parallel_calls is False:
            self.not_sent("parallel_calls", "the target decides how many calls it makes at once")

    def _tool(self, index: int, tool: ToolSpec) -> dict[str, Any]:
        before, extra = len(self.repairs), own(tool.extra, NAME)
        if tool.kind == "server" and extra is not None:
            return extra.fields
        encoded: dict[str, Any] = {"type": "function", "name": self.tool_name(tool.name)}
        if tool.description:
            encoded["description"] = encodable(tool.description)
        schema = self.tool_schema(tool, index, flavours.object_root)
        if schema.get("properties") or len(schema) > 2:  # GEM-30: else omitted
            encoded["parameters"] = schema
        if tool.strict:
            self.note("option_not_sent", f"tools[{index}].strict")
        if extra is not None and len(self.repairs) == before:
            return extra.written(_plain_function(tool, encoded["name"]))
        return encoded

    def _choice(self) -> Any:
        choice = self.tool_choice()
        if type(choice) is Named:
            return {"allowed_tools": {"mode": "any", "tools": [self.tool_name(choice.name)]}}
        return _WORDS.get(choice, "auto") if choice is not None else None

    # How to generate

    def generation(self, own_config: dict[str, Any]) -> None:
        """`own_config`: what the request itself has about it, in this wire's own fields."""
        config: dict[str, Any] = {}
        self.add_options(_OPTIONS, config)
        self.not_known("top_k", "repeat_penalty")
        self._thinking(config, own_config)
        calls = any(tool.get("type") == "function" for tool in self.body.get("tools", ()))
        if calls and (choice := self._choice()) is not None:
            config["tool_choice"] = choice
        if not calls:
            own_config = {name: held for name, held in own_config.items() if name != "tool_choice"}
        config = {**own_config, **config}
        if config:
            self.body["generation_config"] = config

    def _thinking(self, config: dict[str, Any], own_config: dict[str, Any]) -> None:
        effort, budget = self.options.effort, self.options.thinking_budget
        if budget is not None:
            self.not_sent("thinking_budget", "the wire knows levels of thinking, not tokens")
        if effort is None:
            return
        if self.card.thinking not in ("level", "budget", "manual") and "thinking_level" not in own_config:
            self.not_sent("effort", "the model is not known to take it")
            return
        config["thinking_level"] = self._level(effort)
        if not own_config:
            config["thinking_summaries"] = "auto" if effort != "none" else "none"

    def _level(self, effort: Effort) -> str:
        """The asked level, or the nearest the model has."""
        levels = (*_LEVELS, _HIGHEST) if _HIGHEST in self.card.efforts else _LEVELS
        beyond = {"none": 0, "xhigh": len(levels) - 1, "max": len(levels) - 1}
        rank = beyond[effort] if effort in beyond else levels.index(effort)
        return self.nearest_level(effort, levels, rank)

    def answer_format(self) -> None:
        schema = self.options.response_schema
        if schema is None or "response_format" in self.extra:
            return
        if "tools" in self.body and not self.card.schema_with_tools:
            self.not_sent("response_schema", "the model takes it only without tools")  # GEM-34
            return
        self.body["response_format"] = {
            "type": "text",
            "mime_type": "application/json",
            "schema": ensure_json_safe(schema),
        }


# The other way


def decode_tools(value: Any) -> Iterator[ToolSpec]:
    for index, given in enumerate(listed(value, "tools")):
        path = f"tools[{index}]"
        tool = record(given, path)
        kind = tool.get("type", "function")
        if kind != "function":
            name = tool.get("name") or kind
            yield ToolSpec(str(name), kind="server", extra=Extra(NAME, fields=tool))
            continue
        schema = tool.get("parameters")
        spec = ToolSpec(
            text(tool.get("name"), f"{path}.name"),
            text(tool.get("description"), f"{path}.description"),
            record(schema, f"{path}.parameters") if schema is not None else None,
        )
        yield structs.replace(spec, extra=_KINDS.kept(tool, _plain_function(spec, spec.name)))


def _plain_function(tool: ToolSpec, name: str) -> dict[str, Any]:
    """A function with what every tool has, and nothing else."""
    return {"type": "function", "name": name, "description": tool.description, "parameters": tool.parameters}


_KNOWN = frozenset(
    {"model", "input", "system_instruction", "tools", "stream", "generation_config", "response_format"}
)


def decode_options(body: Mapping[str, Any]) -> Options:
    extra = {key: value for key, value in body.items() if key not in _KNOWN and value is not None}
    config = dict(record(body.get("generation_config") or {}, "generation_config"))
    if not config.get("stop_sequences"):
        config.pop("stop_sequences", None)
    schema = _decode_format(body, extra)
    options = Options(
        model=text(body.get("model"), "model").removeprefix("models/"),
        stream=flag(body.get("stream"), "stream") or None,
        **take_options(_OPTIONS, config, "generation_config."),
        tool_choice=_decode_choice(config),
        effort=_decode_level(config),
        response_schema=schema,
    )
    if config:
        extra["generation_config"] = config
    if extra.get("store") is False:  # part of every request of ours
        del extra["store"]
    apart = {"tools"} if body.get("tools") else set()
    apart |= set() if not is_steps(body.get("input")) else {"input"}
    return structs.replace(options, own=read_own(NAME, body, extra, apart, None))


def is_steps(given: Any) -> bool:
    """Whether an input is a list of steps, and not what a user says in a shorter form."""
    if not isinstance(given, list):
        return given is None
    return not given or not all(isinstance(item, str) or kind_of(item) in CONTENTS for item in given)


def _decode_level(config: dict[str, Any]) -> Effort | None:
    level = config.get("thinking_level")
    return level if level in (*_LEVELS, _HIGHEST) else None


def _decode_choice(config: dict[str, Any]) -> ToolChoice | None:
    """What our options cannot express (`validated`, a choice among several names) stays as it is."""
    choice = config.get("tool_choice")
    if isinstance(choice, str):
        if choice in _CHOICES:
            del config["tool_choice"]
        return _CHOICES.get(choice)
    allowed = choice.get("allowed_tools") if isinstance(choice, dict) else None
    names = allowed.get("tools") if isinstance(allowed, dict) else None
    forced = isinstance(allowed, dict) and allowed.get("mode") == "any"
    if forced and isinstance(names, list) and len(names) == 1 and isinstance(names[0], str):
        del config["tool_choice"]
        return Named(names[0])
    return None


def _decode_format(body: Mapping[str, Any], extra: dict[str, Any]) -> dict[str, Any] | None:
    """The schema of the answer. What is none of a text (an image, a sound) stays as it is."""
    given = body.get("response_format")
    if given is None:
        return None
    form = given[0] if isinstance(given, list) and len(given) == 1 else given
    schema = form.get("schema") if isinstance(form, dict) else None
    if not isinstance(schema, dict) and isinstance(form, dict) and form.get("type") in _SCHEMA_TYPES:
        schema = form  # a schema by itself, as the first clients of this wire send it
    plain = {"type": "text", "mime_type": "application/json", "schema": schema}
    if form != plain:
        extra["response_format"] = given
    return schema if isinstance(schema, dict) else None


_SCHEMA_TYPES = ("object", "array", "string", "number", "integer", "boolean")

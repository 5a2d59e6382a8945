"""Everything in a Messages request beside the messages, both ways: tools, limits, sampling, thinking.

What came in fields of the provider's own (`thinking`, `output_config`, a system prompt in pieces) is kept in the options'
`own` and goes back as it was, as long as the model takes it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from segue.conversation.extra import Extra
from segue.conversation.json_safe import encodable, ensure_json_safe
from segue.conversation.options import Options
from segue.conversation.tools import Named, ToolSpec
from segue.dialects.anthropic_messages.read_messages import read_system
from segue.dialects.anthropic_messages.rules import ANTHROPIC
from segue.dialects.requests.extra_fields import FieldKinds, own
from segue.dialects.requests.json_fields import flag, listed, record, text, texts, whole
from segue.dialects.requests.settings import (
    OptionField,
    RequestSettings,
    encode_settings_once,
    read_own,
    take_options,
    unthought_loop,
)
from segue.dialects.schemas import flavours
from segue.dialects.schemas.strict import closed_schema

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from segue.conversation.options import Effort
    from segue.conversation.tools import ToolChoice
    from segue.dialects.card import ModelCard
    from segue.transcript.repairs import Kind, Repair
    from segue.transcript.steps import Transcript


NAME = ANTHROPIC.target.dialect
_KINDS = FieldKinds(
    NAME,
    hints=frozenset({"cache_control", "defer_loading", "eager_input_streaming", "allowed_callers"}),
    form=frozenset({"type"}),
)


def read_tools(value: Any) -> Iterator[ToolSpec]:
    for index, given in enumerate(listed(value, "tools")):
        path = f"tools[{index}]"
        tool = record(given, path)
        if tool.get("type") not in (None, "custom"):
            name = tool.get("name") or tool.get("mcp_server_name") or tool["type"]
            yield ToolSpec(str(name), kind="server", extra=Extra(NAME, fields=tool))
            continue
        schema, strict = tool.get("input_schema"), tool.get("strict")
        name = text(tool.get("name"), f"{path}.name")
        described = text(tool.get("description"), f"{path}.description")
        parameters = record(schema, f"{path}.input_schema") if schema is not None else None
        strictness = strict if isinstance(strict, bool) else None
        extra = _KINDS.kept(tool, plain_tool(name, described, parameters, strict=strictness))
        yield ToolSpec(name, described, parameters, strictness, extra=extra)


def plain_tool(
    name: str, description: str, parameters: dict[str, Any] | None, *, strict: bool | None
) -> dict[str, Any]:
    """A tool with what every tool has, and nothing else."""
    return {"name": name, "description": description, "input_schema": parameters, "strict": strict}


DEFAULT_MAX_TOKENS = 8192
"""The wire insists on a limit (ANT-05); this one is sent when nobody asked for one and the card knows none."""
LEAST_BUDGET = 1024  # ANT-50
_BUDGETS: Mapping[str, int] = {
    "minimal": 1024,
    "low": 4096,
    "medium": 10_000,
    "high": 24_000,
    "xhigh": 32_000,
    "max": 60_000,
}
"""Tokens to think for each effort, on models that count them. The answer always keeps half of the limit."""
_MODES: Mapping[str, frozenset[str]] = {
    "none": frozenset({"disabled"}),
    "manual": frozenset({"enabled", "disabled"}),
    "adaptive": frozenset({"adaptive", "disabled", "between_tools"}),
    "always": frozenset({"adaptive", "between_tools"}),
}
_KNOWN_MODES = frozenset[str]().union(*_MODES.values())
_ENCODED = frozenset({"model", "messages", "system", "tools", "thinking", "output_config", "stream"})


def encode_settings(
    transcript: Transcript, tools: tuple[ToolSpec, ...], options: Options, card: ModelCard
) -> tuple[dict[str, Any], Sequence[Repair]]:
    # Of the steps, nothing but this makes a difference, and only where thinking may be counted.
    counted = card.thinking == "manual" or options.thinking_budget is not None or options.extra
    unthought = bool(counted) and unthought_loop(transcript)
    encoded, repairs = encode_settings_once(
        transcript, tools, options, card, lambda: _beside_system(transcript, tools, options, card), unthought
    )
    body = {name: value for name, value in encoded.items() if name != "system"}
    system = _system(own(options.own, NAME), transcript.system)
    if system is not None:
        body["system"] = system
    return body, repairs


def _beside_system(
    transcript: Transcript, tools: tuple[ToolSpec, ...], options: Options, card: ModelCard
) -> tuple[dict[str, Any], list[Repair]]:
    settings = _encoded(transcript, tools, options, card)
    body = settings.as_they_came(decode_options, lambda before: _encoded(transcript, tools, before, card))
    body.setdefault("max_tokens", settings.body["max_tokens"])  # ANT-05: not without, also where none came
    return body, settings.repairs


def _encoded(
    transcript: Transcript, tools: tuple[ToolSpec, ...], options: Options, card: ModelCard
) -> _Settings:
    settings = _Settings(transcript, options, card)
    settings.limits()
    settings.thinking()
    settings.tools(tools)
    settings.sampling()
    settings.add_extra(_ENCODED)
    return settings


def _system(came: Extra | None, system: str) -> Any:
    """As one text; in its own pieces when it came in such and its text is still the same (ANT-57)."""
    given = came.form.get("system") if came is not None else None
    if came is not None and "system" in came.form and _came_as(came, system) is not None:
        return given
    if given is None and came is not None and _came_as(came, system):
        return None  # all of it came in messages
    return system if system.strip() else None


def _came_as(came: Extra, system: str) -> list[Any] | None:
    """The messages that the system prompt came in beside its field; None if it is another now."""
    around = came.container
    messages: list[Any] = around.form.get("messages", []) if around is not None else []
    given = around.form.get("system") if around is not None and messages else came.form.get("system")
    pieces = [read_system(given), *(read_system(message.get("content")) for message in messages)]
    return messages if "\n\n".join(filter(None, pieces)) == system else None


def leading_messages(came: Extra | None, system: str) -> list[Any]:
    """The messages that the system prompt came in, if it is still the same."""
    own_part = own(came, NAME)
    return (_came_as(own_part, system) or []) if own_part is not None else []


class _Settings(RequestSettings):
    def __init__(self, transcript: Transcript, options: Options, card: ModelCard) -> None:
        super().__init__(transcript, options, card)
        self.level = ""
        """The effort to send."""
        self.body["model"] = options.model or transcript.target.model
        if options.stream:
            self.body["stream"] = True

    def limits(self) -> None:
        asked = self.output_limit()
        self.body["max_tokens"] = (self.card.output or DEFAULT_MAX_TOKENS) if asked is None else asked
        stop = [stop_text for stop_text in self.options.stop if stop_text.strip()]
        if len(stop) < len(self.options.stop):
            self.not_sent("stop", "the target refuses blank stop sequences")
        if stop:
            self.body["stop_sequences"] = stop

    # Thinking

    def thinking(self) -> None:
        config = self._native_thinking() if self._thinks_natively() else self._asked_thinking()
        if refused := self._refused_mode():
            self.note("thinking_changed", "options.thinking", f'the model does not take "{refused}"')
        if config is not None and config.get("type") == "enabled" and unthought_loop(self.transcript):
            # ANT-52: in manual mode an open tool loop must begin with a thought of this very model.
            self.note("thinking_changed", "options.thinking", "off for now")
            config = {"type": "disabled"}
        if config is not None:
            self.body["thinking"] = config
        output = self._output()
        if output:
            self.body["output_config"] = output

    def _output(self) -> dict[str, Any]:
        native, schema = self.extra.get("output_config"), self.options.response_schema
        output: dict[str, Any] = {"effort": self.level} if self.level else {}
        if isinstance(native, dict):
            output |= {key: value for key, value in native.items() if key != "effort"}
        if not self.card.answer_schema:
            if self.extra.pop("output_format", None) or output.pop("format", None) or schema is not None:
                self.not_sent("response_schema", "the model cannot be held to a schema")
        elif schema is not None and "output_format" not in self.extra and "format" not in output:
            written, lost = closed_schema(ensure_json_safe(schema))
            if written is None:
                self.not_sent("response_schema", "; ".join(lost))
            else:
                output["format"] = {"type": "json_schema", "schema": written}
                if lost:
                    self.note("schema_reduced", "options.response_schema", "; ".join(lost))
        return output

    def _thinks_natively(self) -> bool:
        """Whether the request has this wire's own fields for thinking, and the model takes them."""
        config = self.extra.get("thinking")
        if isinstance(config, dict):
            modes = _MODES.get(self.card.thinking)
            return modes is None or any(config.get("type") == mode for mode in modes)
        return self._native_level() is not None

    def _refused_mode(self) -> str:
        """The way to think that was asked for on this wire, if the model is known to refuse it; else empty (ANT-50)."""
        came, modes = own(self.options.own, NAME), _MODES.get(self.card.thinking)
        config = {**came.fields, **came.form}.get("thinking") if came is not None else None
        mode = config.get("type") if isinstance(config, dict) else None
        if modes is None or not isinstance(mode, str) or mode not in _KNOWN_MODES - modes:
            return ""
        return "" if mode == "enabled" and self.card.takes_budget else mode

    def _native_level(self) -> str | None:
        output = self.extra.get("output_config")
        level = output.get("effort") if isinstance(output, dict) else None
        return level if isinstance(level, str) and level in (self.card.efforts or LEVELS) else None

    def _native_thinking(self) -> dict[str, Any] | None:
        self.level = self._native_level() or ""
        given = self.extra.get("thinking")
        config: dict[str, Any] | None = given if isinstance(given, dict) else None
        budget = config.get("budget_tokens") if config is not None else None
        if config is None or not isinstance(budget, int):
            return config
        fitting = self._fitting_budget(budget)
        return {**config, "budget_tokens": fitting} if fitting else None

    def _asked_thinking(self) -> dict[str, Any] | None:
        effort, budget, mode = self.options.effort, self.options.thinking_budget, self.card.thinking
        if mode == "none":
            for name, asked in (("effort", effort), ("thinking_budget", budget)):
                if asked not in (None, "none"):
                    self.not_sent(name, "the model does not think")
            return None
        if effort == "none":
            return self._switched_off()
        if mode == "manual" or (not mode and budget is not None):
            return self._counted(effort, budget)
        if budget is not None:
            # As it was asked it would be refused (ANT-52), also by a model that knows budgets.
            kind: Kind = "thinking_changed" if unthought_loop(self.transcript) else "option_not_sent"
            self.note(kind, "options.thinking_budget", "the model decides itself how long to think")
        if effort is not None:
            self.level = self.level_below(effort, LEVELS, self.card.efforts or COMMON_LEVELS)
        return None if effort is None and budget is None else {"type": "adaptive"}

    def _switched_off(self) -> dict[str, Any] | None:
        if self.options.thinking_budget is not None:
            self.not_sent("thinking_budget", "effort asks for no thoughts")
        if self.card.thinking == "always":
            self.not_sent("effort", "thinking cannot be switched off on this model")
            return None
        return {"type": self.card.thinking_off}

    def _counted(self, effort: Effort | None, budget: int | None) -> dict[str, Any] | None:
        if budget is None and effort is None:
            return None
        if budget is not None and effort is not None:
            self.not_sent("effort", "thinking_budget decides how long to think")
        default = min(_BUDGETS[effort or "medium"], self.body["max_tokens"] // 2)
        asked, tokens = ("effort", default) if budget is None else ("thinking_budget", budget)
        fitting = self._fitting_budget(max(tokens, LEAST_BUDGET), asked)
        return {"type": "enabled", "budget_tokens": fitting} if fitting else None

    def _fitting_budget(self, budget: int, asked: str = "thinking_budget") -> int:
        most: int = self.body["max_tokens"] - 1
        if most < LEAST_BUDGET:
            self.not_sent(asked, f"thinking takes more than {LEAST_BUDGET} tokens of max_tokens")
            return 0
        if budget > most:
            self.not_sent(asked, f"must stay below max_tokens; sent as {most}")
        return min(budget, most)

    # Tools

    def tools(self, tools: tuple[ToolSpec, ...]) -> None:
        further = [tool for tool in self.extra.get("tools") or () if isinstance(tool, dict)]
        named = {tool.get("name"): tool for tool in further}
        encoded = self.encode_tools(
            () if further else tools,
            lambda: [self._tool(index, tool, named) for index, tool in self.offered(tools)],
        )
        if further:
            names = {tool.get("name") for tool in encoded}
            encoded += [tool for tool in further if tool.get("name") not in names and "type" in tool]
        if encoded:
            self.body["tools"] = encoded
            self.body["tool_choice"] = self._choice()
        else:
            self.takes(())

    def _tool(self, index: int, tool: ToolSpec, further: Mapping[Any, dict[str, Any]]) -> dict[str, Any]:
        extra = own(tool.extra, NAME)
        if tool.kind == "server" and extra is not None:
            return extra.fields
        name, before = self.tool_name(tool.name), len(self.repairs)
        schema = self.tool_schema(tool, index, flavours.anthropic)  # ANT-41
        encoded: dict[str, Any] = {"name": name}
        if tool.description:
            encoded["description"] = encodable(tool.description)
        encoded["input_schema"] = schema
        if tool.strict:
            if schema.get("additionalProperties") is False:
                encoded["strict"] = True
            else:  # ANT-42
                self.note("option_not_sent", f"tools[{index}].strict", "the schema allows more properties")
        if extra is None:
            return {**further.get(tool.name, {}), **encoded}
        if len(self.repairs) == before:
            return extra.written(plain_tool(name, tool.description, tool.parameters, strict=tool.strict))
        return {**encoded, **extra.hints, **extra.fields}

    def _choice(self) -> dict[str, Any]:
        choice = self.tool_choice()  # ANT-43
        forced = choice == "required" or type(choice) is Named
        if forced and self.body.get("thinking", {}).get("type") == "enabled":  # ANT-43
            self.note("choice_weakened", "options.tool_choice", "not while thinking by budget is on")
            choice = "auto"
        if choice == "none":
            return {"type": "none"}
        encoded: dict[str, Any] = {"type": "any" if choice == "required" else "auto"}
        if type(choice) is Named:
            encoded = {"type": "tool", "name": self.tool_name(choice.name)}
        if self.options.parallel_calls is False:
            encoded["disable_parallel_tool_use"] = True
        return encoded

    # Sampling

    def sampling(self) -> None:
        self.not_known("seed", "repeat_penalty")
        self.add_options(SAMPLING, self.body)

    def refusal(self, option: str, value: Any) -> str:
        """ANT-03."""
        thinks = self.body.get("thinking", {}).get("type") in ("enabled", "adaptive")
        harmless = (option == "temperature" and value == 1) or (option == "top_p" and value >= 0.95)
        return "not while thinking is on" if thinks and not harmless else ""


# The other way


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

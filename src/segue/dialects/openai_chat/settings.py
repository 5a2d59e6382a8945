"""Everything in a Chat request beside the messages, both ways: tools, the choice among them, and options. What of a foreign
request is not ours is kept as it is."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, get_args

from segue.conversation.blocks import Origin
from segue.conversation.extra import Extra
from segue.conversation.options import Effort, Options
from segue.conversation.tools import CUSTOM_INPUT, Named, ToolSpec
from segue.dialects.caches.tool_cache import encode_once
from segue.dialects.openai_chat.read_messages import read_message
from segue.dialects.registry import is_form_of
from segue.dialects.requests import messages
from segue.dialects.requests.extra_fields import own
from segue.dialects.requests.function_tools import function_tool, own_function, read_tool
from segue.dialects.requests.json_fields import flag, listed, number, record, text, texts, unknown, whole
from segue.dialects.requests.settings import (
    OptionField,
    RequestSettings,
    encode_settings_once,
    own_head,
    read_own,
)
from segue.dialects.schemas import flavours
from segue.errors import TranscriptError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from segue.conversation.tools import ToolChoice
    from segue.dialects.card import ModelCard
    from segue.dialects.openai_chat.rules import Variant
    from segue.transcript.repairs import Repair
    from segue.transcript.steps import Transcript

EFFORTS: tuple[Effort, ...] = get_args(Effort)
_NO_PARAMETERS: Mapping[str, Any] = {"type": "object", "properties": {}}
_JSON_MODE = {"type": "json_object"}
_SAMPLING = ("temperature", "top_p", "top_k", "seed", "stop", "repeat_penalty")


def encode_settings(
    variant: Variant,
    transcript: Transcript,
    tools: tuple[ToolSpec, ...],
    options: Options,
    card: ModelCard,
    kind: type[ChatRequestSettings] | None = None,
    read: Callable[[Mapping[str, Any]], Options] | None = None,
) -> tuple[dict[str, Any], Sequence[Repair]]:
    """The fields beside the messages, which must not be changed, and what could not be sent. `kind` and `read`: of a wire that
    asks for some of it in a way of its own."""

    def encoded(asked: Options) -> ChatRequestSettings:
        settings = (kind or ChatRequestSettings)(transcript, asked, card, variant)
        settings.encode(tools)
        return settings

    def encode() -> tuple[dict[str, Any], list[Repair]]:
        settings = encoded(options)
        return settings.as_they_came(read or partial(read_options, variant), encoded), settings.repairs

    came = options.own
    # The one field of another server of this wire whose value makes a difference.
    in_json = came is not None and came.fields.get("response_format") == _JSON_MODE
    return encode_settings_once(transcript, tools, options, card, encode, in_json)


class ChatRequestSettings(RequestSettings):
    """Tools and options of one request to a server of the family."""

    place = ""

    def __init__(self, transcript: Transcript, options: Options, card: ModelCard, variant: Variant) -> None:
        super().__init__(transcript, options, card, variant.name)
        self.variant = variant
        self.drawn = variant.drawn  # CHAT-41, KIM-12

    def encode(self, tools: tuple[ToolSpec, ...]) -> None:
        if self.options.stream:
            self.body["stream"] = True
            if self.variant.counts_asked:
                self.body["stream_options"] = {"include_usage": True}  # CHAT-63
        self._encode_tools(tools)
        self.add_options(option_rows(self.variant, longer_name=self.card.completion_tokens), self.body)
        self.not_known(*(name for name in _SAMPLING if not self.variant.options.get(name)))
        self.encode_thinking()
        self._encode_format()
        for field, value in self.variant.always.items():
            self.body.setdefault(field, value)
        self._add_extra()

    # Tools

    def _encode_tools(self, tools: tuple[ToolSpec, ...]) -> None:
        offered = encode_once(tools, ("offered", self.dialect), self.repairs, lambda: self.offered(tools))
        if not self._may_offer(offered):
            if self.options.tool_choice not in (None, "auto", "none"):
                self.not_sent("tool_choice", "there are no tools to choose from")
            return
        self.body["tools"] = self.encode_tools(
            tools, lambda: [self._tool(tool, index) for index, tool in offered]
        )
        self.body["tool_choice"] = self._choice()
        if self.options.parallel_calls is not None:
            if self.variant.parallel_switch:
                self.body["parallel_tool_calls"] = self.options.parallel_calls  # CHAT-38
            elif not self.options.parallel_calls:
                self.not_sent("parallel_calls", "the target has no such switch")

    def _may_offer(self, tools: Sequence[object]) -> bool:
        if not tools:
            return False
        if not self.card.chat_tools:  # CHAT-40
            raise TranscriptError(
                f'The model "{self.options.model}" takes no tools on this wire.',
                code="tools_refused",
                path="tools",
                hint="Use the dialect openai_responses for it.",
            )
        most = self.variant.tools_max
        if most and len(tools) > most:
            raise TranscriptError(
                f"{len(tools)} tools are offered; the target takes at most {most}.",
                code="too_many_tools",
                path="tools",
                hint="Offer fewer tools.",
            )
        if not self.takes(tools):
            return False
        if self.options.tool_choice == "none" and "none" not in self.variant.choices:
            self.note("option_not_sent", "tools", "the target cannot be made to ignore them")
            return False
        return True

    def _choice(self) -> Any:
        choice = self.options.tool_choice or "auto"
        kind = "named" if isinstance(choice, Named) else choice
        if kind == "named" and not self.card.named_choice and self.card.forced_choice:  # KIM-09
            self.note("choice_weakened", f"{self.place}tool_choice", "named is sent as required")
            choice = kind = "required"
        forced = kind in ("named", "required")
        if forced and not (self.card.forced_choice and kind in self.variant.choices):
            self.note("choice_weakened", f"{self.place}tool_choice", f"{kind} is sent as auto")
            choice = "auto"
        if isinstance(choice, Named):
            return {"type": "function", "function": {"name": self.tool_name(choice.name)}}
        return self.variant.required if choice == "required" else choice

    def _tool(self, tool: ToolSpec, index: int) -> dict[str, Any]:
        extra, before = own(tool.extra, self.dialect), len(self.repairs)
        if tool.kind == "server" and extra is not None:
            return extra.fields
        if tool.kind == "custom" and extra is not None:
            return extra.form
        function: dict[str, Any] = {"name": self.tool_name(tool.name)}
        if tool.description or self.variant.description_needed:
            function["description"] = tool.description
        parameters: Mapping[str, Any] = _NO_PARAMETERS
        if tool.parameters is not None:
            # A server that only ignores what it does not know gets a schema of its own wire as it came.
            ignores = extra is not None and self.variant.schema == "ollama"
            flavour = getattr(flavours, self.variant.schema)
            parameters = tool.parameters if ignores else self.tool_schema(tool, index, flavour)
        if tool.parameters is not None or not self.variant.parameters_optional:
            function["parameters"] = parameters
        if tool.strict:
            self._encode_strict(index, function, as_came=extra is not None)
        elif tool.strict is False:
            function["strict"] = False
        if extra is not None and len(self.repairs) == before:
            return own_function(tool, function["name"], extra)
        return {"type": "function", "function": function}

    def _encode_strict(self, index: int, function: dict[str, Any], *, as_came: bool) -> None:
        """CHAT-35."""
        mode, parameters = self.variant.strict, function.get("parameters")
        if mode == "never":
            self.note("option_not_sent", f"tools[{index}].strict", "the target does not know it")
        elif mode == "any" or parameters is None:
            function["strict"] = True
        elif (written := self.strict_parameters(index, parameters, as_came=as_came)) is not None:
            function |= {"parameters": written, "strict": True}

    # Options

    def encode_thinking(self) -> None:
        budget = self.options.thinking_budget
        if budget is not None:
            if self.variant.budget:
                _put(self.body, self.variant.budget, budget)
            else:
                self.not_sent("thinking_budget", "the target counts no thinking tokens")
        effort = self.options.effort
        if "tools" in self.body and self.card.chat_effort_none:  # CHAT-40
            self.body["reasoning_effort"] = "none"
            if effort not in (None, "none"):
                self.not_sent("effort", "with tools this model must not think on this wire")
            return
        if effort is not None:
            self._encode_effort(effort)

    def _encode_effort(self, effort: Effort) -> None:
        # A card for this very target without an entry about thinking means that there is none.
        default = "none" if self.dialect in self.card.dialects else self.variant.thinking
        mode = self.card.thinking or default
        degrees = self.card.efforts or self.variant.efforts
        if mode in ("", "none", "always"):
            if mode == "always" or effort != "none":
                self.not_sent("effort", "this model decides for itself")
            return
        if mode == "switch" and self.variant.switch:
            _put(self.body, self.variant.switch, self.variant.switch_words[effort != "none"])
            if effort == "none":
                return
            if not degrees:
                self.not_sent("effort", "thinking is switched on, but has no degrees")
                return
        if not self.variant.effort:
            self.not_sent("effort", "the target does not know it")
            return
        _put(
            self.body,
            self.variant.effort,
            self.nearest_level(effort, EFFORTS, EFFORTS.index(effort), degrees),
        )

    def _encode_format(self) -> None:
        schema = self.options.response_schema
        if schema is None:
            if self.options.own is not None:
                self._keep_json_mode(self.options.own)
            return
        if not self.variant.json_schema:
            self.body["response_format"] = dict(_JSON_MODE)
            self.not_sent("response_schema", "only that the answer is JSON can be asked for")
            return
        shape = (
            {"schema": schema, "strict": True} if self.variant.strict == "any" else self.answer_schema(schema)
        )
        if not shape["strict"]:
            del shape["strict"]
        self.body["response_format"] = {"type": "json_schema", "json_schema": {"name": "answer", **shape}}

    def _keep_json_mode(self, came: Extra) -> None:
        """Every server of this wire knows this one field in the same way, whichever of them it was written for."""
        if came.dialect == self.dialect or not is_form_of(came.dialect, "openai_chat"):
            return
        if came.fields.get("response_format") == _JSON_MODE:
            self.body["response_format"] = dict(_JSON_MODE)
            self.repairs = [repair for repair in self.repairs if repair.path != "response_format"]

    def _add_extra(self) -> None:
        for field, value in self.extra.items():
            if field == "tools" and isinstance(value, list) and "tools" in self.body:
                self.body["tools"] = [*self.body["tools"], *value]
            elif field in self.body and self.body[field] == value:
                continue
            elif field in self.body or field in ("messages", "model"):
                self.not_sent(f"extra.{field}", "another option sets it")
            elif field == "stream_options" and not self.variant.counts_asked:
                self.note("hints_dropped", field, "the target refuses it")
            elif field == "stream_options" and not self.options.stream:  # CHAT-63
                self.not_sent(f"extra.{field}", "only streams have it")
            elif self._is_unknown(field):
                self.not_sent(f"extra.{field}", "the target does not know it")
            else:
                self.body[field] = value

    def _is_unknown(self, field: str) -> bool:
        """Whether a field that was set for the target is none of its own. One that came on its wire may be newer than our list."""
        return (
            self.variant.fields is not None
            and field not in self.variant.fields
            and field in (self.options.extra or {})
        )


def option_rows(variant: Variant, *, longer_name: bool = False) -> list[OptionField]:
    """The options that are a field each. `longer_name`: whether the model takes the limit only by that name."""
    limit = "max_completion_tokens" if longer_name else variant.limit
    named = {"max_tokens": limit, **variant.options}
    return [OptionField(name, field, most=variant.most.get(name)) for name, field in named.items() if field]


def _put(body: dict[str, Any], path: str, value: Any) -> None:
    outer, _, inner = path.partition(".")
    if inner:
        body.setdefault(outer, {})[inner] = value
    else:
        body[outer] = value


# The other way

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
    return messages.leading_messages(
        came, variant.name, system, lambda message: read_message(variant, message, "messages", origin).text
    )


def read_options(variant: Variant, body: Mapping[str, Any], leading: list[Any] | None = None) -> Options:
    """`leading` are the messages that became the system prompt."""
    extra: dict[str, Any] = {}
    limit = body.get("max_completion_tokens")
    if limit is None:
        limit = body.get("max_tokens")
    penalty = body.get("repetition_penalty", body.get("repeat_penalty"))
    seed = variant.options.get("seed") or "seed"
    extra.update(
        {
            field: value
            for field, value in body.items()
            if field not in _READ and field != seed and value is not None
        }
    )
    # A server that refuses to be asked for counts gets a request without them, and it is reported.
    usual = ({}, {"include_usage": True}, {"include_usage": False}) if variant.counts_asked else ()
    if body.get("stream_options") not in (None, *usual):
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
        seed=whole(body.get(seed), seed),
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

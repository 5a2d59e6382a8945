"""Everything in a Chat request beside the messages: tools, the choice among them, and options."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from segue.conversation.tools import Named
from segue.dialects.function_tools import own_function
from segue.dialects.known_tools import encode_once
from segue.dialects.openai_chat.read_settings import EFFORTS, read_options
from segue.dialects.own_fields import own
from segue.dialects.registry import is_form_of
from segue.dialects.request_settings import (
    as_they_came,
    encode_settings_once,
    foreign_settings,
    offered_tools,
    own_extra,
)
from segue.dialects.schemas import flavours
from segue.dialects.schemas.strict import is_strict
from segue.errors import TranscriptError
from segue.transcript.repairs import Repair

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from segue.conversation.extra import Extra
    from segue.conversation.options import Effort, Options
    from segue.conversation.tools import ToolSpec
    from segue.dialects.card import ModelCard
    from segue.dialects.openai_chat.rules import Variant
    from segue.transcript.repairs import Kind
    from segue.transcript.steps import Transcript

_NO_PARAMETERS: Mapping[str, Any] = {"type": "object", "properties": {}}
_SAMPLING = ("temperature", "top_p", "top_k", "seed", "stop", "repeat_penalty")


def encode_settings(
    variant: Variant, transcript: Transcript, tools: tuple[ToolSpec, ...], options: Options, card: ModelCard
) -> tuple[dict[str, Any], Sequence[Repair]]:
    """The fields beside the messages, which must not be changed, and what could not be sent."""
    names, came = transcript.names, options.own
    return encode_settings_once(
        transcript,
        tools,
        options,
        card,
        lambda: _encode_settings(variant, names, tools, options, card),
        # The one field of another server of this wire whose value makes a difference.
        came is not None and came.fields.get("response_format") == _JSON_MODE,
    )


def _encode_settings(
    variant: Variant,
    names: Mapping[str, str],
    tools: tuple[ToolSpec, ...],
    options: Options,
    card: ModelCard,
) -> tuple[dict[str, Any], list[Repair]]:
    def encode(asked: Options) -> SettingsEncoder:
        settings = SettingsEncoder(variant, asked, card)
        settings.encode(tools, names)
        return settings

    settings = encode(options)
    if options.own is None:
        return settings.body, settings.repairs
    body = as_they_came(
        settings.body,
        settings.repairs,
        options,
        variant.name,
        partial(read_options, variant),
        lambda before: encode(before).body,
    )
    return body, settings.repairs


_JSON_MODE = {"type": "json_object"}


class SettingsEncoder:
    """Encodes tools and options of one request, and notes what could not be sent to the target."""

    def __init__(self, variant: Variant, options: Options, card: ModelCard) -> None:
        self.variant = variant
        self.options = options
        self.card = card
        self.body: dict[str, Any] = {}
        self.repairs: list[Repair] = (
            [] if options.own is None else foreign_settings(options.own, variant.name)
        )

    def encode(self, tools: tuple[ToolSpec, ...], names: Mapping[str, str]) -> None:
        if self.options.stream:
            self.body["stream"] = True
            self.body["stream_options"] = {"include_usage": True}  # CHAT-63
        offered = encode_once(
            tools,
            ("offered", self.variant.name),
            self.repairs,
            lambda: offered_tools(tools, self.variant.name, self.repairs),
        )
        if self._may_offer(offered):
            self._encode_tools(tools, offered, names)
        elif self.options.tool_choice not in (None, "auto", "none"):
            self._note("option_not_sent", "tool_choice", "there are no tools to choose from")
        self._encode_limit()
        self._encode_sampling()
        self._encode_thinking()
        self._encode_format()
        for field, value in self.variant.always.items():
            self.body.setdefault(field, value)
        if self.options.extra or self.options.own is not None:
            self._add_extra()

    def _note(self, kind: Kind, path: str, decision: str) -> None:
        self.repairs.append(Repair(kind, self.variant.name, path, decision=decision))

    # Tools

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
        if not self.card.tools:
            self._note("option_not_sent", "tools", "this model takes no tools")
            return False
        if self.options.tool_choice == "none" and "none" not in self.variant.choices:
            self._note("option_not_sent", "tools", "the target cannot be made to ignore them")
            return False
        return True

    def _encode_tools(
        self, tools: tuple[ToolSpec, ...], offered: list[tuple[int, ToolSpec]], names: Mapping[str, str]
    ) -> None:
        self.body["tools"] = encode_once(
            tools,
            (self.variant.name, *names.items()),
            self.repairs,
            lambda: [self._tool(tool, names, number) for number, tool in offered],
        )
        choice = self.options.tool_choice or "auto"
        kind = "named" if isinstance(choice, Named) else choice
        if kind == "named" and not self.card.named_choice and self.card.forced_choice:  # KIM-09
            self._note("choice_weakened", "tool_choice", "named is sent as required")
            choice = kind = "required"
        forced = kind in ("named", "required")
        if forced and not (self.card.forced_choice and kind in self.variant.choices):
            self._note("choice_weakened", "tool_choice", f"{kind} is sent as auto")
            choice = "auto"
        if isinstance(choice, Named):
            name = names.get(choice.name, choice.name)
            self.body["tool_choice"] = {"type": "function", "function": {"name": name}}
        else:
            self.body["tool_choice"] = choice
        if self.options.parallel_calls is not None:
            if self.variant.parallel_switch:
                self.body["parallel_tool_calls"] = self.options.parallel_calls  # CHAT-38
            elif not self.options.parallel_calls:
                self._note("option_not_sent", "parallel_calls", "the target has no such switch")

    def _tool(self, tool: ToolSpec, names: Mapping[str, str], number: int) -> dict[str, Any]:
        extra, before = own(tool.extra, self.variant.name), len(self.repairs)
        if tool.kind == "server" and extra is not None:
            return extra.fields
        if tool.kind == "custom" and extra is not None:
            return extra.form
        function: dict[str, Any] = {"name": names.get(tool.name, tool.name)}
        if tool.description or self.variant.description_needed:
            function["description"] = tool.description
        parameters: Mapping[str, Any] = _NO_PARAMETERS
        if tool.parameters is not None:
            # A server that only ignores what it does not know gets a schema of its own wire as it came.
            ignores = extra is not None and self.variant.schema == "ollama"
            parameters, lost = (
                (tool.parameters, []) if ignores else getattr(flavours, self.variant.schema)(tool.parameters)
            )
            if lost:
                self._note("schema_reduced", f"tools[{number}]", "; ".join(lost))
        if tool.parameters is not None or not self.variant.parameters_optional:
            function["parameters"] = parameters
        if tool.strict is not None:
            if not tool.strict or (self.variant.strict and is_strict(parameters)):  # CHAT-35
                function["strict"] = tool.strict
            else:
                self._note("option_not_sent", f"tools[{number}].strict", "the schema does not allow it")
        if extra is not None and len(self.repairs) == before:
            return own_function(tool, function["name"], extra)
        return {"type": "function", "function": function}

    # Options

    def _encode_limit(self) -> None:
        asked, most = self.options.max_tokens, self.card.output
        if asked is not None:
            if most is not None and asked > most:
                self._note(
                    "option_not_sent", "max_tokens", f"the model writes at most {most} tokens; sent as {most}"
                )
                asked = most
            longer = self.card.completion_tokens or self.variant.limit == "max_completion_tokens"
            field = "max_completion_tokens" if longer else "max_tokens"
            self.body[field] = asked

    def _encode_sampling(self) -> None:
        for name in _SAMPLING:
            value = getattr(self.options, name)
            if value is None or value == ():
                continue
            field = self.variant.options.get(name)
            if not field:
                self._note("option_not_sent", name, "the target does not know it")
            elif not self.card.sampling and name in self.variant.drawn:  # CHAT-41, KIM-12
                self._note("option_not_sent", name, "this model does not take it")
            else:
                self.body[field] = list(value) if isinstance(value, tuple) else value

    def _encode_thinking(self) -> None:
        budget = self.options.thinking_budget
        if budget is not None:
            if self.variant.budget:
                _put(self.body, self.variant.budget, budget)
            else:
                self._note("option_not_sent", "thinking_budget", "the target counts no thinking tokens")
        effort = self.options.effort
        if "tools" in self.body and self.card.chat_effort_none:  # CHAT-40
            self.body["reasoning_effort"] = "none"
            if effort not in (None, "none"):
                self._note("option_not_sent", "effort", "with tools this model must not think on this wire")
            return
        if effort is not None:
            self._encode_effort(effort)

    def _encode_effort(self, effort: Effort) -> None:
        # A card for this very target without an entry about thinking means that there is none.
        default = "none" if self.variant.name in self.card.dialects else self.variant.thinking
        mode = self.card.thinking or default
        degrees = self.card.efforts or self.variant.efforts
        if mode in ("", "none", "always"):
            if mode == "always" or effort != "none":
                self._note("option_not_sent", "effort", "this model decides for itself")
            return
        if mode == "switch" and self.variant.switch:
            _put(self.body, self.variant.switch, self.variant.switch_words[effort != "none"])
            if effort == "none":
                return
            if not degrees:
                self._note("option_not_sent", "effort", "thinking is switched on, but has no degrees")
                return
        if not self.variant.effort:
            self._note("option_not_sent", "effort", "the target does not know it")
            return
        level = _nearest(effort, degrees)
        if level != effort:
            self._note("option_not_sent", "effort", f'"{effort}" is sent as "{level}"')
        _put(self.body, self.variant.effort, level)

    def _encode_format(self) -> None:
        schema = self.options.response_schema
        if schema is None:
            if self.options.own is not None:
                self._keep_json_mode(self.options.own)
            return
        if not self.variant.json_schema:
            self.body["response_format"] = dict(_JSON_MODE)
            self._note("option_not_sent", "response_schema", "only that the answer is JSON can be asked for")
            return
        shape: dict[str, Any] = {"name": "answer", "schema": schema}
        if is_strict(schema):
            shape["strict"] = True
        self.body["response_format"] = {"type": "json_schema", "json_schema": shape}

    def _keep_json_mode(self, came: Extra) -> None:
        """Every server of this wire knows this one field in the same way, whichever of them it was written for."""
        if came.dialect == self.variant.name or not is_form_of(came.dialect, "openai_chat"):
            return
        if came.fields.get("response_format") == _JSON_MODE:
            self.body["response_format"] = dict(_JSON_MODE)
            self.repairs = [repair for repair in self.repairs if repair.path != "response_format"]

    def _add_extra(self) -> None:
        for field, value in own_extra(self.options, self.variant.name).items():
            if field == "tools" and isinstance(value, list) and "tools" in self.body:
                self.body["tools"] = [*self.body["tools"], *value]
            elif field in self.body and self.body[field] == value:
                continue
            elif field in self.body or field in ("messages", "model"):
                self._note("option_not_sent", f"extra.{field}", "another option sets it")
            elif field == "stream_options" and not self.options.stream:  # CHAT-63
                self._note("option_not_sent", f"extra.{field}", "only streams have it")
            elif self._is_unknown(field):
                self._note("option_not_sent", f"extra.{field}", "the target does not know it")
            else:
                self.body[field] = value

    def _is_unknown(self, field: str) -> bool:
        """Whether a field that was set for the target is none of its own. One that came on its wire may be newer than our list."""
        return (
            self.variant.fields is not None
            and field not in self.variant.fields
            and field in (self.options.extra or {})
        )


def _put(body: dict[str, Any], path: str, value: Any) -> None:
    outer, _, inner = path.partition(".")
    if inner:
        body.setdefault(outer, {})[inner] = value
    else:
        body[outer] = value


def _nearest(effort: Effort, known: tuple[str, ...]) -> str:
    wanted = EFFORTS.index(effort)
    places = {level: place for place, level in enumerate(EFFORTS) if level in known}
    return min(places, key=lambda level: abs(places[level] - wanted)) if places else effort

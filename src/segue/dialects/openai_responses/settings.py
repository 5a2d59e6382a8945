"""Everything in a Responses request beside the items: tools, limits, sampling, reasoning.

What came in fields of the provider's own (`reasoning`, `text`) is kept in the options' `own` and goes back as it was, as
long as the model takes it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from segue.conversation.extra import Extra
from segue.conversation.json_safe import encodable
from segue.conversation.options import Options
from segue.conversation.tools import Named
from segue.dialects.card import UNKNOWN
from segue.dialects.openai_responses.rules import NAME
from segue.dialects.openai_responses.tools import encode_custom, in_namespaces, is_introduced, plain_function
from segue.dialects.requests.extra_fields import own
from segue.dialects.requests.json_fields import flag, record, text, whole
from segue.dialects.requests.messages import leading_system
from segue.dialects.requests.settings import OptionField, RequestSettings, read_own, take_options
from segue.dialects.schemas import flavours

if TYPE_CHECKING:
    from collections.abc import Mapping

    from segue.conversation.options import Effort
    from segue.conversation.tools import ToolChoice, ToolSpec
    from segue.dialects.card import ModelCard
    from segue.transcript.repairs import Repair
    from segue.transcript.steps import Transcript

_OPTIONS = (OptionField("temperature", "temperature"), OptionField("top_p", "top_p"))
LEAST_OUTPUT = 16  # RESP-05
_LEVELS: tuple[Effort, ...] = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
SEALED = "reasoning.encrypted_content"
_ENCODED = frozenset({"model", "input", "instructions", "stream", "tools", "tool_choice", "reasoning"})


def encode_settings(
    transcript: Transcript, tools: tuple[ToolSpec, ...], options: Options, card: ModelCard
) -> tuple[dict[str, Any], list[Repair]]:
    def encoded(asked: Options) -> _Settings:
        settings = _Settings(transcript, asked, card)
        settings.state()
        settings.limits()
        settings.reasoning()
        settings.answer_format()
        settings.tools(tools)
        settings.sampling()
        settings.add_extra(_ENCODED)
        return settings

    settings = encoded(options)
    body = settings.as_they_came(decode_options, encoded)
    came = own(options.own, NAME)
    if came is not None and leading_items(options.own, transcript.system) is not None:
        body.pop("instructions", None)
        if "instructions" in came.form:
            body["instructions"] = came.form["instructions"]
    return body, settings.repairs


class _Settings(RequestSettings):
    def __init__(self, transcript: Transcript, options: Options, card: ModelCard) -> None:
        super().__init__(transcript, options, card)
        self.body["model"] = options.model or transcript.target.model
        if options.stream:
            self.body["stream"] = True
        elif self.extra.pop("stream_options", None) is not None:
            self.note("hints_dropped", "stream_options", "only streams have it")
        system, _ = leading_system(transcript, NAME)
        if system:
            self.body["instructions"] = system

    def state(self) -> None:
        """We keep the conversation, not the provider: every item is sent, and seals must come back (RESP-40). What a request refers
        to all the same was not resolved, and stays in it."""
        self.body["store"] = self.extra.get("store") is True
        wanted = self.extra.get("include")
        known = wanted if isinstance(wanted, list) else []
        self.body["include"] = known if SEALED in known else [*known, SEALED]

    def limits(self) -> None:
        asked, most = self.options.max_tokens, self.card.output
        if asked is None:
            return
        fitting = max(asked, LEAST_OUTPUT) if most is None else min(max(asked, LEAST_OUTPUT), most)
        if fitting != asked:
            bound = f"from {LEAST_OUTPUT}" if most is None else f"from {LEAST_OUTPUT} to {most}"
            self.not_sent("max_tokens", f"the model takes limits {bound}; sent as {fitting}")
        self.body["max_output_tokens"] = fitting

    def reasoning(self) -> None:
        effort, native = self.options.effort, self.extra.get("reasoning")
        if self.options.thinking_budget is not None:
            self.not_sent("thinking_budget", "thinking is asked for by effort here")
        # A card without an entry about thinking is one of a model that does not think (RESP-48).
        thinks = self.card.thinking == "effort" or self.card.match == UNKNOWN.match
        if not thinks:
            if effort not in (None, "none") or native:
                self.not_sent("effort", "the model does not think")
            return
        config = {key: value for key, value in native.items() if key != "effort"} if native else {}
        if effort is not None:
            config = {"effort": self.level_below(effort, _LEVELS, self.card.efforts or _LEVELS), **config}
        if config:
            self.body["reasoning"] = config

    def answer_format(self) -> None:
        schema, native = self.options.response_schema, self.extra.get("text")
        config = dict(native) if isinstance(native, dict) else {}
        if schema is not None and "format" not in config:
            config["format"] = {"type": "json_schema", "name": "answer", **self.answer_schema(schema)}
        if config:
            self.body["text"] = config

    # Tools

    def tools(self, tools: tuple[ToolSpec, ...]) -> None:
        known = tools
        if additional_items(self.options.own):
            tools = tuple([tool for tool in tools if not is_introduced(tool)])
        further = [tool for tool in self.extra.get("tools") or () if isinstance(tool, dict)]
        encoded = self.encode_tools(
            tools,
            lambda: [
                *in_namespaces([(tool, self._tool(index, tool)) for index, tool in self.offered(tools)])
            ],
        )
        if further:
            encoded = [*encoded, *further]
        if not encoded and len(tools) == len(known):
            self.takes(())
            return
        if encoded:
            self.body["tools"] = encoded
        self.body["tool_choice"] = self._choice(known)
        if self.options.parallel_calls is not None:
            self.body["parallel_tool_calls"] = self.options.parallel_calls

    def _tool(self, index: int, tool: ToolSpec) -> dict[str, Any]:
        extra = own(tool.extra, NAME)
        name = tool.local_name or self.tool_name(tool.name)
        if tool.kind == "server" and extra is not None:
            return extra.fields
        if tool.kind == "custom":
            return encode_custom(tool, name, extra)
        before = len(self.repairs)
        schema = self.tool_schema(tool, index, flavours.object_root)  # RESP-32
        strict = self.strict_parameters(index, schema, as_came=extra is not None) if tool.strict else None
        if extra is not None and len(self.repairs) == before:
            return extra.written(plain_function(tool, name))
        encoded: dict[str, Any] = {"type": "function", "name": name}
        if tool.description:
            encoded["description"] = encodable(tool.description)
        # RESP-31: left unsaid, the provider would try to be strict.
        return {**encoded, "parameters": strict or schema, "strict": strict is not None}

    def _choice(self, tools: tuple[ToolSpec, ...]) -> Any:
        choice = self.tool_choice()
        if choice is None:
            return self.extra.get("tool_choice") or "auto"
        if type(choice) is Named:
            chosen = next((tool for tool in tools if tool.name == choice.name), None)
            kind = "custom" if chosen is not None and chosen.kind == "custom" else "function"
            name = (chosen.local_name if chosen is not None else "") or self.tool_name(choice.name)
            return {"type": kind, "name": name}
        return choice

    # Sampling

    def sampling(self) -> None:
        self.add_options(_OPTIONS, self.body)
        self.not_known("top_k", "repeat_penalty", "seed", "stop")


# The other way

_KNOWN = frozenset(
    {"model", "input", "instructions", "tools", "tool_choice", "max_output_tokens", "stream"}
    | {"temperature", "top_p", "parallel_tool_calls", "reasoning"}
)
_CHOICES: Mapping[Any, ToolChoice] = {"auto": "auto", "required": "required", "none": "none"}


def decode_options(
    body: Mapping[str, Any], leading: list[Any] | None = None, additional: list[tuple[int, Any]] | None = None
) -> Options:
    """`leading` are the items that became the system prompt, `additional` those that introduce tools, with their places."""
    reasoning = record(body.get("reasoning") or {}, "reasoning")
    effort = reasoning.get("effort")
    return Options(
        model=text(body.get("model"), "model"),
        stream=flag(body.get("stream"), "stream") or None,
        max_tokens=whole(body.get("max_output_tokens"), "max_output_tokens"),
        **take_options(_OPTIONS, {**body}),
        tool_choice=_decode_choice(body.get("tool_choice")),
        parallel_calls=flag(body.get("parallel_tool_calls"), "parallel_tool_calls"),
        effort=effort if effort in _LEVELS else None,
        response_schema=_decode_format(record(body.get("text") or {}, "text").get("format")),
        own=_decode_own(body, reasoning, leading or [], additional or []),
    )


def _decode_own(
    body: Mapping[str, Any],
    reasoning: dict[str, Any],
    leading: list[Any],
    additional: list[tuple[int, Any]],
) -> Extra:
    apart = {"tools"} if body.get("tools") else set()
    apart |= set() if isinstance(body.get("input"), str) else {"input"}
    head: dict[str, Any] = {"items": leading, "instructions": body.get("instructions")}
    if additional:
        head["additional"] = [list(placed) for placed in additional]
    around = Extra(NAME, form=head) if leading or additional else None
    return read_own(NAME, body, _decode_extra(body, reasoning), apart, around)


def additional_items(came: Extra | None) -> list[list[Any]]:
    """The items that introduced tools, each behind its place among all items; none if they are another wire's."""
    around = came.container if came is not None and came.dialect == NAME else None
    placed: list[list[Any]] = around.form.get("additional", []) if around is not None else []
    return placed


def leading_items(came: Extra | None, system: str) -> list[Any] | None:
    """The items before the messages that the system prompt came in; None if it is another now, or of another wire."""
    if came is None or came.dialect != NAME:
        return None
    around = came.container
    items = around.form.get("items", []) if around is not None else []
    notes = [note for item in items if (note := _note_text(item.get("content")))]
    instructions = (around if items and around is not None else came).form.get("instructions")
    if not isinstance(instructions, str) and instructions is not None:
        return None if notes else []
    found = "\n\n".join([instructions, *notes] if instructions else notes)
    return items if found == system else None


def _note_text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "".join(part if isinstance(part, str) else part.get("text") or "" for part in content or ())


def _decode_choice(choice: Any) -> ToolChoice | None:
    if isinstance(choice, dict):
        named = choice.get("type") in ("function", "custom")
        return Named(text(choice.get("name"), "tool_choice.name")) if named else None
    return _CHOICES.get(text(choice, "tool_choice"))


def _decode_format(shape: Any) -> dict[str, Any] | None:
    schema = shape.get("schema") if isinstance(shape, dict) else None
    return schema if isinstance(schema, dict) else None


def _decode_extra(body: Mapping[str, Any], reasoning: dict[str, Any]) -> dict[str, Any]:
    extra = {key: value for key, value in body.items() if key not in _KNOWN and value is not None}
    if reasoning.keys() - {"effort"}:
        extra["reasoning"] = reasoning
    # Part of every request of ours, or the default of the wire.
    for name, default in (("store", False), ("include", [SEALED]), ("text", {"format": {"type": "text"}})):
        if extra.get(name) == default:
            del extra[name]
    choice = body.get("tool_choice")
    if isinstance(choice, dict) and _decode_choice(choice) is None:
        extra["tool_choice"] = choice
    return extra

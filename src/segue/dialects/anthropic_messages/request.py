"""Requests of the Messages wire, both ways."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, assert_never

from msgspec import Raw

from segue.conversation.blocks import Media, Origin, Reasoning, Text
from segue.dialects.anthropic_messages import wire
from segue.dialects.anthropic_messages.cache_marks import without_excess_marks
from segue.dialects.anthropic_messages.fast import LISTED, write_fast
from segue.dialects.anthropic_messages.read_messages import (
    output_text,
    read_messages,
    read_system,
    with_notes_in_system,
)
from segue.dialects.anthropic_messages.reply import encode_text
from segue.dialects.anthropic_messages.rules import ANTHROPIC
from segue.dialects.anthropic_messages.settings import (
    decode_options,
    encode_settings,
    leading_messages,
    read_tools,
)
from segue.dialects.anthropic_messages.shapes import SYSTEM, TOOLS
from segue.dialects.anthropic_messages.wire import encode_media
from segue.dialects.caches.tool_cache import read_once
from segue.dialects.dialect import DecodedRequest, EncodedRequest
from segue.dialects.errors import unencodable
from segue.dialects.requests.extra_fields import as_fields, own, own_result, plain
from segue.dialects.requests.json_fields import items, text
from segue.dialects.requests.messages import check_target, starts_of, take_system
from segue.dialects.requests.opaque_blocks import OpaqueBlockFilter
from segue.dialects.requests.shapes import Fitting, fit_tools
from segue.transcript.fast import fast_paths
from segue.transcript.repairs import Repair
from segue.transcript.steps import AnsweredCall, ModelStep, UserStep

if TYPE_CHECKING:
    from collections.abc import Mapping

    from segue.conversation.extra import Extra
    from segue.conversation.options import Options
    from segue.conversation.tools import ToolSpec
    from segue.dialects.card import ModelCard
    from segue.transcript.steps import Completion, StepBlock, Transcript

NAME = ANTHROPIC.target.dialect
WIRE = "Messages"


def encode_request(
    transcript: Transcript,
    tools: tuple[ToolSpec, ...],
    options: Options,
    card: ModelCard,
    *,
    after: int = 0,
) -> EncodedRequest:
    check_target(transcript, NAME, WIRE)
    settings, repairs = encode_settings(transcript, tools, options, card)
    head = leading_messages(options.own, transcript.system) if not after else ()
    messages, opaque = _Messages(list(head)), OpaqueBlockFilter()
    _encode_messages(transcript, after, opaque, messages)
    settings["messages"] = messages.closed()
    return EncodedRequest(settings, tuple(repairs), messages.before_reply, opaque.has_any)


def _encode_messages(
    transcript: Transcript, after: int, opaque: OpaqueBlockFilter, messages: _Messages
) -> None:
    fast = fast_paths.enabled()
    for index, step in enumerate(transcript.steps[after:], after):
        if type(step) is ModelStep:
            messages.begin_reply()
            exchange = write_fast(step.blocks) if fast else None
            if exchange is not None:
                messages.add_exchange(*exchange)
            else:
                _encode_model(step, index, opaque, messages)
        elif type(step) is UserStep:
            # ANT-16: an instruction stands behind a user's message
            _encode_user(step, "system" if step.instruction else "user", opaque, messages)


class _Messages:
    """The messages so far. What one role gives is one message, unless it came in several."""

    def __init__(self, head: list[Any]) -> None:
        self._closed = head
        self._role = ""
        self._content: list[Any] = []
        self._around: Extra | None = None
        self._open = False
        self.before_reply = 0
        """How many there are before the last reply."""

    def begin_reply(self) -> None:
        self.before_reply = len(self._closed) + self._open

    def add_exchange(self, content: list[Any], results: list[Any]) -> None:
        """Add a whole reply, which has begun, and its results, to which more may be added."""
        self._close()
        self._closed += (wire.WireMessage("assistant", content), wire.WireMessage("user", results))
        self._role, self._content = "user", results

    def add(self, role: str, encoded: Any, extra: Extra | None = None) -> None:
        begins = extra.container if extra is not None else None
        if role != self._role or begins is not None:
            self._close()
            self._role, self._content, self._around = role, [], begins
            self._open = True
        self._content.append(encoded)

    def _close(self) -> None:
        content: Any = self._content
        if not self._open:
            return
        self._open = False
        if len(content) == 1 and type(content[0]) is wire.TextBlock:
            content = content[0].text
        message = wire.WireMessage(self._role, content)
        around = self._around
        self._closed.append(message if around is None else around.written(as_fields(message)))

    def closed(self) -> list[Any]:
        self._close()
        return self._closed


def _encode_user(step: UserStep, role: str, opaque: OpaqueBlockFilter, messages: _Messages) -> None:
    """The blocks of the user, behind the results of the calls before (ANT-20)."""
    kept: dict[int, Raw] | None = None
    for position, block in enumerate(step.blocks):
        extra = block.extra if block.extra is not None and block.extra.dialect == NAME else None
        if type(block) is Text and block.seal is not None:
            kept = opaque.select(step.blocks) if kept is None else kept
            if position in kept:
                messages.add(role, kept[position], extra)
                continue
            if _only_carries_a_seal(block):
                continue
        if extra is None:
            messages.add(role, _encode_shown(block))
        elif extra.form.get("type", "") is not None:
            messages.add(role, _with_own(_encode_shown(block), extra), extra)


def _with_own(encoded: Any, extra: Extra | None) -> Any:
    """A block as it came. One that has nothing but a beginning of its own stays as it is."""
    if extra is LISTED:
        return {"type": "text", "text": encoded.text}
    if extra is None or not (extra.form or extra.hints or extra.fields or extra.absent):
        return encoded
    return extra.written(as_fields(encoded))


def _encode_model(step: ModelStep, index: int, opaque: OpaqueBlockFilter, messages: _Messages) -> None:
    kept: dict[int, Raw] | None = None
    calls: list[AnsweredCall] = []
    for position, block in enumerate(step.blocks):
        extra = block.extra if block.extra is not None and block.extra.dialect == NAME else None
        if type(block) is AnsweredCall:
            call: Any = wire.ToolUse(block.id, block.name, Raw(block.arguments))
            messages.add("assistant", call if extra is None else _with_own(call, extra), extra)
            calls.append(block)
        elif type(block) is not Text:
            messages.add("assistant", _with_own(_encode_thought(block, index), extra), extra)
        elif block.seal is None:
            said: Any = encode_text(block)
            messages.add("assistant", said if extra is None else _with_own(said, extra), extra)
        else:
            kept = opaque.select(step.blocks) if kept is None else kept
            if position in kept:
                messages.add("assistant", kept[position], extra)
            elif not _only_carries_a_seal(block):
                messages.add("assistant", _with_own(encode_text(block), extra), extra)
    for answered in calls:
        done = answered.completion
        extra = own(done.extra, NAME)
        result = _encode_completion(answered.id, done)
        messages.add("user", result if extra is None else _own_result(result, done, extra), extra)


def _own_result(result: wire.ToolResultBlock, done: Completion, extra: Extra) -> Any:
    shown = [plain(encode_media(media)) for media in done.media]
    return own_result(result, done.text, extra, output_text, shown)


def _only_carries_a_seal(block: Text | Media) -> bool:
    """A blank text has no place here (ANT-12), and seals on texts mean nothing on this wire."""
    return type(block) is Text and block.seal is not None and not block.text.strip()


def _encode_thought(block: StepBlock, index: int) -> wire.Content:
    if type(block) is Reasoning and block.seal is not None:
        if block.seal.kind == "redacted":
            return wire.RedactedThinking(block.seal.payload)
        return wire.Thinking(block.text, block.seal.payload)  # ANT-51: also when the text is empty
    what = (
        "reasoning without a seal" if type(block) is Reasoning else f"{type(block).__name__} from the model"
    )
    raise unencodable(WIRE, what, index)


def _encode_completion(call_id: str, completion: Completion) -> wire.ToolResultBlock:
    if not completion.media:
        return wire.ToolResultBlock(call_id, completion.text, completion.is_error)
    shown: list[wire.Shown] = [wire.TextBlock(completion.text)] if completion.text else []
    shown += [encode_media(media) for media in completion.media]
    return wire.ToolResultBlock(call_id, shown, completion.is_error)


def _encode_shown(block: Text | Media) -> wire.Content:
    match block:
        case Text(content):
            return wire.TextBlock(content)
        case Media():
            return encode_media(block)
        case _:
            assert_never(block)


# The other way

_EMPTY_NOTE = frozenset({"role", "content"})
"""The fields of a system note; one without content has others, or nothing to return."""


def decode_request(body: Mapping[str, Any]) -> DecodedRequest:
    fitting = Fitting(NAME)
    body = _with_fitted_settings(body, fitting)
    body, moved = with_notes_in_system(body)
    origin = Origin(NAME, model=text(body.get("model"), "model"))
    given = items(body.get("messages"), "messages")
    messages, may_be_marked, fitted, uneven = read_messages(given, origin, fitting)
    if fitted is not given:
        body, given = {**body, "messages": fitted}, fitted
    body, excess = without_excess_marks(body, may_be_marked)
    if excess:
        given = body["messages"]
        messages, _, given, uneven = read_messages(given, origin, Fitting(NAME))
    system, adopted = take_system(read_system(body.get("system")), messages)
    leading = given[: len(messages) - len(adopted)]
    repairs = fitting.repairs
    repairs += [Repair("speaker_corrected", NAME, path, decision="system prompt") for path in moved]
    repairs += [Repair("hints_dropped", NAME, path, decision="cache_control") for path in excess]
    return DecodedRequest(
        messages=adopted,
        system=system,
        tools=read_once(body.get("tools"), NAME, lambda: read_tools(body.get("tools"))),
        options=decode_options(body, [message for message in leading if message.keys() - _EMPTY_NOTE]),
        leading=len(leading),
        starts=starts_of(len(given), uneven)[len(leading) :],
        repairs=tuple(repairs),
    )


def _with_fitted_settings(body: Mapping[str, Any], fitting: Fitting) -> Mapping[str, Any]:
    """The request with its system prompt and tools as the wire takes them."""
    system, tools = body.get("system"), body.get("tools")
    fitted = SYSTEM.fit(system, "system", fitting) if isinstance(system, list) else system
    fitted_tools = fit_tools(TOOLS, tools, fitting)
    if fitted is system and fitted_tools is tools:
        return body
    return {**body, "system": fitted, "tools": fitted_tools}


def recognises(body: Mapping[str, Any]) -> float:
    """Sure when a block or a tool has a form that only this wire has."""
    messages = body.get("messages")
    if not isinstance(messages, list) or "contents" in body or "input" in body:
        return 0.0
    sureness = 0.3
    if isinstance(body.get("system"), str | list):
        sureness = 0.9
    if any(key in body for key in ("stop_sequences", "output_config")):
        sureness = 0.9
    tools = body.get("tools")
    if isinstance(tools, list) and any(isinstance(tool, dict) and "input_schema" in tool for tool in tools):
        return 1.0
    for message in messages:
        if not isinstance(message, dict):
            continue
        if message.get("role") in ("tool", "developer", "function") or "tool_calls" in message:
            return 0.0
        content = message.get("content")
        for part in content if isinstance(content, list) else ():
            kind = part.get("type") if isinstance(part, dict) else None
            if kind in ("tool_use", "tool_result", "redacted_thinking", "document", "server_tool_use"):
                return 1.0
            if (kind == "image" and "source" in part) or (kind == "thinking" and "signature" in part):
                return 1.0
            if kind == "image_url":
                return 0.0
    return sureness

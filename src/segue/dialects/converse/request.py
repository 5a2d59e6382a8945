"""Requests of Converse, both ways."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, assert_never

from msgspec import Raw

from segue.conversation.blocks import Media, Origin, Reasoning, Text
from segue.dialects.caches.tool_cache import read_once
from segue.dialects.converse.cache_points import without_misplaced_points
from segue.dialects.converse.citations import CITED, cited_block
from segue.dialects.converse.opaque_blocks import opaque_block
from segue.dialects.converse.read_messages import read_messages, read_output, read_system, result_fields
from segue.dialects.converse.rules import NAME, caches, takes_cache_points
from segue.dialects.converse.settings import decode_options, encode_settings, read_tools, tools_in
from segue.dialects.converse.shapes import SYSTEM, TOOLS
from segue.dialects.converse.wire import CACHE_POINT, media_block
from segue.dialects.dialect import DecodedRequest, EncodedRequest
from segue.dialects.errors import unencodable
from segue.dialects.requests.extra_fields import own
from segue.dialects.requests.json_fields import items, text
from segue.dialects.requests.messages import check_target, take_system
from segue.dialects.requests.shapes import UNFIT, Fitting, fit_tools
from segue.transcript.repairs import Repair
from segue.transcript.steps import AnsweredCall, ModelStep, UserStep

if TYPE_CHECKING:
    from collections.abc import Mapping

    from segue.conversation.extra import Extra
    from segue.conversation.options import Options
    from segue.conversation.tools import ToolSpec
    from segue.dialects.card import ModelCard
    from segue.transcript.steps import Completion, StepBlock, Transcript

WIRE = "Converse"


def encode_request(
    transcript: Transcript,
    tools: tuple[ToolSpec, ...],
    options: Options,
    card: ModelCard,
    *,
    after: int = 0,
) -> EncodedRequest:
    """The model and whether to stream are not in the body: they are in the address."""
    check_target(transcript, NAME, WIRE)
    settings, repairs = encode_settings(transcript, tools, options, card)
    point = settings.pop(CACHE_POINT, None)
    messages = _Messages(marked=takes_cache_points(card, "messages"))
    for index, step in enumerate(transcript.steps[after:], after):
        if type(step) is ModelStep:
            messages.begin_reply()
            _encode_model(step, index, messages)
        elif type(step) is UserStep:
            for block in step.blocks:
                messages.add("system" if step.instruction else "user", _encode_shown(block), block.extra)
    if point is not None and caches(card, "messages"):
        messages.mark_end(point)
    body = {"messages": messages.written, **settings}
    # A point behind the last message stands elsewhere in the next request, so nothing of this one can be kept for it.
    return EncodedRequest(body, tuple(repairs), messages.before_reply, is_linked=point is not None)


class _Messages:
    """The messages so far: what one role gives is one message (BDR-01). `marked`: whether cache points are written."""

    def __init__(self, *, marked: bool) -> None:
        self.written: list[dict[str, Any]] = []
        self.before_reply = 0
        """How many there are before the last reply."""
        self._marked = marked

    def begin_reply(self) -> None:
        self.before_reply = len(self.written)

    def add(self, role: str, block: Any, extra: Extra | None = None) -> None:
        if not self.written or self.written[-1]["role"] != role:
            around = extra.container if extra is not None and extra.dialect == NAME else None
            message = {"role": role, "content": []}
            self.written.append(message if around is None else {**message, **around.fields, **around.form})
        content = self.written[-1]["content"]
        content.append(block)
        point = extra.hints.get(CACHE_POINT) if extra is not None and extra.dialect == NAME else None
        if point is not None and self._marked:
            content.append({CACHE_POINT: point})

    def mark_end(self, point: Any) -> None:
        """Have everything so far kept, if it ends with the user."""
        if self.written and self.written[-1]["role"] == "user":
            self.written[-1]["content"].append({CACHE_POINT: point})


def _encode_model(step: ModelStep, index: int, messages: _Messages) -> None:
    calls: list[AnsweredCall] = []
    for block in step.blocks:
        if type(block) is AnsweredCall:
            fields: dict[str, Any] = {
                "toolUseId": block.id,
                "name": block.name,
                "input": Raw(block.arguments),
            }
            extra = own(block.extra, NAME)
            messages.add("assistant", {"toolUse": _as_came(fields, extra)}, block.extra)
            calls.append(block)
        elif type(block) is Text:
            messages.add("assistant", _encode_shown(block), block.extra)
        else:
            messages.add("assistant", _encode_thought(block, index))
    for answered in calls:  # BDR-02
        done = answered.completion
        messages.add("user", {"toolResult": _encode_result(answered.id, done)}, done.extra)


def _as_came(fields: dict[str, Any], extra: Extra | None) -> dict[str, Any]:
    """The fields of a block, with those of the wire's own; marks are blocks of their own here."""
    if extra is None or not (extra.form or extra.fields or extra.absent):
        return fields
    kept = {name: value for name, value in fields.items() if name not in extra.absent}
    return {**kept, **extra.form, **extra.fields}


def _encode_thought(block: StepBlock, index: int) -> dict[str, Any]:
    if type(block) is Reasoning and block.seal is not None:
        if block.seal.kind == "redacted":
            return {"reasoningContent": {"redactedContent": block.seal.payload}}
        signed = {"text": block.text, "signature": block.seal.payload}  # BDR-14: also when the text is empty
        return {"reasoningContent": {"reasoningText": signed}}
    what = (
        "reasoning without a seal" if type(block) is Reasoning else f"{type(block).__name__} from the model"
    )
    raise unencodable(WIRE, what, index)


def _encode_result(call_id: str, done: Completion) -> dict[str, Any]:
    shown = list(done.media)
    fields = result_fields(call_id, done.text, shown, failed=done.is_error)
    extra = own(done.extra, NAME)
    if extra is None:
        return fields
    came = extra.form.get("content")
    written = _as_came(fields, extra)
    if came is not None and (not came or read_output(came, "content") != (done.text, shown)):
        written["content"] = fields["content"]
    if done.is_error or written.get("status") == "error":
        written["status"] = "error" if done.is_error else "success"
    return written


def _encode_shown(block: Text | Media) -> Any:
    match block:
        case Text():
            held = opaque_block(block.seal.payload, block.seal.kind) if block.seal is not None else None
            return _encode_text(block) if held is None else held
        case Media():
            ((kind, fields),) = media_block(block).items()
            return {kind: _as_came(fields, own(block.extra, NAME))}
        case _:
            assert_never(block)


def _encode_text(block: Text) -> dict[str, Any]:
    extra = own(block.extra, NAME)
    if extra is not None and CITED in extra.form:
        return {CITED: extra.form[CITED]}
    return cited_block(block.text, block.citations) if block.citations else {"text": block.text}


# The other way


def decode_request(body: Mapping[str, Any]) -> DecodedRequest:
    fitting = Fitting(NAME)
    body, misplaced = without_misplaced_points(_with_fitted_settings(body, fitting))
    model = body.get("model") or body.get("modelId")
    origin = Origin(NAME, model=text(model, "modelId"))
    messages, fitted, starts = read_messages(items(body.get("messages"), "messages"), origin, fitting)
    system, adopted = take_system(read_system(body.get("system")), messages)
    leading = len(messages) - len(adopted)
    repairs = [*fitting.repairs]
    repairs += [Repair("hints_dropped", NAME, path, decision=CACHE_POINT) for path in misplaced]
    tools = tools_in(body)
    return DecodedRequest(
        messages=adopted,
        system=system,
        tools=read_once(tools, NAME, lambda: read_tools(tools)),
        options=decode_options(body, fitted[:leading]),
        leading=leading,
        starts=starts[leading:],
        repairs=tuple(repairs),
    )


def _with_fitted_settings(body: Mapping[str, Any], fitting: Fitting) -> Mapping[str, Any]:
    """The request with its system prompt and tools as the wire takes them."""
    changed: dict[str, Any] = {}
    system, config = body.get("system"), body.get("toolConfig")
    if system is not None:
        changed["system"] = SYSTEM.fit(system, "system", fitting)
    if isinstance(config, dict) and config.get("tools") is not None:
        fitted = fit_tools(TOOLS, config["tools"], fitting)
        if fitted is not config["tools"]:
            changed["toolConfig"] = {**config, "tools": fitted}
    if all(body[name] is value for name, value in changed.items()):
        return body
    return {name: value for name, value in {**body, **changed}.items() if value is not UNFIT}


_MARKS = ("inferenceConfig", "toolConfig", "additionalModelRequestFields", "guardrailConfig", "modelId")
_BLOCKS = frozenset({"toolUse", "toolResult", "cachePoint", "reasoningContent", "guardContent"})


def recognises(body: Mapping[str, Any]) -> float:
    """Sure when a block or a setting has a name that only this wire has."""
    messages = body.get("messages")
    if not isinstance(messages, list) or "contents" in body or "input" in body:
        return 0.0
    if any(name in body for name in _MARKS):
        return 1.0
    sureness = 0.0
    for message in messages:
        content = message.get("content") if isinstance(message, dict) else None
        for block in content if isinstance(content, list) else ():
            if not isinstance(block, dict):
                continue
            if "type" in block:
                return 0.0
            if _BLOCKS & block.keys():
                return 1.0
            sureness = 0.9 if block.keys() == {"text"} else sureness
    return sureness

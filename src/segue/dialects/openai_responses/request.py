"""Requests of the Responses wire, both ways."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw

from segue.conversation.blocks import Media, Origin, Reasoning, Text
from segue.dialects.caches.tool_cache import read_once
from segue.dialects.dialect import DecodedRequest, EncodedRequest
from segue.dialects.errors import unencodable
from segue.dialects.openai_responses import client_calls, wire
from segue.dialects.openai_responses.fast import read_fast, write_fast
from segue.dialects.openai_responses.read_items import output_text, read_items
from segue.dialects.openai_responses.reply_encoder import annotations_of
from segue.dialects.openai_responses.rules import NAME
from segue.dialects.openai_responses.settings import (
    additional_items,
    decode_options,
    encode_settings,
    leading_items,
)
from segue.dialects.openai_responses.shapes import ITEM, TOOLS
from segue.dialects.openai_responses.tools import decode_all_tools, decode_tools, is_additional
from segue.dialects.requests.extra_fields import as_fields, own, own_result, with_container
from segue.dialects.requests.json_fields import items, record, text
from segue.dialects.requests.messages import check_target, leading_system, outcome_text, take_system
from segue.dialects.requests.opaque_blocks import OpaqueBlockFilter, is_opaque, opaque_block
from segue.dialects.requests.shapes import UNFIT, Fitting, fit_tools
from segue.transcript.blocks.value_text import json_of
from segue.transcript.fast import fast_paths
from segue.transcript.repairs import Repair
from segue.transcript.steps import AnsweredCall, ModelStep, UserStep

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from segue.conversation.extra import Extra
    from segue.conversation.options import Options
    from segue.conversation.tools import ToolSpec
    from segue.dialects.card import ModelCard
    from segue.dialects.openai_responses.fast import ReadItem
    from segue.transcript.steps import Completion, Transcript

WIRE = "Responses"
_INPUT = msgspec.json.Decoder(dict[str, Any])


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
    head = leading_items(options.own, transcript.system) if not after else None
    given = settings.pop("input", None)
    encoded: list[Any] = [*(head or ())]
    before_reply, is_linked = _encode_items(transcript, after, encoded)
    additional = additional_items(options.own)
    for place, item in additional if not after else ():
        encoded.insert(place, item)
    only = encoded[0].content if len(encoded) == 1 and type(encoded[0]) is wire.MessageItem else None
    settings["input"] = given if isinstance(given, str) and only == given else encoded
    return EncodedRequest(settings, tuple(repairs), before_reply, is_linked or bool(additional))


def _encode_items(transcript: Transcript, after: int, encoded: list[Any]) -> tuple[int, bool]:
    """Add the items; how many there are before the last reply, and whether some depend on others."""
    opaque = OpaqueBlockFilter()
    fast, before_reply = fast_paths.enabled(), 0
    first = max(after, leading_system(transcript, NAME)[1])
    for index, step in enumerate(transcript.steps[first:], first):
        if type(step) is ModelStep:
            before_reply = len(encoded)
            if not (fast and write_fast(step.blocks, encoded)):
                _encode_model(step, index, opaque, encoded)
        elif type(step) is UserStep:
            encoded.append(_encode_user(step))
    return before_reply, opaque.has_any


def _encode_user(step: UserStep) -> Any:
    first = step.blocks[0]
    extra = own(first.extra, NAME)
    content: Any
    if len(step.blocks) == 1 and type(first) is Text and not _is_part(first, extra):
        content = first.text
    else:
        content = [_encode_part(block) for block in step.blocks]
    item = wire.MessageItem("developer" if step.instruction else "user", content)
    return with_container(item, extra, NAME)


def _is_part(block: Text, extra: Extra | None) -> bool:
    """Whether a text came in a list of parts, not as the content itself."""
    return (extra is not None and "type" in extra.form) or opaque_block(block) is not None


def _encode_part(block: Text | Media, kind: str = "input_text") -> Any:
    extra = own(block.extra, NAME)
    if type(block) is not Text:
        part = wire.media_part(block)
        return part if extra is None else extra.written(as_fields(part))
    if (kept := opaque_block(block)) is not None:
        return kept
    text_part = {"type": kind, "text": block.text}
    return text_part if extra is None else extra.written(text_part)


def _encode_model(step: ModelStep, index: int, opaque: OpaqueBlockFilter, encoded: list[Any]) -> None:
    outputs: list[Any] = []
    kept: dict[int, Raw] | None = None
    parts: list[Any] | None = None
    """Of the message that the next text may still belong to."""
    for position, block in enumerate(step.blocks):
        extra = block.extra if block.extra is not None and block.extra.dialect == NAME else None
        if type(block) is Text:
            if block.seal is not None and kept is None:
                kept = opaque.select(step.blocks)
            item = kept.get(position) if kept is not None else None
            if item is not None:
                encoded.append(item)
            elif block.citations and extra is None:
                encoded.append(_encode_cited(block))
            elif extra is None or "type" not in extra.form:
                encoded.append(with_container(wire.MessageItem("assistant", block.text), extra, NAME))
            else:
                part = _encode_part(block, "output_text")
                if extra.container is None and parts is not None:
                    parts.append(part)
                    continue
                parts = [part]
                encoded.append(with_container(wire.MessageItem("assistant", parts), extra, NAME))
                continue
        elif type(block) is AnsweredCall:
            encoded.append(_encode_call(block, extra))
            outputs.append(_encode_result(block))
        elif type(block) is Reasoning and block.seal is not None:
            encoded.append(_encode_thought(block, block.seal.payload, extra))
        else:
            what = "reasoning without a seal" if type(block) is Reasoning else "media from the model"
            raise unencodable(WIRE, what, index)
        parts = None
    encoded += outputs  # RESP-12: all calls, then all outputs


def _encode_cited(block: Text) -> wire.MessageItem:
    part: Any = {"type": "output_text", "text": block.text, "annotations": annotations_of(block)}
    return wire.MessageItem("assistant", [part])


def _encode_thought(block: Reasoning, payload: str, extra: Extra | None) -> Any:
    if is_opaque(payload, "encrypted"):
        return Raw(payload)  # an item that the provider keeps
    item = wire.ReasoningItem([wire.SummaryText(block.text)] if block.text else [], payload)
    return item if extra is None else extra.written(as_fields(item))


def _encode_call(call: AnsweredCall, extra: Extra | None) -> Any:
    item = wire.FunctionCall(call.id, call.name, call.arguments)
    if extra is None:
        return item
    if extra.form.get("type") != client_calls.CUSTOM_CALL:
        return extra.written(as_fields(item))
    given = _INPUT.decode(call.arguments).get("input")
    return extra.written({"call_id": call.id, "name": call.name, "input": given})


def _encode_result(call: AnsweredCall) -> Any:
    """The output item of the call's own kind; as it came, if it is still the same."""
    done = call.completion
    extra, kind = own(done.extra, NAME), client_calls.kind_of(own(call.extra, NAME))
    item = wire.FunctionCallOutput(call.id, _encode_output(done))
    if extra is not None and client_calls.answers(extra, kind):
        came = _result_as_came(call, extra, kind, item)
        if came is not None:
            return came
    return item if kind == client_calls.FUNCTION_CALL else client_calls.write_output(kind, item, done)


def _result_as_came(
    call: AnsweredCall, extra: Extra, kind: str, item: wire.FunctionCallOutput
) -> dict[str, Any] | None:
    """None if that is no output of this kind, or says something else by now."""
    done = call.completion
    if client_calls.has_own_form(kind):
        return client_calls.as_came(extra, call.id, done)
    shown = [as_fields(wire.media_part(media)) for media in done.media]
    written = own_result(item, outcome_text(done), extra, output_text, shown, "output")
    if "call_id" not in written and "id" in written:  # how the output of a local shell may name its call
        written["id"] = call.id
    return written if client_calls.takes_output(kind, written.get("output")) else None


def _encode_output(completion: Completion) -> Any:
    text = outcome_text(completion)
    if not completion.media:
        return text
    content: list[Any] = [wire.InputText(text)] if text else []
    return content + [wire.media_part(media) for media in completion.media]


# The other way


def decode_request(body: Mapping[str, Any]) -> DecodedRequest:
    origin = Origin(NAME, model=text(body.get("model"), "model"))
    asked = body.get("input")
    listed = [{"type": "message", "role": "user", "content": asked}] if isinstance(asked, str) else asked
    fitting = Fitting(NAME)
    given = items(listed if listed is not None else [], "input")
    early: list[ReadItem | None] = [None] * len(given)
    if fast_paths.enabled():
        early = [read_fast(item, origin) for item in given]
    came = _fitted(given, early, body, fitting)
    listed = _without_repeated_ids(came)
    others = [(place, item) for place, item in enumerate(listed) if early[place] is None]
    there = client_calls.performed_there([item for _, item in others])
    if there or listed is not came:  # these change what other items mean
        early = [None] * len(given)
    messages, starts = read_items(listed, origin, there, early)
    instructions = _decode_instructions(body.get("instructions"))
    system, adopted = take_system(instructions, messages)
    additional = [(place, item) for place, item in others if is_additional(item)]
    said = [item for item in listed if not is_additional(item)] if additional else listed
    leading = said[: len(messages) - len(adopted)]
    tools = fit_tools(TOOLS, body.get("tools"), fitting)
    body = body if tools is body.get("tools") else {**body, "tools": tools}
    return DecodedRequest(
        messages=adopted,
        system=system,
        tools=tuple(decode_all_tools(tools, listed))
        if additional
        else read_once(tools, NAME, lambda: decode_tools(tools)),
        options=decode_options(body, leading, additional),
        leading=len(leading),
        starts=tuple(starts[len(messages) - len(adopted) :]),
        repairs=(*fitting.repairs, *(() if listed is came else _repeated_ids(came, listed))),
        is_linked=bool(additional or there)
        or (body.get("store") is False and any(_is_bare_thought(item) for _, item in others)),
    )


def _fitted(
    given: list[Any], early: list[ReadItem | None], body: Mapping[str, Any], fitting: Fitting
) -> list[Any]:
    """The items as the wire takes them: those that were read, as they are. One that does not fit is left to its reader, which names
    what is wrong."""
    fitted: list[Any] = []
    for index, (item, read) in enumerate(zip(given, early, strict=True)):
        if read is not None:
            fitted.append(item)
            continue
        found = ITEM.fit(item, f"input[{index}]", fitting)
        # RESP-45: a provider that keeps nothing knows no thought by its id.
        if body.get("store") is False and _is_bare_thought(found):
            found = {name: value for name, value in found.items() if name != "id"}
        fitted.append(item if found is UNFIT else found)
    return fitted


def _is_bare_thought(item: Any) -> bool:
    return isinstance(item, dict) and item.get("type") == "reasoning" and not item.get("encrypted_content")


def _repeated_ids(came: list[Any], listed: list[Any]) -> Iterator[Repair]:
    for index, (given, kept) in enumerate(zip(came, listed, strict=True)):
        if given is not kept:
            yield Repair("id_replaced", NAME, f"input[{index}]", decision="another item has the same id")


def _without_repeated_ids(listed: list[Any]) -> list[Any]:
    """RESP-24: an item's id is sent once, so it is kept of the first item that has it. The very same list if none has another's."""
    seen: set[str] = set()
    kept: list[Any] | None = None
    for index, item in enumerate(listed):
        name = item.get("id") if type(item) is dict else None
        if not isinstance(name, str) or item.get("type") == "item_reference":
            continue
        if name in seen:
            kept = [*listed] if kept is None else kept
            kept[index] = {field: value for field, value in item.items() if field != "id"}
        seen.add(name)
    return listed if kept is None else kept


def _decode_instructions(value: Any) -> str:
    if not isinstance(value, list):
        return text(value, "instructions")
    content = [record(item, f"instructions[{index}]").get("content") for index, item in enumerate(value)]
    return "\n\n".join(item if isinstance(item, str) else json_of(item) for item in content)


_OWN_FIELDS = frozenset(
    {"instructions", "max_output_tokens", "previous_response_id", "include", "truncation", "text"}
)


def recognises(body: Mapping[str, Any]) -> float:
    """Only this wire calls its messages `input`; an embeddings request does too, with texts in it."""
    given = body.get("input")
    if given is None or "messages" in body or "contents" in body:
        return 0.0
    if _OWN_FIELDS & body.keys():
        return 1.0
    if isinstance(given, str):
        return 0.5
    listed = given if isinstance(given, list) else []
    if listed and all(isinstance(item, dict) and ("role" in item or "type" in item) for item in listed):
        return 1.0
    return 0.0

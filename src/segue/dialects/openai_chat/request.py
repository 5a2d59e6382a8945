"""Requests, both ways: a transcript encoded for a server on this wire, and a foreign body read as it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET, Raw

from segue.conversation.blocks import Media, Origin, Reasoning, Text
from segue.dialects.dialect import DecodedRequest, EncodedRequest
from segue.dialects.errors import unencodable
from segue.dialects.openai_chat import wire
from segue.dialects.openai_chat.family import SILENCE, MessageReader, new_writer
from segue.dialects.openai_chat.read_messages import output_text, read_fast, read_message, refused_fields
from segue.dialects.openai_chat.reply import read_details
from segue.dialects.openai_chat.settings import encode_settings, leading_messages, read_options, read_tools
from segue.dialects.openai_chat.shapes import message_shape, tools_shape
from segue.dialects.openai_chat.wire import write_media
from segue.dialects.requests.extra_fields import as_fields, container_of, own, own_call, own_result
from segue.dialects.requests.messages import (
    check_target,
    completion_text,
    join_texts,
    leading_system,
    model_field,
)
from segue.dialects.requests.shapes import Fitting
from segue.transcript.blocks.foreign_fields import runs
from segue.transcript.fast import fast_paths
from segue.transcript.reasoning import lacks_thought
from segue.transcript.repairs import Repair
from segue.transcript.rules import media_type
from segue.transcript.steps import AnsweredCall, ModelStep, Transcript, UserStep

if TYPE_CHECKING:
    from segue.conversation.extra import Extra
    from segue.conversation.message import Message
    from segue.conversation.options import Options
    from segue.conversation.tools import ToolSpec
    from segue.dialects.card import ModelCard
    from segue.dialects.openai_chat.rules import Variant
    from segue.transcript.steps import StepBlock

_ENCODER = msgspec.json.Encoder()
WIRE = "Chat"


def encode_request(
    variant: Variant,
    transcript: Transcript,
    tools: tuple[ToolSpec, ...],
    options: Options,
    card: ModelCard,
    *,
    after: int = 0,
) -> EncodedRequest:
    check_target(transcript, variant.name, WIRE)
    settings, repairs = encode_settings(variant, transcript, tools, options, card)
    messages, before_reply = _encode_messages(variant, transcript, after, options.own)
    body = {**model_field(transcript, options), "messages": messages, **settings}
    return EncodedRequest(body, tuple(repairs), before_reply)


def _encode_messages(
    variant: Variant, transcript: Transcript, after: int, came: Extra | None
) -> tuple[list[Any], int]:
    steps = transcript.steps
    messages: list[Any] = []
    first, before_reply = after, 0
    write = new_writer(variant) if fast_paths.enabled() else None
    if not after:
        head = [] if came is None else leading_messages(variant, came, transcript.system)
        if head:
            messages += head
        else:
            system, first = leading_system(transcript, variant.name)
            if system:
                messages.append(wire.SystemMessage(system))
    for index in range(first, len(steps)):
        step = steps[index]
        if type(step) is ModelStep:
            before_reply = len(messages)
            if write is None or not write(step.blocks, messages):
                _encode_model(variant, step, index, messages)
        elif type(step) is UserStep:
            for run in runs(step.blocks, variant.name):
                _encode_user(variant, run, index, messages, instruction=step.instruction)
    return messages, before_reply


def _encode_user(
    variant: Variant, blocks: tuple[Text | Media, ...], index: int, messages: list[Any], *, instruction: bool
) -> None:
    around = own(blocks[0].extra, variant.name)
    around = around.container if around is not None else None
    if instruction:
        texts = tuple(block for block in blocks if type(block) is Text and _is_written(variant, block))
        content = _content(variant, texts, index) if _in_parts(variant, texts) else _texts(texts)
        message: Any = wire.SystemMessage(content)
        messages.append(message if around is None else around.written(as_fields(message)))
        around = None
        blocks = tuple(block for block in blocks if type(block) is Media)
    if len(blocks) == 1 and type(only := blocks[0]) is Text and only.extra is None:
        messages.append(wire.UserMessage(only.text))
    elif blocks:
        message = wire.UserMessage(_content(variant, blocks, index))
        messages.append(message if around is None else around.written(as_fields(message)))


def _texts(blocks: Sequence[object]) -> str:
    return join_texts([block.text for block in blocks if type(block) is Text])


def _is_text(blocks: Sequence[object]) -> bool:
    return all(type(block) is Text for block in blocks)


def _in_parts(variant: Variant, blocks: Sequence[StepBlock]) -> bool:
    """Whether a text among them came as a part of its content."""
    for block in blocks:
        if type(block) is Text and block.extra is not None:
            extra = own(block.extra, variant.name)
            if extra is not None and extra.form.get("type") is not None:
                return True
    return False


def _is_written(variant: Variant, block: StepBlock) -> bool:
    """Whether a block has a place of its own, and is not a field of its message."""
    extra = own(block.extra, variant.name) if block.extra is not None else None
    return extra is None or extra.form.get("type", "") is not None


def _content(variant: Variant, blocks: Sequence[Text | Media], index: int) -> str | list[Mapping[str, Any]]:
    blocks = [block for block in blocks if _is_written(variant, block)]
    texts = [block.text for block in blocks if type(block) is Text and block.text]
    in_parts = _in_parts(variant, blocks)
    if not in_parts and _is_text(blocks) and (len(texts) < 2 or not variant.text_parts):
        return join_texts(texts)
    return [
        _text_part(variant, block) if type(block) is Text else _shown(variant, block, index)
        for block in blocks
        if in_parts or type(block) is not Text or block.text
    ]


def _text_part(variant: Variant, block: Text) -> Mapping[str, Any]:
    extra = own(block.extra, variant.name)
    part = {"type": "text", "text": block.text}
    return part if extra is None else extra.written(part)


def _shown(variant: Variant, media: Media, index: int) -> Mapping[str, Any]:
    part = write_media(media)
    if part is None:
        raise unencodable(WIRE, f"media of type {media_type(media)}", index)
    extra = own(media.extra, variant.name)
    if extra is None:
        return part
    part = extra.written(part)
    if "detail" in extra.hints and isinstance(part.get("image_url"), dict):
        part["image_url"] = {**part["image_url"], "detail": part.pop("detail")}
    return part


def _encode_model(variant: Variant, step: ModelStep, index: int, messages: list[Any]) -> None:
    messages_of_step = [*runs(step.blocks, variant.name)]
    filled = Reasoning(variant.rules.reasoning.filler) in step.blocks
    if filled and any(lacks_thought(run, variant.rules.reasoning) for run in messages_of_step):
        messages_of_step = [step.blocks]  # what stands in for missing reasoning does so once
    for run in messages_of_step:
        _encode_reply(variant, run, index, messages)


def _encode_reply(variant: Variant, blocks: Sequence[StepBlock], index: int, messages: list[Any]) -> None:
    texts: list[Text] = []
    thoughts: list[Reasoning] = []
    calls: list[AnsweredCall] = []
    message = wire.AssistantMessage()
    around = container_of(blocks, variant.name)
    for block in blocks:
        if type(block) is AnsweredCall:
            calls.append(block)
        elif type(block) is Text:
            # The message that had it as a field is gone if its first block is, which may have been a thought.
            if block.extra is None or around is None or _is_written(variant, block):
                texts.append(block)
            if block.seal is not None:
                message.extra_content = wire.sealed(block.seal.payload)
        elif type(block) is Reasoning:
            thoughts.append(block)
        else:
            raise unencodable(WIRE, "media from the model", index)
    if any(text.text for text in texts) or not calls:
        message.content = _encode_texts(variant, texts)
    else:
        message.content = SILENCE[variant.silence]  # CHAT-04
    if thoughts:
        _encode_thoughts(variant, thoughts, message, index)
    if calls:
        message.tool_calls = [_call(variant, call) for call in calls]
    messages.append(_with_own(variant, message, around, thoughts))
    if calls:
        _encode_results(variant, calls, index, messages)


def _with_own(
    variant: Variant, message: wire.AssistantMessage, around: Extra | None, thoughts: list[Reasoning]
) -> Any:
    kept = own(thoughts[0].extra, variant.name) if thoughts else None
    if message.tool_calls is not UNSET and variant.rules.reasoning.required != "none":
        kept = None  # KIM-07: it has its reasoning in the one field that counts
    if around is None and kept is None:
        return message
    fields = as_fields(message)
    if kept is not None:
        fields = kept.written(fields)
    if around is None:
        return fields
    # A stand-in for missing reasoning stands, also where none came.
    return {**around.written(fields), **{name: fields[name] for name in wire.THOUGHTS if name in fields}}


def _encode_texts(variant: Variant, texts: list[Text]) -> str | list[Mapping[str, Any]]:
    if len(texts) == 1 and texts[0].extra is None:
        return texts[0].text
    if _in_parts(variant, texts):
        return [_text_part(variant, text) for text in texts]
    if len(texts) == 1:
        return texts[0].text
    parts = [text.text for text in texts if text.text]
    if len(parts) > 1 and variant.text_parts:
        return [{"type": "text", "text": text} for text in parts]
    return join_texts(parts)


def _encode_thoughts(
    variant: Variant, thoughts: list[Reasoning], message: wire.AssistantMessage, index: int
) -> None:
    if variant.details:
        sealed = [thought.seal.payload for thought in thoughts if thought.seal is not None]
        if len(sealed) < len(thoughts):
            raise unencodable(WIRE, "reasoning without a seal", index)
        message.reasoning_details = Raw(_one_list(sealed).encode())
    elif variant.thoughts == "reasoning_content":
        message.reasoning_content = "".join(thought.text for thought in thoughts)
    elif variant.thoughts == "reasoning":
        message.reasoning = "".join(thought.text for thought in thoughts)
    else:
        raise unencodable(WIRE, "reasoning of the model", index)  # CHAT-50


def _one_list(payloads: list[str]) -> str:
    """Lists of reasoning details joined into one, each detail as it came."""
    inner = [
        payload.strip()[1:-1] if read_details(payload) else _ENCODER.encode(wire.encrypted(payload)).decode()
        for payload in payloads
    ]
    return f"[{','.join(inner)}]"


def _call(variant: Variant, call: AnsweredCall) -> Any:
    function = wire.Function(call.name, call.arguments)  # CHAT-22
    encoded = wire.Call(call.id, function)
    if call.seal is not None:
        encoded.extra_content = wire.sealed(call.seal.payload)
    extra = own(call.extra, variant.name)
    return encoded if extra is None else own_call(as_fields(encoded), extra, "function")


def _encode_results(variant: Variant, calls: list[AnsweredCall], index: int, messages: list[Any]) -> None:
    for call in calls:
        done = call.completion
        output = completion_text(done, WIRE, index)  # CHAT-18: there is no flag for a failure
        result = wire.ToolMessage(call.id, output, call.name if variant.result_names else UNSET)
        extra = own(done.extra, variant.name)
        messages.append(result if extra is None else own_result(result, output, extra, output_text))


# The other way round


def decode_request(variant: Variant, body: Mapping[str, Any]) -> DecodedRequest:
    name = variant.name
    fitting = Fitting(name)

    def read(item: dict[str, Any], path: str, origin: Origin) -> Message:
        if refused := refused_fields(variant, item):
            fitting.repairs.append(Repair("blank_text", name, path, decision=", ".join(refused)))
        return read_message(variant, item, path, origin)

    if body.get("tools") == [] and variant.fields is not None:  # CHAT-30
        fitting.repairs.append(Repair("blank_text", name, "tools", decision="an empty list"))
    reader = MessageReader(
        name=name,
        message=message_shape(name),
        tools=tools_shape(name),
        read_message=read,
        read_options=partial(read_options, variant),
        read_fast=partial(read_fast, variant) if fast_paths.enabled() else lambda _item, _origin: None,
        read_tools=lambda given, _name: read_tools(variant, given),
    )
    return reader.decode_request(body, fitting)


_OWN_FIELDS = frozenset(
    [
        *("max_completion_tokens", "response_format", "stream_options", "parallel_tool_calls", "logprobs"),
        *("reasoning_effort", "logit_bias", "frequency_penalty", "presence_penalty"),
    ]
)
_FOREIGN_FIELDS = frozenset(
    {"system", "anthropic_version", "options", "keep_alive", "contents", "input", "thinking_config"}
)
_OWN_PARTS = frozenset({"image_url", "input_audio", "file"})
_FOREIGN_PARTS = frozenset({"tool_use", "tool_result", "thinking", "image", "document"})


def recognises(body: Mapping[str, Any]) -> float:
    messages = body.get("messages")
    if not isinstance(messages, list) or not all(isinstance(message, Mapping) for message in messages):
        return 0.0
    if not body.keys().isdisjoint(_FOREIGN_FIELDS):
        return 0.1
    kinds = {kind for message in messages for kind in _kinds(message)}
    if not kinds.isdisjoint(_FOREIGN_PARTS):
        return 0.1
    tools = body.get("tools")
    offered = isinstance(tools, list) and any(
        isinstance(tool, Mapping) and isinstance(tool.get("function"), Mapping) for tool in tools
    )
    own = not body.keys().isdisjoint(_OWN_FIELDS) or not kinds.isdisjoint(_OWN_PARTS | {"call", "result"})
    return 0.9 if own or (offered and "objects" not in kinds) else 0.3 if "objects" in kinds else 0.5


def _kinds(message: Mapping[str, Any]) -> set[str]:
    """Marks by which a message shows its wire."""
    content, calls = message.get("content"), message.get("tool_calls")
    parts = content if isinstance(content, list) else ()
    kinds = {
        part["type"] for part in parts if isinstance(part, Mapping) and isinstance(part.get("type"), str)
    }
    if message.get("role") == "tool" and isinstance(message.get("tool_call_id"), str):
        kinds.add("result")
    for call in calls if isinstance(calls, list) else ():
        function = call.get("function") if isinstance(call, Mapping) else None
        if isinstance(function, Mapping):
            kinds.add("call" if isinstance(function.get("arguments"), str) else "objects")
    return kinds

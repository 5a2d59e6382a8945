"""Requests, both ways: a transcript encoded for a server on this wire, and a foreign body read as it is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
from msgspec import UNSET, Raw

from segue.conversation.blocks import Media, Origin, Reasoning, Text
from segue.dialects import request_fields
from segue.dialects.data_urls import kind_of, url_of
from segue.dialects.dialect import DecodedRequest, EncodedRequest
from segue.dialects.errors import unencodable
from segue.dialects.openai_chat import wire
from segue.dialects.openai_chat.fast import read_fast
from segue.dialects.openai_chat.read_messages import read_message
from segue.dialects.openai_chat.read_settings import read_options, read_tools
from segue.dialects.openai_chat.reply import read_details
from segue.dialects.openai_chat.rules import HELD_FILE
from segue.dialects.openai_chat.settings import SettingsEncoder
from segue.dialects.request_messages import check_target, join_texts, leading_system, take_system
from segue.transcript import fast_paths
from segue.transcript.rules import media_type
from segue.transcript.steps import AnsweredCall, ModelStep, Transcript, UserStep

if TYPE_CHECKING:
    from segue.conversation.options import Options
    from segue.conversation.tools import ToolSpec
    from segue.dialects.card import ModelCard
    from segue.dialects.openai_chat.wire import Variant

_ENCODER = msgspec.json.Encoder()
WIRE = "Chat"
WireMessage: TypeAlias = wire.SystemMessage | wire.UserMessage | wire.AssistantMessage | wire.ToolMessage
_SOUNDS = {"audio/wav": "wav", "audio/x-wav": "wav", "audio/mp3": "mp3", "audio/mpeg": "mp3"}


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
    settings = SettingsEncoder(variant, options, card)
    settings.encode(tools, transcript.names)
    body = {
        "model": options.model or transcript.target.model,
        "messages": _encode_messages(variant, transcript, after),
        **settings.body,
    }
    return EncodedRequest(body, tuple(settings.repairs))


def _encode_messages(variant: Variant, transcript: Transcript, after: int) -> list[WireMessage]:
    steps = transcript.steps
    messages: list[WireMessage] = []
    first = after
    if not after:
        system, first = leading_system(transcript)
        if system:
            messages.append(wire.SystemMessage(system))
    for index in range(first, len(steps)):
        step = steps[index]
        if type(step) is ModelStep:
            _encode_model(variant, step, index, messages)
        elif type(step) is UserStep:
            blocks = step.blocks
            if step.instruction:
                messages.append(wire.SystemMessage(join_texts(_texts(blocks))))
            elif len(blocks) == 1 and type(only := blocks[0]) is Text:
                messages.append(wire.UserMessage(only.text))
            else:
                messages.append(wire.UserMessage(_content(variant, blocks, index)))
    return messages


def _texts(blocks: Iterable[Text | Media]) -> list[str]:
    return [block.text for block in blocks if type(block) is Text and block.text]


def _content(variant: Variant, blocks: tuple[Text | Media, ...], index: int) -> str | list[Mapping[str, Any]]:
    texts = _texts(blocks)
    if all(type(block) is Text for block in blocks) and (len(texts) < 2 or not variant.text_parts):
        return join_texts(texts)
    return [
        {"type": "text", "text": block.text} if type(block) is Text else _shown(block, index)
        for block in blocks
        if type(block) is not Text or block.text
    ]


def _shown(media: Media, index: int) -> Mapping[str, Any]:
    """CHAT-52, CHAT-53: how the user shows images, documents and sounds."""
    mime = media_type(media)
    kind = kind_of(mime)
    if kind == "image":
        return {"type": "image_url", "image_url": {"url": url_of(media)}}
    if mime in _SOUNDS:
        return {"type": "input_audio", "input_audio": {"data": media.data, "format": _SOUNDS[mime]}}
    if media.url.startswith(HELD_FILE) and not media.data:
        return {"type": "file", "file": {"file_id": media.url.removeprefix(HELD_FILE)}}
    if kind == "document" and media.data:
        name = media.name or f"document.{mime.rpartition('/')[2]}"
        return {"type": "file", "file": {"filename": name, "file_data": url_of(media)}}
    raise unencodable(WIRE, f"media of type {mime}", index)


def _encode_model(variant: Variant, step: ModelStep, index: int, messages: list[WireMessage]) -> None:
    blocks = step.blocks
    if len(blocks) == 1 and type(only := blocks[0]) is Text and only.seal is None:
        messages.append(wire.AssistantMessage(only.text))
        return
    texts: list[str] = []
    thoughts: list[Reasoning] = []
    calls: list[AnsweredCall] = []
    message = wire.AssistantMessage()
    for block in blocks:
        if type(block) is AnsweredCall:
            calls.append(block)
        elif type(block) is Text:
            texts.append(block.text)
            if block.seal is not None:
                message.extra_content = wire.sealed(block.seal.payload)
        elif type(block) is Reasoning:
            thoughts.append(block)
        else:
            raise unencodable(WIRE, "media from the model", index)
    if any(texts) or not calls:
        message.content = texts[0] if len(texts) == 1 else _encode_texts(variant, texts)
    elif variant.silence != "omit":
        message.content = "" if variant.silence == "empty" else None  # CHAT-04
    if thoughts:
        _encode_thoughts(variant, thoughts, message, index)
    messages.append(message)
    if calls:
        message.tool_calls = [_call(call) for call in calls]
        _encode_results(variant, calls, index, messages)


def _encode_texts(variant: Variant, texts: list[str]) -> str | list[Mapping[str, Any]]:
    parts = [text for text in texts if text]
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


def _call(call: AnsweredCall) -> wire.Call:
    function = wire.Function(call.name, call.arguments)  # CHAT-22
    if call.seal is not None:
        return wire.Call(call.id, function, extra_content=wire.sealed(call.seal.payload))
    return wire.Call(call.id, function)


def _encode_results(
    variant: Variant, calls: list[AnsweredCall], index: int, messages: list[WireMessage]
) -> None:
    for call in calls:
        done = call.completion
        if done.media:
            raise unencodable(WIRE, "media in a tool's result", index)
        # CHAT-18: there is no flag for a failure, only its text.
        messages.append(wire.ToolMessage(call.id, done.text, call.name if variant.result_names else UNSET))


# The other way round


def decode_request(variant: Variant, body: Mapping[str, Any]) -> DecodedRequest:
    extra: dict[str, Any] = {}
    tools = read_tools(body, extra)
    options = read_options(body, extra)
    origin = Origin(variant.name, model=options.model)
    try_fast = fast_paths.enabled()
    messages = [
        (read_fast(item, origin) if try_fast else None)
        or read_message(request_fields.record(item, f"messages[{index}]"), f"messages[{index}]", origin)
        for index, item in enumerate(request_fields.items(body.get("messages"), "messages"))
    ]
    system, rest = take_system("", messages)
    return DecodedRequest(messages=rest, system=system, tools=tools, options=options)


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

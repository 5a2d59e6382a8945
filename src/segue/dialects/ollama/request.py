"""Messages of an Ollama request, both ways: texts are strings, arguments objects, images plain base64 (OLL-04)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Raw, Struct

from segue.conversation.blocks import Media, Origin, Reasoning, Text, ToolCall, ToolResult
from segue.conversation.message import Message
from segue.dialects.calls import read_arguments
from segue.dialects.data_urls import media_from
from segue.dialects.dialect import DecodedRequest, EncodedRequest
from segue.dialects.errors import unencodable
from segue.dialects.function_tools import read_tools
from segue.dialects.known_tools import read_once
from segue.dialects.ollama import wire
from segue.dialects.ollama.fast import write_fast
from segue.dialects.ollama.rules import NAME
from segue.dialects.ollama.settings import decode_options, encode_settings
from segue.dialects.ollama.shapes import MESSAGE, TOOLS
from segue.dialects.own_fields import FieldKinds, as_fields, own, own_call, own_result, with_container
from segue.dialects.request_fields import items, listed, record, text
from segue.dialects.request_messages import (
    begun_blocks,
    check_target,
    completion_text,
    encode_steps,
    leading_messages,
    mark_beginnings,
    model_field,
    take_system,
)
from segue.dialects.shapes import Fitting, fit_tools
from segue.transcript.rules import media_type
from segue.transcript.steps import AnsweredCall

if TYPE_CHECKING:
    from collections.abc import Mapping

    from segue.conversation.blocks import Block
    from segue.conversation.extra import Extra
    from segue.conversation.options import Options
    from segue.conversation.tools import ToolSpec
    from segue.dialects.card import ModelCard
    from segue.transcript.steps import StepBlock, Transcript

WIRE = "Ollama"
_KINDS = FieldKinds(NAME, form=frozenset({"role", "name", "type", "function", "id", "images", "thinking"}))
_MIMES = {"iVBOR": "image/png", "/9j/": "image/jpeg", "UklGR": "image/webp", "R0lGO": "image/gif"}
"""How the base64 of an image begins: the wire does not send its type."""


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
    messages, before_reply = encode_steps(
        transcript,
        [] if after else _encode_system(transcript.system, options.own),
        after,
        NAME,
        WIRE,
        _encode_shown,
        _encode_reply,
        write_fast,
    )
    body = {**model_field(transcript, options), "messages": messages, **settings}
    return EncodedRequest(body, tuple(repairs), before_reply)


def _encode_system(system: str, came: Extra | None) -> list[Any]:
    head = leading_messages(
        came, NAME, system, lambda given: _decode_message(given, "messages", Origin(NAME)).text
    )
    return head or ([wire.TextMessage("system", system)] if system else [])


def _encode_shown(blocks: tuple[Text | Media, ...], index: int) -> wire.TextMessage:
    texts: list[str] = []
    images: list[str] = []
    for block in blocks:
        if type(block) is Text:
            texts.append(block.text)
        elif media_type(block).startswith("image/") and block.data:
            images.append(block.data)
        else:
            raise unencodable(WIRE, "anything but images by content", index)
    return wire.TextMessage("user", texts[0] if len(texts) == 1 else "\n\n".join(texts), images)  # OLL-01


def _encode_reply(blocks: tuple[StepBlock, ...], index: int, messages: list[Any]) -> None:
    texts: list[str] = []
    thoughts: list[str] = []
    calls: list[Any] = []
    results: list[Any] = []
    for block in blocks:
        if type(block) is AnsweredCall:
            function = wire.RequestFunction(len(calls), block.name, Raw(block.arguments))
            calls.append(_with_own(wire.RequestCall(block.id, function), block.extra))
            output = completion_text(block.completion, WIRE, index)
            result, extra = wire.Result(block.name, block.id, output), own(block.completion.extra, NAME)
            if extra is not None:
                results.append(own_result(result, output, extra, str))
            elif (came := own(block.extra, NAME)) is not None and "id" in came.absent:
                fields = as_fields(result)  # a result of ours, for a call that its client gave no id
                results.append({name: value for name, value in fields.items() if name != "tool_call_id"})
            else:
                results.append(result)
        elif type(block) is Text:
            texts.append(block.text)
        elif type(block) is Reasoning:
            thoughts.append(block.text)
        else:
            raise unencodable(WIRE, "media from the model", index)
    message = wire.Assistant("".join(texts), "".join(thoughts), calls)
    messages.append(with_container(message, blocks[0].extra, NAME))
    messages += results


def _with_own(encoded: Struct, extra: Extra | None) -> Any:
    kept = own(extra, NAME)
    return encoded if kept is None else own_call(as_fields(encoded), kept, "function")


# The other way

_OWN_FIELDS = frozenset({"options", "keep_alive", "think", "format", "truncate", "shift"})
_OWN_MESSAGE_FIELDS = frozenset({"images", "tool_name", "thinking"})


def recognises(body: Mapping[str, Any]) -> float:
    messages = body.get("messages")
    if not isinstance(messages, list) or not all(isinstance(message, dict) for message in messages):
        return 0.0
    if any(isinstance(message.get("content"), list) for message in messages):  # OLL-01
        return 0.0
    if not body.keys().isdisjoint(_OWN_FIELDS):
        return 0.95
    if any(not message.keys().isdisjoint(_OWN_MESSAGE_FIELDS) for message in messages):
        return 0.95
    arguments = [
        call["function"].get("arguments")
        for message in messages
        for call in (message["tool_calls"] if isinstance(message.get("tool_calls"), list) else ())
        if isinstance(call, dict) and isinstance(call.get("function"), dict)
    ]
    return 0.93 if arguments and all(isinstance(given, dict) for given in arguments) else 0.15


def decode_request(body: Mapping[str, Any]) -> DecodedRequest:
    given = items(body.get("messages"), "messages")
    origin = Origin(NAME, model=text(body.get("model"), "model"))
    fitting = Fitting(NAME)
    given = [
        MESSAGE.fit(record(message, f"messages[{index}]"), f"messages[{index}]", fitting)
        for index, message in enumerate(given)
    ]
    messages = [_decode_message(message, f"messages[{index}]", origin) for index, message in enumerate(given)]
    messages = mark_beginnings(messages, NAME)
    system, rest = take_system("", messages)
    leading = given[: len(messages) - len(rest)]
    tools = fit_tools(TOOLS, body.get("tools"), fitting)
    body = body if tools is body.get("tools") else {**body, "tools": tools}
    return DecodedRequest(
        messages=rest,
        system=system,
        tools=read_once(tools, NAME, lambda: read_tools(body, NAME)),
        options=decode_options(body, leading),
        leading=len(leading),
        repairs=tuple(fitting.repairs),
    )


def _decode_message(message: dict[str, Any], path: str, origin: Origin) -> Message:
    texts = text(message.get("content"), f"{path}.content")
    thought = text(message.get("thinking"), f"{path}.thinking")
    shown: list[Block] = [
        _decode_image(image, f"{path}.images[{index}]")
        for index, image in enumerate(listed(message.get("images"), f"{path}.images"))
    ]
    called: list[Block] = [
        _decode_call(record(call, f"{path}.tool_calls[{index}]"), f"{path}.tool_calls[{index}]", index)
        for index, call in enumerate(listed(message.get("tool_calls"), f"{path}.tool_calls"))
    ]
    role = text(message.get("role"), f"{path}.role").lower()  # OLL-03: any role, in any case
    if role == "tool":
        return Message("tool", (_decode_result(message, texts, shown, path), *called))
    blocks: list[Block] = [Reasoning(thought)] if thought else []
    if texts or not (shown or called or blocks):
        blocks.append(Text(texts))
    blocks += shown
    instruction = role in ("system", "developer", "control")
    written: dict[str, Any] = {
        "role": "system" if instruction else "assistant" if role == "assistant" else "user",
        "content": texts,
        "thinking": thought,
        "images": message.get("images"),
        "tool_calls": message.get("tool_calls"),
    }
    written = {name: value for name, value in written.items() if value or name in ("role", "content")}
    if role == "assistant":
        return Message("model", begun_blocks((*blocks, *called), _KINDS.found(message, written)), origin)
    # Whoever's message it is, calls are the model's.
    came = {key: value for key, value in message.items() if not value or key != "tool_calls"}
    found = begun_blocks(
        tuple(blocks), _KINDS.found(came, {**written, "tool_calls": message.get("tool_calls")})
    )
    return Message("user", (*found, *called), instruction=instruction)


def _decode_image(image: Any, path: str) -> Media:
    data = text(image, path)
    if data.startswith("data:"):
        return media_from(data, "image")
    mime = next((mime for start, mime in _MIMES.items() if data.startswith(start)), "image/png")
    return Media("image", mime, data)


def _decode_call(call: dict[str, Any], path: str, index: int) -> ToolCall:
    function = record(call.get("function"), f"{path}.function")
    arguments, raw = read_arguments(function.get("arguments"))
    name = text(function.get("name"), f"{path}.function.name")
    call_id = text(call.get("id"), f"{path}.id")
    written = {
        "id": call_id,
        "function": {"index": index, "name": name, "arguments": arguments if not raw else None},
    }
    if raw or not isinstance(arguments, dict):  # OLL-02: a text is no arguments
        call = {key: value for key, value in call.items() if key != "function"}
        del written["function"]
    return ToolCall("", name, arguments, raw, call_id, extra=_KINDS.found(call, written))


def _decode_result(message: dict[str, Any], texts: str, shown: list[Block], path: str) -> ToolResult:
    name = message.get("tool_name")
    if name is None:  # ignored by the server, but what it means is plain
        name = message.get("name")
    called = text(name, f"{path}.tool_name")
    call_id = text(message.get("tool_call_id"), f"{path}.tool_call_id")
    written = {"role": "tool", "tool_name": called, "tool_call_id": call_id, "content": texts}
    # What a tool shows and calls is sent by others.
    came = {key: value for key, value in message.items() if not value or key not in ("images", "tool_calls")}
    return ToolResult(
        "",
        called,
        texts,
        complete=True,
        media=tuple(block for block in shown if type(block) is Media),
        native_id=call_id,
        extra=_KINDS.found(came, written),
    )

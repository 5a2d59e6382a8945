"""Requests of the Responses wire, both ways."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, assert_never

from segue.conversation.blocks import Media, Origin, Reasoning, Seal, Text, ToolCall, ToolResult
from segue.conversation.json_safe import encodable
from segue.conversation.message import Message
from segue.dialects.calls import read_arguments
from segue.dialects.data_urls import media_from, url_of
from segue.dialects.dialect import DecodedRequest, EncodedRequest
from segue.dialects.errors import unencodable
from segue.dialects.opaque_blocks import OpaqueBlockFilter, opaque_block, seal_block
from segue.dialects.openai_responses import wire
from segue.dialects.openai_responses.rules import OPENAI_RESPONSES
from segue.dialects.openai_responses.settings import decode_options, encode_settings
from segue.dialects.openai_responses.tools import decode_tools
from segue.dialects.request_fields import items, record, text, unknown, wrong_type
from segue.dialects.request_messages import check_target, leading_system, take_system
from segue.dialects.seal_makers import seal_origin
from segue.errors import TranscriptError
from segue.transcript.rules import media_type
from segue.transcript.steps import AnsweredCall, ModelStep, UserStep
from segue.transcript.value_text import json_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from msgspec import Raw

    from segue.conversation.blocks import Block
    from segue.conversation.message import Speaker
    from segue.conversation.options import Options
    from segue.conversation.tools import ToolSpec
    from segue.dialects.card import ModelCard
    from segue.transcript.steps import Completion, Transcript

NAME = OPENAI_RESPONSES.target.dialect
WIRE = "Responses"


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
    settings["input"] = _encode_items(transcript, after)
    return EncodedRequest(settings, tuple(repairs))


def _encode_items(transcript: Transcript, after: int) -> list[wire.Item]:
    encoded: list[wire.Item] = []
    opaque = OpaqueBlockFilter()
    first = max(after, leading_system(transcript)[1])
    for index, step in enumerate(transcript.steps[first:], first):
        if type(step) is ModelStep:
            _encode_model(step, index, opaque, encoded)
        elif type(step) is UserStep:
            role = "developer" if step.instruction else "user"
            encoded.append(wire.MessageItem(role, _encode_shown(step.blocks)))
    return encoded


def _encode_model(step: ModelStep, index: int, opaque: OpaqueBlockFilter, encoded: list[wire.Item]) -> None:
    outputs: list[wire.Item] = []
    kept: dict[int, Raw] | None = None
    for position, block in enumerate(step.blocks):
        if type(block) is AnsweredCall:
            encoded.append(wire.FunctionCall(block.id, block.name, block.arguments))
            outputs.append(wire.FunctionCallOutput(block.id, _encode_output(block.completion)))
        elif type(block) is Text:
            if block.seal is not None and kept is None:
                kept = opaque.select(step.blocks)
            item = kept.get(position) if kept is not None else None
            encoded.append(wire.MessageItem("assistant", block.text) if item is None else item)
        elif type(block) is Reasoning and block.seal is not None:
            summary = [wire.SummaryText(block.text)] if block.text else []
            encoded.append(wire.ReasoningItem(summary, block.seal.payload))
        else:
            what = "reasoning without a seal" if type(block) is Reasoning else "media from the model"
            raise unencodable(WIRE, what, index)
    encoded += outputs  # RESP-12: all calls, then all outputs


def _encode_output(completion: Completion) -> str | list[wire.Part]:
    if not completion.media:
        return completion.text
    content: list[wire.Part] = [wire.InputText(completion.text)] if completion.text else []
    return content + [_encode_media(media) for media in completion.media]


def _encode_shown(blocks: tuple[Text | Media, ...]) -> str | list[wire.Part]:
    first = blocks[0]
    if len(blocks) == 1 and type(first) is Text and opaque_block(first) is None:
        return first.text
    return [_encode_block(block) for block in blocks]


def _encode_block(block: Text | Media) -> wire.Part:
    match block:
        case Text(content):
            return opaque_block(block) or wire.InputText(content)
        case Media():
            return _encode_media(block)
        case _:
            assert_never(block)


def _encode_media(media: Media) -> wire.Part:
    if media_type(media).startswith("image/"):
        return wire.InputImage(url_of(media))
    if not media.data:
        return wire.InputFile(file_url=media.url)
    return wire.InputFile(encodable(media.name) or "document.pdf", url_of(media))


# The other way


def decode_request(body: Mapping[str, Any]) -> DecodedRequest:
    origin = Origin(NAME, model=text(body.get("model"), "model"))
    given = body.get("input")
    listed = [{"role": "user", "content": given}] if isinstance(given, str) else given
    messages = list(_grouped(items(listed if listed is not None else [], "input"), origin))
    system = _decode_instructions(body.get("instructions"))
    system, adopted = take_system(system, messages)
    return DecodedRequest(
        messages=adopted,
        system=system,
        tools=tuple(decode_tools(body.get("tools"))),
        options=decode_options(body),
    )


def _decode_instructions(value: Any) -> str:
    if not isinstance(value, list):
        return text(value, "instructions")
    content = [record(item, f"instructions[{index}]").get("content") for index, item in enumerate(value)]
    return "\n\n".join(item if isinstance(item, str) else json_of(item) for item in content)


def _grouped(given: list[Any], origin: Origin) -> Iterator[Message]:
    """Items of the model in a row are one message, and so are results in a row."""
    speaker: Speaker = "user"
    run: list[Block] = []
    for index, item in enumerate(given):
        path = f"input[{index}]"
        fields = record(item, path)
        who, blocks = _decode_item(fields, path, origin)
        if run and (who != speaker or who == "user"):
            yield _message(speaker, run, origin)
            run = []
        if who == "user":
            instruction = fields.get("role") in ("system", "developer")
            yield Message("user", tuple(blocks), instruction=instruction)
        else:
            speaker = who
            run += blocks
    if run:
        yield _message(speaker, run, origin)


def _message(speaker: Speaker, blocks: list[Block], origin: Origin) -> Message:
    return Message(speaker, tuple(blocks), origin if speaker == "model" else None)


def _decode_item(item: dict[str, Any], path: str, origin: Origin) -> tuple[Speaker, list[Block]]:
    kind = item.get("type", "message")
    if not isinstance(kind, str):
        raise wrong_type(f"{path}.type", "the type of an item", kind)
    match kind:
        case "message":
            role = item.get("role")
            if role not in ("user", "assistant", "system", "developer"):
                raise unknown(f"{path}.role", "role", role, "user, assistant, system, developer")
            # Parts that the provider keeps are given back to it as parts, which only others than the model have.
            keeper = origin if role != "assistant" else None
            blocks: list[Block] = [*_decode_content(item.get("content"), f"{path}.content", keeper)]
            return ("model" if role == "assistant" else "user"), blocks
        case "reasoning":
            return "model", [_decode_reasoning(item, path, origin)]
        case "function_call":
            return "model", [_decode_call(item, path)]
        case "item_reference":
            if text(item.get("id"), f"{path}.id").startswith("rs_"):
                return "model", [Reasoning()]  # a thought that only its provider holds
            raise TranscriptError(
                "The item is kept by the provider and not part of the request.",
                code="bad_request_body",
                path=path,
                hint="Send the item itself, as it is in the output of its response, instead of a reference to it.",
            )
    if (call := wire.call_of(item)) is not None:
        call_id, name, arguments = call
        return "model", [ToolCall("", name, arguments, native_id=call_id)]
    if kind.removesuffix("_output") in ("function_call", *wire.CLIENT_CALLS):
        return "tool", [_decode_result(item, path)]
    return "model", [seal_block(item, _as_words(item), origin)]


def _decode_call(item: dict[str, Any], path: str) -> ToolCall:
    parsed, raw = read_arguments(item.get("arguments"))
    return ToolCall(
        "",
        text(item.get("name"), f"{path}.name"),
        parsed,
        raw,
        text(item.get("call_id"), f"{path}.call_id"),
    )


def _decode_reasoning(item: dict[str, Any], path: str, origin: Origin) -> Reasoning:
    thoughts: list[str] = []
    for field in ("summary", "content"):
        for index, part in enumerate(items(item.get(field) or [], f"{path}.{field}")):
            place = f"{path}.{field}[{index}]"
            thoughts.append(text(record(part, place).get("text"), f"{place}.text"))
    sealed = text(item.get("encrypted_content"), f"{path}.encrypted_content")
    return Reasoning(
        "\n\n".join(thoughts),
        Seal(seal_origin(sealed, origin, "openai"), sealed, "encrypted") if sealed else None,
    )


def _decode_result(item: dict[str, Any], path: str) -> ToolResult:
    output = item.get("output")
    shown: list[Media] = []
    if isinstance(output, list):
        blocks = list(_decode_content(output, f"{path}.output"))
        shown = [block for block in blocks if type(block) is Media]
        output = "\n".join(block.text for block in blocks if type(block) is Text)
    return ToolResult(
        "",
        output=output if output is not None else "",
        complete=True,
        media=tuple(shown),
        native_id=text(item.get("call_id"), f"{path}.call_id"),
    )


def _decode_content(content: Any, path: str, keeper: Origin | None = None) -> Iterator[Text | Media]:
    if content is None or isinstance(content, str):
        yield Text(content or "")
        return
    for index, part in enumerate(items(content, path)):
        place = f"{path}[{index}]"
        yield Text(part) if isinstance(part, str) else _decode_part(record(part, place), place, keeper)


def _decode_part(part: dict[str, Any], path: str, keeper: Origin | None) -> Text | Media:
    match part.get("type"):
        case "input_text" | "output_text" | "text" | "summary_text":
            return Text(text(part.get("text"), f"{path}.text"))
        case "refusal":
            return Text(text(part.get("refusal"), f"{path}.refusal"))
        case "input_image" if part.get("image_url"):
            return media_from(text(part["image_url"], f"{path}.image_url"), "image")
        case "input_file" if part.get("file_data") or part.get("file_url"):
            field = "file_data" if part.get("file_data") else "file_url"
            name = text(part.get("filename"), f"{path}.filename")
            url = text(part[field], f"{path}.{field}")
            if field == "file_data" and not url.startswith("data:"):
                return Media("document", "application/pdf", url, name=name)
            return media_from(url, None if field == "file_data" else "document", name)
        case "input_audio":
            sound = record(part.get("input_audio"), f"{path}.input_audio")
            mime = f"audio/{text(sound.get('format'), path) or 'wav'}"
            return Media("audio", mime, text(sound.get("data"), f"{path}.data"))
        case str():
            return seal_block(part, _as_words(part), keeper) if keeper is not None else Text(_as_words(part))
        case other:
            raise wrong_type(f"{path}.type", "the type of a part", other)


def _as_words(item: dict[str, Any]) -> str:
    """What we have no block for, as text: the provider's own tools, files it keeps."""
    hidden = ("type", "id", "status", "encrypted_content")
    fields = {key: value for key, value in item.items() if key not in hidden}
    return f"[{item.get('type')}: {json_of(fields)}]"


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

"""Contents of a Gemini request, both ways."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, assert_never

import msgspec
from msgspec import Raw

from segue.conversation.blocks import Media, Origin, Reasoning, Seal, Text, ToolCall, ToolResult
from segue.conversation.message import Message
from segue.dialects.calls import read_arguments
from segue.dialects.data_urls import kind_of
from segue.dialects.dialect import DecodedRequest, EncodedRequest
from segue.dialects.errors import unencodable
from segue.dialects.gemini import opaque_parts, wire
from segue.dialects.gemini.fast import read_fast
from segue.dialects.gemini.reply import media_part
from segue.dialects.gemini.rules import GEMINI
from segue.dialects.gemini.settings import decode_options, decode_tools, encode_settings
from segue.dialects.gemini.wire import SENTINELS, camel, field
from segue.dialects.request_fields import items, record, text, wrong_type
from segue.dialects.request_messages import check_target, split_by_speaker, take_system
from segue.dialects.seal_makers import seal_origin
from segue.transcript import fast_paths
from segue.transcript.steps import AnsweredCall, ModelStep, UserStep
from segue.transcript.value_text import is_deeper, json_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from segue.conversation.blocks import Block
    from segue.conversation.options import Options
    from segue.conversation.tools import ToolSpec
    from segue.dialects.card import ModelCard
    from segue.transcript.steps import StepBlock, Transcript

_HELD_FILE = re.compile(r"^https://[^/]+/v1[a-z]*/files/")
NAME = GEMINI.target.dialect
WIRE = "Gemini"
_OBJECT = msgspec.json.Decoder(dict[str, Any])
_NOTHING: list[dict[str, Any]] = []


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
    body: dict[str, Any] = {}
    if transcript.system:  # GEM-40
        body["systemInstruction"] = {"parts": [{"text": transcript.system}]}
    body["contents"] = _encode_contents(transcript, after, ids=card.call_ids)
    return EncodedRequest({**body, **settings}, tuple(repairs))


def _encode_contents(transcript: Transcript, after: int, *, ids: bool) -> list[wire.Turn]:
    contents: list[wire.Turn] = []
    for index, step in enumerate(transcript.steps[after:], after):
        if type(step) is UserStep:
            if step.instruction:
                raise unencodable(WIRE, "an instruction in mid-conversation", index)
            content: list[Any] = [
                wire.TextPart(block.text)
                if type(block) is Text and block.seal is None
                else _encode_other(block)
                for block in step.blocks
            ]
            contents.append(wire.Turn("user", content))
        elif type(step) is ModelStep:
            parts: list[Any] = []
            results: list[Any] = []
            for block in step.blocks:
                if type(block) is AnsweredCall:
                    call_id = block.id if ids else ""  # GEM-16
                    call = wire.RequestCall(block.name, Raw(block.arguments), call_id)
                    seal, done = block.seal, block.completion
                    parts.append(wire.CallPart(call) if seal is None else wire.CallPart(call, seal.payload))
                    response = wire.Failure(done.text) if done.is_error else _encode_output(done.text)
                    shown = [media_part(media) for media in done.media] if done.media else _NOTHING
                    results.append(wire.ResultPart(wire.RequestResult(block.name, response, call_id, shown)))
                elif type(block) is Text and block.seal is None:
                    parts.append(wire.TextPart(block.text))
                else:
                    parts.append(_encode_other(block))
            contents.append(wire.Turn("model", parts))
            if results:  # GEM-04, GEM-06: all of them in one content, and nothing else in it
                contents.append(wire.Turn("user", results))
    return contents


def _encode_output(value: str) -> wire.Output | Raw:
    """GEM-14: an object is given as such, where reading it back gives the very same text; all else is wrapped."""
    wrapped = value[:1] != "{" or value.startswith(('{"output":', '{"error":'))
    if wrapped or is_deeper(value, GEMINI.argument_levels):
        return wire.Output(value)
    try:
        same = json_of(_OBJECT.decode(value)) == value
    except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError):
        same = False
    return Raw(value) if same else wire.Output(value)


def _encode_other(block: StepBlock) -> wire.SignedPart | dict[str, Any] | Raw:
    """All but calls and plain texts."""
    match block:
        case Text(content, seal):
            own = opaque_parts.opaque_part(seal.payload, seal.kind) if seal is not None else None
            return own or wire.SignedPart(content, thought_signature=_payload(seal))
        case Reasoning(thought, seal):  # GEM-25
            return wire.SignedPart(thought, thought=True, thought_signature=_payload(seal))
        case Media():
            return media_part(block)
        case AnsweredCall():
            raise TypeError(block)
        case _:
            assert_never(block)


def _payload(seal: Seal | None) -> str:
    return seal.payload if seal is not None else ""  # GEM-20: on the very part it came on


# The other way


def recognises(body: Mapping[str, Any]) -> float:
    contents = body.get("contents")
    if isinstance(contents, dict):
        contents = [contents]
    if not isinstance(contents, list) or not all(isinstance(content, dict) for content in contents):
        return 0.0
    if any("parts" in content for content in contents):
        return 1.0
    return 0.5 if "messages" not in body and "input" not in body else 0.0


def decode_request(body: Mapping[str, Any]) -> DecodedRequest:
    options = decode_options(body)
    origin = Origin(NAME, model=options.model)
    messages: list[Message] = []
    try_fast = fast_paths.enabled()
    contents = body.get("contents")
    single = isinstance(contents, (str, dict))  # the server takes one for a list of one
    for index, content in enumerate([contents] if single else items(contents, "contents")):
        fast = read_fast(content, origin) if try_fast else None
        if fast is not None:
            messages.append(fast)
            continue
        messages += _decode_content(content, f"contents[{index}]", origin)
    system = _decode_system(field(body, "systemInstruction"))
    system, rest = take_system(system, messages)  # not a role of this wire, but what it means is plain
    return DecodedRequest(messages=rest, system=system, tools=tuple(decode_tools(body)), options=options)


def _decode_system(value: Any) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    parts = record(value, "systemInstruction").get("parts") or []
    listed = [parts] if isinstance(parts, dict) else items(parts, "systemInstruction.parts")
    texts = [
        part
        if isinstance(part, str)
        else text(record(part, "systemInstruction.parts").get("text"), "systemInstruction.parts[].text")
        for part in listed
    ]
    return "\n\n".join(content for content in texts if content)


def _decode_content(value: Any, path: str, origin: Origin) -> Iterator[Message]:
    content = {"parts": [{"text": value}]} if isinstance(value, str) else record(value, path)
    given = content.get("parts")
    parts = [given] if isinstance(given, (str, dict)) else items(given if given is not None else [], path)
    role = text(content.get("role"), f"{path}.role")
    blocks: list[Block] = []
    for index, part in enumerate(parts):
        place = f"{path}.parts[{index}]"
        block = _decode_part({"text": part} if isinstance(part, str) else record(part, place), place, origin)
        _join(blocks, block)
    if role == "model":
        yield Message("model", tuple(blocks), origin)
    elif role in ("system", "developer"):
        yield Message("user", tuple(blocks), instruction=True)
    elif role in ("", "user", "function", "tool"):
        yield from split_by_speaker(blocks)
    else:
        raise wrong_type(f"{path}.role", 'the role "user" or "model"', role)


def _join(blocks: list[Block], block: Block) -> None:
    last = blocks[-1] if blocks else None
    if (
        type(block) is Media and type(last) is ToolResult
    ):  # GEM-42: how older models are shown a result's image
        blocks[-1] = ToolResult(
            last.call_id,
            last.name,
            last.output,
            last.error,
            last.complete,
            (*last.media, block),
            last.native_id,
        )
    else:
        blocks.append(block)


def _decode_part(part: dict[str, Any], path: str, origin: Origin) -> Block:
    signature = text(field(part, "thoughtSignature"), f"{path}.thoughtSignature")
    seal = None
    if signature and signature not in SENTINELS:
        seal = Seal(seal_origin(signature, origin, "google"), signature, "thought")
    content = part.get("text")
    call, result = field(part, "functionCall"), field(part, "functionResponse")
    if call is not None:
        return _decode_call(record(call, f"{path}.functionCall"), f"{path}.functionCall", seal)
    if result is not None:
        return _decode_result(record(result, f"{path}.functionResponse"), f"{path}.functionResponse")
    if content is not None:
        value = text(content, f"{path}.text")
        return Reasoning(value, seal) if part.get("thought") is True else Text(value, seal)
    if (shown := _decode_media(part, path)) is not None and (shown.data or _is_public(shown)):
        return shown
    if all(camel(name) in ("thoughtSignature", "thought") for name in part):
        return Text("", seal)  # GEM-20: a part with nothing but its signature
    return opaque_parts.seal_part(part, origin)


def _decode_call(call: dict[str, Any], path: str, seal: Seal | None) -> ToolCall:
    arguments, raw = read_arguments(call.get("args"))
    return ToolCall(
        "",
        text(call.get("name"), f"{path}.name"),
        arguments,
        raw,
        text(call.get("id"), f"{path}.id"),
        seal,
    )


def _decode_result(result: dict[str, Any], path: str) -> ToolResult:
    response = result.get("response")
    output, error = response, None
    if isinstance(response, dict) and len(response) == 1:
        if "output" in response:
            output = response["output"]
        elif "error" in response:
            value = response["error"]
            output, error = None, value if isinstance(value, str) else json_of(value)
    media = []
    parts = result.get("parts")
    for index, part in enumerate(items(parts, f"{path}.parts") if parts else []):
        shown = _decode_media(record(part, f"{path}.parts[{index}]"), f"{path}.parts[{index}]")
        if shown is None:
            raise wrong_type(f"{path}.parts[{index}]", "inlineData or fileData", part)
        media.append(shown)
    return ToolResult(
        "",
        text(result.get("name"), f"{path}.name"),
        output,
        error,
        complete=True,
        media=tuple(media),
        native_id=text(result.get("id"), f"{path}.id"),
    )


def _is_public(media: Media) -> bool:
    """Whether others could fetch it too. A file that the provider holds, or a film, is a part of its own."""
    shows = media.kind == "image" or media.mime == "application/pdf"
    return shows and media.url.startswith("https://") and _HELD_FILE.search(media.url) is None


def _decode_media(part: dict[str, Any], path: str) -> Media | None:
    for name, content in (("inlineData", "data"), ("fileData", "fileUri")):
        held = field(part, name)
        if not isinstance(held, dict):
            continue
        mime = text(field(held, "mimeType"), f"{path}.{name}.mimeType")
        value = text(field(held, content), f"{path}.{name}.{content}")
        title = text(field(held, "displayName"), f"{path}.{name}.displayName")
        kind = kind_of(mime) if mime else "document"
        if name == "inlineData":
            return Media(kind, mime, value, name=title)
        return Media(kind, mime, url=value, name=title)
    return None

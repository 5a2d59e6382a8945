"""Contents of a Gemini request as messages, with what each part has of this wire's own."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import structs

from segue.conversation.blocks import Media, Reasoning, Seal, Text, ToolCall, ToolResult
from segue.conversation.extra import Extra
from segue.conversation.message import Message
from segue.dialects.gemini import opaque_parts
from segue.dialects.gemini.rules import NAME
from segue.dialects.gemini.wire import SENTINELS, WITH_ID, WITHOUT_ID, camel, field
from segue.dialects.gemini.write_parts import write_call, write_part, write_result
from segue.dialects.replies.calls import read_arguments
from segue.dialects.requests.data_urls import kind_of
from segue.dialects.requests.extra_fields import FieldKinds, plain
from segue.dialects.requests.json_fields import items, record, text, wrong_type
from segue.dialects.requests.messages import begun_blocks, split_by_speaker
from segue.dialects.requests.seal_makers import seal_origin
from segue.transcript.blocks.value_text import json_of, text_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from segue.conversation.blocks import Block, Origin

_Decoded: TypeAlias = Text | Reasoning | Media | ToolCall | ToolResult
_HELD_FILE = re.compile(r"^https://[^/]+/v1[a-z]*/files/")
_KINDS = FieldKinds(
    NAME,
    hints=frozenset({"mediaResolution", "media_resolution", "videoMetadata", "video_metadata"}),
    form=frozenset(
        {"thought", "role", "parts", "functionCall", "functionResponse", "function_call", "function_response"}
        | {"thoughtSignature", "thought_signature", "inlineData", "inline_data", "partMetadata"}
    ),
)


def read_system(value: Any) -> str:
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


def read_content(value: Any, path: str, origin: Origin) -> Iterator[Message]:
    content = {"parts": [{"text": value}]} if isinstance(value, str) else record(value, path)
    given = content.get("parts")
    parts = [given] if isinstance(given, (str, dict)) else items(given if given is not None else [], path)
    role = text(content.get("role"), f"{path}.role")
    blocks: list[Block] = []
    for index, part in enumerate(parts):
        place = f"{path}.parts[{index}]"
        fields = {"text": part} if isinstance(part, str) else record(part, place)
        _join(blocks, _with_own(fields, _decode_part(fields, place, origin)))
    ours = role if role in ("model", "system", "developer") else "user"
    # Calls are the model's, whatever role they came with. `function` was the role of results in the first versions of the API,
    # which newer ones refuse (GEM-01).
    foreign = role in _ONCE_THE_USERS or any(type(block) is ToolCall for block in blocks)
    came = {**content, "role": ours} if foreign else content
    around = _KINDS.found(came, {"role": ours, "parts": given})
    found = begun_blocks(tuple(blocks), around)
    if role == "model":
        yield Message("model", found, origin)
    elif role in ("system", "developer"):
        yield Message("user", found, instruction=True)
    elif role in ("", "user") or role in _ONCE_THE_USERS:
        for index, message in enumerate(split_by_speaker(found)):
            begun = begun_blocks(message.blocks, CONTINUES if index else None)
            yield structs.replace(message, blocks=begun)
    else:
        raise wrong_type(f"{path}.role", 'the role "user" or "model"', role)


def _join(blocks: list[Block], block: Block) -> None:
    last = blocks[-1] if blocks else None
    if (
        type(block) is Media and type(last) is ToolResult
    ):  # GEM-42: how older models are shown a result's image
        beside = structs.replace(block, extra=Extra(NAME, container=Extra(NAME)))
        blocks[-1] = structs.replace(last, media=(*last.media, beside))
    else:
        blocks.append(block)


_ONCE_THE_USERS = ("function", "tool")
CONTINUES = Extra(NAME, absent=("role", "parts"))
"""Of a block behind tool results, in their own content."""


def _with_own(part: dict[str, Any], block: _Decoded) -> Block:
    """The block with what the part has beside it."""
    if type(block) is Text and opaque_parts.is_opaque(block):
        return block
    encoded: Any
    if type(block) is ToolCall:
        call = part.get("functionCall")
        args = call.get("args") if isinstance(call, dict) else None
        encoded = write_call(block.name, args if args is not None else {}, block.native_id, block.seal)
    elif type(block) is ToolResult:
        failed = block.error is not None
        encoded = write_result(block.name, completion_text(block), block, block.native_id, failed=failed)
    else:
        encoded = write_part(block)
    written = plain(encoded)
    extra = _KINDS.kept(part, written) if type(block) is Media else _KINDS.found(part, written)
    if extra is not None and "thought_signature" in extra.form:  # it goes back with its seal alone
        form = {name: value for name, value in extra.form.items() if name != "thought_signature"}
        extra = structs.replace(extra, form=form)
    if isinstance(block, ToolCall | ToolResult):
        extra = extra or WITH_ID
        if not block.native_id:
            extra = (
                structs.replace(extra, absent=(*extra.absent, "id")) if extra is not WITH_ID else WITHOUT_ID
            )
    return block if extra is None else structs.replace(block, extra=extra)


def completion_text(result: ToolResult) -> str:
    """The text that a result is sent as."""
    return result.error if result.error is not None else text_of(result.output)


def _decode_part(part: dict[str, Any], path: str, origin: Origin) -> _Decoded:
    signature = text(field(part, "thoughtSignature"), f"{path}.thoughtSignature")
    seal = None
    if signature and signature not in SENTINELS:
        seal = Seal(seal_origin(signature, origin, "google"), signature, "thought")
    content = part.get("text")
    call, result = field(part, "functionCall"), field(part, "functionResponse")
    if call is not None:
        return _decode_call(record(call, f"{path}.functionCall"), f"{path}.functionCall", seal)
    if result is not None:
        return read_result(record(result, f"{path}.functionResponse"), f"{path}.functionResponse")
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


def read_result(result: dict[str, Any], path: str) -> ToolResult:
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

"""The messages of a foreign request, read as they are, however broken."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from segue.conversation.blocks import Media, Reasoning, Seal, Text, ToolCall, ToolResult
from segue.conversation.message import Message
from segue.dialects import request_fields
from segue.dialects.calls import read_arguments
from segue.dialects.data_urls import media_from
from segue.dialects.openai_chat.rules import HELD_FILE
from segue.dialects.openai_chat.wire import seal_of
from segue.transcript.value_text import json_of

if TYPE_CHECKING:
    from segue.conversation.blocks import Block, Origin


def read_message(given: dict[str, Any], path: str, origin: Origin) -> Message:
    role = given.get("role")
    blocks = _blocks(given.get("content"), f"{path}.content")
    if role in ("tool", "function"):
        return Message("tool", (_answer(given, blocks, path), *_calls(given, path, origin)))
    calls = _calls(given, path, origin)
    if role == "assistant":
        if calls and blocks == [Text("")]:
            blocks = []
        blocks = _with_seal([*blocks, *_other_content(given)], given.get("extra_content"), origin)
        blocks_beside = [*_thoughts(given, path, origin), *blocks, *calls]
        return Message("model", tuple(blocks_beside), origin)
    name = given.get("name")
    if isinstance(name, str) and name:  # several users in one conversation
        blocks = [Text(f"{name}:"), *blocks]
    if role == "user":
        return Message("user", (*blocks, *calls))
    if role in ("system", "developer"):
        return Message("user", (*blocks, *calls), instruction=True)
    raise request_fields.unknown(
        f"{path}.role", "role", role, "system, developer, user, assistant, tool and function"
    )


def _blocks(content: Any, path: str) -> list[Block]:
    if content is None:
        return []
    if isinstance(content, str):
        return [Text(content)]
    if isinstance(content, dict):
        return [_part(content, path)]
    return [
        _part(part, f"{path}[{number}]") for number, part in enumerate(request_fields.items(content, path))
    ]


def _part(given: Any, path: str) -> Block:
    if isinstance(given, str):
        return Text(given)
    part = request_fields.record(given, path)
    kind = part.get("type")
    held = part.get(kind) if isinstance(kind, str) else None
    match kind:
        case "text" | "input_text" | "output_text":
            return Text(request_fields.text(part.get("text"), f"{path}.text"))
        case "refusal":
            return Text(request_fields.text(held, f"{path}.refusal"))
        case "image_url":
            return media_from(_url(held, f"{path}.image_url"), "image")
        case "video_url":
            return media_from(_url(held, f"{path}.video_url"), "document")
        case "input_audio":
            sound = request_fields.record(held, f"{path}.input_audio")
            form = request_fields.text(sound.get("format"), f"{path}.input_audio.format") or "wav"
            return Media(
                "audio", f"audio/{form}", request_fields.text(sound.get("data"), f"{path}.input_audio.data")
            )
        case "file":
            return _file(request_fields.record(held, f"{path}.file"), f"{path}.file")
        case "tool_use" | "tool_result":
            raise request_fields.unknown(
                f"{path}.type", "content part", kind, "text, image_url, input_audio and file"
            )
        case _:
            return Text(json_of(part))


def _url(given: Any, path: str) -> str:
    url = given.get("url") if isinstance(given, dict) else given
    if not isinstance(url, str):
        raise request_fields.wrong_type(path, "an address", url)
    return url


def _file(given: dict[str, Any], path: str) -> Media:
    name = request_fields.text(given.get("filename"), f"{path}.filename")
    data = request_fields.text(given.get("file_data"), f"{path}.file_data")
    if not data:
        return Media(
            "document", url=f"{HELD_FILE}{request_fields.text(given.get('file_id'), path)}", name=name
        )
    if data.startswith(("data:", "http:", "https:")):
        return media_from(data, "document", name)
    return Media("document", data=data, name=name)


def _thoughts(given: dict[str, Any], path: str, origin: Origin) -> list[Block]:
    text = request_fields.text(given.get("reasoning_content"), f"{path}.reasoning_content")
    if not text and isinstance(given.get("reasoning"), str):
        text = given["reasoning"]
    details = given.get("reasoning_details")
    if not details:
        return [Reasoning(text)] if text else []
    listed = request_fields.items(details, f"{path}.reasoning_details")
    records = [detail for detail in listed if isinstance(detail, dict)]
    pieces = [detail.get("text") or detail.get("summary") for detail in records]
    text = text or "".join(piece for piece in pieces if isinstance(piece, str))
    opaque = any(detail.get("data") for detail in records)
    return [Reasoning(text, Seal(origin, json_of(details), "encrypted" if opaque else "signature"))]


def _other_content(given: dict[str, Any]) -> list[Block]:
    """What a model's message may hold beside its content."""
    refusal, audio = given.get("refusal"), given.get("audio")
    blocks_beside: list[Block] = [Text(refusal)] if isinstance(refusal, str) and refusal else []
    if isinstance(audio, dict) and audio.get("id"):
        blocks_beside.append(Text(f"[spoken reply {audio['id']}, held by the provider]"))
    return blocks_beside


def _with_seal(blocks: list[Block], extra_content: Any, origin: Origin) -> list[Block]:
    """A signature that belongs to the message stands on its last block."""
    signature = seal_of(extra_content) if isinstance(extra_content, dict) else ""
    if not signature:
        return blocks
    seal = Seal(origin, signature, "thought")
    if blocks and type(last := blocks[-1]) is Text:
        return [*blocks[:-1], Text(last.text, seal)]
    return [*blocks, Text("", seal)]


def _calls(given: dict[str, Any], path: str, origin: Origin) -> list[Block]:
    calls: list[Block] = [
        _read_call(
            request_fields.record(item, f"{path}.tool_calls[{number}]"),
            f"{path}.tool_calls[{number}]",
            origin,
        )
        for number, item in enumerate(request_fields.listed(given.get("tool_calls"), f"{path}.tool_calls"))
    ]
    function = given.get("function_call")
    if isinstance(function, dict) and function.get("name"):
        calls.append(_read_call({"function": function}, f"{path}.function_call", origin))
    return calls


def _read_call(given: dict[str, Any], path: str, origin: Origin) -> ToolCall:
    native_id = given.get("id")
    custom = given.get("custom")
    if given.get("type") == "custom" and isinstance(custom, dict):  # CHAT-24: free text instead of arguments
        function: dict[str, Any] = {"name": custom.get("name"), "arguments": {"input": custom.get("input")}}
    else:
        function = request_fields.record(given.get("function"), f"{path}.function")
    arguments, raw = read_arguments(function.get("arguments"))
    extra = given.get("extra_content")
    signature = seal_of(extra) if isinstance(extra, dict) else ""
    return ToolCall(
        "",
        request_fields.text(function.get("name"), f"{path}.function.name"),
        arguments,
        raw,
        "" if native_id is None else str(native_id),
        Seal(origin, signature, "thought") if signature else None,
    )


def _answer(given: dict[str, Any], blocks: list[Block], path: str) -> ToolResult:
    native_id = given.get("tool_call_id")
    return ToolResult(
        "",
        request_fields.text(given.get("name"), f"{path}.name"),
        output="\n".join(block.text for block in blocks if type(block) is Text),
        complete=True,
        media=tuple(block for block in blocks if type(block) is Media),
        native_id="" if native_id is None else str(native_id),
    )

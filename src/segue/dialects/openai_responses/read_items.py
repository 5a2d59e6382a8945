"""Input items of a Responses request as messages, with what each item has of this wire's own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import structs

from segue.conversation.blocks import Media, Reasoning, Seal, Text, ToolCall, ToolResult
from segue.conversation.extra import Extra
from segue.dialects.openai_responses import client_calls, wire
from segue.dialects.openai_responses.rules import NAME
from segue.dialects.openai_responses.tools import is_additional
from segue.dialects.replies.calls import read_arguments
from segue.dialects.replies.citations import read_annotations, with_citations
from segue.dialects.requests.data_urls import media_from
from segue.dialects.requests.extra_fields import FieldKinds, plain, with_parts
from segue.dialects.requests.json_fields import items, record, text, unknown, wrong_type
from segue.dialects.requests.messages import begun_blocks, messages_of_items
from segue.dialects.requests.opaque_blocks import seal_block
from segue.dialects.requests.seal_makers import seal_origin
from segue.errors import TranscriptError
from segue.transcript.blocks.value_text import json_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from segue.conversation.blocks import Block, Origin
    from segue.conversation.message import Message, Speaker
    from segue.dialects.openai_responses.fast import ReadItem

_ITEMS = FieldKinds(
    NAME,
    hints=frozenset({"phase"}),
    form=frozenset(
        {"id", "status", "type", "namespace", "created_by", "internal_chat_message_metadata_passthrough"}
    ),
)
_CALLS = FieldKinds(
    NAME, form=_ITEMS.form | {"action", "actions", "operation", "environment", "max_output_length"}
)
_PARTS = FieldKinds(
    NAME,
    hints=frozenset({"detail", "prompt_cache_breakpoint"}),
    form=frozenset({"type", "logprobs", "refusal"}),
)


def read_items(
    given: list[Any], origin: Origin, there: frozenset[str], early: list[ReadItem | None]
) -> tuple[list[Message], list[int]]:
    """The messages, and the index of the item with which each begins. `there`: ids of calls that the provider performs. `early`: what
    each item was read as before, if it was."""
    return messages_of_items(_decode_items(given, origin, there, early), origin)


def _decode_items(
    given: list[Any], origin: Origin, there: frozenset[str], early: list[ReadItem | None]
) -> Iterator[tuple[int, Speaker, Sequence[Block], bool]]:
    for index, (item, read) in enumerate(zip(given, early, strict=True)):
        if read is not None:
            yield index, *read
            continue
        if is_additional(item):
            continue  # tools, and no message
        path = f"input[{index}]"
        fields = record(item, path)
        speaker, blocks = _decode_item(fields, path, origin, there)
        yield index, speaker, blocks, fields.get("role") in ("system", "developer")


def _decode_item(
    item: dict[str, Any], path: str, origin: Origin, there: frozenset[str]
) -> tuple[Speaker, Sequence[Block]]:
    """`there`: ids of the calls that the provider performs."""
    kind = item.get("type", "message")
    if not isinstance(kind, str):
        raise wrong_type(f"{path}.type", "the type of an item", kind)
    match kind:
        case "message":
            return _decode_message(item, path, origin)
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
    if (call := client_calls.call_of(item)) is not None:
        return "model", [_decode_client_call(item, *call)]
    if client_calls.is_output(kind) and not _is_answered_there(item, there):
        return "tool", [_decode_result(item, path)]
    return "model", [seal_block(item, _as_words(item), origin)]


def _is_answered_there(item: dict[str, Any], there: frozenset[str]) -> bool:
    call_id = item.get("call_id")
    return isinstance(call_id, str) and call_id in there


# Messages


def _decode_message(item: dict[str, Any], path: str, origin: Origin) -> tuple[Speaker, Sequence[Block]]:
    role = item.get("role")
    if role not in ("user", "assistant", "system", "developer"):
        raise unknown(f"{path}.role", "role", role, "user, assistant, system, developer")
    content = item.get("content")
    # We would call every instruction the developer's.
    written = {"type": "message", "role": "developer" if role == "system" else role, "content": content}
    around = _ITEMS.found(item, written)
    speaker: Speaker = "model" if role == "assistant" else "user"
    if content is None or isinstance(content, str):
        return speaker, begun_blocks((Text(content or ""),), around)
    # Parts that the provider keeps are given back to it as parts, which only others than the model have.
    keeper = origin if role != "assistant" else None
    blocks = tuple(_decode_parts(content, f"{path}.content", keeper))
    return speaker, begun_blocks(blocks, around or Extra(NAME))


def _decode_parts(content: Any, path: str, keeper: Origin | None = None) -> Iterator[Text | Media]:
    for index, part in enumerate(items(content, path)):
        place = f"{path}[{index}]"
        if isinstance(part, str):
            yield Text(part)
            continue
        fields = record(part, place)
        block = _decode_part(fields, place, keeper)
        if type(block) is Media:
            yield structs.replace(block, extra=_PARTS.kept(fields, plain(wire.media_part(block))))
        elif block.seal is None:
            said = Text(block.text, None, _PARTS.kept(fields, {"text": block.text}))
            cited = fields.get("annotations")
            yield with_citations(said, read_annotations(cited, NAME), "annotations") if cited else said
        else:
            yield block


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
        case None if client_calls.is_shell_part(part):
            return Text(client_calls.shell_words(part))
        case other:
            raise wrong_type(f"{path}.type", "the type of a part", other)


def _as_words(item: dict[str, Any]) -> str:
    """What we have no block for, as text: the provider's own tools, files it keeps."""
    hidden = ("type", "id", "status", "encrypted_content")
    fields = {key: value for key, value in item.items() if key not in hidden}
    return f"[{item.get('type')}: {json_of(fields)}]"


# Reasoning, calls and results


def _decode_reasoning(item: dict[str, Any], path: str, origin: Origin) -> Reasoning:
    thoughts: list[str] = []
    for field in ("summary", "content"):
        for index, part in enumerate(items(item.get(field) or [], f"{path}.{field}")):
            place = f"{path}.{field}[{index}]"
            thoughts.append(text(record(part, place).get("text"), f"{place}.text"))
    sealed = text(item.get("encrypted_content"), f"{path}.encrypted_content")
    thought = "\n\n".join(thoughts)
    if not sealed:
        # A provider that keeps its items knows this one by its id.
        kept = Seal(origin, json_of(item), "encrypted") if item.get("id") else None
        return Reasoning(thought, kept)
    summary = [{"type": "summary_text", "text": thought}] if thought else []
    written = {"type": "reasoning", "summary": summary, "encrypted_content": sealed}
    return Reasoning(
        thought, Seal(seal_origin(sealed, origin, "openai"), sealed, "encrypted"), _ITEMS.found(item, written)
    )


def _decode_call(item: dict[str, Any], path: str) -> ToolCall:
    parsed, raw = read_arguments(item.get("arguments"))
    name = wire.name_of(item) or text(item.get("name"), f"{path}.name")
    call_id = text(item.get("call_id"), f"{path}.call_id")
    written = {"type": "function_call", "name": name, "call_id": call_id, "arguments": raw}
    return ToolCall("", name, parsed, raw, call_id, extra=_ITEMS.found(item, written))


def _decode_client_call(item: dict[str, Any], call_id: str, name: str, arguments: Any) -> ToolCall:
    """A call that is none of a function: it goes back as what it was."""
    ours = wire.name_of(item) or name
    if item["type"] == client_calls.CUSTOM_CALL:
        written = {"name": ours, "call_id": call_id, "input": item.get("input")}
    else:
        written = {"type": "function_call", "name": ours, "call_id": call_id, "arguments": ""}
    return ToolCall("", ours, arguments, native_id=call_id, extra=_CALLS.kept(item, written))


def _decode_result(item: dict[str, Any], path: str) -> ToolResult:
    output = item.get("output")
    names = "id" if client_calls.is_named_by_id(item) else "call_id"
    call_id = text(item.get(names), f"{path}.{names}")
    written: dict[str, Any] = {"type": "function_call_output", "call_id": call_id, "output": output}
    extra = _CALLS.found(item, written)
    shown: list[Media] = []
    if (read := client_calls.read_own_output(item, path)) is not None:
        kept = extra or Extra(NAME)
        form = {**kept.form, "output": output} if "output" in item else kept.form
        return ToolResult(
            "",
            output=None if read.failed else read.text,
            error=read.text if read.failed else None,
            complete=True,
            media=read.media,
            native_id=call_id,
            extra=structs.replace(kept, form=form),
        )
    if isinstance(output, list):
        blocks = list(_decode_parts(output, f"{path}.output"))
        shown = [structs.replace(block, extra=None) for block in blocks if type(block) is Media]
        joined = "\n".join(block.text for block in blocks if type(block) is Text)
        parts = [plain(wire.media_part(media)) for media in shown]
        extra = with_parts(extra, NAME, output, joined, parts, "output")
        output = joined
    elif output is not None and not isinstance(output, str):
        extra = extra or Extra(NAME)
        extra = structs.replace(extra, form={**extra.form, "output": output})
    return ToolResult(
        "",
        output=output if output is not None else "",
        complete=True,
        media=tuple(shown),
        native_id=call_id,
        extra=extra,
    )


def output_text(parts: list[Any]) -> str:
    """What a result in parts is read as."""
    return "\n".join(block.text for block in _decode_parts(parts, "output") if type(block) is Text)

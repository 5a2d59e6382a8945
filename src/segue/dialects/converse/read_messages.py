"""The messages of a Converse request, with what each block has of this wire's own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import structs

from segue.conversation.blocks import Media, Reasoning, Seal, Text, ToolCall, ToolResult
from segue.conversation.extra import Extra
from segue.conversation.message import Message
from segue.dialects.converse.citations import CITED, read_citations
from segue.dialects.converse.opaque_blocks import as_words, cited_text, seal_block
from segue.dialects.converse.rules import NAME
from segue.dialects.converse.shapes import MESSAGE
from segue.dialects.converse.wire import CACHE_POINT, media_block, read_media
from segue.dialects.requests.extra_fields import FieldKinds
from segue.dialects.requests.json_fields import items, record, text, unknown
from segue.dialects.requests.messages import begun_blocks, split_by_speaker
from segue.dialects.requests.seal_makers import seal_origin
from segue.transcript.blocks.value_text import json_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from segue.conversation.blocks import Block, Origin
    from segue.dialects.requests.shapes import Fitting

_KINDS = FieldKinds(NAME, form=frozenset({"status", "type", "content"}))
_READ = frozenset({"text", "image", "document", "toolUse", "toolResult", "reasoningContent"})


def read_messages(
    given: list[Any], origin: Origin, fitting: Fitting
) -> tuple[list[Message], list[dict[str, Any]], tuple[int, ...]]:
    """The messages; those given, as the wire takes them; and where each begins among these."""
    messages: list[Message] = []
    starts: list[int] = []
    fitted: list[dict[str, Any]] = []
    for index, message in enumerate(given):
        path = f"messages[{index}]"
        fits = MESSAGE.fit(record(message, path), path, fitting)
        if fitted and fitted[-1].get("role") == fits.get("role"):  # BDR-01: we write one of both
            fitting.note_correction(path, "of another role than the message before it")
        fitted.append(fits)
        messages += _read_message(fits, path, origin)
        starts += [index] * (len(messages) - len(starts))
    return messages, fitted, tuple(starts)


def read_system(value: Any) -> str:
    if value is None:
        return ""
    texts = []
    for index, block in enumerate(items(value, "system")):
        said = record(block, f"system[{index}]")
        if CACHE_POINT not in said:
            texts.append(text(said["text"], f"system[{index}].text") if "text" in said else as_words(said))
    return "\n\n".join(filter(None, texts))


def _read_message(message: Any, path: str, origin: Origin) -> Iterator[Message]:
    role = record(message, path).get("role")
    if role not in ("user", "assistant", "system"):
        raise unknown(f"{path}.role", "role", role, "user, assistant, system")
    blocks: list[Block] = []
    for index, entry in enumerate(items(message.get("content"), f"{path}.content")):
        place = f"{path}.content[{index}]"
        block = record(entry, place)
        if CACHE_POINT in block:
            if blocks:
                blocks[-1] = _with_point(blocks[-1], block[CACHE_POINT])
        else:
            blocks.append(_read_block(block, place, origin, role))
    around = _KINDS.found(message, {"role": role, "content": message.get("content")})
    if role == "system":  # in place it goes back only if it came so
        around = around or Extra(NAME)
    blocks = list(begun_blocks(tuple(blocks), around))
    if role == "assistant":
        yield Message("model", tuple(blocks), origin)
    elif role == "system":
        yield Message("user", tuple(blocks), instruction=True)
    else:
        yield from split_by_speaker(blocks)


def _with_point(block: Block, point: Any) -> Block:
    extra = block.extra if block.extra is not None else Extra(NAME)
    return structs.replace(block, extra=structs.replace(extra, hints={CACHE_POINT: point}))


def _read_block(block: dict[str, Any], path: str, origin: Origin, role: str) -> Block:
    kind = next(iter(block), "")
    cited = block.get(CITED)
    if isinstance(cited, dict) and (said := cited_text(cited)):
        return Text(said, None, Extra(NAME, form={CITED: cited}), tuple(read_citations(cited)))
    if kind not in _READ:
        return seal_block(block, origin)
    if kind == "text":
        return Text(text(block["text"], f"{path}.text"))
    if kind in ("image", "document"):
        return _read_shown(block, kind, origin)
    held = record(block[kind], f"{path}.{kind}")
    place = f"{path}.{kind}"
    if kind == "reasoningContent":
        return _read_thought(block, held, place, origin)
    if held.get("type") == "server_tool_use" or (
        kind == "toolResult" and role == "assistant" and held.get("type")
    ):
        return seal_block(block, origin)  # of a tool that the provider runs
    return _read_result(held, place) if kind == "toolResult" else _read_call(held, place)


def _read_shown(block: dict[str, Any], kind: str, origin: Origin) -> Block:
    shown = read_media(block)
    if shown is None:
        return seal_block(block, origin)
    extra = _KINDS.found(block[kind], media_block(shown)[kind])
    return structs.replace(shown, extra=extra) if extra is not None else shown


def _read_thought(block: dict[str, Any], held: dict[str, Any], path: str, origin: Origin) -> Block:
    thought = held.get("reasoningText")
    if isinstance(thought, dict):
        signature = text(thought.get("signature"), f"{path}.reasoningText.signature")
        seal = Seal(seal_origin(signature, origin, "anthropic"), signature) if signature else None
        return Reasoning(text(thought.get("text"), f"{path}.reasoningText.text"), seal)
    redacted = held.get("redactedContent")
    if isinstance(redacted, str):
        return Reasoning("", Seal(seal_origin(redacted, origin, "anthropic"), redacted, "redacted"))
    return seal_block(block, origin)


def _read_call(held: dict[str, Any], path: str) -> ToolCall:
    name, call_id = text(held.get("name"), f"{path}.name"), text(held.get("toolUseId"), f"{path}.toolUseId")
    given = held.get("input")
    arguments = given if given is not None else {}
    written = {"toolUseId": call_id, "name": name, "input": arguments}
    return ToolCall("", name, arguments, native_id=call_id, extra=_KINDS.found(held, written))


def _read_result(held: dict[str, Any], path: str) -> ToolResult:
    call_id = text(held.get("toolUseId"), f"{path}.toolUseId")
    content, shown = read_output(held.get("content"), f"{path}.content")
    failed = held.get("status") == "error"
    written = result_fields(call_id, content, shown, failed=failed)
    return ToolResult(
        "",
        output=None if failed else content,
        error=content if failed else None,
        complete=True,
        media=tuple(shown),
        native_id=call_id,
        extra=_KINDS.found(held, written),
    )


def result_fields(call_id: str, said: str, shown: list[Media], *, failed: bool) -> dict[str, Any]:
    """A result as we write it."""
    content: list[dict[str, Any]] = [{"text": said}] if said else []
    fields: dict[str, Any] = {
        "toolUseId": call_id,
        "content": content + [media_block(media) for media in shown],
    }
    if failed:
        fields["status"] = "error"
    return fields


def read_output(content: Any, path: str) -> tuple[str, list[Media]]:
    """What a result says and shows."""
    texts: list[str] = []
    shown: list[Media] = []
    for index, entry in enumerate(items(content, path) if content is not None else ()):
        part: Mapping[str, Any] = record(entry, f"{path}[{index}]")
        media = read_media(part) if "image" in part or "document" in part else None
        if media is not None:
            shown.append(media)
        elif "text" in part:
            texts.append(text(part["text"], f"{path}[{index}].text"))
        elif "json" in part:
            texts.append(json_of(part["json"]))
        else:
            texts.append(as_words(part))
    return "\n".join(texts), shown

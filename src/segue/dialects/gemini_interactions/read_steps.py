"""Steps of an Interactions request as messages, with what each step has of this wire's own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import structs

from segue.conversation.blocks import Media, Reasoning, Seal, Text, ToolCall, ToolResult
from segue.conversation.extra import Extra
from segue.dialects.gemini_interactions import wire
from segue.dialects.gemini_interactions.citations import read_citations
from segue.dialects.gemini_interactions.rules import NAME
from segue.dialects.replies.calls import read_arguments
from segue.dialects.replies.citations import with_citations
from segue.dialects.requests.data_urls import kind_of
from segue.dialects.requests.extra_fields import FieldKinds, plain, with_parts
from segue.dialects.requests.json_fields import items, record, text, wrong_type
from segue.dialects.requests.messages import begun_blocks, messages_of_items
from segue.dialects.requests.opaque_blocks import seal_block
from segue.dialects.requests.seal_makers import seal_origin
from segue.transcript.blocks.value_text import json_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from segue.conversation.blocks import Block, Origin
    from segue.conversation.message import Message, Speaker

_STEPS = FieldKinds(NAME, form=frozenset({"type", "error"}))
_PARTS = FieldKinds(
    NAME, hints=frozenset({"resolution"}), form=frozenset({"type", "data", "mime_type", "uri"})
)


def read_steps(given: list[Any], origin: Origin) -> tuple[list[Message], list[int]]:
    """The messages, and the index of the step with which each begins."""
    return messages_of_items(_decode_steps(given, origin), origin)


def _decode_steps(given: list[Any], origin: Origin) -> Iterator[tuple[int, Speaker, Sequence[Block], bool]]:
    for index, item in enumerate(given):
        path = f"input[{index}]"
        yield index, *_decode_step(record(item, path), path, origin), False


def _decode_step(step: dict[str, Any], path: str, origin: Origin) -> tuple[Speaker, Sequence[Block]]:
    match step.get("type"):
        case "user_input":
            return "user", _decode_said(step, path, origin)
        case "model_output":
            return "model", _decode_said(step, path, origin)
        case "thought":
            return "model", [_decode_thought(step, path, origin)]
        case "function_call":
            return "model", [_decode_call(step, path)]
        case "function_result":
            return "tool", [_decode_result(step, path)]
        case str() as kind if kind in wire.CONTENTS:  # it stands alone among steps
            return "model", begun_blocks((_decode_content(step, path, origin),), Extra(NAME))
        case str():
            return "model", [seal_block(step, as_words(step), origin)]
        case other:
            raise wrong_type(f"{path}.type", "the type of a step", other)


def as_words(step: dict[str, Any]) -> str:
    """What we have no block for, as text: Google's own tools, files that it keeps."""
    hidden = ("type", "id", "call_id", "signature", "data")
    fields = {key: value for key, value in step.items() if key not in hidden}
    return f"[{step.get('type')}: {json_of(fields)}]"


# What somebody says


def _decode_said(step: dict[str, Any], path: str, origin: Origin) -> Sequence[Block]:
    content = step.get("content")
    around = _STEPS.found(step, {"type": step["type"], "content": content})
    if isinstance(content, str):  # not of this wire, but plain
        return begun_blocks((Text(content),), Extra(NAME))
    blocks = tuple(read_contents(content if content is not None else [], f"{path}.content", origin))
    return begun_blocks(blocks or (Text("", None, Extra(NAME)),), around or Extra(NAME))


def read_contents(content: Any, path: str, origin: Origin | None = None) -> Iterator[Text | Media]:
    """`origin`: who gets back what we have no block for; without it, that is words."""
    for index, part in enumerate(items(content, path)):
        yield _decode_content(part, f"{path}[{index}]", origin)


def _decode_content(part: Any, path: str, origin: Origin | None) -> Text | Media:
    if isinstance(part, str):
        return Text(part, None, Extra(NAME))
    fields = record(part, path)
    match fields.get("type", "text"):
        case "text":
            said = text(fields.get("text"), f"{path}.text")
            block = Text(said, None, _PARTS.kept(fields, {"type": "text", "text": said}))
            cited = fields.get("annotations")
            return with_citations(block, read_citations(cited, said), "annotations") if cited else block
        case "image" | "document" | "audio" if _is_shown(fields):
            return _decode_media(fields, path)
        case str():
            words = as_words(fields)
            return seal_block(fields, words, origin) if origin is not None else Text(words)
        case other:
            raise wrong_type(f"{path}.type", "the type of a content", other)


def _is_shown(part: dict[str, Any]) -> bool:
    """Whether others could show it too. A file that Google holds is a part of its own."""
    if part.get("data"):
        return True
    uri = part.get("uri")
    return isinstance(uri, str) and uri.startswith("https://") and "/files/" not in uri


def _decode_media(part: dict[str, Any], path: str) -> Media:
    mime = text(part.get("mime_type"), f"{path}.mime_type")
    data, uri = text(part.get("data"), f"{path}.data"), text(part.get("uri"), f"{path}.uri")
    kind = kind_of(mime) if mime else part["type"]
    media = Media(kind, mime, data, url="" if data else uri)
    return structs.replace(media, extra=_PARTS.kept(part, plain(wire.media_content(media))))


# Thoughts, calls and results


def _decode_thought(step: dict[str, Any], path: str, origin: Origin) -> Reasoning:
    signature = text(step.get("signature"), f"{path}.signature")
    summary = summary_text(step.get("summary"), f"{path}.summary")
    if not signature:  # Gemini gets it back as it was; nobody else does
        return Reasoning(summary, Seal(origin, json_of(step), "encrypted"))
    seal = Seal(seal_origin(signature, origin, "google"), signature, "thought")
    return Reasoning(summary, seal, _STEPS.found(step, plain(write_thought(summary, signature))))


def summary_text(summary: Any, path: str = "summary") -> str:
    parts = [part for part in read_contents(summary or [], path) if type(part) is Text]
    return "\n\n".join([part.text for part in parts if part.text])


def write_thought(summary: str, signature: str) -> wire.Thought:
    return wire.Thought(signature, [wire.TextContent(summary)] if summary else [])


def _decode_call(step: dict[str, Any], path: str) -> ToolCall:
    arguments, raw = read_arguments(step.get("arguments"))
    name, call_id = text(step.get("name"), f"{path}.name"), text(step.get("id"), f"{path}.id")
    written = {"type": "function_call", "id": call_id, "name": name, "arguments": step.get("arguments")}
    return ToolCall("", name, arguments, raw, call_id, extra=_STEPS.found(step, written))


def _decode_result(step: dict[str, Any], path: str) -> ToolResult:
    call_id, name = text(step.get("call_id"), f"{path}.call_id"), text(step.get("name"), f"{path}.name")
    result, failed = step.get("result"), step.get("is_error") is True
    written: dict[str, Any] = {"type": "function_result", "call_id": call_id, "name": name, "result": result}
    if failed:
        written["is_error"] = True
    extra = _STEPS.found(step, written)
    shown: list[Media] = []
    output = result if result is not None else ""
    if isinstance(result, list):
        blocks = list(read_contents(result, f"{path}.result"))
        shown = [structs.replace(block, extra=None) for block in blocks if type(block) is Media]
        output = result_text(result)
        parts = [plain(wire.media_content(media)) for media in shown]
        extra = with_parts(extra, NAME, result, output, parts, "result")
    elif not isinstance(output, str):
        extra = extra or Extra(NAME)
        extra = structs.replace(extra, form={**extra.form, "result": output})
    words = output if isinstance(output, str) else json_of(output)
    return ToolResult(
        "",
        name,
        None if failed else output,
        words if failed else None,
        complete=True,
        media=tuple(shown),
        native_id=call_id,
        extra=extra,
    )


def result_text(parts: list[Any]) -> str:
    """What a result in contents is read as."""
    return "\n".join(block.text for block in read_contents(parts, "result") if type(block) is Text)

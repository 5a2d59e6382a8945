"""Requests of the Messages wire, both ways."""

from __future__ import annotations

from base64 import b64decode, b64encode
from typing import TYPE_CHECKING, Any, assert_never

from msgspec import Raw

from segue.conversation.blocks import Media, Origin, Reasoning, Seal, Text, ToolCall, ToolResult
from segue.conversation.json_safe import encodable
from segue.conversation.message import Message
from segue.conversation.tools import ToolSpec
from segue.dialects.anthropic_messages import wire
from segue.dialects.anthropic_messages.fast import read_fast
from segue.dialects.anthropic_messages.rules import ANTHROPIC
from segue.dialects.anthropic_messages.settings import decode_options, encode_settings, joined
from segue.dialects.dialect import DecodedRequest, EncodedRequest
from segue.dialects.errors import unencodable
from segue.dialects.opaque_blocks import OpaqueBlockFilter, seal_block
from segue.dialects.request_fields import items, listed, record, text, unknown, wrong_type
from segue.dialects.request_messages import check_target, split_by_speaker, take_system
from segue.dialects.seal_makers import seal_origin
from segue.transcript import fast_paths
from segue.transcript.rules import media_type
from segue.transcript.steps import AnsweredCall, ModelStep, UserStep
from segue.transcript.value_text import json_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from segue.conversation.blocks import Block, MediaKind
    from segue.conversation.options import Options
    from segue.dialects.card import ModelCard
    from segue.transcript.steps import Completion, StepBlock, Transcript

NAME = ANTHROPIC.target.dialect
WIRE = "Messages"


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
    settings["messages"] = _encode_messages(transcript, after)
    return EncodedRequest(settings, tuple(repairs))


def _encode_messages(transcript: Transcript, after: int) -> list[wire.WireMessage]:
    messages: list[wire.WireMessage] = []
    results: list[wire.Content] = []
    opaque = OpaqueBlockFilter()
    for index, step in enumerate(transcript.steps[after:], after):
        if type(step) is ModelStep:
            if results:
                messages.append(wire.WireMessage("user", results))
            content, results = _encode_model(step, index, opaque)
            if content:
                messages.append(wire.WireMessage("assistant", content))
        elif type(step) is UserStep:
            if results and step.instruction:  # ANT-16: an instruction stands behind a user's message
                messages.append(wire.WireMessage("user", results))
                results = []
            content = _encode_user(step, results, opaque)
            if content:
                messages.append(wire.WireMessage("system" if step.instruction else "user", content))
            results = []
    if results:
        messages.append(wire.WireMessage("user", results))
    return messages


def _encode_user(
    step: UserStep, results: list[wire.Content], opaque: OpaqueBlockFilter
) -> str | list[wire.Content]:
    """The blocks of the user, behind the results of the calls before (ANT-20)."""
    first = step.blocks[0]
    if not results and len(step.blocks) == 1 and type(first) is Text and first.seal is None:
        return first.text
    kept = opaque.select(step.blocks)
    for position, block in enumerate(step.blocks):
        if position in kept:
            results.append(kept[position])
        elif not _only_carries_a_seal(block):
            results.append(_encode_shown(block))
    return results


def _encode_model(
    step: ModelStep, index: int, opaque: OpaqueBlockFilter
) -> tuple[str | list[wire.Content], list[wire.Content]]:
    first = step.blocks[0]
    if len(step.blocks) == 1 and type(first) is Text and first.seal is None:
        return first.text, []
    content: list[wire.Content] = []
    results: list[wire.Content] = []
    kept: dict[int, Raw] | None = None
    for position, block in enumerate(step.blocks):
        if type(block) is AnsweredCall:
            content.append(wire.ToolUse(block.id, block.name, Raw(block.arguments)))
            results.append(_encode_completion(block.id, block.completion))
        elif type(block) is not Text:
            content.append(_encode_thought(block, index))
        elif block.seal is None:
            content.append(wire.TextBlock(block.text))
        else:
            kept = opaque.select(step.blocks) if kept is None else kept
            if position in kept:
                content.append(kept[position])
            elif not _only_carries_a_seal(block):
                content.append(wire.TextBlock(block.text))
    return content, results


def _only_carries_a_seal(block: Text | Media) -> bool:
    """A blank text has no place here (ANT-12), and seals on texts mean nothing on this wire."""
    return type(block) is Text and block.seal is not None and not block.text.strip()


def _encode_thought(block: StepBlock, index: int) -> wire.Content:
    if type(block) is Reasoning and block.seal is not None:
        if block.seal.kind == "redacted":
            return wire.RedactedThinking(block.seal.payload)
        return wire.Thinking(block.text, block.seal.payload)  # ANT-51: also when the text is empty
    what = (
        "reasoning without a seal" if type(block) is Reasoning else f"{type(block).__name__} from the model"
    )
    raise unencodable(WIRE, what, index)


def _encode_completion(call_id: str, completion: Completion) -> wire.ToolResultBlock:
    if not completion.media:
        return wire.ToolResultBlock(call_id, completion.text, completion.is_error)
    shown: list[wire.Shown] = [wire.TextBlock(completion.text)] if completion.text else []
    shown += [_encode_media(media) for media in completion.media]
    return wire.ToolResultBlock(call_id, shown, completion.is_error)


def _encode_shown(block: Text | Media) -> wire.Content:
    match block:
        case Text(content):
            return wire.TextBlock(content)
        case Media():
            return _encode_media(block)
        case _:
            assert_never(block)


def _encode_media(media: Media) -> wire.Image | wire.Document:
    mime = media_type(media)
    if mime.startswith("image/"):
        return wire.Image(_encode_source(media, mime))
    return wire.Document(_encode_source(media, mime), encodable(media.name))


def _encode_source(media: Media, mime: str) -> wire.Source:
    if not media.data:
        return wire.Source("url", url=media.url)
    if mime != "text/plain":
        return wire.Source("base64", mime, media.data)
    return wire.Source("text", mime, _plain_text(media.data))


def _plain_text(data: str) -> str:
    """Plain text is not sent in base64 here; what is none is taken for the text itself."""
    try:
        return b64decode(data, validate=True).decode()
    except ValueError:
        return data


# The other way


def decode_request(body: Mapping[str, Any]) -> DecodedRequest:
    model = text(body.get("model"), "model")
    origin = Origin(NAME, model=model)
    messages: list[Message] = []
    try_fast = fast_paths.enabled()
    for index, message in enumerate(items(body.get("messages"), "messages")):
        fast = read_fast(message, origin) if try_fast else None
        if fast is not None:
            messages.append(fast)
            continue
        messages += _decode_message(record(message, f"messages[{index}]"), f"messages[{index}]", origin)
    system = _decode_system(body.get("system"))
    system, adopted = take_system(system, messages)
    return DecodedRequest(
        messages=adopted,
        system=system,
        tools=tuple(_decode_tools(body.get("tools"))),
        options=decode_options(body),
    )


def _decode_system(value: Any) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    blocks = [record(block, f"system[{index}]") for index, block in enumerate(items(value, "system"))]
    for index, block in enumerate(blocks):
        text(block.get("text"), f"system[{index}].text")
    return joined(blocks)


def _decode_message(message: dict[str, Any], path: str, origin: Origin) -> Iterator[Message]:
    role = message.get("role")
    if role not in ("user", "assistant", "system"):
        raise unknown(f"{path}.role", "role", role, "user, assistant, system")
    blocks = [block for part in _decode_content(message, path, origin) for block in part]
    if role == "assistant":
        yield Message("model", tuple(blocks), origin)
    elif role == "system":
        yield Message("user", tuple(blocks), instruction=True)
    else:
        yield from split_by_speaker(blocks)


def _decode_content(message: dict[str, Any], path: str, origin: Origin) -> Iterator[list[Block]]:
    content = message.get("content")
    if isinstance(content, str):
        yield [Text(content)]
        return
    for index, part in enumerate(items(content, f"{path}.content")):
        place = f"{path}.content[{index}]"
        yield [Text(part)] if isinstance(part, str) else _decode_block(record(part, place), place, origin)


def _decode_block(block: dict[str, Any], path: str, origin: Origin) -> list[Block]:
    match block.get("type"):
        case "text":
            return [Text(text(block.get("text"), f"{path}.text"))]
        case "thinking":
            signature = text(block.get("signature"), f"{path}.signature")
            seal = Seal(seal_origin(signature, origin, "anthropic"), signature) if signature else None
            return [Reasoning(text(block.get("thinking"), f"{path}.thinking"), seal)]
        case "redacted_thinking":
            data = text(block.get("data"), f"{path}.data")
            return [Reasoning("", Seal(seal_origin(data, origin, "anthropic"), data, "redacted"))]
        case "tool_use":
            return [_decode_call(block, path)]
        case "tool_result":
            return [_decode_result(block, path)]
        case "image" | "document":
            shown = _decode_media(block, path)
            return [seal_block(block, _as_words(block), origin)] if shown is None else shown
        case str():
            return [seal_block(block, _as_words(block), origin)]
        case other:
            raise wrong_type(f"{path}.type", "the type of a content block", other)


def _decode_call(block: dict[str, Any], path: str) -> ToolCall:
    given = block.get("input")
    return ToolCall(
        "",
        text(block.get("name"), f"{path}.name"),
        given if given is not None else {},
        native_id=text(block.get("id"), f"{path}.id"),
    )


def _decode_result(block: dict[str, Any], path: str) -> ToolResult:
    content, shown = _decode_output(block.get("content"), f"{path}.content")
    failed = block.get("is_error") is True
    return ToolResult(
        "",
        output=None if failed else content,
        error=content if failed else None,
        complete=True,
        media=tuple(shown),
        native_id=text(block.get("tool_use_id"), f"{path}.tool_use_id"),
    )


def _decode_output(content: Any, path: str) -> tuple[str, list[Media]]:
    if content is None or isinstance(content, str):
        return content or "", []
    texts: list[str] = []
    shown: list[Media] = []
    for index, part in enumerate(items(content, path)):
        place = f"{path}[{index}]"
        held = {"type": "text", "text": part} if isinstance(part, str) else record(part, place)
        blocks: list[Block]
        if held.get("type") in ("image", "document"):
            blocks = _decode_media(held, place) or [Text(_as_words(held))]
        else:
            blocks = [Text(text(held.get("text"), place) if held.get("type") == "text" else _as_words(held))]
        texts += [block.text for block in blocks if type(block) is Text]
        shown += [block for block in blocks if type(block) is Media]
    return "\n".join(texts), shown


def _decode_media(block: dict[str, Any], path: str) -> list[Block] | None:
    """What is shown; None if it is not in the request: files that the provider keeps, lists of blocks."""
    source = record(block.get("source"), f"{path}.source")
    place = f"{path}.source"
    kind: MediaKind = "image" if block["type"] == "image" else "document"
    mime = text(source.get("media_type"), f"{place}.media_type")
    name = text(block.get("title"), f"{path}.title")
    shown: list[Block] = []
    match source.get("type"):
        case "base64":
            shown = [Media(kind, mime, text(source.get("data"), f"{place}.data"), name=name)]
        case "url":
            shown = [Media(kind, mime, url=text(source.get("url"), f"{place}.url"), name=name)]
        case "text":
            data = text(source.get("data"), f"{place}.data").encode("utf-8", "surrogatepass")
            shown = [Media(kind, mime or "text/plain", b64encode(data).decode(), name=name)]
        case "content" if isinstance(source.get("content"), str):
            shown = [Text(source["content"])]
        case _:
            return None
    context = text(block.get("context"), f"{path}.context")
    return [Text(context), *shown] if context else shown


def _as_words(block: dict[str, Any]) -> str:
    """What we have no block for, as text: the provider's own tools and their results, search results."""
    fields = {key: value for key, value in block.items() if key not in ("type", "cache_control")}
    return f"[{block.get('type')}: {json_of(_readable(fields))}]"


def _readable(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _readable(held) for key, held in value.items() if not key.startswith("encrypted")}
    return [_readable(held) for held in value] if isinstance(value, list) else value


def _decode_tools(value: Any) -> Iterator[ToolSpec]:
    for index, given in enumerate(listed(value, "tools")):
        path = f"tools[{index}]"
        tool = record(given, path)
        if tool.get("type", "custom") != "custom":
            continue  # a tool of the provider's own: an option, see `settings`
        schema = tool.get("input_schema")
        yield ToolSpec(
            text(tool.get("name"), f"{path}.name"),
            text(tool.get("description"), f"{path}.description"),
            record(schema, f"{path}.input_schema") if schema is not None else None,
            tool.get("strict") if isinstance(tool.get("strict"), bool) else None,
        )


def recognises(body: Mapping[str, Any]) -> float:
    """Sure when a block or a tool has a form that only this wire has."""
    messages = body.get("messages")
    if not isinstance(messages, list) or "contents" in body or "input" in body:
        return 0.0
    sureness = 0.3
    if isinstance(body.get("system"), str | list):
        sureness = 0.9
    if any(key in body for key in ("stop_sequences", "output_config")):
        sureness = 0.9
    tools = body.get("tools")
    if isinstance(tools, list) and any(isinstance(tool, dict) and "input_schema" in tool for tool in tools):
        return 1.0
    for message in messages:
        if not isinstance(message, dict):
            continue
        if message.get("role") in ("tool", "developer", "function") or "tool_calls" in message:
            return 0.0
        content = message.get("content")
        for part in content if isinstance(content, list) else ():
            kind = part.get("type") if isinstance(part, dict) else None
            if kind in ("tool_use", "tool_result", "redacted_thinking", "document", "server_tool_use"):
                return 1.0
            if (kind == "image" and "source" in part) or (kind == "thinking" and "signature" in part):
                return 1.0
            if kind == "image_url":
                return 0.0
    return sureness

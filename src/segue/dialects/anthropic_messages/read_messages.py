"""The messages of a Messages request, with what each block has of this wire's own."""

from __future__ import annotations

from base64 import b64encode
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from msgspec import structs

from segue.conversation.blocks import Media, Reasoning, Seal, Text, ToolCall, ToolResult
from segue.conversation.extra import Extra
from segue.conversation.message import Message
from segue.dialects.anthropic_messages.citations import read_citations
from segue.dialects.anthropic_messages.fast import LISTED, read_exchanges, read_fast
from segue.dialects.anthropic_messages.rules import ANTHROPIC
from segue.dialects.anthropic_messages.shapes import MESSAGE
from segue.dialects.anthropic_messages.wire import encode_media
from segue.dialects.replies.citations import with_citations
from segue.dialects.requests.extra_fields import FieldKinds, parts_as_came, plain
from segue.dialects.requests.json_fields import items, record, text, unknown, wrong_type
from segue.dialects.requests.messages import split_by_speaker
from segue.dialects.requests.opaque_blocks import seal_block
from segue.dialects.requests.seal_makers import seal_origin
from segue.transcript.blocks.value_text import json_of
from segue.transcript.fast import fast_paths

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from segue.conversation.blocks import Block, MediaKind, Origin
    from segue.dialects.requests.shapes import Fitting

NAME = ANTHROPIC.target.dialect
_KINDS = FieldKinds(NAME, hints=frozenset({"cache_control"}), form=frozenset({"type", "caller", "context"}))
_UNWRITTEN = Extra(NAME, form={"type": None})
"""Of a text that is no block of its own: the next block has it in a field."""


def read_messages(
    given: list[Any], origin: Origin, fitting: Fitting
) -> tuple[list[Message], list[int], list[Any], dict[int, int]]:
    """The messages; the indexes of those given that may have marks for the cache; the given ones, as the wire takes them; and the
    index of each that was not read as one message → as how many."""
    fitted = given
    messages: list[Message] = []
    may_be_marked: list[int] = []
    marked: list[Any] = []
    uneven: dict[int, int] = {}
    try_fast = fast_paths.enabled()
    before: Any = None
    index, count = 0, len(given)
    while index < count:
        if try_fast and before != "assistant":
            start, index = index, read_exchanges(given, index, origin, messages)
            if index > start:
                before = "user"
                continue
        message = given[index]
        at = len(messages)
        fast = read_fast(message, origin, marked) if try_fast else None
        if fast is not None:
            messages.append(fast)
        else:
            path = f"messages[{index}]"
            message = MESSAGE.fit(record(message, path), path, fitting)
            if message is not given[index]:
                fitted = [*given] if fitted is given else fitted
                fitted[index] = message
            messages += _read_message(message, path, origin)
            if len(messages) != at + 1:
                uneven[index] = len(messages) - at
        if marked or fast is None:
            may_be_marked.append(index)
            marked = []
        role = message["role"]
        if role == before:  # we would write one message of both
            messages[at] = _begun(messages[at])
        before = role
        index += 1
    return messages, may_be_marked, fitted, uneven


def _begun(message: Message) -> Message:
    """The same message, marked as one that begins by itself."""
    if not message.blocks:
        return message
    first = message.blocks[0]
    extra = first.extra if first.extra is not None else Extra(NAME)
    if extra.container is None:
        extra = structs.replace(extra, container=Extra(NAME))
    return structs.replace(message, blocks=(structs.replace(first, extra=extra), *message.blocks[1:]))


def read_system(value: Any) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    texts: list[str] = []
    for index, block in enumerate(items(value, "system")):
        said = record(block, f"system[{index}]").get("text")
        if isinstance(said, str):
            texts.append(said)
        else:
            text(said, f"system[{index}].text")  # raises if it is anything else than missing
    return "\n\n".join(texts)


def with_notes_in_system(body: Mapping[str, Any]) -> tuple[Mapping[str, Any], list[str]]:
    """The request with the system notes before its first message in the system prompt, and where they stood: in front of all
    others the provider takes only those without content (ANT-16)."""
    given, system = body.get("messages"), body.get("system")
    if type(given) is not list or not given or not _is_note(given[0]):  # nearly always
        return body, []
    if not isinstance(system, str | list | None):
        return body, []  # its reader names what is wrong with it
    messages, pieces, places = [*given], _pieces(system), []
    for index, message in enumerate(takewhile(_is_note, given[:-1])):
        noted = _pieces(message.get("content"))
        if noted and all(type(piece) is dict and type(piece.get("text")) is str for piece in noted):
            pieces += noted
            messages[index] = {**message, "content": []}
            places.append(f"messages[{index}]")
    return ({**body, "system": pieces, "messages": messages} if places else body), places


def _is_note(message: Any) -> bool:
    return type(message) is dict and message.get("role") == "system"


def _pieces(content: Any) -> list[Any]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content.strip() else []
    return list(content) if isinstance(content, list) else []


def _read_message(given: Any, path: str, origin: Origin) -> Iterator[Message]:
    message = record(given, path)
    role = message.get("role")
    if role not in ("user", "assistant", "system"):
        raise unknown(f"{path}.role", "role", role, "user, assistant, system")
    content = message.get("content")
    blocks = [block for part in _read_content(content, path, origin) for block in part]
    around = _KINDS.found(message, {"role": role, "content": content})
    if blocks:
        first = blocks[0]
        if len(blocks) == 1 and type(first) is Text and first.extra is None and isinstance(content, list):
            first = structs.replace(first, extra=LISTED if first.seal is None else None)
        if role == "system":  # in place it goes back only if it came so
            around = around or Extra(NAME)
        if around is not None:
            first = structs.replace(
                first, extra=structs.replace(first.extra or Extra(NAME), container=around)
            )
        blocks[0] = first
    if role == "assistant":
        yield Message("model", tuple(blocks), origin)
    elif role == "system":
        yield Message("user", tuple(blocks), instruction=True)
    else:
        yield from split_by_speaker(blocks)


def _read_content(content: Any, path: str, origin: Origin) -> Iterator[list[Block]]:
    if isinstance(content, str):
        yield [Text(content)]
        return
    for index, part in enumerate(items(content, f"{path}.content")):
        place = f"{path}.content[{index}]"
        yield [Text(part)] if isinstance(part, str) else _read_block(record(part, place), place, origin)


def _read_block(block: dict[str, Any], path: str, origin: Origin) -> list[Block]:
    match block.get("type"):
        case "text":
            content = text(block.get("text"), f"{path}.text")
            said = Text(content, None, _KINDS.found(block, {"type": "text", "text": content}))
            cited = block.get("citations")
            return [with_citations(said, read_citations(cited), "citations") if cited else said]
        case "thinking":
            signature = text(block.get("signature"), f"{path}.signature")
            seal = Seal(seal_origin(signature, origin, "anthropic"), signature) if signature else None
            thought = text(block.get("thinking"), f"{path}.thinking")
            written = {"type": "thinking", "thinking": thought, "signature": signature}
            return [Reasoning(thought, seal, _KINDS.found(block, written))]
        case "redacted_thinking":
            data = text(block.get("data"), f"{path}.data")
            extra = _KINDS.found(block, {"type": "redacted_thinking", "data": data})
            return [Reasoning("", Seal(seal_origin(data, origin, "anthropic"), data, "redacted"), extra)]
        case "tool_use":
            return [_read_call(block, path)]
        case "tool_result":
            return [_read_result(block, path)]
        case "image" | "document":
            shown = _read_media(block, path)
            return [seal_block(block, _as_words(block), origin)] if shown is None else shown
        case str():
            return [seal_block(block, _as_words(block), origin)]
        case other:
            raise wrong_type(f"{path}.type", "the type of a content block", other)


def _read_call(block: dict[str, Any], path: str) -> ToolCall:
    given = block.get("input")
    name, call_id = text(block.get("name"), f"{path}.name"), text(block.get("id"), f"{path}.id")
    arguments = given if given is not None else {}
    written = {"type": "tool_use", "id": call_id, "name": name, "input": arguments}
    return ToolCall("", name, arguments, native_id=call_id, extra=_KINDS.found(block, written))


def _read_result(block: dict[str, Any], path: str) -> ToolResult:
    given, call_id = block.get("content"), text(block.get("tool_use_id"), f"{path}.tool_use_id")
    content, shown = _read_output(given, f"{path}.content")
    failed = block.get("is_error") is True
    written: dict[str, Any] = {"type": "tool_result", "tool_use_id": call_id, "content": given}
    extra = _KINDS.found(block, {**written, "is_error": True} if failed else written)
    if extra is not None and failed and not given:  # ANT-28: an error without content is refused
        extra = structs.replace(extra, absent=())
    if isinstance(given, list):
        parts = parts_as_came(given, content, [plain(encode_media(media)) for media in shown])
        extra = extra or Extra(NAME)
        extra = structs.replace(extra, form={**extra.form, "content": parts})
    return ToolResult(
        "",
        output=None if failed else content,
        error=content if failed else None,
        complete=True,
        media=tuple(shown),
        native_id=call_id,
        extra=extra,
    )


def output_text(parts: list[Any]) -> str:
    """What a result in parts is read as."""
    return _read_output(parts, "content")[0]


def _read_output(content: Any, path: str) -> tuple[str, list[Media]]:
    if content is None or isinstance(content, str):
        return content or "", []
    texts: list[str] = []
    shown: list[Media] = []
    for index, part in enumerate(items(content, path)):
        place = f"{path}[{index}]"
        held = {"type": "text", "text": part} if isinstance(part, str) else record(part, place)
        blocks: list[Block]
        if held.get("type") in ("image", "document"):
            blocks = _read_media(held, place) or [Text(_as_words(held))]
        else:
            blocks = [Text(text(held.get("text"), place) if held.get("type") == "text" else _as_words(held))]
        texts += [block.text for block in blocks if type(block) is Text]
        shown += [structs.replace(block, extra=None) for block in blocks if type(block) is Media]
    return "\n".join(texts), shown


def _read_media(block: dict[str, Any], path: str) -> list[Block] | None:
    """What is shown; None if it is not in the request: files that the provider keeps, lists of blocks."""
    source = record(block.get("source"), f"{path}.source")
    place = f"{path}.source"
    kind: MediaKind = "image" if block["type"] == "image" else "document"
    mime = text(source.get("media_type"), f"{place}.media_type")
    name = text(block.get("title"), f"{path}.title")
    match source.get("type"):
        case "base64":
            shown = Media(kind, mime, text(source.get("data"), f"{place}.data"), name=name)
        case "url":
            shown = Media(kind, mime, url=text(source.get("url"), f"{place}.url"), name=name)
        case "text":
            data = text(source.get("data"), f"{place}.data").encode("utf-8", "surrogatepass")
            shown = Media(kind, mime or "text/plain", b64encode(data).decode(), name=name)
        case _:
            return None
    context = text(block.get("context"), f"{path}.context")
    whole = structs.replace(shown, extra=_KINDS.kept(block, plain(encode_media(shown))))
    return [Text(context, None, _UNWRITTEN), whole] if context else [whole]


def _as_words(block: dict[str, Any]) -> str:
    """What we have no block for, as text: the provider's own tools and their results, search results."""
    source = block.get("source")
    if (
        isinstance(source, dict)
        and source.get("type") == "content"
        and isinstance(source.get("content"), str)
    ):
        context = block.get("context")
        return "\n".join([context, source["content"]] if isinstance(context, str) else [source["content"]])
    fields = {key: value for key, value in block.items() if key not in ("type", "cache_control")}
    return f"[{block.get('type')}: {json_of(_readable(fields))}]"


def _readable(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _readable(held) for key, held in value.items() if not key.startswith("encrypted")}
    return [_readable(held) for held in value] if isinstance(value, list) else value

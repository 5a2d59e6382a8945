"""A Mistral request beside what it shares with Chat: content in chunks, and objects that hold the fields this wire knows and no
others (MIS-08)."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET, structs

from segue.conversation.blocks import Media, Origin, Reasoning, Seal, Text, ToolCall, ToolResult
from segue.conversation.message import Message
from segue.dialects.errors import unencodable
from segue.dialects.openai_chat.family import MessageReader, MessageWire, new_writer
from segue.dialects.openai_chat.mistral.reply import chunks_of, thinking_chunk
from segue.dialects.openai_chat.mistral.rules import NAME, VARIANT
from segue.dialects.openai_chat.settings import EFFORTS, ChatRequestSettings, encode_settings, read_options
from segue.dialects.openai_chat.wire import AssistantMessage, Call, Function, ToolMessage, UserMessage
from segue.dialects.replies.calls import read_arguments
from segue.dialects.replies.citations import as_form
from segue.dialects.requests.data_urls import kind_of, media_from, url_of
from segue.dialects.requests.extra_fields import (
    FieldKinds,
    as_fields,
    own,
    own_call,
    own_result,
    with_container,
    with_parts,
)
from segue.dialects.requests.json_fields import items, listed, record, text, unknown, wrong_type
from segue.dialects.requests.messages import begun_blocks, completion_text
from segue.dialects.requests.settings import came_for_model
from segue.dialects.requests.shapes import UNFIT, Items, Nullable, ObjectShape, Tagged, TextOr, ValueShape
from segue.dialects.requests.value_shapes import (
    ANY,
    CONTENT,
    FLAG,
    ID,
    LIST,
    OBJECT,
    OUTPUT,
    SCHEMA,
    WHOLE,
    WORDS,
    only,
)
from segue.transcript.blocks.value_text import json_of
from segue.transcript.repairs import Repair
from segue.transcript.rules import media_type
from segue.transcript.steps import AnsweredCall

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from segue.conversation.blocks import Block
    from segue.dialects.dialect import DecodedRequest
    from segue.dialects.requests.shapes import Shape
    from segue.transcript.steps import StepBlock

TITLE = "Mistral"
_KINDS = FieldKinds(NAME, form=frozenset({"type", "role", "index", "id"}))
_MEDIA = FieldKinds(
    NAME, form=_KINDS.form | {"image_url", "document_url", "document_name", "audio_url", "input_audio"}
)
_OWN_ID = re.compile(r"[a-zA-Z0-9]{9}")  # MIS-01

# What the wire takes


def _fields(known: dict[str, Shape], needed: dict[str, Any] | None = None) -> ObjectShape:
    return ObjectShape(known, needed or {}, closed=True, nulls=False)


def _text_chunk(value: Any) -> Any:
    return {"type": "text", "text": value} if isinstance(value, str) else UNFIT


_ADDRESS = TextOr(WORDS, _fields({"url": WORDS, "detail": Nullable(WORDS)}, {"url": UNFIT}))
# An object is written out by the provider, and a text passes unread.
_ARGUMENTS = ValueShape("a JSON text or an object", lambda value: isinstance(value, str | dict), json_of)


def _chunk(name: str, shape: Shape, **others: Shape) -> ObjectShape:
    return _fields({"type": ANY, name: shape, **others}, {name: UNFIT})


_CHUNK = Tagged(
    "type",
    {
        "text": _fields({"type": ANY, "text": WORDS}, {"text": ""}),
        "image_url": _chunk("image_url", _ADDRESS),
        "audio_url": _chunk("audio_url", _ADDRESS),
        "input_audio": _chunk("input_audio", ANY),
        "document_url": _chunk("document_url", WORDS, document_name=Nullable(WORDS)),
        "file": _chunk("file_id", WORDS),
        "reference": _chunk("reference_ids", LIST),
        "thinking": _chunk(
            "thinking",
            Items(
                Tagged(
                    "type",
                    {"text": _fields({"type": ANY, "text": WORDS}, {"text": ""}), "reference": OBJECT},
                    correct=_text_chunk,
                )
            ),
            closed=FLAG,
            signature=Nullable(WORDS),
        ),
    },
    correct=_text_chunk,
)
_CONTENT = TextOr(CONTENT, Items(_CHUNK))
_FUNCTION = _fields({"name": WORDS, "arguments": _ARGUMENTS}, {"name": "", "arguments": ""})
_CALL = _fields(
    {"id": ID, "type": only("function"), "function": _FUNCTION, "index": WHOLE}, {"id": "", "function": UNFIT}
)
_OPERATOR = _fields({"role": only("system"), "content": _CONTENT}, {"content": ""})
_MESSAGE = Tagged(
    "role",
    {
        "system": _OPERATOR,
        "developer": _OPERATOR,
        "user": _fields(
            {"role": ANY, "content": _CONTENT, "tool_calls": Items(_CALL, some=True)}, {"content": ""}
        ),
        "assistant": _fields(
            {
                "role": ANY,
                "content": Nullable(_CONTENT),
                "tool_calls": Nullable(Items(_CALL)),
                "prefix": FLAG,
            }
        ),
        "tool": _fields(
            {
                "role": ANY,
                "content": TextOr(OUTPUT, _CONTENT.other),
                "tool_call_id": ID,
                "name": Nullable(WORDS),
                "tool_calls": Items(_CALL, some=True),
            },
            {"content": "", "tool_call_id": ""},
        ),
    },
    OBJECT,
)
_OFFERED = _fields(
    {"name": WORDS, "description": WORDS, "parameters": SCHEMA, "strict": FLAG},
    {"name": "", "parameters": {"type": "object", "properties": {}}},
)
_TOOLS = Items(
    Tagged(
        "type",
        {"function": _fields({"type": only("function"), "function": _OFFERED}, {"function": UNFIT})},
        OBJECT,
        missing="function",
    )
)
_ASKED = frozenset(
    {
        "model",
        "temperature",
        "top_p",
        "max_tokens",
        "stream",
        "stop",
        "random_seed",
        "response_format",
        "tool_choice",
    }
    | {"presence_penalty", "frequency_penalty", "n", "prediction", "parallel_tool_calls", "prompt_mode"}
    | {"safe_prompt", "reasoning_effort", "metadata", "guardrails", "prompt_cache_key", "stream_options"}
)
REQUEST = ObjectShape(
    {**dict.fromkeys(_ASKED, ANY), "messages": Items(_MESSAGE), "tools": _TOOLS}, closed=True
)


# Settings


class _Settings(ChatRequestSettings):
    place = "options."

    def encode_thinking(self) -> None:
        """MIS-11: most models refuse effort at all (MIS-V23), some are switched to thinking instead."""
        effort, came = self.options.effort, own(self.options.own, NAME)
        if self.options.thinking_budget is not None:
            self.not_sent("thinking_budget", "the target does not count thoughts")
        if effort is None:
            return
        match self.card.thinking:
            case "effort" | "level":
                self.body["reasoning_effort"] = self.nearest_level(effort, EFFORTS, EFFORTS.index(effort))
            case "switch":
                if effort != "none":
                    self.body["prompt_mode"] = "reasoning"
            case "" if (  # the request itself has it
                came is not None
                and came.form.get("reasoning_effort") == effort
                and came_for_model(self.options, NAME)
            ):
                self.body["reasoning_effort"] = effort
            case _:
                self.not_sent("effort", "the model is not known to take it")


# Messages


def _encode_shown(blocks: tuple[Text | Media, ...], index: int) -> UserMessage:
    only = blocks[0]
    if len(blocks) == 1 and type(only) is Text and not _is_chunk(only):
        return UserMessage(only.text)
    chunks: list[Mapping[str, Any]] = []
    for block in blocks:
        extra = own(block.extra, NAME)
        if type(block) is Text:
            chunk = {"type": "text", "text": block.text}
        elif media_type(block).startswith("image/"):
            chunk = {"type": "image_url", "image_url": url_of(block)}  # MIS-15
        elif extra is not None:
            chunk = {}
        else:
            raise unencodable(TITLE, "a document or a sound", index)
        chunks.append(chunk if extra is None else extra.written(chunk))
    return UserMessage(chunks)


def _is_chunk(block: Text | Reasoning) -> bool:
    """Whether a text came in a list of chunks, not as the content itself."""
    extra = own(block.extra, NAME)
    return extra is not None and "type" in extra.form


def _encode_reply(blocks: tuple[StepBlock, ...], index: int, messages: list[Any]) -> None:
    calls: list[Any] = []
    results: list[Any] = []
    others: list[Text | Reasoning] = []
    for block in blocks:
        if type(block) is AnsweredCall:
            done = block.completion
            call = Call(block.id, Function(block.name, block.arguments))
            extra = own(block.extra, NAME)
            calls.append(call if extra is None else own_call(as_fields(call), extra, "function"))
            output = completion_text(done, TITLE, index)
            result = ToolMessage(block.id, output, block.name)  # MIS-09
            extra = own(done.extra, NAME)
            results.append(result if extra is None else own_result(result, output, extra, _output_text))
        elif isinstance(block, Media):
            raise unencodable(TITLE, "media from the model", index)  # MIS-V12
        else:
            others.append(block)
    message = AssistantMessage(_encode_said(others) if others else "", tool_calls=calls or UNSET)
    messages.append(with_container(message, blocks[0].extra, NAME))
    messages += results


def _encode_said(blocks: list[Text | Reasoning]) -> str | list[Mapping[str, Any]]:
    only = blocks[0]
    if len(blocks) == 1 and type(only) is Text and not (_is_chunk(only) or only.citations):
        return only.text
    chunks: list[Mapping[str, Any]] = []
    for block in blocks:
        extra = own(block.extra, NAME)
        written = [_thought(block)] if type(block) is Reasoning else chunks_of(block)
        chunks += written if extra is None else [extra.written(chunk) for chunk in written]
    return chunks


def _thought(thought: Reasoning) -> dict[str, Any]:
    return thinking_chunk(thought.text, thought.seal.payload if thought.seal is not None else "")  # MIS-10


# The other way

_OWN_FIELDS = frozenset(
    {"random_seed", "safe_prompt", "prompt_mode", "guardrails", "document_image_limit", "document_page_limit"}
)
_FOREIGN_FIELDS = frozenset(
    {"max_completion_tokens", "stream_options", "store", "logit_bias", "user", "seed", "system", "options"}
    | {"keep_alive", "think", "contents", "input", "thinking"}
)


def recognises(body: Mapping[str, Any]) -> float:
    messages = body.get("messages")
    if not isinstance(messages, list) or not all(isinstance(message, dict) for message in messages):
        return 0.0
    if not body.keys().isdisjoint(_FOREIGN_FIELDS):
        return 0.1
    if not body.keys().isdisjoint(_OWN_FIELDS) or body.get("tool_choice") == "any":
        return 0.95
    if any(_has_own_chunk(message) for message in messages):
        return 0.95
    ids = [
        call.get("id")
        for message in messages
        for call in (message["tool_calls"] if isinstance(message.get("tool_calls"), list) else ())
        if isinstance(call, dict)
    ]
    own = bool(ids) and all(isinstance(found, str) and _OWN_ID.fullmatch(found) for found in ids)
    return 0.92 if own else 0.2


def _has_own_chunk(message: dict[str, Any]) -> bool:
    content = message.get("content")
    chunks = content if isinstance(content, list) else []
    return any(
        isinstance(chunk, dict)
        and (isinstance(chunk.get("thinking"), list) or isinstance(chunk.get("image_url"), str))
        for chunk in chunks
    )


_OWN_CHUNKS = re.compile(rb'"(?:thinking"\s*:\s*\[|image_url"\s*:\s*"|document_url"\s*:)')
"""Of the messages as they came. In a text these quotes would be escaped."""


def shown_by(fields: Mapping[str, msgspec.Raw]) -> bool | None:
    """Whether a chat is of this wire, by its fields as they came; None if it may as well be one of OpenAI's."""
    if not fields.keys().isdisjoint(_FOREIGN_FIELDS):
        return False
    if not fields.keys().isdisjoint(_OWN_FIELDS) or bytes(fields.get("tool_choice", b"")) == b'"any"':
        return True
    return True if _OWN_CHUNKS.search(fields.get("messages", b"")) else None


def decode_request(body: Mapping[str, Any]) -> DecodedRequest:
    """What a reply once began with is refused behind it: a prefix is the last message's alone."""
    given = items(body.get("messages"), "messages")
    old = [index for index, message in enumerate(given[:-1]) if _is_prefix(message)]
    if not old:
        return _READER.decode_request(body)
    bare = [*given]
    for index in old:
        bare[index] = {name: value for name, value in given[index].items() if name != "prefix"}
    decoded = _READER.decode_request({**body, "messages": bare})
    notes = [Repair("hints_dropped", NAME, f"messages[{index}]", decision="prefix") for index in old]
    return structs.replace(decoded, repairs=(*decoded.repairs, *notes))


def _is_prefix(message: Any) -> bool:
    return isinstance(message, dict) and message.get("role") == "assistant" and bool(message.get("prefix"))


def _decode_message(message: dict[str, Any], path: str, origin: Origin) -> Message:
    blocks = list(_decode_content(message.get("content"), f"{path}.content", origin))
    role = message.get("role")
    called: list[Block] = [
        _decode_call(record(call, f"{path}.tool_calls[{index}]"), f"{path}.tool_calls[{index}]")
        for index, call in enumerate(listed(message.get("tool_calls"), f"{path}.tool_calls"))
    ]
    content = message.get("content")
    match role:
        case "assistant":
            others = [block for block in blocks if block != Text("")] if called else blocks
            written = {"role": "assistant", "content": content if others else ""}
            came = {name: value for name, value in message.items() if name != "tool_calls" or not value}
            return Message("model", begun_blocks((*others, *called), _KINDS.found(came, written)), origin)
        case "tool":
            return Message("tool", (_decode_result(message, blocks, path), *called))
        case "system" | "developer" | "user":
            written = {"role": "user" if role == "user" else "system", "content": content}
            found = begun_blocks(tuple(blocks), _KINDS.found(_without_calls(message), written))
            return Message("user", (*found, *called), instruction=role != "user")
        case _:
            raise unknown(f"{path}.role", "role", role, "system, user, assistant, tool")


def _decode_call(call: dict[str, Any], path: str) -> ToolCall:
    function = record(call.get("function"), f"{path}.function")
    arguments, raw = read_arguments(function.get("arguments"))
    native_id = text(call.get("id"), f"{path}.id")
    name = text(function.get("name"), f"{path}.function.name")
    written = {"id": native_id, "type": "function", "function": {"name": name, "arguments": raw}}
    extra = _KINDS.found(call, written)
    return ToolCall("", name, arguments, raw, "" if native_id == "null" else native_id, extra=extra)


def _decode_result(message: dict[str, Any], blocks: list[Block], path: str) -> ToolResult:
    output = "\n".join(block.text for block in blocks if isinstance(block, Text | Reasoning))
    name = text(message.get("name"), f"{path}.name")
    call_id = text(message.get("tool_call_id"), f"{path}.tool_call_id")
    content = message.get("content")
    written = {"role": "tool", "tool_call_id": call_id, "name": name, "content": content or ""}
    extra = _KINDS.found(_without_calls(message), written)
    media = tuple(structs.replace(block, extra=None) for block in blocks if type(block) is Media)
    if not media:  # MIS-15: the user shows what a tool returned
        extra = with_parts(extra, NAME, content, output)
    return ToolResult("", name, output, complete=True, media=media, native_id=call_id, extra=extra)


def _without_calls(message: dict[str, Any]) -> dict[str, Any]:
    """What is the message's own, whoever's it is: calls are the model's."""
    return {name: value for name, value in message.items() if name != "tool_calls"}


def _output_text(parts: list[Any]) -> str:
    found = _decode_content(parts, "content", Origin(NAME))
    return "\n".join(block.text for block in found if isinstance(block, Text | Reasoning))


def _decode_content(content: Any, path: str, origin: Origin) -> Iterator[Block]:
    if content is None:
        return
    if isinstance(content, str):
        yield Text(content)
        return
    for index, chunk in enumerate(items(content, path)):
        place = f"{path}[{index}]"
        if isinstance(chunk, str):
            yield Text(chunk)
        else:
            yield _with_own(record(chunk, place), _decode_chunk(chunk, place, origin))


def _with_own(chunk: dict[str, Any], block: Block) -> Block:
    """The block with what the chunk has beside it. A text that came as a chunk has at least its type."""
    match block:
        case Text(content):
            said = Text(content, None, _KINDS.kept(chunk, {"text": content}))
            if said.extra is not None and "reference_ids" in said.extra.fields:  # the words tell all of it
                return structs.replace(said, extra=as_form(said.extra, "reference_ids"))
            return said
        case Reasoning():
            extra = _KINDS.found(chunk, _thought(block))
            return block if extra is None else structs.replace(block, extra=extra)
        case Media():
            image = chunk.get("type") == "image_url"
            written = {"type": "image_url", "image_url": url_of(block)} if image else {}
            return structs.replace(block, extra=_MEDIA.kept(chunk, written))
        case _:
            return block


def _decode_chunk(chunk: dict[str, Any], path: str, origin: Origin) -> Block:
    match chunk.get("type"):
        case "text":
            return Text(text(chunk.get("text"), f"{path}.text"))
        case "thinking":
            signature = text(chunk.get("signature"), f"{path}.signature")
            return Reasoning(_thoughts(chunk, path), Seal(origin, signature) if signature else None)
        case "image_url":
            return media_from(_address(chunk.get("image_url"), f"{path}.image_url"), "image")
        case "audio_url":
            return media_from(_address(chunk.get("audio_url"), f"{path}.audio_url"), "audio")
        case "document_url":
            name = text(chunk.get("document_name"), f"{path}.document_name")
            return media_from(text(chunk.get("document_url"), f"{path}.document_url"), "document", name)
        case "input_audio":
            return _decode_sound(chunk.get("input_audio"), f"{path}.input_audio")
        case str(kind):
            fields = {key: value for key, value in chunk.items() if key != "type"}
            return Text(f"[{kind}: {json_of(fields)}]")
        case other:
            raise wrong_type(f"{path}.type", "the type of a content chunk", other)


def _thoughts(chunk: dict[str, Any], path: str) -> str:
    held = chunk.get("thinking")
    if isinstance(held, str):
        return held
    parts = [record(part, f"{path}.thinking") for part in items(held or [], f"{path}.thinking")]
    return "".join(
        text(part.get("text"), f"{path}.thinking") if part.get("type", "text") == "text" else json_of(part)
        for part in parts
    )


def _address(held: Any, path: str) -> str:
    return text(held.get("url"), f"{path}.url") if isinstance(held, dict) else text(held, path)


def _decode_sound(held: Any, path: str) -> Media:
    if isinstance(held, str):
        return media_from(held, "audio") if ":" in held[:12] else Media("audio", data=held)
    sound = record(held, path)
    mime = f"audio/{text(sound.get('format'), f'{path}.format') or 'wav'}"
    return Media(kind_of(mime), mime, text(sound.get("data"), f"{path}.data"))


_writer = new_writer(VARIANT)
assert _writer is not None  # noqa: S101 - it is what the wire's replies mostly are
_READER = MessageReader(
    name=NAME,
    message=_MESSAGE,
    tools=_TOOLS,
    read_message=_decode_message,
    read_options=partial(read_options, VARIANT),
)
_WIRE = MessageWire(
    reader=_READER,
    title=TITLE,
    encode_settings=partial(encode_settings, VARIANT, kind=_Settings),
    encode_shown=_encode_shown,
    encode_reply=_encode_reply,
    write_fast=_writer,
)
encode_request = _WIRE.encode_request

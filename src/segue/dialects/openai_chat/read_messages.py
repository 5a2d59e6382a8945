"""The messages of a foreign request, read as they are, however broken."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from msgspec import UNSET, structs

from segue.conversation.blocks import Media, Reasoning, Seal, Text, ToolCall, ToolResult
from segue.conversation.events import parse_arguments
from segue.conversation.extra import Extra
from segue.conversation.message import Message
from segue.dialects.openai_chat.family import SILENCE
from segue.dialects.openai_chat.rules import HELD_FILE, variant_of
from segue.dialects.openai_chat.wire import THOUGHTS, seal_of, spoken_words, write_media
from segue.dialects.replies.calls import read_arguments
from segue.dialects.replies.citations import as_form, read_annotations
from segue.dialects.requests.data_urls import media_from
from segue.dialects.requests.extra_fields import FieldKinds, with_parts
from segue.dialects.requests.json_fields import items, listed, record, text, unknown, wrong_type
from segue.dialects.requests.messages import begun_blocks
from segue.transcript.blocks.value_text import json_of

if TYPE_CHECKING:
    from segue.conversation.blocks import Block, Origin
    from segue.dialects.openai_chat.rules import Variant


_UNWRITTEN: Any = {"type": None}
"""The form of a text that is no part of its own: a field of the message has it."""
_TEXT_PARTS = ("text", "input_text", "output_text", "refusal")
_OWN_PLACE = frozenset({"tool_calls", "function_call", *THOUGHTS})
"""What is read into blocks of its own, and of which at most an empty value is the message's."""


@cache
def kinds_of(dialect: str) -> FieldKinds:
    return FieldKinds(
        dialect,
        hints=frozenset({"cache_control", "detail", "prompt_cache_breakpoint"}),
        form=frozenset(
            {"type", "role", "name", "index", "refusal", "custom", "id"} | {"extra_content", "audio"}
        ),
    )


def read_message(variant: Variant, given: dict[str, Any], path: str, origin: Origin) -> Message:
    role = given.get("role")
    kinds = kinds_of(variant.name)
    content = given.get("content")
    blocks = _blocks(content, f"{path}.content", kinds)
    calls = _calls(given, path, origin, kinds)
    if role in ("tool", "function"):
        return Message("tool", (_answer(variant, given, blocks, path), *calls))
    if role == "assistant":
        return _reply(variant, given, blocks, calls, path, origin)
    if role not in ("user", "system", "developer"):
        raise unknown(f"{path}.role", "role", role, "system, developer, user, assistant, tool and function")
    # Whoever's message it is, calls are the model's.
    came = {name: value for name, value in given.items() if name not in _OWN_PLACE or value is None}
    around = kinds.found(came, {"role": "user" if role == "user" else "system", "content": content})
    name = given.get("name")
    if isinstance(name, str) and name and not _is_blank(blocks):  # several users in one conversation
        blocks = [Text(f"{name}:", None, Extra(variant.name, form=_UNWRITTEN)), *blocks]
    return Message("user", (*begun_blocks(tuple(blocks), around), *calls), instruction=role != "user")


def _is_blank(blocks: list[Block]) -> bool:
    return all(type(block) is Text and not block.text.strip() for block in blocks)


def refused_fields(variant: Variant, given: dict[str, Any]) -> list[str]:
    """Fields of empty reasoning that clients of other servers send, and that this one refuses (CHAT-50)."""
    refused = () if variant.thoughts else THOUGHTS
    return [name for name in refused if name in given and not given[name]]


def _reply(
    variant: Variant,
    given: dict[str, Any],
    blocks: list[Block],
    calls: list[Block],
    path: str,
    origin: Origin,
) -> Message:
    if calls and blocks == [Text("")]:
        blocks = []
    kinds = kinds_of(variant.name)
    written: dict[str, Any] = {"role": "assistant"}
    if blocks or not calls:
        written["content"] = given.get("content") if blocks else ""
    elif variant.silence != "omit":
        written["content"] = "" if variant.silence == "empty" else None
    content = given.get("extra_content")
    signature = seal_of(content) if isinstance(content, dict) else ""
    # What is signed goes back with its seal alone.
    came = {
        name: value
        for name, value in given.items()
        if (name not in _OWN_PLACE or not value)
        and (variant.thoughts or name not in THOUGHTS)
        and (name != "extra_content" or not signature)
    }
    beside = _other_content(given, variant.name)
    if not (calls or beside):  # CHAT-04: then there is some content, and be it an empty one
        came = {**came, "content": came.get("content") if blocks else ""}
    blocks = _with_seal([*blocks, *beside], signature, origin)
    around = kinds.found(came, written)
    if around is not None and "annotations" in around.fields:
        blocks, around = _with_annotations(blocks, around)
    every = (*_thoughts(variant, given, path, origin), *blocks, *calls)
    return Message("model", begun_blocks(every, around), origin)


def _with_annotations(blocks: list[Block], around: Extra) -> tuple[list[Block], Extra]:
    """The annotations of a message as citations of its last text."""
    cited = tuple(read_annotations(around.fields["annotations"], around.dialect))
    for at in range(len(blocks) - 1, -1, -1):
        block = blocks[at]
        if type(block) is Text and cited:
            found = structs.replace(block, citations=cited)
            return [*blocks[:at], found, *blocks[at + 1 :]], as_form(around, "annotations")
    return blocks, around


def _blocks(content: Any, path: str, kinds: FieldKinds) -> list[Block]:
    if content is None:
        return []
    if isinstance(content, str):
        return [Text(content)]
    if isinstance(content, dict):
        return [_part(content, path)]
    return [
        _with_own(part, _part(part, f"{path}[{number}]"), kinds)
        for number, part in enumerate(items(content, path))
    ]


def _with_own(part: Any, block: Block, kinds: FieldKinds) -> Block:
    """The block with what the part has beside it. A text that came as a part has at least its type."""
    if not isinstance(part, dict):
        return block
    if type(block) is Text:
        if part.get("type") not in _TEXT_PARTS and variant_of(kinds.dialect).fields is not None:
            return block  # CHAT-53: it refuses what it does not know, also parts
        return Text(block.text, None, kinds.kept(part, {"text": block.text}))
    written = write_media(block) if type(block) is Media else None
    if written is None:
        return block
    image, ours = part.get("image_url"), written.get("image_url")
    if isinstance(image, dict) and ours is not None and image.keys() == {"url", "detail"}:
        # In the part's own corner, so that the image itself is not kept twice.
        part = {**part, "image_url": {"url": image["url"]}, "detail": image["detail"]}
    return structs.replace(block, extra=kinds.kept(part, written))


def _part(given: Any, path: str) -> Block:
    if isinstance(given, str):
        return Text(given)
    part = record(given, path)
    kind = part.get("type")
    held = part.get(kind) if isinstance(kind, str) else None
    match kind:
        case "text" | "input_text" | "output_text":
            return Text(text(part.get("text"), f"{path}.text"))
        case "refusal":
            return Text(text(held, f"{path}.refusal"))
        case "image_url":
            return media_from(_url(held, f"{path}.image_url"), "image")
        case "video_url":
            return media_from(_url(held, f"{path}.video_url"), "document")
        case "input_audio":
            sound = record(held, f"{path}.input_audio")
            form = text(sound.get("format"), f"{path}.input_audio.format") or "wav"
            return Media("audio", f"audio/{form}", text(sound.get("data"), f"{path}.input_audio.data"))
        case "file":
            return _file(record(held, f"{path}.file"), f"{path}.file")
        case "tool_use" | "tool_result":
            raise unknown(f"{path}.type", "content part", kind, "text, image_url, input_audio and file")
        case _:
            return Text(json_of(part))


def _url(given: Any, path: str) -> str:
    url = given.get("url") if isinstance(given, dict) else given
    if not isinstance(url, str):
        raise wrong_type(path, "an address", url)
    return url


def _file(given: dict[str, Any], path: str) -> Media:
    name = text(given.get("filename"), f"{path}.filename")
    data = text(given.get("file_data"), f"{path}.file_data")
    if not data:
        return Media("document", url=f"{HELD_FILE}{text(given.get('file_id'), path)}", name=name)
    if data.startswith(("data:", "http:", "https:")):
        return media_from(data, "document", name)
    return Media("document", data=data, name=name)


def _thoughts(variant: Variant, given: dict[str, Any], path: str, origin: Origin) -> list[Block]:
    thought = text(given.get("reasoning_content"), f"{path}.reasoning_content")
    if not thought and isinstance(given.get("reasoning"), str):
        thought = given["reasoning"]
    details = given.get("reasoning_details")
    seal = None
    if details:
        found = items(details, f"{path}.reasoning_details")
        records = [detail for detail in found if isinstance(detail, dict)]
        pieces = [detail.get("text") or detail.get("summary") for detail in records]
        thought = thought or "".join(piece for piece in pieces if isinstance(piece, str))
        opaque = any(detail.get("data") for detail in records)
        seal = Seal(origin, json_of(details), "encrypted" if opaque else "signature")
    elif not thought:
        return []
    came = {name: given[name] for name in THOUGHTS if name in given}
    field, value = ("reasoning_details", details) if variant.details else (variant.thoughts, thought)
    extra = kinds_of(variant.name).found(came, {field: value}) if variant.thoughts else None
    return [Reasoning(thought, seal, extra)]


def _other_content(given: dict[str, Any], dialect: str) -> list[Block]:
    """What a model's message may hold beside its content; the message itself keeps it too."""
    refusal, audio = given.get("refusal"), given.get("audio")
    unwritten = Extra(dialect, form=_UNWRITTEN)
    beside: list[Block] = [Text(refusal, None, unwritten)] if isinstance(refusal, str) and refusal else []
    if isinstance(audio, dict) and audio.get("id") and not given.get("content"):
        beside.append(Text(spoken_words(audio), None, unwritten))
    return beside


def _with_seal(blocks: list[Block], signature: str, origin: Origin) -> list[Block]:
    """A signature that belongs to the message stands on its last block."""
    if not signature:
        return blocks
    seal = Seal(origin, signature, "thought")
    if blocks and type(last := blocks[-1]) is Text:
        return [*blocks[:-1], structs.replace(last, seal=seal)]
    return [*blocks, Text("", seal)]


def _calls(given: dict[str, Any], path: str, origin: Origin, kinds: FieldKinds) -> list[Block]:
    calls: list[Block] = [
        _read_call(
            record(item, f"{path}.tool_calls[{number}]"),
            f"{path}.tool_calls[{number}]",
            origin,
            kinds,
        )
        for number, item in enumerate(listed(given.get("tool_calls"), f"{path}.tool_calls"))
    ]
    function = given.get("function_call")
    if isinstance(function, dict) and function.get("name"):
        calls.append(_read_call({"function": function}, f"{path}.function_call", origin, None))
    return calls


def _read_call(given: dict[str, Any], path: str, origin: Origin, kinds: FieldKinds | None) -> ToolCall:
    native_id = given.get("id")
    custom = given.get("custom")
    if given.get("type") == "custom" and isinstance(custom, dict):  # CHAT-24: free text instead of arguments
        function: dict[str, Any] = {"name": custom.get("name"), "arguments": {"input": custom.get("input")}}
    else:
        function = record(given.get("function"), f"{path}.function")
    arguments, raw = read_arguments(function.get("arguments"))
    content = given.get("extra_content")
    signature = seal_of(content) if isinstance(content, dict) else ""
    name = text(function.get("name"), f"{path}.function.name")
    call_id = "" if native_id is None else str(native_id)
    written: dict[str, Any] = {
        "id": call_id,
        "type": "function",
        "function": {"name": name, "arguments": raw or ("{}" if arguments == {} else "")},
    }
    # CHAT-24: the type is required; what is signed goes back with its seal alone.
    came = {"type": "function", **given}
    if signature:
        del came["extra_content"]
    return ToolCall(
        "",
        name,
        arguments,
        raw,
        call_id,
        Seal(origin, signature, "thought") if signature else None,
        extra=kinds.found(came, written) if kinds is not None else None,
    )


def _answer(variant: Variant, given: dict[str, Any], blocks: list[Block], path: str) -> ToolResult:
    call_id = "" if given.get("tool_call_id") is None else str(given["tool_call_id"])
    name = text(given.get("name"), f"{path}.name")
    content = given.get("content")
    output = "\n".join(block.text for block in blocks if type(block) is Text)
    shown = [structs.replace(block, extra=None) for block in blocks if type(block) is Media]
    written: dict[str, Any] = {"role": "tool", "tool_call_id": call_id, "content": content or ""}
    if variant.result_names:
        written["name"] = name
    # A function's message is of the deprecated kind, which we write as a tool's. Calls in a tool's message are the model's.
    came = {field: value for field, value in given.items() if field not in _OWN_PLACE or value is None}
    extra = kinds_of(variant.name).found(came, written) if given["role"] == "tool" else None
    if not shown:  # CHAT-52: the user shows what a tool returned
        extra = with_parts(extra, variant.name, content, output)
    return ToolResult(
        "", name, output=output, complete=True, media=tuple(shown), native_id=call_id, extra=extra
    )


def output_text(parts: list[Any]) -> str:
    """What a result in parts is read as."""
    kinds = kinds_of("openai_compatible")  # whichever: only the words count
    return "\n".join(block.text for block in _blocks(parts, "content", kinds) if type(block) is Text)


# The fast path (see transcript/fast): the messages of which most requests consist. One with exactly the fields counted here
# cannot hold anything else that is looked for above, which takes several times as long.


def read_fast(variant: Variant, given: Any, origin: Origin) -> Message | None:
    """A user's texts, a system prompt, a model's text and function calls, or a tool's text; None if it is anything else."""
    if type(given) is not dict:
        return None
    role, content = given.get("role"), given.get("content")
    if role == "tool":
        call_id, name = given.get("tool_call_id"), given.get("name", "")
        fields = 4 if variant.result_names else 3
        if len(given) == fields and type(content) is str and type(call_id) is str and type(name) is str:
            if bool(name) is not variant.result_names or not call_id:
                return None
            return Message("tool", (ToolResult("", name, content, complete=True, native_id=call_id),))
    elif role == "assistant":
        return _read_fast_reply(variant, given, content, origin)
    elif role in ("user", "system") and len(given) == 2:
        if type(content) is str:
            return Message("user", (Text(content),), instruction=role == "system")
        if role == "user" and type(content) is list and content:
            texts = _read_fast_texts(content, _in_a_part(variant.name))
            return Message("user", texts) if texts is not None else None
    return None


@cache
def _in_a_part(dialect: str) -> Extra:
    """Of a text that came as a part."""
    return Extra(dialect, form={"type": "text"})


def _read_fast_texts(parts: list[Any], extra: Extra) -> tuple[Block, ...] | None:
    texts: list[Block] = []
    for part in parts:
        if type(part) is not dict or len(part) != 2 or part.get("type") != "text":
            return None
        said = part.get("text")
        if type(said) is not str or not said:
            return None
        texts.append(Text(said, None, extra))
    return tuple(texts)


def _read_fast_reply(variant: Variant, given: dict[str, Any], content: Any, origin: Origin) -> Message | None:
    blocks: list[Block] = []
    if type(content) is str and content:
        blocks.append(Text(content))
        if len(given) == 2:
            return Message("model", tuple(blocks), origin)
    elif content is not None and content != "":
        return None
    listed = given.get("tool_calls")
    if len(given) != ("content" in given) + 2 or type(listed) is not list or not listed:
        return None
    for item in listed:
        call = _read_fast_call(item)
        if call is None:
            return None
        blocks.append(call)
    if not content and (around := _silence_of(variant, given)) is not None:
        blocks = [*begun_blocks(tuple(blocks), around)]
    return Message("model", tuple(blocks), origin)


def _silence_of(variant: Variant, given: dict[str, Any]) -> Extra | None:
    """How a message that only calls was written, if not as we would write it."""
    silence, content = SILENCE[variant.silence], given.get("content", UNSET)
    if content == silence:
        return None
    return (
        Extra(variant.name, absent=("content",))
        if content is UNSET
        else Extra(variant.name, form={"content": content})
    )


def _read_fast_call(given: Any) -> ToolCall | None:
    if type(given) is not dict or len(given) != 3 or given.get("type") != "function":
        return None
    call_id, function = given.get("id"), given.get("function")
    if type(call_id) is not str or not call_id or type(function) is not dict or len(function) != 2:
        return None
    name, raw = function.get("name"), function.get("arguments")
    if type(name) is not str or type(raw) is not str or not raw:
        return None
    return ToolCall("", name, parse_arguments(raw), raw, call_id)

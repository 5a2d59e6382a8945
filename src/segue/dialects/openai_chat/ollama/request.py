"""An Ollama request beside what it shares with Chat: texts are strings, arguments objects, images plain base64 (OLL-04), options of
the engine stand in an object of their own."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import Raw, Struct

from segue.conversation.blocks import Media, Origin, Reasoning, Text, ToolCall, ToolResult
from segue.conversation.json_safe import ensure_json_safe
from segue.conversation.message import Message
from segue.conversation.options import Options
from segue.conversation.tools import Named, ToolSpec
from segue.dialects.errors import unencodable
from segue.dialects.openai_chat.family import MessageReader, MessageWire
from segue.dialects.openai_chat.ollama.rules import NAME, VARIANT
from segue.dialects.openai_chat.settings import ChatRequestSettings, encode_settings
from segue.dialects.replies.calls import read_arguments
from segue.dialects.requests.data_urls import media_from
from segue.dialects.requests.extra_fields import (
    FieldKinds,
    as_fields,
    own,
    own_call,
    own_result,
    with_container,
)
from segue.dialects.requests.function_tools import own_function
from segue.dialects.requests.json_fields import flag, listed, record, text, whole
from segue.dialects.requests.messages import begun_blocks, completion_text, join_texts
from segue.dialects.requests.settings import OptionField, came_for_model, own_head, read_own, take_options
from segue.dialects.requests.shapes import UNFIT, Items, ObjectShape, Tagged, ValueShape
from segue.dialects.requests.value_shapes import (
    ANY,
    ARGUMENTS,
    OPTIONAL_ID,
    SCHEMA,
    TEXT,
    WHOLE,
    WORDS,
    matching,
)
from segue.transcript.blocks.value_text import json_of
from segue.transcript.rules import media_type
from segue.transcript.steps import AnsweredCall

if TYPE_CHECKING:
    from collections.abc import Mapping

    from segue.conversation.blocks import Block
    from segue.conversation.extra import Extra
    from segue.transcript.steps import StepBlock

TITLE = "Ollama"
_KINDS = FieldKinds(NAME, form=frozenset({"role", "name", "type", "function", "id", "images", "thinking"}))
_MIMES = {"iVBOR": "image/png", "/9j/": "image/jpeg", "UklGR": "image/webp", "R0lGO": "image/gif"}
"""How the base64 of an image begins: the wire does not send its type."""

# What the wire takes. Fields that it does not know are ignored, and null is no value.


def _joined(value: Any) -> Any:
    """OLL-01: the texts of a content in parts, as other wires have it."""
    if not isinstance(value, list):
        return UNFIT
    texts = [part.get("text", part) if isinstance(part, dict) else part for part in value]
    return join_texts([text if isinstance(text, str) else json_of(text) for text in texts if text])


_CALL = ObjectShape(
    {
        "id": OPTIONAL_ID,
        "function": ObjectShape({"name": WORDS, "index": WHOLE, "arguments": ARGUMENTS}, {"name": ""}),
    },
    {"function": UNFIT},
)
_IMAGE = matching("base64", r"[A-Za-z0-9+/\r\n]*={0,2}|data:[^,]*,.*", is_read=True)  # OLL-04
_MESSAGE = ObjectShape(
    {
        "role": WORDS,
        "content": ValueShape("a string", lambda value: isinstance(value, str), _joined, is_read=True),
        "thinking": WORDS,
        "images": Items(_IMAGE),
        "tool_calls": Items(_CALL),
        "tool_name": WORDS,
        "tool_call_id": OPTIONAL_ID,
        "name": WORDS,
    }
)
_FUNCTION = ObjectShape({"name": WORDS, "description": WORDS, "parameters": SCHEMA})
_TOOLS = Items(Tagged("type", {}, ObjectShape({"type": TEXT, "function": _FUNCTION}, {"function": UNFIT})))
REQUEST = ObjectShape({"messages": Items(_MESSAGE), "tools": _TOOLS, "model": ANY})


# What a request holds


class _Function(Struct, gc=False):
    """What is called: the arguments are an object (OLL-02)."""

    index: int
    name: str
    arguments: Raw


class _Call(Struct, gc=False):
    """One entry of `tool_calls`."""

    id: str
    function: _Function


class _Shown(Struct, tag_field="role", tag="user", gc=False, omit_defaults=True):
    """A message of the user, with images."""

    content: str
    images: list[str] = []


class _Assistant(Struct, tag_field="role", tag="assistant", gc=False, omit_defaults=True):
    """A message of the model: text, reasoning and calls."""

    content: str
    thinking: str = ""
    tool_calls: list[_Call] = []


class _Result(Struct, tag_field="role", tag="tool", gc=False):
    """How a call ended (OLL-06)."""

    tool_name: str
    tool_call_id: str
    content: str


# Settings

_ENGINE = frozenset(  # OLL-14
    {"num_ctx", "num_batch", "num_gpu", "main_gpu", "use_mmap", "num_thread", "draft_num_predict", "num_keep"}
    | {"min_p", "typical_p", "repeat_last_n", "presence_penalty", "frequency_penalty", "mirostat"}
    | {"mirostat_tau", "mirostat_eta", "penalize_newline", "numa", "use_mlock", "low_vram"}
)
"""Options of the engine, which go inside `options`; any other field of the target's own stands beside it."""
_OPTIONS = (
    OptionField("max_tokens", "num_predict"),
    OptionField("repeat_penalty", "repeat_penalty"),
    OptionField("seed", "seed"),
    OptionField("stop", "stop"),
    OptionField("temperature", "temperature"),
    OptionField("top_p", "top_p"),
    OptionField("top_k", "top_k"),
)
"""Inside `options`."""
_LEVELS = ("low", "medium", "high", "max")  # OLL-08
_LEVEL_OF: Mapping[str, str] = {"minimal": "low", "xhigh": "high"}


class _Settings(ChatRequestSettings):
    place = "options."

    def encode(self, tools: tuple[ToolSpec, ...]) -> None:
        self.body["stream"] = bool(self.options.stream)  # OLL-20: unasked, the server streams
        self._encode_tools(tools)
        self.encode_thinking()
        self.engine()
        if self.options.response_schema is not None:  # OLL-18
            self.body["format"] = ensure_json_safe(self.options.response_schema)
        self.add_extra({"model", "messages", "tools", "options"} | _ENGINE)

    def _encode_tools(self, tools: tuple[ToolSpec, ...]) -> None:
        choice = self.options.tool_choice
        if tools and not self.card.tools:  # OLL-07
            self.note("option_not_sent", "tools", "the model takes no tools")
            return
        offered = self.offered(tools)
        if choice == "none":  # the wire has no choice of tools: not offering them is the same
            offered = []
        elif tools and (choice == "required" or type(choice) is Named):
            self.note("choice_weakened", "options.tool_choice", "the target cannot be made to call a tool")
            if type(choice) is Named:
                offered = [(index, tool) for index, tool in offered if tool.name == choice.name] or offered
        elif not tools and choice not in (None, "auto"):
            self.not_sent("tool_choice", "there are no tools")
        if offered:
            self.body["tools"] = [self._tool(tool, index) for index, tool in offered]
        if tools and self.options.parallel_calls is False:
            self.not_sent("parallel_calls")

    def _tool(self, tool: ToolSpec, index: int) -> dict[str, Any]:
        extra = own(tool.extra, NAME)
        if extra is None or tool.kind == "server":
            return super()._tool(tool, index)
        return own_function(
            tool, self.tool_name(tool.name), extra
        )  # the server ignores what it does not know

    def encode_thinking(self) -> None:
        """OLL-08: a model that cannot think refuses a request for it; all accept `false`."""
        if not came_for_model(self.options, NAME):
            self.extra.pop("think", None)
        effort, own = self.options.effort, self.extra.get("think")
        if self.options.thinking_budget is not None:
            self.not_sent("thinking_budget", "the target does not count thoughts")
        if effort is None or own is not None:
            return
        if effort == "none":
            self.body["think"] = False
        elif self.card.thinking == "":
            self.not_sent("effort", "the model is not known to think")
        elif self.card.thinking == "switch":
            self.body["think"] = True
        else:
            self.body["think"] = self.nearest_level(
                effort, _LEVELS, _LEVELS.index(_LEVEL_OF.get(effort, effort))
            )

    def engine(self) -> None:
        given: dict[str, Any] = {}
        self.add_options(_OPTIONS, given)
        own = self.extra.get("options")
        inside = own if isinstance(own, dict) else {}
        engine = {name: value for name, value in self.extra.items() if name in _ENGINE}
        if engine_options := {**inside, **engine, **given}:
            self.body["options"] = engine_options


_KNOWN = frozenset({"model", "messages", "tools", "stream", "options", "think", "format"})


def decode_options(body: Mapping[str, Any], leading: list[Any] | None = None) -> Options:
    """`leading` are the messages that became the system prompt."""
    extra = {key: value for key, value in body.items() if key not in _KNOWN and value is not None}
    engine = dict(record(body.get("options") or {}, "options"))
    think = body.get("think")
    shape = body.get("format")
    limit = whole(engine.get("num_predict"), "options.num_predict")
    options = take_options(_OPTIONS, engine, "options.")
    if limit is not None and limit <= 0:  # a value of the engine's own: no limit, or as much as fits
        engine["num_predict"], options["max_tokens"] = limit, None
    if engine:
        extra["options"] = engine
    if think is not None:
        extra["think"] = think
    if isinstance(shape, str):
        extra["format"] = shape
    streamed = flag(body.get("stream"), "stream")
    levels: dict[Any, Any] = {False: "none", True: "medium", **{level: level for level in _LEVELS}}
    apart = ("messages", "tools") if body.get("tools") else ("messages",)
    return Options(
        model=text(body.get("model"), "model"),
        stream=True if streamed is not False else None,  # OLL-20
        effort=levels.get(think) if isinstance(think, bool | str) else None,
        response_schema=shape if isinstance(shape, dict) else None,
        own=read_own(NAME, body, extra, apart, own_head(NAME, leading)),
        **options,
    )


# Messages


def _write_fast(blocks: tuple[StepBlock, ...], messages: list[Any]) -> bool:
    """The fast path (see transcript/fast): add the messages of a reply: a text, a thought, and calls with their results; whether that is what it is."""
    content = thought = ""
    calls: list[_Call] = []
    results: list[_Result] = []
    for block in blocks:
        if block.extra is not None and block.extra.dialect == NAME:
            return False
        if type(block) is AnsweredCall:
            done = block.completion
            if (done.extra is not None and done.extra.dialect == NAME) or done.media or done.is_error:
                return False
            function = _Function(len(calls), block.name, Raw(block.arguments))
            calls.append(_Call(block.id, function))
            results.append(_Result(block.name, block.id, done.text))
        elif type(block) is Text:
            content += block.text
        elif type(block) is Reasoning:
            thought += block.text
        else:
            return False
    messages.append(_Assistant(content, thought, calls))
    messages += results
    return True


def _encode_shown(blocks: tuple[Text | Media, ...], index: int) -> _Shown:
    texts: list[str] = []
    images: list[str] = []
    for block in blocks:
        if type(block) is Text:
            texts.append(block.text)
        elif media_type(block).startswith("image/") and block.data:
            images.append(block.data)
        else:
            raise unencodable(TITLE, "anything but images by content", index)
    return _Shown(texts[0] if len(texts) == 1 else "\n\n".join(texts), images)  # OLL-01


def _encode_reply(blocks: tuple[StepBlock, ...], index: int, messages: list[Any]) -> None:
    texts: list[str] = []
    thoughts: list[str] = []
    calls: list[Any] = []
    results: list[Any] = []
    for block in blocks:
        if type(block) is AnsweredCall:
            function = _Function(len(calls), block.name, Raw(block.arguments))
            calls.append(_with_own(_Call(block.id, function), block.extra))
            output = completion_text(block.completion, TITLE, index)
            result, extra = _Result(block.name, block.id, output), own(block.completion.extra, NAME)
            if extra is not None:
                results.append(own_result(result, output, extra, str))
            elif (came := own(block.extra, NAME)) is not None and "id" in came.absent:
                fields = as_fields(result)  # a result of ours, for a call that its client gave no id
                results.append({name: value for name, value in fields.items() if name != "tool_call_id"})
            else:
                results.append(result)
        elif type(block) is Text:
            texts.append(block.text)
        elif type(block) is Reasoning:
            thoughts.append(block.text)
        else:
            raise unencodable(TITLE, "media from the model", index)
    message = _Assistant("".join(texts), "".join(thoughts), calls)
    messages.append(with_container(message, blocks[0].extra, NAME))
    messages += results


def _with_own(encoded: Struct, extra: Extra | None) -> Any:
    kept = own(extra, NAME)
    return encoded if kept is None else own_call(as_fields(encoded), kept, "function")


# The other way

_OWN_FIELDS = frozenset({"options", "keep_alive", "think", "format", "truncate", "shift"})
_OWN_MESSAGE_FIELDS = frozenset({"images", "tool_name", "thinking"})


def recognises(body: Mapping[str, Any]) -> float:
    messages = body.get("messages")
    if not isinstance(messages, list) or not all(isinstance(message, dict) for message in messages):
        return 0.0
    if any(isinstance(message.get("content"), list) for message in messages):  # OLL-01
        return 0.0
    if not body.keys().isdisjoint(_OWN_FIELDS):
        return 0.95
    if any(not message.keys().isdisjoint(_OWN_MESSAGE_FIELDS) for message in messages):
        return 0.95
    arguments = [
        call["function"].get("arguments")
        for message in messages
        for call in (message["tool_calls"] if isinstance(message.get("tool_calls"), list) else ())
        if isinstance(call, dict) and isinstance(call.get("function"), dict)
    ]
    return 0.93 if arguments and all(isinstance(given, dict) for given in arguments) else 0.15


def _decode_message(message: dict[str, Any], path: str, origin: Origin) -> Message:
    texts = text(message.get("content"), f"{path}.content")
    thought = text(message.get("thinking"), f"{path}.thinking")
    shown: list[Block] = [
        _decode_image(image, f"{path}.images[{index}]")
        for index, image in enumerate(listed(message.get("images"), f"{path}.images"))
    ]
    called: list[Block] = [
        _decode_call(record(call, f"{path}.tool_calls[{index}]"), f"{path}.tool_calls[{index}]", index)
        for index, call in enumerate(listed(message.get("tool_calls"), f"{path}.tool_calls"))
    ]
    role = text(message.get("role"), f"{path}.role").lower()  # OLL-03: any role, in any case
    if role == "tool":
        return Message("tool", (_decode_result(message, texts, shown, path), *called))
    blocks: list[Block] = [Reasoning(thought)] if thought else []
    if texts or not (shown or called or blocks):
        blocks.append(Text(texts))
    blocks += shown
    instruction = role in ("system", "developer", "control")
    written: dict[str, Any] = {
        "role": "system" if instruction else "assistant" if role == "assistant" else "user",
        "content": texts,
        "thinking": thought,
        "images": message.get("images"),
        "tool_calls": message.get("tool_calls"),
    }
    written = {name: value for name, value in written.items() if value or name in ("role", "content")}
    if role == "assistant":
        return Message("model", begun_blocks((*blocks, *called), _KINDS.found(message, written)), origin)
    # Whoever's message it is, calls are the model's.
    came = {key: value for key, value in message.items() if not value or key != "tool_calls"}
    found = begun_blocks(
        tuple(blocks), _KINDS.found(came, {**written, "tool_calls": message.get("tool_calls")})
    )
    return Message("user", (*found, *called), instruction=instruction)


def _decode_image(image: Any, path: str) -> Media:
    data = text(image, path)
    if data.startswith("data:"):
        return media_from(data, "image")
    mime = next((mime for start, mime in _MIMES.items() if data.startswith(start)), "image/png")
    return Media("image", mime, data)


def _decode_call(call: dict[str, Any], path: str, index: int) -> ToolCall:
    function = record(call.get("function"), f"{path}.function")
    arguments, raw = read_arguments(function.get("arguments"))
    name = text(function.get("name"), f"{path}.function.name")
    call_id = text(call.get("id"), f"{path}.id")
    written = {
        "id": call_id,
        "function": {"index": index, "name": name, "arguments": arguments if not raw else None},
    }
    if raw or not isinstance(arguments, dict):  # OLL-02: a text is no arguments
        call = {key: value for key, value in call.items() if key != "function"}
        del written["function"]
    return ToolCall("", name, arguments, raw, call_id, extra=_KINDS.found(call, written))


def _decode_result(message: dict[str, Any], texts: str, shown: list[Block], path: str) -> ToolResult:
    name = message.get("tool_name")
    if name is None:  # ignored by the server, but what it means is plain
        name = message.get("name")
    called = text(name, f"{path}.tool_name")
    call_id = text(message.get("tool_call_id"), f"{path}.tool_call_id")
    written = {"role": "tool", "tool_name": called, "tool_call_id": call_id, "content": texts}
    # What a tool shows and calls is sent by others.
    came = {key: value for key, value in message.items() if not value or key not in ("images", "tool_calls")}
    return ToolResult(
        "",
        called,
        texts,
        complete=True,
        media=tuple(block for block in shown if type(block) is Media),
        native_id=call_id,
        extra=_KINDS.found(came, written),
    )


_READER = MessageReader(
    name=NAME, message=_MESSAGE, tools=_TOOLS, read_message=_decode_message, read_options=decode_options
)
_WIRE = MessageWire(
    reader=_READER,
    title=TITLE,
    encode_settings=partial(encode_settings, VARIANT, kind=_Settings, read=decode_options),
    encode_shown=_encode_shown,
    encode_reply=_encode_reply,
    write_fast=_write_fast,
)
encode_request, decode_request = _WIRE.encode_request, _READER.decode_request

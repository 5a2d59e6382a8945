"""Replies of the Mistral wire, both ways, whole or streamed, as the same events; and its errors, in its own envelope or in the
one of its schema checks. A stream is server-sent events with a closing one (MIS-20)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

import msgspec
from msgspec import Raw, Struct

from segue.conversation.blocks import Citation, Code, Media, Reasoning, Text, ToolCall
from segue.conversation.events import (
    ArgumentsDelta,
    CallStarted,
    Cited,
    Failed,
    Finished,
    MediaArrived,
    ReasoningDelta,
    ReplyStarted,
    Sealed,
    TextDelta,
    UsageReported,
)
from segue.conversation.usage import Usage
from segue.dialects.errors import IN_REPLY, FailedResponse, fault_place, read_response, wire_errors
from segue.dialects.openai_chat.mistral.rules import NAME
from segue.dialects.replies.calls import PendingCall, arguments_text
from segue.dialects.replies.citations import natives
from segue.dialects.replies.finish_reasons import FinishReasons
from segue.dialects.replies.usage_counts import count, counted, with_price_facts
from segue.dialects.requests.data_urls import media_from
from segue.dialects.streams import sse
from segue.dialects.streams.chunk_streams import ChunkDecoder, ChunkEncoder, ChunkReader
from segue.dialects.streams.chunk_template import MARK, template
from segue.dialects.streams.garbled_lines import UNREADABLE, check_encoding
from segue.errors import ProtocolError
from segue.transcript.blocks.media import describe, written_out
from segue.transcript.blocks.value_text import arguments_of, json_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from segue.conversation.events import Event, Reply
    from segue.conversation.message import Message
    from segue.errors import ProviderError, SegueError

ENCODER = msgspec.json.Encoder()

# What a reply holds


class _ContentChunk(Struct, gc=False):
    """A piece of content that is not plain text, of whichever type."""

    type: str = ""
    text: str | None = None
    thinking: Any = None
    signature: str | None = None
    image_url: Any = None
    reference_ids: Any = None
    tool: Any = None
    title: str | None = None
    url: str | None = None


class _Function(Struct, frozen=True, gc=False):
    """What is called, and with what: mostly the text of an object, sometimes the object itself."""

    name: str | None = None
    arguments: Raw = Raw()


class _Call(Struct, gc=False):
    """A call, whole or a portion of one (MIS-21)."""

    function: _Function = _Function()
    id: str | None = None
    index: int | None = None


class _Delta(Struct, gc=False):
    """The message of a model; in a stream, what it adds."""

    content: str | list[_ContentChunk] | None = None
    tool_calls: list[_Call] | None = None


class _Choice(Struct, gc=False):
    """One answer; we ask for one."""

    delta: _Delta | None = None
    message: _Delta | None = None
    finish_reason: str | None = None


class _Portion(Struct, gc=False):
    """What is worth reading in the common chunk of a stream that has begun."""

    choices: list[_Choice] | None = None
    usage: Raw = Raw()


class _Chunk(Struct, gc=False):
    """A reply or a portion of one, or the error that came in its place."""

    id: str | None = None
    model: str | None = None
    choices: list[_Choice] | None = None
    usage: Any = None
    object: str | None = None
    error: Any = None
    message: Any = None
    detail: Any = None


CHUNKS = msgspec.json.Decoder(_Chunk)
PORTIONS = msgspec.json.Decoder(_Portion)


# Errors


def decode_error(status: int, headers: Mapping[str, str], body: bytes) -> ProviderError:
    """Any status and any bytes as an error with a remedy."""
    response, value = read_response(status, headers, body)
    return error_from(value if isinstance(value, dict) else {}, response)


def error_from(error: Mapping[str, Any], response: FailedResponse = IN_REPLY) -> ProviderError:
    """The error in an envelope, of a response or of a stream."""
    inner = error.get("error")
    if isinstance(inner, dict):  # as the hosts of Mistral's models elsewhere wrap it
        error = {**error, **inner}
    message, path = _message(inner if isinstance(inner, str) else error)
    message = response.words(message)
    kind, code = error.get("type"), error.get("code")
    response, errors = response.with_status(error.get("raw_status_code")), wire_errors(NAME)
    return errors.error(
        response,
        errors.kind_of(message, (kind,), response.status),
        message,
        code=kind if isinstance(kind, str) else str(code) if isinstance(code, int) else code,
        path=path or error.get("param"),
        request_id=error.get("request_id"),
        envelope=error,
    )


def _message(error: Any) -> tuple[str, str]:
    """The message of an error, and the place in the request that it is about."""
    if isinstance(error, str):
        return error, ""
    message = error.get("message")
    if message is None:
        message = error.get("detail")
    if isinstance(message, dict):
        message = message.get("detail")
    if not isinstance(message, list):
        return (message if isinstance(message, str) else ""), ""
    faults = [fault for fault in message if isinstance(fault, dict)]
    if not faults:
        return "", ""
    return "; ".join(f"{fault_place(fault)}: {fault.get('msg')}" for fault in faults), fault_place(faults[0])


def encode_error(error: SegueError) -> tuple[int, bytes]:
    errors = wire_errors(NAME)
    kind, code = errors.type_for(error)
    came = errors.own_members(error)
    if isinstance(came.get("type"), str):
        kind, code = came["type"], came.get("code")
    message = errors.message_for(error)
    fields = {"object": "error", "message": message, "type": kind, "param": None, "code": code}
    return errors.status_for(error), msgspec.json.encode(errors.in_envelope(fields, error))


# Replies

FINISHES = FinishReasons(  # MIS-23
    {
        "stop": ("stop",),
        "length": ("length", "model_length"),
        "tool_calls": ("tool_calls",),
        "content_filter": ("content_filter",),
        "error": ("error",),
    }
)
DONE = b"[DONE]"
"""What a stream ends with (MIS-20)."""


def decode_reply(body: bytes) -> list[Event]:
    events: list[Event] = []
    reader = ReplyReader()
    reader.unreadable = ProtocolError("The answer is not a reply of the Mistral ")
    reader.read(body, events)
    if reader.over or reader.answered:
        reader.close(events)
    else:
        events.append(Failed(ProtocolError("The answer holds no choices.")))
    return events


class ReplyReader(ChunkReader):
    """Reads a reply, whole or in portions."""

    __slots__ = ("_calls", "_last", "_started", "answered")

    def __init__(self) -> None:
        super().__init__()
        self._calls: dict[int, tuple[int, str]] = {}
        """The wire's index of a call → ours, and its id."""
        self._last = -1
        self._started = False
        self.answered = False

    def read(self, data: bytes, events: list[Event]) -> None:
        try:
            check_encoding(data)
            if self.answered:
                portion = PORTIONS.decode(data)
                if portion.choices and not portion.usage and portion.choices[0].finish_reason != "error":
                    self._read_choice(portion.choices[0], events)
                    return
            chunk = CHUNKS.decode(data)
        except UNREADABLE:
            if data == DONE:
                self.close(events)
            else:
                self._read_garbled(data, events)
            return
        if chunk.object == "error" or (chunk.choices is None and (chunk.error or chunk.detail)):
            self._fail(error_from(msgspec.json.decode(data), FailedResponse(body=data)), events)
            return
        if not self._started and (chunk.id or chunk.model or chunk.choices):
            self._started = True
            events.append(ReplyStarted(chunk.id or "", chunk.model or ""))
        if isinstance(chunk.usage, dict):
            usage = usage_of(chunk.usage)
            if usage != Usage():
                events.append(UsageReported(usage))
        if chunk.choices:
            self.answered = True
            self._read_choice(chunk.choices[0], events)

    def _read_choice(self, choice: _Choice, events: list[Event]) -> None:
        delta = choice.delta or choice.message
        if delta is not None:
            content = delta.content
            if type(content) is str and self._open == "text" and content and delta.tool_calls is None:
                events.append(TextDelta(self._index, content))
            else:
                self._read_message(delta, events)
        if choice.finish_reason:
            self._finish(choice.finish_reason, events)

    def close(self, events: list[Event]) -> None:
        """The reply was closed properly, with a reason or without one."""
        if not self.answered:
            self.end(events)
        elif not self.over:
            self.over = True
            events.append(Finished("tool_calls" if self._last >= 0 else "stop"))

    def _read_message(self, delta: _Delta, events: list[Event]) -> None:
        content = delta.content
        if isinstance(content, str):
            if content:
                events.append(TextDelta(self._block("text"), content))
        elif content:
            for chunk in content:
                self._read_chunk(chunk, events)
        for call in delta.tool_calls or ():
            self._read_call(call, events)

    def _read_chunk(self, chunk: _ContentChunk, events: list[Event]) -> None:  # MIS-22
        if chunk.type == "thinking":
            thought = _thought(chunk.thinking)
            if thought:
                events.append(ReasoningDelta(self._block("reasoning"), thought))
            if chunk.signature:
                events.append(Sealed(self._block("reasoning"), chunk.signature))
        elif chunk.text is not None:
            if chunk.text:
                events.append(TextDelta(self._block("text"), chunk.text))
        elif chunk.image_url is not None:
            held = chunk.image_url
            address = held.get("url") if isinstance(held, dict) else held
            events.append(MediaArrived(self._new_block(), media_from(str(address), "image")))
        elif chunk.reference_ids is not None:
            # Inside the text: whoever has no such chunk reads it there.
            index = self._new_block()
            came = {"type": chunk.type, "reference_ids": chunk.reference_ids}
            events.append(Cited(index, Citation(dialect=NAME, native=json_of(came))))
            events.append(TextDelta(index, f"[{chunk.type}: {json_of(chunk.reference_ids)}]"))
        elif chunk.type == "tool_reference":
            # Of Mistral's own tools; its chat takes no such chunk back.
            found = Citation(chunk.title or "", chunk.url or "", str(chunk.tool))
            events.append(Cited(self._block("text"), found))

    def _read_call(self, call: _Call, events: list[Event]) -> None:
        """MIS-21: whole and mostly without an index, or in portions that it keeps apart."""
        name, native_id = call.function.name or "", call.id or ""
        if native_id == "null":
            native_id = ""
        known = self._calls.get(call.index) if call.index is not None else None
        if known is not None and (not native_id or native_id == known[1]):
            index = known[0]
        elif call.index is None and not native_id and not name and self._last >= 0:
            index = self._last
        else:
            index = self._last = self._new_block()
            if call.index is not None:
                self._calls[call.index] = (index, native_id)
            events.append(CallStarted(index, native_id, name))
        arguments = arguments_text(call.function.arguments)
        if arguments:
            events.append(ArgumentsDelta(index, arguments))

    def _finish(self, reason: str, events: list[Event]) -> None:
        if not self.over:
            self.over = True
            events.append(Finished(FINISHES.read(reason), reason))


def _thought(held: Any) -> str:
    if isinstance(held, str):
        return held
    parts = held if isinstance(held, list) else []
    return "".join(
        part["text"] for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str)
    )


def usage_of(counts: Mapping[str, Any]) -> Usage:
    details = counts.get("prompt_tokens_details")
    cached = count(details, "cached_tokens") if isinstance(details, dict) else None
    if cached is None:
        cached = count(counts, "num_cached_tokens")
    usage = counted(count(counts, "prompt_tokens"), count(counts, "completion_tokens"), cached=cached)
    return usage if usage == Usage() else with_price_facts(usage, counts.get("service_tier"))


# The other way


def encode_reply(reply: Reply) -> bytes:
    if reply.error is not None:
        return encode_error(reply.error)[1]
    choice = {
        "index": 0,
        "message": _encode_message(reply.message),
        "finish_reason": FINISHES.write(reply.finish, reply.raw_finish),
    }
    return ENCODER.encode(
        {
            "id": reply.id,
            "object": "chat.completion",
            "created": int(reply.created),
            "model": reply.model,
            "choices": [choice],
            "usage": counts_of(reply.usage),
        }
    )


def _encode_message(message: Message) -> dict[str, Any]:
    chunks: list[dict[str, Any]] = []
    calls: list[dict[str, Any]] = []
    for block in message.blocks:
        match block:
            case Text():
                chunks += chunks_of(block)
            case Reasoning(text, seal):
                signature = seal.payload if seal is not None and seal.kind == "signature" else ""
                chunks.append(thinking_chunk(text, signature))
            case ToolCall():
                calls.append(call_of(block, len(calls)))
            case Media():
                chunks.append({"type": "text", "text": describe(block).text})
            case Code():
                chunks.append({"type": "text", "text": written_out(block).text})
            case _:  # a result is never part of a reply
                continue
    content: Any = chunks
    if len(chunks) <= 1 and all(chunk["type"] == "text" for chunk in chunks):
        content = chunks[0]["text"] if chunks else ""
    return {"role": "assistant", "content": content, "tool_calls": calls or None}


def chunks_of(block: Text) -> list[dict[str, Any]]:
    """A text and its references, of which each stands in place of its words."""
    own = natives(block.citations, NAME)
    if any("reference_ids" in chunk for chunk in own):
        return own
    return [{"type": "text", "text": block.text}, *own]


def thinking_chunk(text: str, signature: str = "") -> dict[str, Any]:
    chunk: dict[str, Any] = {"type": "thinking", "thinking": [{"type": "text", "text": text}]}
    if signature:
        chunk["signature"] = signature
    return chunk


def call_of(call: ToolCall, index: int) -> dict[str, Any]:
    arguments = call.raw or arguments_of(call)[0]
    return {
        "id": call.native_id or call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": arguments},
        "index": index,
    }


def counts_of(usage: Usage) -> dict[str, Any]:
    counts: dict[str, Any] = {
        "prompt_tokens": usage.input_tokens,  # null: not known
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.total_tokens,
    }
    if usage.cached_tokens is not None:
        counts["prompt_tokens_details"] = {"cached_tokens": usage.cached_tokens}
    return counts


# Streams


def error_frame(error: SegueError, *, reply_id: str = "", model: str = "") -> bytes:
    """An error in the midst of a stream: the envelope, in a chunk that ends with it. Mistral's SDK and others read nothing
    but chunks there, and one that is none would hide what went wrong (MIS-23)."""
    choice = {"index": 0, "delta": {"content": ""}, "finish_reason": "error"}
    envelope = ENCODER.encode({"id": reply_id, "model": model, "choices": [choice]}).removesuffix(b"}")
    return sse.encode(envelope + b"," + encode_error(error)[1].removeprefix(b"{"))


@final
class ReplyDecoder(ChunkDecoder):
    """A streamed reply, bytes in and events out."""

    def __init__(self) -> None:
        frames = sse.FrameDecoder()
        super().__init__(ReplyReader(), frames.sole, frames.data)


@final
class ReplyEncoder(ChunkEncoder):
    """Events in, the provider's stream out. Calls come whole, at the end, as Mistral's own models send them (MIS-21)."""

    def __init__(self, model: str) -> None:
        super().__init__(model)
        self._calls: dict[int, PendingCall] = {}
        self._begun = False
        self._referred = -1
        """The text that a reference has taken the place of."""

    def _content(self, event: Event) -> bytes:
        match event:
            case TextDelta(index) if index == self._referred:
                return b""
            case TextDelta(_, text):
                self._text = template(self._chunk({"content": MARK}))
                return self._said(text)
            case ReasoningDelta(_, text):
                return self._said([thinking_chunk(text)])
            case Sealed(_, payload, "signature", "reasoning"):
                return self._said([thinking_chunk("", payload)])
            case ArgumentsDelta(index, text):
                self._calls.setdefault(index, PendingCall()).pieces.append(text)
            case CallStarted(index):
                self._calls.setdefault(index, PendingCall()).start(event)
            case MediaArrived(_, media):
                return self._said(describe(media).text)
            case Cited(index, citation):
                return self._cite(index, citation)
            case _:
                pass
        return b""

    def _cite(self, index: int, citation: Citation) -> bytes:
        own = natives([citation], NAME)
        if any("reference_ids" in chunk for chunk in own):
            self._referred, self._text = index, None
        return self._said(own) if own else b""

    def _ending(self) -> bytes:
        ended = self._finished or Finished("tool_calls" if self._calls else "stop")
        delta: dict[str, Any] = {"content": ""}
        if self._calls:
            calls = [call_of(call.call(), index) for index, call in enumerate(self._calls.values())]
            delta = {"content": None, "tool_calls": calls}
        last = self._chunk(delta, FINISHES.write(ended.reason, ended.raw))
        return b"".join((self._begin(), last, sse.encode(DONE)))

    def _failure(self, error: SegueError) -> bytes:
        return self._begin() + error_frame(error, reply_id=self._id, model=self._model)

    def _begin(self) -> bytes:
        if self._begun:
            return b""
        self._begun = True
        return self._chunk({"role": "assistant", "content": ""})

    def _said(self, content: Any) -> bytes:
        return self._begin() + self._chunk({"content": content})

    def _chunk(self, delta: dict[str, Any], reason: str | None = None) -> bytes:
        chunk: dict[str, Any] = {
            "id": self._id,
            "object": "chat.completion.chunk",
            "created": int(self._started.created),
            "model": self._model,
            "choices": [{"index": 0, "delta": delta, "finish_reason": reason}],
        }
        if reason is not None:
            chunk["usage"] = counts_of(self._usage)
        return sse.encode(ENCODER.encode(chunk))

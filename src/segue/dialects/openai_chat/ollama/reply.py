"""Replies of Ollama's own wire, both ways, whole or line by line, as the same events; and its errors, each one a sentence, from the
server or from the engine behind it. A stream is one JSON object per line (OLL-20)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, final

import msgspec
from msgspec import Raw, Struct

from segue.conversation.blocks import Code, Media, Reasoning, Text, ToolCall
from segue.conversation.events import (
    ArgumentsDelta,
    CallStarted,
    Failed,
    Finished,
    MediaArrived,
    ReasoningDelta,
    Reply,
    ReplyStarted,
    TextDelta,
    UsageReported,
)
from segue.conversation.message import Message
from segue.conversation.usage import Usage
from segue.dialects.errors import IN_REPLY, FailedResponse, read_response, wire_errors
from segue.dialects.openai_chat.ollama.rules import NAME
from segue.dialects.replies.calls import PendingCall, arguments_text, compact_arguments
from segue.dialects.replies.finish_reasons import FinishReasons
from segue.dialects.replies.usage_counts import counted
from segue.dialects.streams.chunk_streams import ChunkDecoder, ChunkEncoder, ChunkReader
from segue.dialects.streams.chunk_template import MARK, template
from segue.dialects.streams.garbled_lines import UNREADABLE, check_encoding
from segue.dialects.streams.ndjson import LineDecoder
from segue.errors import ProtocolError
from segue.transcript.blocks.media import describe, written_out

if TYPE_CHECKING:
    from collections.abc import Mapping

    from segue.conversation.events import Event
    from segue.errors import ProviderError, SegueError

ENCODER = msgspec.json.Encoder()

# What a reply holds


class _Function(Struct, frozen=True, gc=False):
    """What is called, and with what: an object (OLL-21), from some models the text of one."""

    name: str | None = None
    arguments: Raw = Raw()


class _Call(Struct, gc=False):
    """A call; it comes whole."""

    function: _Function = _Function()
    id: str | None = None


class _ReplyMessage(Struct, gc=False):
    """What the model adds."""

    content: str | None = None
    thinking: str | None = None
    tool_calls: list[_Call] | None = None
    images: list[str] | None = None


class _Portion(Struct, gc=False):
    """What is worth reading in the common line of a stream that has begun."""

    message: _ReplyMessage | None = None
    done: bool | None = None
    error: Any = None


class _Line(_Portion, gc=False):
    """A whole reply, or a line of a streamed one, or the error that came in its place (OLL-20, OLL-23)."""

    model: str | None = None
    done_reason: str | None = None
    prompt_eval_count: Any = None
    eval_count: Any = None


LINES = msgspec.json.Decoder(_Line)
PORTIONS = msgspec.json.Decoder(_Portion)


# Errors


def decode_error(status: int, headers: Mapping[str, str], body: bytes) -> ProviderError:
    """Any status and any bytes as an error with a remedy."""
    response, value = read_response(status, headers, body)
    return error_from(value.get("error") if isinstance(value, dict) else None, response, value or {})


def error_from(error: Any, response: FailedResponse = IN_REPLY, envelope: Any = None) -> ProviderError:
    """The error in the `error` field, of a response or of a line of a stream (OLL-23)."""
    message = response.words(error.get("message") if isinstance(error, dict) else error)
    errors = wire_errors(NAME)
    found = errors.kind_of(message, (), response.status)
    envelope = {"error": error} if envelope is None else envelope
    return errors.error(response, found, message, envelope=envelope)


def encode_error(error: SegueError) -> tuple[int, bytes]:
    errors = wire_errors(NAME)
    envelope = errors.in_envelope({"error": errors.message_for(error)}, error)
    return errors.status_for(error), msgspec.json.encode(envelope)


# Replies

FINISHES = FinishReasons({"stop": ("stop", "load", "unload"), "length": ("length",)})  # OLL-22

_decode_portion = PORTIONS.decode


def decode_reply(body: bytes) -> list[Event]:
    events: list[Event] = []
    reader = ReplyReader()
    reader.unreadable = ProtocolError("The answer is not a reply of the Ollama ")
    reader.read(body, events)
    if not (reader.started or reader.over):
        return [Failed(reader.unreadable)]
    if not reader.over:
        # A whole answer that is not done was cut off.
        reader.finish("length", events)
    return events


class ReplyReader(ChunkReader):
    """Reads a reply, whole or line by line."""

    __slots__ = ("_called", "started")
    chunk = "a line"

    def __init__(self) -> None:
        super().__init__()
        self._called = False
        self.started = False

    def read(self, data: bytes, events: list[Event]) -> None:
        try:
            check_encoding(data)
            if self.started:
                portion = _decode_portion(data)
                message = portion.message
                if message is not None and not portion.done and portion.error is None:
                    self._read_message(message, events)
                    return
            line = LINES.decode(data)
        except UNREADABLE:
            self._read_garbled(data, events)
            return
        if line.error is not None:  # OLL-23
            self._fail(error_from(line.error), events)
            return
        if line.message is None and line.done is None:
            return
        if not self.started:
            self.started = True
            events.append(ReplyStarted("", line.model or ""))
        if line.message is not None:
            self._read_message(line.message, events)
        if line.done:
            usage = counted(line.prompt_eval_count, line.eval_count)
            if usage != Usage():
                events.append(UsageReported(usage))
            self.finish(line.done_reason or "", events)

    def _read_message(self, message: _ReplyMessage, events: list[Event]) -> None:
        if message.thinking:
            events.append(ReasoningDelta(self._block("reasoning"), message.thinking))
        if message.content:
            index = self._index if self._open == "text" else self._block("text")
            events.append(TextDelta(index, message.content))
        if message.tool_calls or message.images:
            self._read_others(message, events)

    def finish(self, reason: str, events: list[Event]) -> None:
        if self.over:
            return
        self.over = True
        # OLL-21: there is no reason of its own for calls; a limit that was hit is still reported by `raw`.
        finish = "tool_calls" if self._called else FINISHES.read(reason)
        events.append(Finished(finish, reason))

    def _read_others(self, message: _ReplyMessage, events: list[Event]) -> None:
        events += [
            MediaArrived(self._new_block(), Media("image", "image/png", image))
            for image in message.images or ()
        ]
        for call in message.tool_calls or ():
            index = self._new_block()
            self._called = True
            events.append(CallStarted(index, call.id or "", call.function.name or ""))
            arguments = arguments_text(call.function.arguments)
            if arguments:
                events.append(ArgumentsDelta(index, arguments))


# The other way


def encode_reply(reply: Reply) -> bytes:
    if reply.error is not None:
        return encode_error(reply.error)[1]
    return ENCODER.encode(last_line(reply, _encode_message(reply.message)))


def last_line(reply: Reply, message: dict[str, Any]) -> dict[str, Any]:
    usage = reply.usage
    line: dict[str, Any] = {
        "model": reply.model,
        "created_at": moment_of(reply.created),
        "message": message,
        "done": True,
        "done_reason": FINISHES.write(reply.finish, reply.raw_finish),
        **_durations(reply),
    }
    if usage.input_tokens is not None:
        line["prompt_eval_count"] = usage.input_tokens
    if usage.output_tokens is not None:
        line["eval_count"] = usage.output_tokens
    return line


def moment_of(created: float) -> str:
    """A moment in seconds since 1970 as this wire writes it."""
    return datetime.fromtimestamp(created, UTC).isoformat().replace("+00:00", "Z")


def _durations(reply: Reply) -> dict[str, int]:
    """OLL-20: in nanoseconds. Clients divide by them without asking whether they are there."""
    total, waited = round(reply.seconds * 1e9), round(reply.waited * 1e9)
    return {
        "total_duration": total,
        "load_duration": 0,
        "prompt_eval_duration": waited,
        "eval_duration": max(total - waited, 0),
    }


def _encode_message(message: Message) -> dict[str, Any]:
    texts: list[str] = []
    thoughts: list[str] = []
    calls: list[dict[str, Any]] = []
    for block in message.blocks:
        match block:
            case Text(text):
                texts.append(text)
            case Reasoning(text):
                thoughts.append(text)
            case ToolCall():
                calls.append(call_of(block, len(calls)))
            case Media():
                texts.append(describe(block).text)
            case Code():
                texts.append(written_out(block).text)
            case _:  # a result is never part of a reply
                continue
    encoded: dict[str, Any] = {"role": "assistant", "content": "".join(texts)}
    if thoughts:
        encoded["thinking"] = "".join(thoughts)
    if calls:
        encoded["tool_calls"] = calls
    return encoded


def call_of(call: ToolCall, index: int) -> dict[str, Any]:
    function = {"index": index, "name": call.name, "arguments": compact_arguments(call)}
    native_id = call.native_id or call.id
    return {"id": native_id, "function": function} if native_id else {"function": function}


# Streams


@final
class ReplyDecoder(ChunkDecoder):
    """A streamed reply, bytes in and events out."""

    def __init__(self) -> None:
        lines = LineDecoder()
        super().__init__(ReplyReader(), lines.sole, lines.feed)


@final
class ReplyEncoder(ChunkEncoder):
    """Events in, the provider's stream out. Calls are sent together, before the last line."""

    def __init__(self, model: str) -> None:
        super().__init__(model)
        self._calls: dict[int, PendingCall] = {}

    def _content(self, event: Event) -> bytes:
        match event:
            case TextDelta(_, text):
                self._text = template(self._line({"role": "assistant", "content": MARK}))
                return self._line({"role": "assistant", "content": text})
            case ReasoningDelta(_, text):
                self._thought = template(self._line({"role": "assistant", "content": "", "thinking": MARK}))
                return self._line({"role": "assistant", "content": "", "thinking": text})
            case ArgumentsDelta(index, text):
                self._calls.setdefault(index, PendingCall()).pieces.append(text)
            case CallStarted(index):
                self._calls.setdefault(index, PendingCall()).start(event)
            case MediaArrived(_, media):
                return self._line({"role": "assistant", "content": describe(media).text})
            case _:  # seals have no place on this wire
                pass
        return b""

    def _ending(self) -> bytes:
        calls_line = b""
        if self._calls:
            calls = [call_of(call.call(), index) for index, call in enumerate(self._calls.values())]
            calls_line = self._line({"role": "assistant", "content": "", "tool_calls": calls})
        ended = self._finished or Finished("tool_calls" if self._calls else "stop")
        began = self._started
        reply = Reply(
            Message("model", ()),
            ended.reason,
            self._usage,
            model=self._model,
            raw_finish=ended.raw,
            created=began.created,
            waited=began.waited,
            seconds=ended.seconds,
        )
        line = last_line(reply, {"role": "assistant", "content": ""})
        return calls_line + ENCODER.encode(line) + b"\n"

    def _failure(self, error: SegueError) -> bytes:
        return encode_error(error)[1] + b"\n"

    def _line(self, message: dict[str, Any]) -> bytes:
        line = {
            "model": self._model,
            "created_at": moment_of(self._started.created),
            "message": message,
            "done": False,
        }
        return ENCODER.encode(line) + b"\n"

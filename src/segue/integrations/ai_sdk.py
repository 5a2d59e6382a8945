"""Turns of a chat for web pages that use the AI SDK (`useChat`): its UI message stream, and what such a page sends.

    async def answer(body):
        asked = read_ui_request(body)
        async with Chat("anthropic/claude-sonnet-4-6", session=asked.id, store=store) as chat:
            async for portion in ui_message_stream(chat.stream(*asked.content)):
                yield portion

Give the response the headers `UI_STREAM_HEADERS`. Nothing but segue is needed here; the page needs the package `ai`, version 5 or later.
"""

from __future__ import annotations

from base64 import b64decode
from binascii import Error as Base64Error
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final, assert_never, final

import msgspec
from msgspec import Struct

from segue.chat.attachments import attachment
from segue.conversation.blocks import Block, Text, status_of
from segue.errors import UsageError
from segue.events import (
    Citations,
    Compaction,
    Error,
    Finish,
    MediaChunk,
    PartialOutput,
    ReasoningChunk,
    Repaired,
    Retrying,
    Switch,
    TextChunk,
    ToolCallChunk,
    ToolCallResult,
    ToolCallStart,
    ToolProgress,
    TurnComplete,
    Warned,
    as_dict,
)

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping

    from segue.chat.turn import EventStream
    from segue.conversation.blocks import Citation, Media, ToolCall, ToolResult
    from segue.events import ChatEvent

__all__ = ["UI_STREAM_HEADERS", "UiRequest", "read_ui_request", "ui_message_stream"]

UI_STREAM_HEADERS: Final[Mapping[str, str]] = {
    "content-type": "text/event-stream",
    "cache-control": "no-cache",
    "x-vercel-ai-ui-message-stream": "v1",
    "x-accel-buffering": "no",
}
"""Of the response that carries such a stream."""
_REASONS: Final = {
    "complete": "stop",
    "length": "length",
    "content_filter": "content-filter",
    "max_turns": "tool-calls",
    "cancelled": "other",
    "error": "error",
}


@final
class UiRequest(Struct, frozen=True, kw_only=True):
    """What a page sends for one turn."""

    id: str
    """Of the chat: the session in which the conversation is kept."""
    content: tuple[Block, ...]
    """The user's last message, for `chat.stream(*content)`. Earlier ones are in the session."""


def read_ui_request(body: bytes | Mapping[str, Any]) -> UiRequest:
    """The body of a request of `useChat`. Raises UsageError for what a chat cannot do: write a message anew, or take results and
    approvals of tools that run in the page."""
    try:
        fields = msgspec.json.decode(body, type=dict[str, Any]) if isinstance(body, bytes) else dict(body)
    except msgspec.DecodeError as error:
        raise _unusable("The body is no JSON object", str(error)) from error
    if fields.get("trigger", "submit-message") != "submit-message":
        raise _unusable("A message cannot be written anew", "Call chat.undo() and send it again.")
    messages = fields.get("messages")
    last = messages[-1] if isinstance(messages, list) and messages else None
    if not isinstance(last, dict) or last.get("role") != "user" or not isinstance(last.get("parts"), list):
        raise _unusable(
            "The last message is none of the user's", "Tools run on the server here, not in the page."
        )
    return UiRequest(id=str(fields.get("id") or ""), content=tuple(map(_block, last["parts"])))


def _block(part: Any) -> Block:
    match part:
        case {"type": "text", "text": str(text)}:
            return Text(text)
        case {"type": "file", "url": str(url)}:
            mime, name = str(part.get("mediaType") or ""), str(part.get("filename") or "")
            if not url.startswith("data:"):
                return attachment(url, name=name, mime=mime)
            head, _, data = url.partition(",")
            try:
                return attachment(b64decode(data, validate=head.endswith(";base64")), name=name, mime=mime)
            except (Base64Error, ValueError) as error:
                raise _unusable("A file is no data URL in base64", str(error)) from error
    kind = part.get("type") if isinstance(part, dict) else type(part).__name__
    raise _unusable(f'A part of type "{kind}" cannot be sent', "Send text and files.")


def _unusable(why: str, hint: str) -> UsageError:
    return UsageError(f"{why}.", code="bad_ui_request", hint=hint)


async def ui_message_stream(events: EventStream | AsyncIterator[ChatEvent]) -> AsyncGenerator[bytes, None]:
    """The events of a turn as the AI SDK reads them. Whoever stops iterating cancels the turn.

    Steps, text, reasoning, calls with their results, sources, files, errors and the end are parts of the message, usage and
    cost its metadata. What the AI SDK has no part for (repairs, switches, retries, warnings, compaction, progress of tools) is sent as
    transient `data-segue`, which `onData` gets: the event as `segue.events.as_dict` writes it.
    """
    parts = _Parts()
    yield _frame({"type": "start"})
    async with aclosing(events) as received:  # type: ignore[type-var]
        async for event in received:
            for part in parts.of(event):
                yield _frame(part)
    yield b"data: [DONE]\n\n"


def _frame(part: Mapping[str, Any]) -> bytes:
    return b"data: %b\n\n" % msgspec.json.encode(part)


@final
class _Parts:
    """One message while it is written: a text or a thought is open until something else follows it."""

    def __init__(self) -> None:
        self._open = ""
        """Of the part that is open: text, reasoning, or empty."""
        self._number = 0
        self._in_step = False

    def of(self, event: ChatEvent) -> Iterator[dict[str, Any]]:
        match event:
            case TextChunk(text) | ReasoningChunk(text):
                yield from self._piece("text" if isinstance(event, TextChunk) else "reasoning", text)
            case ToolCallChunk():  # the call follows as a whole, under the id that its result has
                yield from self._step()
            case MediaChunk(media):
                yield from (*self._step(), *self._close(), _file(media))
            case Citations(citations):
                yield from (*self._step(), *self._close(), *map(_source, citations, range(len(citations))))
            case ToolCallStart(call):
                yield from (*self._step(), *self._close(), _call(call))
            case ToolCallResult(call, result):
                yield _result(call, result)
                yield from map(_file, result.media)
            case TurnComplete():
                yield from self._end_step()
            case Error(error):
                yield from (*self._end_step(), {"type": "error", "errorText": str(error)})
            case Finish(reason, usage, cost):
                metadata = {"usage": msgspec.to_builtins(usage), "cost": cost}
                finish = {"type": "finish", "finishReason": _REASONS[reason], "messageMetadata": metadata}
                yield from (
                    *self._end_step(),
                    *([{"type": "abort"}] if reason == "cancelled" else ()),
                    finish,
                )
            case (
                PartialOutput()
                | Repaired()
                | Switch()
                | Retrying()
                | Compaction()
                | Warned()
                | ToolProgress()
            ):
                yield {"type": "data-segue", "data": as_dict(event), "transient": True}
            case _:
                assert_never(event)

    def _piece(self, kind: str, text: str) -> Iterator[dict[str, Any]]:
        yield from self._step()
        if self._open != kind:
            yield from self._close()
            self._open, self._number = kind, self._number + 1
            yield {"type": f"{kind}-start", "id": str(self._number)}
        yield {"type": f"{kind}-delta", "id": str(self._number), "delta": text}

    def _step(self) -> Iterator[dict[str, Any]]:
        if not self._in_step:
            self._in_step = True
            yield {"type": "start-step"}

    def _close(self) -> Iterator[dict[str, Any]]:
        kind, self._open = self._open, ""
        if kind:
            yield {"type": f"{kind}-end", "id": str(self._number)}

    def _end_step(self) -> Iterator[dict[str, Any]]:
        yield from self._close()
        if self._in_step:
            self._in_step = False
            yield {"type": "finish-step"}


def _call(call: ToolCall) -> dict[str, Any]:
    given = call.arguments if call.arguments is not None else call.raw or {}
    shown = {"toolCallId": call.id, "toolName": call.name, "dynamic": True}
    return {"type": "tool-input-available", **shown, "input": given}


def _result(call: ToolCall, result: ToolResult) -> dict[str, Any]:
    shown = {"toolCallId": call.id, "dynamic": True}
    if status_of(result) in ("error", "cancelled"):
        return {"type": "tool-output-error", **shown, "errorText": result.error or result.reason or "failed"}
    return {"type": "tool-output-available", **shown, "output": result.output}


def _file(media: Media) -> dict[str, Any]:
    return {
        "type": "file",
        "mediaType": media.mime,
        "url": media.url or f"data:{media.mime};base64,{media.data}",
    }


def _source(citation: Citation, number: int) -> dict[str, Any]:
    title = citation.title or citation.document or citation.url
    if citation.url:
        return {"type": "source-url", "sourceId": str(number), "url": citation.url, "title": title}
    return {"type": "source-document", "sourceId": str(number), "mediaType": "text/plain", "title": title}

"""The events of a turn in one exhaustive match: a new event is an error of the type checker here first."""

from __future__ import annotations

from typing import Literal, assert_never, assert_type

from segue import Chat, ToolCall, ToolResult
from segue.errors import SegueError
from segue.events import (
    ChatEvent,
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


def describe(event: ChatEvent) -> str:  # noqa: C901, PLR0911, PLR0912 - one line each
    match event:
        case TextChunk(text) | ReasoningChunk(text):
            return text
        case PartialOutput(value):
            return repr(value)
        case MediaChunk(media):
            return media.kind
        case Citations(citations):
            return ", ".join(citation.title for citation in citations)
        case ToolCallChunk(index, name):
            assert_type(index, int)
            return name
        case ToolCallStart(call):
            assert_type(call, ToolCall)
            return call.name
        case ToolProgress(call, message):
            return f"{call.name}: {message}"
        case ToolCallResult(call, result):
            assert_type(result, ToolResult)
            return call.id
        case Repaired(repairs):
            return ", ".join(repair.kind for repair in repairs)
        case Switch(previous, model):
            return f"{previous} → {model}"
        case Retrying(model, error, after):
            assert_type(after, float)
            return f"{model}: {error.remedy}"
        case Compaction(strategy=word) | Warned(message=word) | Finish(reason=word):
            assert_type(event, Compaction | Warned | Finish)
            return word
        case TurnComplete(number):
            return str(number)
        case Error(error):
            assert_type(error, SegueError)
            return error.code
        case _:
            assert_never(event)


def narrow(event: ChatEvent) -> str:
    """By the word for it, as the loops of the documents do."""
    if event.type == "text":
        assert_type(event, TextChunk)
        return event.text
    if event.type in ("switch", "finish"):
        assert_type(event.type, Literal["switch", "finish"])
    if event.type == "tool_call_result" and event.call.name == "weather":
        assert_type(event.result, ToolResult)
    if event.type == "text":  # type: ignore[comparison-overlap]  # pyright: ignore[reportUnnecessaryComparison]
        return ""
    if event.type == "finsh":  # type: ignore[comparison-overlap]  # pyright: ignore[reportUnnecessaryComparison]
        return ""
    match event.type:
        case "error":
            assert_type(event, Error)
            return event.error.code
        case "finish":
            return event.reason
        case _:
            return event.type


async def show(chat: Chat) -> None:
    async for event in chat.stream("Hello"):
        assert_type(event, ChatEvent)
        describe(event)
        as_dict(event)
        narrow(event)


def show_blocking(chat: Chat) -> list[str]:
    with chat.blocking() as blocking:
        return [describe(event) for event in blocking.stream("Hello")]

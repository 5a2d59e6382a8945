"""A provider that plays what it was given: events, errors, delays, token counts. For tests, examples and dry runs.

    >>> provider = ScriptedProvider([says("Hello!")])

Each request takes the next reply of the script; when it is over, requests fail with a clear error.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, final

import msgspec
from msgspec import Struct

from segue.conversation.blocks import Origin
from segue.conversation.events import (
    ArgumentsDelta,
    CallStarted,
    Event,
    Failed,
    Finished,
    ReasoningDelta,
    TextDelta,
    UsageReported,
)
from segue.errors import SegueError, UsageError
from segue.providers.adapter import ChatRequest, ProviderAdapter, RequestSent, StreamEvent
from segue.providers.capabilities import Capabilities, ModelInfo
from segue.providers.requests.abort import AbortedError, Waiting

if TYPE_CHECKING:
    from segue.conversation.events import FinishReason
    from segue.conversation.usage import Usage


@final
class Pause(Struct, frozen=True):
    """Wait before the next event, as a slow provider does."""

    seconds: float


ScriptLine: TypeAlias = Event | Pause | SegueError
Script: TypeAlias = Sequence[ScriptLine]


def says(
    text: str, *, reasoning: str = "", finish: FinishReason = "stop", usage: Usage | None = None
) -> list[ScriptLine]:
    """A reply in words."""
    lines: list[ScriptLine] = [ReasoningDelta(0, reasoning)] if reasoning else []
    lines.append(TextDelta(1, text))
    return [*lines, *_end(finish, usage)]


def calls(
    *requested: tuple[str, dict[str, Any]], text: str = "", usage: Usage | None = None
) -> list[ScriptLine]:
    """A reply that calls tools: name and arguments each."""
    lines: list[ScriptLine] = [TextDelta(0, text)] if text else []
    for index, (name, arguments) in enumerate(requested, 1):
        lines.append(CallStarted(index, f"call_{index}", name))
        lines.append(ArgumentsDelta(index, msgspec.json.encode(arguments).decode()))
    return [*lines, *_end("tool_calls", usage)]


def _end(finish: FinishReason, usage: Usage | None) -> list[ScriptLine]:
    counted: list[ScriptLine] = [] if usage is None else [UsageReported(usage)]
    return [*counted, Finished(finish)]


class ScriptedProvider(ProviderAdapter):
    """Plays one script per request, in order; `requests` keeps what it was asked."""

    def __init__(
        self,
        replies: Iterable[Script] = (),
        *,
        name: str = "scripted",
        answer: Callable[[ChatRequest], Script] | None = None,
        models: Sequence[ModelInfo] = (),
        tokens: int | Callable[[ChatRequest], int] | None = None,
    ) -> None:
        """`answer` makes the reply to a request when the script is over; `tokens` is what counting gives."""
        self.name = name
        self.requests: list[ChatRequest] = []
        self._replies = list(replies)
        self._answer = answer
        self._models = list(models)
        self._tokens = tokens
        self.capabilities = Capabilities(
            list_models=self._list_models, count_tokens=None if tokens is None else self._count_tokens
        )

    def add(self, *replies: Script) -> None:
        """Play these too, after those that are still to come."""
        self._replies.extend(replies)

    async def chat_stream(self, request: ChatRequest) -> AsyncIterator[StreamEvent]:
        self.requests.append(request)
        yield RequestSent(origin=Origin("scripted", self.name, "", request.model))
        waiting = Waiting(request.abort)
        try:
            for line in self._next(request):
                if waiting.aborted:
                    break
                if isinstance(line, Pause):
                    await waiting.for_(asyncio.sleep(line.seconds))
                    continue
                event = Failed(line) if isinstance(line, SegueError) else line
                yield event
                if isinstance(event, Finished | Failed):
                    return
            yield Finished("cancelled" if waiting.aborted else "stop")
        except AbortedError:
            yield Finished("cancelled")
        finally:
            waiting.close()

    def _next(self, request: ChatRequest) -> Script:
        if self._replies:
            return self._replies.pop(0)
        if self._answer is not None:
            return self._answer(request)
        error = UsageError(
            f'The script of provider "{self.name}" is over: it has no reply to request {len(self.requests)}.',
            code="script_over",
            hint="Give it more replies.",
        )
        return [error]

    async def _list_models(self, *, refresh: bool = False) -> list[ModelInfo]:
        del refresh
        return list(self._models)

    async def _count_tokens(self, request: ChatRequest) -> int:
        return self._tokens(request) if callable(self._tokens) else self._tokens or 0

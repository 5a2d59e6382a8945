"""Whether chats report what they do. While they do not, nothing of OpenTelemetry is loaded."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Final, Protocol

from segue.errors import UsageError

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

    from segue.conversation.blocks import ToolCall, ToolResult
    from segue.conversation.message import Message
    from segue.conversation.usage import Usage
    from segue.errors import SegueError


class Seen(Protocol):
    """Something that is being done; what came of it is reported to it before it ends."""

    def turn_ended(self, *, model: str, usage: Usage, finish: str, error: SegueError | None) -> None: ...

    def attempt_ended(self, route: str, seconds: float, error: SegueError | None) -> None: ...

    def exchange_ended(
        self,
        *,
        route: str,
        usage: Usage,
        finish: str,
        messages: tuple[Message, ...],
        answer: Message | None,
        error: SegueError | None,
    ) -> None: ...

    def call_ended(self, result: ToolResult) -> None: ...


class Observer(Protocol):
    """Makes spans and measurements; see `segue.telemetry.chat_traces`."""

    def turn(self, *, agent: str, session: str, model: str) -> AbstractContextManager[Seen]: ...

    def exchange(self, *, asked: str, session: str) -> AbstractContextManager[Seen]: ...

    def call(self, call: ToolCall, session: str) -> AbstractContextManager[Seen]: ...


class _Unseen:
    """Nobody looks."""

    def turn_ended(self, **_: Any) -> None: ...

    def attempt_ended(self, *_: Any) -> None: ...

    def exchange_ended(self, **_: Any) -> None: ...

    def call_ended(self, *_: Any) -> None: ...


class _Off:
    """Costs a chat three plain calls per exchange."""

    def turn(self, **_: Any) -> AbstractContextManager[Seen]:
        return _NOBODY

    exchange = turn

    def call(self, *_: Any) -> AbstractContextManager[Seen]:
        return _NOBODY


UNSEEN: Final[Seen] = _Unseen()
_NOBODY: Final[AbstractContextManager[Seen]] = nullcontext(UNSEEN)
_OFF: Final[Observer] = _Off()
_observer: Observer = _OFF


def observer() -> Observer:
    """Who looks at what chats do."""
    return _observer


def instrument(
    tracer_provider: TracerProvider | None = None, meter_provider: MeterProvider | None = None
) -> None:
    """Report all chats of this process to OpenTelemetry: turns, exchanges, calls of tools, and subagents below them.

    A span's parent is the span that is current when a message is sent; the parent of a span that a tool makes is its call.
    Without arguments the providers are those that the program has set globally. What was written is recorded only where
    OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT asks for it. Needs the extra `otel`, or opentelemetry-api alone.
    """
    global _observer  # noqa: PLW0603 - one program, one switch
    try:
        from segue.telemetry.chat_traces import ChatTraces  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise UsageError(
            "The telemetry of chats needs OpenTelemetry.",
            code="missing_extra",
            hint='In the clone of segue run: python -m pip install ".[otel]".',
        ) from error
    _observer = ChatTraces(tracer_provider, meter_provider)


def uninstrument() -> None:
    """Report nothing from now on."""
    global _observer  # noqa: PLW0603 - one program, one switch
    _observer = _OFF

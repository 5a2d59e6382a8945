"""What a chat reports while it works, in the order in which it happens.

Every event has a `type`, the word for it in JSON output. A turn has exactly one `finish`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeAlias, final

from msgspec import Struct

from segue.conversation.blocks import Citation, Media, ToolCall, ToolResult
from segue.conversation.usage import Usage
from segue.errors import SegueError
from segue.sessions.entries import TurnFinish
from segue.transcript.repairs import Repair

__all__ = [
    "ChatEvent",
    "Citations",
    "Compaction",
    "Decision",
    "Emit",
    "Error",
    "Finish",
    "MediaChunk",
    "ReasoningChunk",
    "Repaired",
    "Retrying",
    "Switch",
    "TextChunk",
    "ToolCallChunk",
    "ToolCallResult",
    "ToolCallStart",
    "ToolProgress",
    "TurnComplete",
    "Warned",
    "as_dict",
]


class _Event(Struct, frozen=True, gc=False):
    @property
    def type(self) -> str:
        return str(self.__struct_config__.tag)


@final
class TextChunk(_Event, frozen=True, gc=False, tag="text"):
    """More of the answer."""

    text: str


@final
class ReasoningChunk(_Event, frozen=True, gc=False, tag="reasoning"):
    """More of what the model thinks."""

    text: str


@final
class MediaChunk(_Event, frozen=True, gc=False, tag="media"):
    """An image or a sound that the model made."""

    media: Media


@final
class Citations(_Event, frozen=True, gc=False, tag="citations"):
    """The sources that the model names for its reply, at the end of it."""

    citations: tuple[Citation, ...]


@final
class ToolCallChunk(_Event, frozen=True, gc=False, tag="tool_call"):
    """More of a call that the model writes: its name when it begins, then its arguments piece by piece.

    It comes where it stands in the reply. The call runs when the reply is over; `ToolCallStart` reports that.
    """

    index: int
    """The same for all pieces of one call."""
    name: str
    arguments: str = ""


@final
class ToolCallStart(_Event, frozen=True, gc=False, tag="tool_call_start"):
    """A call was taken over by the scheduler, under its canonical id."""

    call: ToolCall


@final
class ToolProgress(_Event, frozen=True, gc=False, tag="tool_progress"):
    """A call is still running, and reports how far it is."""

    call: ToolCall
    message: str


@final
class ToolCallResult(_Event, frozen=True, gc=False, tag="tool_call_result"):
    """A call has ended. Reported at once; in the conversation results stand in call order."""

    call: ToolCall
    result: ToolResult
    usage: Usage = Usage()
    """Of models that the tool used."""
    cost: float | None = None
    at_least: float = 0.0
    """Dollars that it came to at least, where the price of a part of it is not known: budgets hold against it."""


@final
class Repaired(_Event, frozen=True, gc=False, tag="repair"):
    """What was changed so that the provider accepts the request about to be sent, where that is new."""

    repairs: tuple[Repair, ...]
    model: str = ""


@final
class Switch(_Event, frozen=True, gc=False, tag="switch"):
    """Another model answers from now on."""

    previous: str
    model: str
    reason: str
    losses: tuple[Repair, ...] = ()
    """What the new model does not see, or sees in another form."""
    error: SegueError | None = None
    """Why the previous one did not answer."""


@final
class Retrying(_Event, frozen=True, gc=False, tag="retry"):
    """A request failed and is sent again, after a pause."""

    model: str
    error: SegueError
    after: float


@final
class Compaction(_Event, frozen=True, gc=False, tag="compaction"):
    """The conversation was made shorter."""

    strategy: str
    why: str
    tokens_before: int | None = None
    tokens_after: int | None = None
    usage: Usage = Usage()
    """Of the model that wrote the summary."""
    cost: float | None = None
    problem: str = ""
    """Which summaries could not be had, and why; then `strategy` may be another than asked for."""
    at_least: float = 0.0
    """Dollars that it came to at least, where the price of a part of it is not known: budgets hold against it."""


@final
class Warned(_Event, frozen=True, gc=False, tag="warning"):
    """Something the user should know; nothing stops."""

    message: str
    code: str = ""


@final
class TurnComplete(_Event, frozen=True, gc=False, tag="turn_complete"):
    """One exchange with the model is over, its calls included. Counted from 1 within the turn."""

    number: int
    model: str = ""
    usage: Usage = Usage()
    cost: float | None = None


@final
class Finish(_Event, frozen=True, gc=False, tag="finish"):
    """The turn is over: the last event of every turn, also after an error."""

    reason: TurnFinish
    usage: Usage = Usage()
    """Of the whole turn."""
    cost: float | None = None


@final
class Error(_Event, frozen=True, gc=False, tag="error"):
    """The turn failed. The chat can be used further: the next message starts a new turn."""

    error: SegueError


ChatEvent: TypeAlias = (
    TextChunk
    | ReasoningChunk
    | MediaChunk
    | Citations
    | ToolCallChunk
    | ToolCallStart
    | ToolProgress
    | ToolCallResult
    | Repaired
    | Switch
    | Retrying
    | Compaction
    | Warned
    | TurnComplete
    | Finish
    | Error
)
"""Everything that a chat reports. A `match` over it can be exhaustive."""
Emit: TypeAlias = Callable[[ChatEvent], None]
"""Receives the events of a turn."""
Decision: TypeAlias = Literal["once", "always", "no"]
"""The answer to the question whether a call may run."""


def as_dict(event: ChatEvent) -> dict[str, Any]:
    """An event as plain JSON values, for scripts."""
    import msgspec  # noqa: PLC0415 - only those who ask for JSON pay for it

    def plain(value: object) -> object:
        return value.as_dict() if isinstance(value, SegueError) else str(value)

    fields: dict[str, Any] = msgspec.to_builtins(event, enc_hook=plain)
    return {"type": event.type, **fields}

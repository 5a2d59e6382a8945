"""What a chat tells while it works, in the order in which it happens.

Every event has a `type`, the word that scripts and JSON output know it by. A turn has exactly one `finish`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeAlias, final

from msgspec import Struct

from segue.conversation.blocks import Media, ToolCall, ToolResult
from segue.conversation.usage import Usage
from segue.errors import SegueError
from segue.sessions.entries import TurnFinish
from segue.transcript.repairs import Repair

__all__ = [
    "ChatEvent",
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
    "ToolCallResult",
    "ToolCallStart",
    "ToolProgress",
    "TurnComplete",
    "Warned",
    "as_dict",
]


class _Told(Struct, frozen=True, gc=False):
    @property
    def type(self) -> str:
        return str(self.__struct_config__.tag)


@final
class TextChunk(_Told, frozen=True, gc=False, tag="text"):
    """More of the answer."""

    text: str


@final
class ReasoningChunk(_Told, frozen=True, gc=False, tag="reasoning"):
    """More of what the model thinks."""

    text: str


@final
class MediaChunk(_Told, frozen=True, gc=False, tag="media"):
    """An image or a sound that the model made."""

    media: Media


@final
class ToolCallStart(_Told, frozen=True, gc=False, tag="tool_call_start"):
    """A call was taken over by the scheduler, under its canonical id."""

    call: ToolCall


@final
class ToolProgress(_Told, frozen=True, gc=False, tag="tool_progress"):
    """A call is still running: what it says of itself."""

    call: ToolCall
    message: str


@final
class ToolCallResult(_Told, frozen=True, gc=False, tag="tool_call_result"):
    """A call has ended. Told as soon as it has; in the conversation results stand in call order."""

    call: ToolCall
    result: ToolResult
    usage: Usage = Usage()
    """Of models that the tool asked."""
    cost: float | None = None


@final
class Repaired(_Told, frozen=True, gc=False, tag="repair"):
    """What the request about to be sent took to be sayable, where that is new."""

    repairs: tuple[Repair, ...]
    model: str = ""


@final
class Switch(_Told, frozen=True, gc=False, tag="switch"):
    """Another model answers from now on."""

    previous: str
    model: str
    reason: str
    losses: tuple[Repair, ...] = ()
    """What the new one cannot be told, or only in other words."""
    error: SegueError | None = None
    """Why the previous one did not answer."""


@final
class Retrying(_Told, frozen=True, gc=False, tag="retry"):
    """A request failed and is sent again, after a pause."""

    model: str
    error: SegueError
    after: float


@final
class Compaction(_Told, frozen=True, gc=False, tag="compaction"):
    """The conversation was made shorter."""

    strategy: str
    why: str
    tokens_before: int | None = None
    tokens_after: int | None = None
    usage: Usage = Usage()
    """Of the model that wrote the summary."""
    cost: float | None = None


@final
class Warned(_Told, frozen=True, gc=False, tag="warning"):
    """Something the user should know; nothing stops."""

    message: str
    code: str = ""


@final
class TurnComplete(_Told, frozen=True, gc=False, tag="turn_complete"):
    """One exchange with the model is over, its calls included. Counted from 1 within the turn."""

    number: int
    model: str = ""
    usage: Usage = Usage()
    cost: float | None = None


@final
class Finish(_Told, frozen=True, gc=False, tag="finish"):
    """The turn is over: the last event of every turn, also after an error."""

    reason: TurnFinish
    usage: Usage = Usage()
    """Of the whole turn."""
    cost: float | None = None


@final
class Error(_Told, frozen=True, gc=False, tag="error"):
    """The turn cannot go on. The chat can: the next message starts a new turn."""

    error: SegueError


ChatEvent: TypeAlias = (
    TextChunk
    | ReasoningChunk
    | MediaChunk
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
"""Who is told of the events of a turn."""
Decision: TypeAlias = Literal["once", "always", "no"]
"""What somebody who was asked about a call answers."""


def as_dict(event: ChatEvent) -> dict[str, Any]:
    """An event as plain JSON values, for scripts."""
    import msgspec  # noqa: PLC0415 - only those who ask for JSON pay for it

    def plain(value: object) -> object:
        return value.as_dict() if isinstance(value, SegueError) else str(value)

    told: dict[str, Any] = msgspec.to_builtins(event, enc_hook=plain)
    return {"type": event.type, **told}

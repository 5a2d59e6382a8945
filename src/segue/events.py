"""What a chat reports while it works, in the order in which it happens.

Every event has a `type`, the word for it in JSON output, by which type checkers distinguish the classes: after
`if event.type == "text":` there is an `event.text`. A turn has exactly one `finish`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Literal, TypeAlias, final

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
    "PartialOutput",
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


@final
class TextChunk(Struct, frozen=True, gc=False, tag="text"):
    """More of the answer."""

    type: ClassVar[Literal["text"]] = "text"
    text: str


@final
class PartialOutput(Struct, frozen=True, gc=False, tag="partial_output"):
    """The answer as far as it was written, where it must have a type: plain JSON values, of which more may come.

    The last one need not be the whole answer: that is `answer.output`, checked and of its type.
    """

    type: ClassVar[Literal["partial_output"]] = "partial_output"
    value: Any


@final
class ReasoningChunk(Struct, frozen=True, gc=False, tag="reasoning"):
    """More of what the model thinks."""

    type: ClassVar[Literal["reasoning"]] = "reasoning"
    text: str


@final
class MediaChunk(Struct, frozen=True, gc=False, tag="media"):
    """An image or a sound that the model made."""

    type: ClassVar[Literal["media"]] = "media"
    media: Media


@final
class Citations(Struct, frozen=True, gc=False, tag="citations"):
    """The sources that the model names for its reply, at the end of it."""

    type: ClassVar[Literal["citations"]] = "citations"
    citations: tuple[Citation, ...]


@final
class ToolCallChunk(Struct, frozen=True, gc=False, tag="tool_call"):
    """More of a call that the model writes: its name when it begins, then its arguments piece by piece.

    Sent in the order of the reply. The call runs when the reply is complete; `ToolCallStart` reports that.
    """

    type: ClassVar[Literal["tool_call"]] = "tool_call"
    index: int
    """The same for all pieces of one call."""
    name: str
    arguments: str = ""


@final
class ToolCallStart(Struct, frozen=True, gc=False, tag="tool_call_start"):
    """A call was taken over by the scheduler, under its canonical id."""

    type: ClassVar[Literal["tool_call_start"]] = "tool_call_start"
    call: ToolCall


@final
class ToolProgress(Struct, frozen=True, gc=False, tag="tool_progress"):
    """A call is still running, and reports how far it is."""

    type: ClassVar[Literal["tool_progress"]] = "tool_progress"
    call: ToolCall
    message: str


@final
class ToolCallResult(Struct, frozen=True, gc=False, tag="tool_call_result"):
    """A call has ended. Reported at once; in the conversation the results are in the order of the calls."""

    type: ClassVar[Literal["tool_call_result"]] = "tool_call_result"
    call: ToolCall
    result: ToolResult
    usage: Usage = Usage()
    """Of models that the tool used."""
    cost: float | None = None
    at_least: float = 0.0
    """The least that it cost in dollars, if the price of a part is not known. Budgets count this amount."""


@final
class Repaired(Struct, frozen=True, gc=False, tag="repair"):
    """What was changed so that the provider accepts the request about to be sent, where that is new."""

    type: ClassVar[Literal["repair"]] = "repair"
    repairs: tuple[Repair, ...]
    model: str = ""


@final
class Switch(Struct, frozen=True, gc=False, tag="switch"):
    """Another model answers from now on."""

    type: ClassVar[Literal["switch"]] = "switch"
    previous: str
    model: str
    reason: str
    losses: tuple[Repair, ...] = ()
    """What the new model does not see, or sees in another form."""
    error: SegueError | None = None
    """Why the previous one did not answer."""


@final
class Retrying(Struct, frozen=True, gc=False, tag="retry"):
    """A request failed and is sent again, after a pause."""

    type: ClassVar[Literal["retry"]] = "retry"
    model: str
    error: SegueError
    after: float


@final
class Compaction(Struct, frozen=True, gc=False, tag="compaction"):
    """The conversation was made shorter."""

    type: ClassVar[Literal["compaction"]] = "compaction"
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
    """The least that it cost in dollars, if the price of a part is not known. Budgets count this amount."""


@final
class Warned(Struct, frozen=True, gc=False, tag="warning"):
    """Something the user should know; nothing stops."""

    type: ClassVar[Literal["warning"]] = "warning"
    message: str
    code: str = ""


@final
class TurnComplete(Struct, frozen=True, gc=False, tag="turn_complete"):
    """One exchange with the model is over, its calls included. Counted from 1 within the turn."""

    type: ClassVar[Literal["turn_complete"]] = "turn_complete"
    number: int
    model: str = ""
    usage: Usage = Usage()
    cost: float | None = None


@final
class Finish(Struct, frozen=True, gc=False, tag="finish"):
    """The turn is over: the last event of every turn, also after an error."""

    type: ClassVar[Literal["finish"]] = "finish"
    reason: TurnFinish
    usage: Usage = Usage()
    """Of the whole turn."""
    cost: float | None = None


@final
class Error(Struct, frozen=True, gc=False, tag="error"):
    """The turn failed. The chat can be used further: the next message starts a new turn."""

    type: ClassVar[Literal["error"]] = "error"
    error: SegueError


ChatEvent: TypeAlias = (
    TextChunk
    | PartialOutput
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

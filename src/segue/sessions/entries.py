"""What a journal holds: one fact each, in the past tense.

A call is journalled before its tool runs and again when it ends, so after a crash it is known which tools may have
had effects. Entries are only ever appended; what was undone or compacted is still there.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias, final

from msgspec import Struct

from segue.conversation.blocks import ToolCall, ToolResult
from segue.conversation.events import FinishReason
from segue.conversation.interaction import Interaction
from segue.conversation.message import Conversation, Message
from segue.conversation.options import Options
from segue.conversation.usage import NO_USAGE, Usage

TurnFinish: TypeAlias = Literal[
    "complete", "length", "content_filter", "max_turns", "cancelled", "error", "waiting"
]
"""How a turn ended. `complete`: the model had nothing more to call. `waiting`: it goes on when somebody has said whether its
calls may run."""


@final
class Link(Struct, frozen=True, gc=False):
    """Where a session comes from: the call that a subagent answers, or the place where it was forked off."""

    session: str
    call: str = ""
    seq: int = 0


@final
class SessionStarted(Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True, tag="session_started"):
    """A session began."""

    model: str = ""
    """`provider/model`, or the name of a router's profile."""
    system: str = ""
    title: str = ""
    directory: str = ""
    parent: Link | None = None
    options: Options = Options()


@final
class Adopted(Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True, tag="adopted"):
    """A history from elsewhere became this session's own: an import."""

    conversation: Conversation
    interactions: tuple[Interaction, ...] = ()
    source: str = ""


@final
class UserSaid(Struct, frozen=True, gc=False, omit_defaults=True, tag="user_said"):
    """The user sent a message; a turn begins."""

    message: Message
    model: str = ""
    """Where the turn goes: `provider/model`. It stays there to its end."""
    key: str = ""
    """Whoever sent it under the same key has sent it once."""


@final
class NoteAdded(Struct, frozen=True, gc=False, omit_defaults=True, tag="note_added"):
    """The runtime sent the model a note as the user, in the middle of a turn."""

    message: Message


@final
class ModelReplied(Struct, frozen=True, gc=False, omit_defaults=True, tag="model_replied"):
    """A reply: complete, or the part that arrived before it was cut off. Its calls bear their canonical ids."""

    message: Message
    finish: FinishReason = "stop"
    usage: Usage = NO_USAGE
    cost: float | None = None
    """Dollars, where prices are known."""
    repairs: int = 0


@final
class CallsScheduled(Struct, frozen=True, gc=False, tag="calls_scheduled"):
    """All calls of a reply became one batch; none has started."""

    calls: tuple[ToolCall, ...]


@final
class ApprovalAsked(Struct, frozen=True, gc=False, tag="approval_asked"):
    """Somebody must approve or refuse these calls of a batch; until then none of the batch runs."""

    call_ids: tuple[str, ...]


@final
class ApprovalGiven(Struct, frozen=True, gc=False, omit_defaults=True, tag="approval_given"):
    """Somebody has answered whether a call may run."""

    call_id: str
    allowed: bool
    by: str = ""
    """Who answered."""
    why: str = ""
    """For the model to read, where it may not."""
    key: str = ""
    """Whoever gave it under the same key has given it once."""


@final
class CallBegun(Struct, frozen=True, gc=False, tag="call_begun"):
    """A tool is about to run. Without a `CallEnded` its effects are unknown."""

    call_id: str


@final
class CallEnded(Struct, frozen=True, gc=False, omit_defaults=True, tag="call_ended"):
    """A call has its result: real, an error, or the reason why there is none."""

    result: ToolResult
    usage: Usage = NO_USAGE
    """Of models that the tool asked."""
    cost: float | None = None


@final
class ToolsAnswered(Struct, frozen=True, gc=False, tag="tools_answered"):
    """The batch is over and its results, in call order, are part of the conversation."""

    call_ids: tuple[str, ...]


@final
class TurnEnded(Struct, frozen=True, gc=False, omit_defaults=True, tag="turn_ended"):
    """A turn is terminal: what comes next may go elsewhere."""

    finish: TurnFinish = "complete"
    error: dict[str, Any] | None = None


@final
class TurnResumed(Struct, frozen=True, gc=False, omit_defaults=True, tag="turn_resumed"):
    """The last turn, which had ended without its whole answer, was resumed."""

    model: str = ""


@final
class Switched(Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True, tag="switched"):
    """From now on another model answers."""

    previous: str
    model: str
    reason: str = "asked"
    """`asked`, `round_robin`, `failover`, …"""


@final
class Compacted(Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True, tag="compacted"):
    """The conversation was made shorter. It is given whole; ids, names and ends of calls stay in the ledger."""

    conversation: Conversation
    strategy: str
    tokens_before: int | None = None
    tokens_after: int | None = None
    usage: Usage = NO_USAGE
    """Of the model that wrote the summary."""
    cost: float | None = None


@final
class Rewound(Struct, frozen=True, gc=False, tag="rewound"):
    """The conversation is again as it was after entry `to`: an undo, or with a later entry a redo."""

    to: int


@final
class AllowedCall(Struct, frozen=True, gc=False, omit_defaults=True):
    """Calls that the user approved for the whole session."""

    tool: str
    subject: str | None = None
    """What they are called on, as a pattern; None: anything."""
    exact: bool = False
    """`subject` is matched literally, without wildcards."""


@final
class ToolGrant(Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """The tools of a session and what they may do without a question, in addition to the settings."""

    tools: tuple[str, ...] = ()
    """Names of built-in tools, and `file.py:function` with the whole path."""
    mode: str = ""
    """The approval mode; "": that of the settings."""
    allow: tuple[AllowedCall, ...] = ()
    servers: tuple[str, ...] = ()
    """Names of the MCP servers whose tools were offered."""


@final
class SettingsChanged(
    Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True, tag="settings_changed"
):
    """Title, system prompt, options, tools or the agent that answers changed; None: unchanged."""

    title: str | None = None
    system: str | None = None
    options: Options | None = None
    tools: ToolGrant | None = None
    agent: str | None = None
    """The name of the agent that the conversation was handed over to."""


Entry: TypeAlias = (
    SessionStarted
    | Adopted
    | UserSaid
    | NoteAdded
    | ModelReplied
    | CallsScheduled
    | ApprovalAsked
    | ApprovalGiven
    | CallBegun
    | CallEnded
    | ToolsAnswered
    | TurnEnded
    | TurnResumed
    | Switched
    | Compacted
    | Rewound
    | SettingsChanged
)
"""One fact about a session, as its journal keeps it."""


@final
class Record(Struct, frozen=True, gc=False):
    """An entry as a store keeps it: counted from 1 within its session, with the time it was written."""

    seq: int
    at: float
    """Seconds since 1970."""
    entry: Entry


@final
class DamagedEntry(Struct, frozen=True, gc=False):
    """An entry, or a stretch of entries that ends with `seq`, that a store can no longer read."""

    seq: int
    place: str
    """Where it is stored: a file and a line, or a row."""
    why: str
    raw: bytes = b""
    """What is there instead."""

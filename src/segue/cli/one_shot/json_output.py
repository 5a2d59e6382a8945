"""The lines of `--output-format json` and `stream-json`: these types are the format, and its JSON Schema is made of them.

The names of the events and the fields of `result` are those that scripts know from other command lines.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias, final

from msgspec import Struct

from segue.errors import Remedy
from segue.transcript.blocks.citations import is_listed

if TYPE_CHECKING:
    from collections.abc import Iterable

    from segue.conversation.blocks import Citation
    from segue.errors import SegueError

Subtype: TypeAlias = Literal[
    "success",
    "error_max_turns",
    "error_max_cost",
    "error_timeout",
    "error_cancelled",
    "error_during_execution",
]
StopReason: TypeAlias = Literal[
    "complete", "length", "content_filter", "max_turns", "cancelled", "error", "waiting"
]


@final
class Tokens(Struct, frozen=True, kw_only=True):
    """Of the whole run. `input_tokens` is all of the input, cached or not; null: the provider did not report it."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None
    cache_hour_tokens: int | None = None
    audio_input_tokens: int | None = None
    audio_output_tokens: int | None = None
    web_searches: int | None = None
    file_searches: int | None = None
    other_tool_runs: int | None = None
    tier: str | None = None
    charged: float | None = None
    estimated: bool = False
    """Whether some of the counts are an estimate, for a provider has not counted."""
    cache_miss: str | None = None
    """Why less was read from a cache than might have been: the provider's own word, where it has one."""


@final
class ErrorInfo(Struct, frozen=True, kw_only=True):
    """What went wrong."""

    code: str
    """Stable, for scripts."""
    message: str
    remedy: Remedy | None = None
    """Who can act, as one word; null for a warning that needs no action."""
    hint: str = ""
    """What to do, as a sentence for people."""
    status: int | None = None
    """HTTP status of the provider's answer."""
    request_id: str = ""
    call_ids: dict[str, str] = {}
    """Of a refused request: our id of each call, and the id that was sent."""
    repairs: list[str] = []
    """Of a refused request: what was changed to make it."""


@final
class InitEvent(Struct, frozen=True, kw_only=True, tag="init"):
    """The run starts."""

    session_id: str
    model: str
    """provider/model, or the name of a profile."""
    tools: list[str]
    cwd: str
    version: str
    instructions: list[str] = []
    """Files of the project that are part of the system prompt."""
    ignored: list[str] = []
    """What the project supplies and is not used before `segue trust`, a sentence each."""
    not_restored: list[str] = []
    """Tools and approvals that the resumed session had and does not have now, and why."""


@final
class MessageEvent(Struct, frozen=True, kw_only=True, tag="message"):
    """A message of the user or the model. With `delta`, the next part of one."""

    role: Literal["user", "assistant"]
    content: str
    reasoning: str = ""
    model: str = ""
    delta: bool = False


@final
class SourceInfo(Struct, frozen=True, omit_defaults=True):
    """A source that the model names for its text."""

    title: str = ""
    url: str = ""
    document: str = ""
    quote: str = ""


@final
class CitationsEvent(Struct, frozen=True, kw_only=True, tag="citations"):
    """The sources of the message before."""

    citations: list[SourceInfo]


@final
class ToolUseEvent(Struct, frozen=True, kw_only=True, tag="tool_use"):
    """A tool call starts."""

    tool_id: str
    tool_name: str
    parameters: Any = None


@final
class ToolUseDeltaEvent(Struct, frozen=True, kw_only=True, tag="tool_use_delta"):
    """With --include-partial-messages: the model writes a call, which runs after its reply."""

    index: int
    """The same for all parts of one call."""
    tool_name: str
    partial_json: str = ""
    """The next part of the arguments."""


@final
class ToolResultEvent(Struct, frozen=True, kw_only=True, tag="tool_result"):
    """A tool call has ended."""

    tool_id: str
    tool_name: str
    status: Literal["success", "error", "cancelled"]
    output: Any = None
    error: str = ""


@final
class SwitchEvent(
    Struct, frozen=True, kw_only=True, tag="switch", rename={"previous": "from", "model": "to"}
):
    """Another model answers from now on."""

    previous: str
    model: str
    reason: str
    losses: list[str] = []
    """What is hidden from the new model, or replaced by a description."""
    error: ErrorInfo | None = None
    """Why the previous model could not answer, if that is the reason."""


@final
class ErrorEvent(Struct, frozen=True, kw_only=True, tag="error"):
    """Something went wrong. With `severity` warning, the run continues."""

    severity: Literal["warning", "error"]
    error: ErrorInfo


@final
class ResultEvent(Struct, frozen=True, kw_only=True, tag="result"):
    """The run is over: the last line, also after an error. `--output-format json` prints only this."""

    subtype: Subtype
    is_error: bool
    duration_ms: int
    num_turns: int
    """Requests to the model."""
    result: str
    session_id: str
    total_cost_usd: float | None
    """null: a price is unknown."""
    usage: Tokens
    stop_reason: StopReason
    model: str
    repairs: int
    structured_output: Any = None
    """With --schema: the answer as a value."""
    error: ErrorInfo | None = None
    ignored: list[str] = []
    """What the project supplies and is not used before `segue trust`, a sentence each."""
    citations: list[SourceInfo] = []
    """The sources of the answer, where the model names some."""
    not_restored: list[str] = []
    """Tools and approvals that the resumed session had and does not have now, and why."""


OutputEvent: TypeAlias = (
    InitEvent
    | MessageEvent
    | CitationsEvent
    | ToolUseEvent
    | ToolUseDeltaEvent
    | ToolResultEvent
    | SwitchEvent
    | ErrorEvent
    | ResultEvent
)


def source_infos(citations: Iterable[Citation]) -> list[SourceInfo]:
    found = (SourceInfo(one.title, one.url, one.document, one.quote) for one in citations if is_listed(one))
    return list(dict.fromkeys(found))


def error_info(error: SegueError) -> ErrorInfo:
    """An error as scripts read it."""
    return ErrorInfo(
        code=error.code,
        message=error.message,
        remedy=error.remedy,
        hint=error.hint,
        status=getattr(error, "status", None),
        request_id=getattr(error, "request_id", "") or "",
        call_ids=dict(getattr(error, "call_ids", ())),
        repairs=list(getattr(error, "repairs", ())),
    )

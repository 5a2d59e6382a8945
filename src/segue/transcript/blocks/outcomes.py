"""What results say: which are the same to a model, and which are only placeholders.

A placeholder stands where a result is missing, in our own words or in those that clients store. It only loses to another
result: where a tool did answer, its result stands.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from segue.conversation.blocks import Reason, is_real
from segue.transcript.blocks.value_text import text_of

if TYPE_CHECKING:
    from collections.abc import Hashable

    from segue.conversation.blocks import ToolResult

_MAYBE = "It may have had side effects: check before repeating it."
WORDING: dict[Reason, str] = {
    "cancelled_by_user": f"No result: the user cancelled this call. {_MAYBE}",
    "interrupted": f"No result: this call was interrupted before a result was recorded. {_MAYBE}",
    "lost_in_compaction": f"The result of this call is no longer part of the conversation. {_MAYBE}",
    "provider_error": f"No result: a provider failed while this call was open. {_MAYBE}",
    "denied": "No result: this call was not approved, so it did not run.",
    "timed_out": f"No result: this call ran out of time. {_MAYBE}",
}
"""Neutral, and never blaming the user where that is unknown."""

NO_OUTPUT = "(no output)"
"""The text of an empty result, where the target refuses a blank one."""

NOTES: Final = frozenset(
    {
        *WORDING.values(),
        NO_OUTPUT,
        "(no content)",
        "[No result]",
        "No result provided",
        "[Request interrupted by user]",
        "[Request interrupted by user for tool use]",
        "[Tool call cancelled]",
        "[Tool execution was interrupted]",
        "[Tool use interrupted]",
    }
)


def words_of(result: ToolResult) -> str:
    """All that a result says."""
    return "\n".join(part for part in (result.error, text_of(result.output)) if part)


def tells_nothing(result: ToolResult) -> bool:
    """Whether there is not a word in a result, and nothing to see."""
    return not (result.media or (result.error or "").strip() or text_of(result.output).strip())


def is_placeholder(result: ToolResult) -> bool:
    """Whether no tool returned this, or it is blank, or only a note that a result is missing."""
    if not is_real(result):
        return True
    return tells_nothing(result) or (not result.media and words_of(result).strip() in NOTES)


def outcome_of(result: ToolResult) -> Hashable:
    """What the model reads and sees of a result; not what its wire has beside it."""
    return result.error, text_of(result.output), _shown_by(result)


def _shown_by(result: ToolResult) -> Hashable:
    return tuple([(media.kind, media.mime, media.data, media.url) for media in result.media])


def same_outcome(one: ToolResult, other: ToolResult) -> bool:
    """Whether two results are the same to the model."""
    return one is other or (
        one.error == other.error
        and _shown_by(one) == _shown_by(other)
        and text_of(one.output) == text_of(other.output)
    )

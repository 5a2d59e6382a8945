"""How a call ended, as text and media that a target takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from msgspec import Struct

from segue.conversation.blocks import Media, Text
from segue.conversation.json_safe import encodable
from segue.transcript.closure import NO_OUTPUT, WORDING
from segue.transcript.media import caption, describe, sort_media
from segue.transcript.repairs import Kind
from segue.transcript.steps import Completion
from segue.transcript.value_text import text_form

if TYPE_CHECKING:
    from segue.conversation.blocks import ToolResult
    from segue.transcript.rules import Rules


@final
class CompletionDraft(Struct, frozen=True):
    """A completion, what the user must show beside it, and what was changed on the way."""

    completion: Completion
    shown_by_user: tuple[Text | Media, ...] = ()
    changes: tuple[tuple[Kind, str], ...] = ()


def completion_of(result: ToolResult, name: str, wire_id: str, rules: Rules) -> CompletionDraft:
    """The completion of a call, under the name and id that the target knows it by."""
    text, exact = text_form(result.output)
    failed = result.error is not None or result.reason is not None
    changes: list[tuple[Kind, str]] = [] if exact else [("value_made_safe", "in the result")]
    if failed:
        text = _failure(result, text)
    if result.media:
        return _illustrated(result, text, name, wire_id, rules, changes)
    if (not text or text.isspace()) and (failed or not rules.blank_text):
        changes.append(("blank_text", "an empty result says so"))
        text = NO_OUTPUT
    return CompletionDraft(Completion(text, failed, (), result.reason, result.extra), (), tuple(changes))


def _failure(result: ToolResult, output: str) -> str:
    """What the model reads of a call that did not succeed."""
    error = encodable(result.error) if result.error is not None else ""
    if error and output:
        return f"{error}\n{output}"
    if error or output:
        return error or output
    return WORDING[result.reason] if result.reason is not None else ""


def _illustrated(
    result: ToolResult, text: str, name: str, wire_id: str, rules: Rules, changes: list[tuple[Kind, str]]
) -> CompletionDraft:
    failed = result.error is not None or result.reason is not None
    stay, move, lost = sort_media(result.media, rules.media, failed=failed)
    shown: list[Text | Media] = []
    for media in move:
        changes.append(("media_moved", ""))
        shown += [caption(media, name, wire_id), media]
    for media in lost:
        changes.append(("media_described", ""))
        text = f"{text}\n{describe(media).text}" if text else describe(media).text
    if not text.strip() and (not stay or failed):
        text = caption((move or stay)[0], name, wire_id).text
    return CompletionDraft(
        Completion(text, failed, tuple(stay), result.reason, result.extra), tuple(shown), tuple(changes)
    )

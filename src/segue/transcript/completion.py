"""How a call ended, as text and media that a target takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from segue.conversation.json_safe import encodable
from segue.transcript.media import caption, sort_media, stand_in, without_lost_title
from segue.transcript.outcomes import NO_OUTPUT, WORDING
from segue.transcript.steps import Completion
from segue.transcript.value_text import text_form

if TYPE_CHECKING:
    from segue.conversation.blocks import Media, Text, ToolResult
    from segue.transcript.repairs import Kind
    from segue.transcript.rules import Rules


def completion_of(
    result: ToolResult, name: str, wire_id: str, rules: Rules
) -> tuple[Completion, list[Text | Media], list[tuple[Kind, str]]]:
    """The completion of a call, under the name and id that the target knows it by; what the user must show beside it; and
    what was changed on the way."""
    text, exact = text_form(result.output)
    failed = result.error is not None or result.reason is not None
    changes: list[tuple[Kind, str]] = [] if exact else [("value_made_safe", "in the result")]
    shown_by_user: list[Text | Media] = []
    if failed:
        text = _failure(result, text)
    stay, move, lost = sort_media(result.media, rules.media, failed=failed)
    titled = [*stay, *move]
    shown = [without_lost_title(media, rules.media) for media in titled]
    if shown != titled:
        changes.append(("fields_dropped", "the title of a document"))
    stay, move = shown[: len(stay)], shown[len(stay) :]
    for media in move:
        changes.append(("media_moved", ""))
        shown_by_user += [caption(media, name, wire_id), media]
    for media in lost:
        words, kind = stand_in(media)
        changes.append((kind, ""))
        text = f"{text}\n{words.text}" if text else words.text
    if not text.strip():
        if result.media and (failed or not stay):
            text = caption((move or stay)[0], name, wire_id).text
        elif not result.media and (failed or not rules.blank_text):
            changes.append(("blank_text", "an empty result says so"))
            text = NO_OUTPUT
    return Completion(text, failed, tuple(stay), result.reason, result.extra), shown_by_user, changes


def _failure(result: ToolResult, output: str) -> str:
    """What the model reads of a call that did not succeed."""
    error = encodable(result.error) if result.error is not None else ""
    if error and output:
        return f"{error}\n{output}"
    if error or output:
        return error or output
    return WORDING[result.reason] if result.reason is not None else ""

"""A text, image or program of a user or model, and the result of a call, as a target takes it; and what was changed for that."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from msgspec import structs

from segue.conversation.blocks import Code, Media, Text
from segue.conversation.json_safe import encodable, is_encodable
from segue.transcript.blocks.citations import fit_citations
from segue.transcript.blocks.foreign_fields import losses, travels
from segue.transcript.blocks.media import (
    caption,
    sort_media,
    stand_in,
    with_standard_data,
    without_lost_title,
    written_out,
)
from segue.transcript.blocks.outcomes import NO_OUTPUT, WORDING
from segue.transcript.blocks.value_text import text_form
from segue.transcript.rules import accepts_media
from segue.transcript.steps import Completion

if TYPE_CHECKING:
    from segue.conversation.blocks import ToolResult
    from segue.transcript.reasoning import Makers
    from segue.transcript.repairs import Kind
    from segue.transcript.rules import Rules

Changes: TypeAlias = "tuple[tuple[Kind, str], ...]"


def fit_block(
    block: Text | Media | Code, allowed: frozenset[str], makers: Makers
) -> tuple[Text | Media | None, Changes]:
    """The block and the changes with their decisions; None if it is blank and the target refuses blanks."""
    rules = makers.rules
    lost: Changes = ()
    if not travels(block.extra, rules.target.dialect):
        lost = tuple(losses(block.extra))
        block = structs.replace(block, extra=None)
    if type(block) is Media:
        # What came on this very wire may go back there, unless the model sees nothing.
        came_so = block.extra is not None and block.extra.dialect == rules.target.dialect
        block = block if came_so else with_standard_data(block)
        if accepts_media(allowed, rules.media, block) or (came_so and allowed):
            shown = block if came_so else without_lost_title(block, rules.media)
            return shown, lost if shown is block else (*lost, ("fields_dropped", "the title of a document"))
        text, kind = stand_in(block)
        return text, (*lost, (kind, ""))
    text_block = written_out(block) if type(block) is Code else block
    if text_block.citations:
        text_block, listed = fit_citations(text_block, rules.target.dialect)
        lost = (*lost, ("citations_as_text", "")) if listed else lost
    fitted, changes = _fit_text(text_block, makers)
    return fitted, (*lost, *changes)


def _fit_text(block: Text, makers: Makers) -> tuple[Text | None, Changes]:
    text, seal = block.text, block.seal
    changes: Changes = ()
    if seal is not None:
        if makers.opens(seal) and is_encodable(text):
            return block, ()
        changes = (("seal_dropped", ""),)
        if not text:  # it stood there for its seal, as at the end of a stream of Gemini
            return None, changes
        block = Text(text, citations=block.citations)
    if not text or text.isspace():
        if makers.rules.blank_text:
            return block, changes
        return None, (*changes, ("blank_text", "dropped"))
    if is_encodable(text):
        return block, changes
    return Text(encodable(text)), (*changes, ("value_made_safe", ""))


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

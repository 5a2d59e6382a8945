"""A text, image or program of a user or model as a target takes it, and what was changed for that."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from msgspec import structs

from segue.conversation.blocks import Code, Media, Text
from segue.conversation.json_safe import encodable, is_encodable
from segue.transcript.citations import fit_citations
from segue.transcript.media import stand_in, with_standard_data, without_lost_title, written_out
from segue.transcript.own_fields import losses, travels
from segue.transcript.rules import accepts_media

if TYPE_CHECKING:
    from segue.transcript.reasoning import Makers
    from segue.transcript.repairs import Kind

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
        block = Text(text, citations=block.citations)
    if not text or text.isspace():
        if makers.rules.blank_text:
            return block, changes
        return None, (*changes, ("blank_text", "dropped"))
    if is_encodable(text):
        return block, changes
    return Text(encodable(text)), (*changes, ("value_made_safe", ""))

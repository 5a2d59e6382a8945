"""A text, image or program of a user or model as a target takes it, and what was changed for that."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from segue.conversation.blocks import Code, Media, Text
from segue.conversation.json_safe import encodable, is_encodable
from segue.transcript.media import describe, written_out
from segue.transcript.reasoning import opens
from segue.transcript.rules import accepts_media

if TYPE_CHECKING:
    from segue.transcript.repairs import Kind
    from segue.transcript.rules import Rules

Changes: TypeAlias = "tuple[tuple[Kind, str], ...]"


def fit_block(
    block: Text | Media | Code, allowed: frozenset[str], rules: Rules
) -> tuple[Text | Media | None, Changes]:
    """The block and the changes with their decisions; None if it is blank and the target refuses blanks."""
    if type(block) is Media:
        if accepts_media(allowed, rules.media, block):
            return block, ()
        return describe(block), (("media_described", ""),)
    return _fit_text(written_out(block) if type(block) is Code else block, rules)


def _fit_text(block: Text, rules: Rules) -> tuple[Text | None, Changes]:
    text, seal = block.text, block.seal
    changes: Changes = ()
    if seal is not None:
        if opens(seal, rules) and is_encodable(text):
            return block, ()
        changes = (("seal_dropped", ""),)
        block = Text(text)
    if not text or text.isspace():
        if rules.blank_text:
            return block, changes
        return None, (*changes, ("blank_text", "dropped"))
    if is_encodable(text):
        return block, changes
    return Text(encodable(text)), (*changes, ("value_made_safe", ""))

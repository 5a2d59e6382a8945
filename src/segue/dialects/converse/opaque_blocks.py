"""Blocks that are Bedrock's own affair: guarded content, videos, its own tools.

One is kept as a text that another model can read, whose seal is the block itself, so that its origin gets it back as it was.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import msgspec
from msgspec import Raw

from segue.conversation.blocks import Seal, Text
from segue.transcript.blocks.value_text import json_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from segue.conversation.blocks import Origin

KIND: Literal["encrypted"] = "encrypted"
_FIELDS = msgspec.json.Decoder(dict[str, Raw])
_OTHERS_HAVE = frozenset({"type", "id"})
"""Fields of other wires' own blocks, which no block of this wire has at its top."""


def seal_block(block: Mapping[str, Any], origin: Origin) -> Text:
    return Text(as_words(block), Seal(origin, json_of(block), KIND))


def opaque_block(payload: str, kind: str) -> Raw | None:
    """The block that a seal holds; None if it is a seal like any other."""
    if kind != KIND or not payload.startswith("{"):
        return None
    try:
        names = _FIELDS.decode(payload)
    except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError):
        return None
    return Raw(payload) if names and not names.keys() & _OTHERS_HAVE else None


def as_words(block: Mapping[str, Any]) -> str:
    """What the block says, if it says anything in words; else what it is."""
    if isinstance(block.get("text"), str):
        return str(block["text"])
    guarded = block.get("guardContent")
    inner = guarded.get("text") if isinstance(guarded, dict) else None
    if isinstance(inner, dict) and isinstance(inner.get("text"), str):
        return str(inner["text"])
    cited = block.get("citationsContent")
    if isinstance(cited, dict):
        return cited_text(cited)
    return "".join(f"[{name}: {json_of(_readable(value))}]" for name, value in block.items())


def cited_text(cited: Mapping[str, Any]) -> str:
    pieces = cited.get("content")
    texts = (
        [piece.get("text") for piece in pieces if isinstance(piece, dict)] if isinstance(pieces, list) else []
    )
    return "".join(text for text in texts if isinstance(text, str))


def _readable(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _readable(held) for name, held in value.items() if name != "bytes"}
    return [_readable(held) for held in value] if isinstance(value, list) else value

"""Blocks that we have no block of our own for, kept word for word so that their origin gets them back.

They are the provider's own affair: its tools, its files, its compacted history. One is a text, empty or in words that
another model can read, whose seal is the block itself as JSON.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import msgspec
from msgspec import Raw, Struct

from segue.conversation.blocks import Seal, Text
from segue.transcript.values import json_of

if TYPE_CHECKING:
    from segue.conversation.blocks import Origin

KIND: Literal["encrypted"] = "encrypted"


class _Typed(Struct, gc=False):
    type: str


_TYPED = msgspec.json.Decoder(_Typed)


def keep(block: dict[str, Any], words: str, origin: Origin) -> Text:
    return Text(words, Seal(origin, json_of(block), KIND))


def is_kept(payload: str, kind: str) -> bool:
    """Whether a seal holds such a block."""
    if kind != KIND or not payload.startswith("{"):
        return False
    try:
        _TYPED.decode(payload)
    except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError):
        return False
    return True


def kept_in(text: Text) -> Raw | None:
    """The block to give back; nothing if this is a text like any other."""
    seal = text.seal
    return Raw(seal.payload) if seal is not None and is_kept(seal.payload, seal.kind) else None

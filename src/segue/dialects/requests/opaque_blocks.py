"""Blocks that we have no block of our own for, kept as they came so that their origin gets them back.

They are the provider's own affair: its tools, its files, its compacted history. One is a text, empty or such that
another model can read, whose seal is the block itself as JSON.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import msgspec
from msgspec import Raw, Struct

from segue.conversation.blocks import Seal, Text
from segue.transcript.blocks.value_text import json_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from segue.conversation.blocks import Origin

KIND: Literal["encrypted"] = "encrypted"


class _Typed(Struct, gc=False):
    type: str
    id: str | None = None
    tool_use_id: str | None = None
    call_id: str | None = None


_TYPED = msgspec.json.Decoder(_Typed)


def seal_block(block: dict[str, Any], text: str, origin: Origin) -> Text:
    return Text(text, Seal(origin, json_of(block), KIND))


def is_opaque(payload: str, kind: str) -> bool:
    """Whether a seal holds such a block."""
    return _opened(payload, kind) is not None


def _opened(payload: str, kind: str) -> _Typed | None:
    if kind != KIND or not payload.startswith("{"):
        return None
    try:
        return _TYPED.decode(payload)
    except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError):
        return None


def opaque_block(text: Text) -> Raw | None:
    """The block to give back; None if this is a text like any other."""
    seal = text.seal
    return Raw(seal.payload) if seal is not None and is_opaque(seal.payload, seal.kind) else None


def _caller(block: object) -> Any:
    """The use of the provider's tool that made a call; None if the model itself did."""
    extra = getattr(block, "extra", None)
    caller = extra.form.get("caller") if extra is not None else None
    return caller.get("tool_id") if isinstance(caller, dict) else None


class OpaqueBlockFilter:
    """Which kept blocks of a transcript go back: each id once, and uses of a tool only with their results."""

    def __init__(self) -> None:
        self._ids: set[tuple[str, str]] = set()
        self._waiting: set[str] = set()
        """Uses of the provider's tools that called tools of ours: their results come in a later step."""
        self.has_any = False

    def select(self, blocks: Sequence[object]) -> dict[int, Raw]:
        """Those of one step, by position. What does not go back is sent as text."""
        kept: dict[int, tuple[_Typed, str]] = {}
        for position, block in enumerate(blocks):
            if type(block) is Text and block.seal is not None:
                opened = _opened(block.seal.payload, block.seal.kind)
                if opened is not None:
                    kept[position] = opened, block.seal.payload
        self.has_any = self.has_any or bool(kept)
        answered = {
            opened.tool_use_id: position for position, (opened, _) in kept.items() if opened.tool_use_id
        }
        callers = {_caller(block) for block in blocks}
        used: set[str] = set()
        returned: dict[int, Raw] = {}
        for position, (opened, payload) in kept.items():
            if opened.tool_use_id:
                fits = opened.tool_use_id in used or opened.tool_use_id in self._waiting
                used.discard(opened.tool_use_id)
                self._waiting.discard(opened.tool_use_id)
            elif opened.type.endswith("_tool_result"):
                fits = False  # nobody's result
            elif opened.type.endswith("_use") and opened.id:
                waits = opened.id in callers and opened.id not in answered
                fits = (waits or answered.get(opened.id, -1) > position) and self._is_new(opened)
                used |= {opened.id} if fits else set()
                self._waiting |= {opened.id} if fits and waits else set()
            else:
                fits = self._is_new(opened)
            if fits:
                returned[position] = Raw(payload)
        return returned

    def _is_new(self, opened: _Typed) -> bool:
        names = {
            (kind, name)
            for kind, name in (("id", opened.id), (opened.type, opened.call_id))
            if isinstance(name, str) and name
        }
        if names & self._ids:
            return False
        self._ids |= names
        return True

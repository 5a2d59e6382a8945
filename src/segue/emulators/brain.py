"""What an emulated model says: provider-neutral pieces that each provider's module puts on its own wire."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

from msgspec import Struct, field


class Say(Struct, frozen=True, tag="say"):
    """Visible text."""

    text: str


class Think(Struct, frozen=True, tag="think"):
    """Reasoning, signed on the wire where the provider signs it."""

    text: str


class Call(Struct, frozen=True, tag="call"):
    """A wish to call one of the offered tools."""

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)


Piece: TypeAlias = Say | Think | Call


class Reply(Struct, frozen=True, kw_only=True):
    """One whole answer of an emulated model."""

    pieces: tuple[Piece, ...] = ()
    finish: Literal["auto", "length", "refusal", "content_filter"] = "auto"
    """`auto`: tool calls if there are any, else a normal stop."""
    chunk_size: int = 12
    """Characters per streamed delta."""
    delay: float = 0.0
    """Seconds between two streamed chunks."""

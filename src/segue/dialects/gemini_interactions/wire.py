"""The Interactions wire: steps as we send them, and the one shape that every event of a stream fits into."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
from msgspec import Raw, Struct

from segue.transcript.rules import media_type

if TYPE_CHECKING:
    from segue.conversation.blocks import Media

ENCODER = msgspec.json.Encoder()


class TextContent(Struct, tag="text", gc=False):
    """A text."""

    text: str


class ShownContent(Struct, gc=False, omit_defaults=True):
    """An image, a document or a sound, by its content or by its address."""

    type: str
    mime_type: str = ""
    data: str = ""
    uri: str = ""


def media_content(media: Media) -> ShownContent:
    mime = media_type(media)
    kind = mime.partition("/")[0]
    shown = kind if kind in ("image", "audio") else "document"
    return (
        ShownContent(shown, mime, data=media.data) if media.data else ShownContent(shown, mime, uri=media.url)
    )


Content: TypeAlias = TextContent | ShownContent | Raw


class UserInput(Struct, tag="user_input", gc=False):
    """What the user says."""

    content: list[Any]


class ModelOutput(Struct, tag="model_output", gc=False):
    """What the model says."""

    content: list[Any]


class Thought(Struct, tag="thought", gc=False, omit_defaults=True):
    """A thought: its signature, and what is told of it."""

    signature: str = ""
    summary: list[Any] = []


class FunctionCall(Struct, tag="function_call", gc=False):
    """A call; it has no signature of its own (INT-04)."""

    id: str
    name: str
    arguments: Any


class FunctionResult(Struct, tag="function_result", gc=False, omit_defaults=True):
    """The end of a call."""

    call_id: str
    name: str
    result: Any
    is_error: bool = False


class Event(Struct, gc=False):
    """One event of a stream, of whichever type (INT-09)."""

    event_type: str = ""
    event_id: str | None = None
    index: int | None = None
    step: dict[str, Any] | None = None
    delta: dict[str, Any] | None = None
    interaction: dict[str, Any] | None = None
    interaction_id: str | None = None
    status: str | None = None
    usage: Any = None
    error: Any = None


class TextDelta(Struct, tag="text", gc=False):
    """More of a text."""

    text: str


class MoreText(Struct, tag="step.delta", tag_field="event_type", gc=False):
    """What nearly all events are."""

    index: int
    delta: TextDelta


EVENTS = msgspec.json.Decoder(Event)
MORE_TEXT = msgspec.json.Decoder(MoreText)

CONTENTS = frozenset({"text", "image", "document", "audio", "video"})
"""Kinds of content, as they may stand in `input` without a step around them."""


def kind_of(item: Any) -> str:
    """The type of a step or a content; empty if it has none."""
    kind = item.get("type") if isinstance(item, dict) else None
    return kind if isinstance(kind, str) else ""

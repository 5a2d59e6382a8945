"""The pieces a message is made of.

All are frozen values. A payload that only the provider who made it can read (a signature, encrypted reasoning, a
thought token) is a `Seal`, kept on the very block it arrived on.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias, final

from msgspec import Struct

from segue.conversation.extra import Extra

Reason: TypeAlias = Literal[
    "cancelled_by_user",
    "interrupted",
    "lost_in_compaction",
    "provider_error",
    "denied",
    "timed_out",
]
"""Why a call has no real result. It is `interrupted` whenever nothing better is known."""

MediaKind: TypeAlias = Literal["image", "document", "audio"]
Status: TypeAlias = Literal["pending", "complete", "cancelled", "error"]


@final
class Origin(Struct, frozen=True, gc=False, omit_defaults=True):
    """Who wrote a message: a wire format, a provider, its endpoint and one model."""

    dialect: str = ""
    provider: str = ""
    endpoint: str = ""
    model: str = ""


PREFIX_UNKNOWN = "unknown"
"""What a seal was made under if that was not recorded and is not what it is sent with now."""


@final
class Seal(Struct, frozen=True, gc=False, omit_defaults=True):
    """A payload only its origin can open."""

    origin: Origin
    payload: str
    kind: Literal["signature", "encrypted", "redacted", "thought"] = "signature"
    made_under: str = ""
    """Fingerprint of the transcript it was made under, for models that bind a seal to the exact prefix."""


@final
class SourcePlace(Struct, frozen=True, gc=False, omit_defaults=True):
    """The place of the quoted words in a document of the request."""

    unit: Literal["character", "page", "block"]
    document: int
    """Which of the documents, counted from 0."""
    start: int
    end: int


@final
class Citation(Struct, frozen=True, gc=False, omit_defaults=True):
    """A source that a model names for a text. One that has only its native form is described by the text itself."""

    title: str = ""
    url: str = ""
    document: str = ""
    """The name or id of a source that has no address."""
    quote: str = ""
    """The words of the source."""
    place: SourcePlace | None = None
    said: str = ""
    """The words of the reply that rest on the source; empty: not known, or all of the text."""
    start: int | None = None
    end: int | None = None
    """Where these words stand in their text, in characters; None: not known."""
    dialect: str = ""
    native: str = ""
    """The JSON in which it came, and the wire that knows it. Empty if another citation of the same text holds it."""


@final
class Text(Struct, frozen=True, gc=False, tag="text", omit_defaults=True):
    """What a reader sees. May be empty when all it does is carry a seal."""

    text: str
    seal: Seal | None = None
    extra: Extra | None = None
    """What its wire has beside the text, such as marks for the cache. So on every block."""
    citations: tuple[Citation, ...] = ()


@final
class Reasoning(Struct, frozen=True, gc=False, tag="reasoning", omit_defaults=True):
    """A model's thoughts. The text is empty when the provider keeps it to itself and gives only the seal."""

    text: str = ""
    seal: Seal | None = None
    extra: Extra | None = None


@final
class ToolCall(Struct, frozen=True, gc=False, tag="tool_call", omit_defaults=True):
    """A request to run a tool. `id` is ours and neutral; `native_id` is what the provider called it."""

    id: str
    name: str
    arguments: Any = None
    """The parsed arguments; any value is kept, an object is normal."""
    raw: str = ""
    """The argument text exactly as it arrived, also when it does not parse."""
    native_id: str = ""
    seal: Seal | None = None
    reconstructed: bool = False
    """True when only the result was found and the call was made up around it."""
    extra: Extra | None = None


@final
class Media(Struct, frozen=True, gc=False, tag="media", omit_defaults=True):
    """An image, a document or a sound: base64 `data`, or a `url`."""

    kind: MediaKind
    mime: str = ""
    data: str = ""
    url: str = ""
    name: str = ""
    extra: Extra | None = None


@final
class Code(Struct, frozen=True, gc=False, tag="code", omit_defaults=True):
    """A program the model wrote as such, not as text."""

    code: str
    language: str = ""
    extra: Extra | None = None


@final
class ToolResult(Struct, frozen=True, gc=False, tag="tool_result", omit_defaults=True):
    """How a call ended, as its tool or its scheduler reported it."""

    call_id: str
    name: str = ""
    output: Any = None
    """Text or any JSON value."""
    error: str | None = None
    complete: bool | None = None
    media: tuple[Media, ...] = ()
    native_id: str = ""
    reason: Reason | None = None
    """Set when there is no real result: why not."""
    elided: bool = False
    """A real result that compaction shortened to a note. The note is sent, although the ledger holds the whole result."""
    extra: Extra | None = None


Block: TypeAlias = Text | Reasoning | ToolCall | ToolResult | Media | Code
"""One piece of a message."""


def status_of(result: ToolResult) -> Status:
    """The status ladder: an error, else marked as complete, else any output at all, else still pending."""
    if result.reason is not None:
        return "cancelled"
    if result.error is not None:
        return "error"
    if result.complete or result.output is not None or result.media:
        return "complete"
    return "pending"


def is_real(result: ToolResult) -> bool:
    """Whether a tool really returned this, be it a success or a failure."""
    return status_of(result) in ("complete", "error")

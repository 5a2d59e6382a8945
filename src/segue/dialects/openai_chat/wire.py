"""The Chat Completions wire as values: what a request holds, and what a reply holds, whole or in pieces."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, final

from msgspec import UNSET, Raw, Struct, UnsetType

from segue.dialects.openai_chat.rules import HELD_FILE
from segue.dialects.requests.data_urls import kind_of, url_of
from segue.transcript.rules import media_type

if TYPE_CHECKING:
    from segue.conversation.blocks import Media

# What a request holds


@final
class Function(Struct, gc=False):
    """A tool's name and the JSON text of its arguments."""

    name: str
    arguments: str


@final
class Call(Struct, gc=False):
    """One entry of `tool_calls`."""

    id: str
    function: Function
    type: str = "function"
    extra_content: Mapping[str, Any] | UnsetType = UNSET
    """Where Gemini, on this wire, keeps its thought signatures."""


@final
class SystemMessage(Struct, tag_field="role", tag="system", gc=False):
    """A message of the operator."""

    content: str | list[Mapping[str, Any]]


@final
class UserMessage(Struct, tag_field="role", tag="user", gc=False):
    """A message of the user, with media."""

    content: str | list[Mapping[str, Any]]


@final
class AssistantMessage(Struct, tag_field="role", tag="assistant", gc=False):
    """A message of the model: text, reasoning and calls."""

    content: str | list[Mapping[str, Any]] | UnsetType | None = UNSET
    reasoning_content: str | UnsetType = UNSET
    reasoning: str | UnsetType = UNSET
    reasoning_details: Raw | UnsetType = UNSET
    tool_calls: list[Call] | UnsetType = UNSET
    extra_content: Mapping[str, Any] | UnsetType = UNSET


@final
class ToolMessage(Struct, tag_field="role", tag="tool", gc=False):
    """How a call ended."""

    tool_call_id: str
    content: str
    name: str | UnsetType = UNSET


def spoken_words(audio: Mapping[str, Any]) -> str:
    """What stands for a spoken reply that the provider holds."""
    words = audio.get("transcript")
    return (
        words if isinstance(words, str) and words else f"[spoken reply {audio['id']}, held by the provider]"
    )


_SOUNDS = {"audio/wav": "wav", "audio/x-wav": "wav", "audio/mp3": "mp3", "audio/mpeg": "mp3"}


def write_media(media: Media) -> dict[str, Any] | None:
    """CHAT-52, CHAT-53: how the user shows images, documents and sounds; None if it is none of them."""
    mime = media_type(media)
    kind = kind_of(mime)
    if kind == "image":
        return {"type": "image_url", "image_url": {"url": url_of(media)}}
    if mime in _SOUNDS:
        return {"type": "input_audio", "input_audio": {"data": media.data, "format": _SOUNDS[mime]}}
    if media.url.startswith(HELD_FILE) and not media.data:
        return {"type": "file", "file": {"file_id": media.url.removeprefix(HELD_FILE)}}
    if kind == "document" and media.data:
        name = media.name or f"document.{mime.rpartition('/')[2]}"
        return {"type": "file", "file": {"filename": name, "file_data": url_of(media)}}
    return None


# What a reply holds, whole or in pieces. Everything may be missing or null somewhere.


@final
class FunctionPiece(Struct, gc=False):
    """More of a call's function."""

    name: str | None = None
    arguments: str | None = None


@final
class CallPiece(Struct, gc=False):
    """More of one call."""

    index: int | None = None
    id: str | None = None
    function: FunctionPiece | None = None
    extra_content: dict[str, Any] | None = None


@final
class Piece(Struct, gc=False):
    """A delta of a stream, or the message of a whole reply."""

    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    reasoning_details: list[dict[str, Any]] | None = None
    tool_calls: list[CallPiece] | None = None
    refusal: str | None = None
    function_call: FunctionPiece | None = None
    images: list[dict[str, Any]] | None = None
    audio: dict[str, Any] | None = None
    extra_content: dict[str, Any] | None = None
    annotations: list[Any] | None = None


@final
class Counts(Struct, gc=False):
    """Tokens, in all the spellings there are."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    total_tokens: int | None = None
    prompt_tokens_details: dict[str, Any] | None = None
    completion_tokens_details: dict[str, Any] | None = None
    cached_tokens: int | None = None
    prompt_cache_hit_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    service_tier: Any = None
    cost: Any = None
    is_byok: Any = None
    cost_details: Any = None
    cost_in_usd_ticks: Any = None


@final
class Choice(Struct, gc=False):
    """One of the answers."""

    index: int | None = None
    delta: Piece | None = None
    message: Piece | None = None
    finish_reason: str | None = None
    usage: Counts | None = None
    error: Any = None


@final
class Groq(Struct, gc=False):
    """Groq's own corner of a chunk."""

    usage: Counts | None = None


class Portion(Struct, gc=False):
    """What is worth reading in the common chunk of a stream that has begun."""

    choices: list[Choice] | None = None
    usage: Counts | None = None
    x_groq: Groq | None = None
    service_tier: Any = None
    citations: list[Any] | None = None
    """The addresses of all sources; Perplexity and xAI number them in the text."""
    search_results: list[Any] | None = None
    error: Any = None


@final
class Chunk(Portion, gc=False):
    """A chunk of a stream, or a whole completion."""

    id: str | None = None
    model: str | None = None


THOUGHTS = ("reasoning_content", "reasoning", "reasoning_details")
"""The fields of a message in which servers have reasoning."""


def seal_of(extra_content: Mapping[str, Any] | None) -> str:
    """Gemini's thought signature, if one is there."""
    google = extra_content.get("google") if extra_content else None
    signature = google.get("thought_signature") if isinstance(google, Mapping) else None
    return signature if isinstance(signature, str) else ""


def sealed(signature: str) -> dict[str, Any]:
    return {"google": {"thought_signature": signature}}


def encrypted(payload: str) -> dict[str, Any]:
    """The reasoning detail that holds a bare seal."""
    return {"type": "reasoning.encrypted", "data": payload}

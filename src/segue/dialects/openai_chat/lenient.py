"""Chunks read as strictly as they can be: typed where they are as documented, by good will where they are not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from segue.dialects.openai_chat.wire import (
    CallPiece,
    Choice,
    Chunk,
    Counts,
    FunctionPiece,
    Groq,
    Piece,
    Portion,
)
from segue.transcript.value_text import json_of

_CHUNKS = msgspec.json.Decoder(Chunk)
_PORTIONS = msgspec.json.Decoder(Portion)
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def decode_portion(data: bytes) -> Portion | None:
    """A chunk of a reply whose id and model are known; nothing if it is not as documented."""
    try:
        return _PORTIONS.decode(data)
    except _UNREADABLE:
        return None


def decode_chunk(data: bytes) -> Chunk | None:
    """A chunk, as strictly as it can be read; nothing if it is no JSON object."""
    try:
        return _CHUNKS.decode(data)
    except msgspec.ValidationError:
        pass
    except _UNREADABLE:
        return None
    try:
        return _loose_chunk(msgspec.json.decode(data))
    except _UNREADABLE:
        return None


def _loose_chunk(told: Any) -> Chunk | None:
    if not isinstance(told, Mapping):
        return None
    groq = told.get("x_groq")
    return Chunk(
        _text(told.get("id")),
        _text(told.get("model")),
        [_choice(choice) for choice in _records(told.get("choices"))],
        _counts(told.get("usage")),
        Groq(_counts(groq.get("usage"))) if isinstance(groq, Mapping) else None,
        told.get("error"),
    )


def _choice(told: Mapping[str, Any]) -> Choice:
    index = told.get("index")
    return Choice(
        index if isinstance(index, int) else None,
        _piece(told.get("delta")),
        _piece(told.get("message")),
        _text(told.get("finish_reason")),
        _counts(told.get("usage")),
        told.get("error"),
    )


def _piece(told: Any) -> Piece | None:
    if not isinstance(told, Mapping):
        return None
    content = told.get("content")
    thought = _text(told.get("reasoning_content"))
    if isinstance(content, list):
        thought = thought or _parts(content, "thinking")
        content = _parts(content, "text")
    extra, audio = told.get("extra_content"), told.get("audio")
    return Piece(
        _text(content),
        thought,
        _text(told.get("reasoning")),
        _records(told.get("reasoning_details")),
        [_call(call) for call in _records(told.get("tool_calls"))],
        _text(told.get("refusal")),
        _function(told.get("function_call")),
        _records(told.get("images")),
        audio if isinstance(audio, dict) else None,
        extra if isinstance(extra, dict) else None,
    )


def _parts(parts: list[Any], kind: str) -> str:
    """The texts of a content's parts; a thinking part may hold parts of its own."""
    said = []
    for part in parts:
        held = part.get(kind) if isinstance(part, Mapping) else part if kind == "text" else None
        said.append(_parts(held, "text") if isinstance(held, list) else held)
    return "".join(text for text in said if isinstance(text, str))


def _call(told: Mapping[str, Any]) -> CallPiece:
    index, extra = told.get("index"), told.get("extra_content")
    return CallPiece(
        index if isinstance(index, int) else None,
        _text(told.get("id")),
        _function(told.get("function")),
        extra if isinstance(extra, dict) else None,
    )


def _function(told: Any) -> FunctionPiece | None:
    if not isinstance(told, Mapping):
        return None
    return FunctionPiece(_text(told.get("name")), _text(told.get("arguments")))


def _counts(told: Any) -> Counts | None:
    if not isinstance(told, Mapping):
        return None
    counts = Counts()
    for name in Counts.__struct_fields__:
        value = told.get(name)
        if isinstance(value, dict if name.endswith("_details") else int):
            setattr(counts, name, value)
    return counts


def _records(told: Any) -> list[dict[str, Any]]:
    return [item for item in told if isinstance(item, dict)] if isinstance(told, list) else []


def _text(told: Any) -> str | None:
    """Anything as text: some servers send arguments as an object, or an answer as the object it describes."""
    return told if told is None or isinstance(told, str) else json_of(told)

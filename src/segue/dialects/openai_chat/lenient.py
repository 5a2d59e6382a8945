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
    """A chunk of a reply whose id and model are known; None if it is not as documented."""
    try:
        return _PORTIONS.decode(data)
    except _UNREADABLE:
        return None


def decode_chunk(data: bytes) -> Chunk | None:
    """A chunk, as strictly as it can be read; None if it is no JSON object."""
    try:
        return _CHUNKS.decode(data)
    except msgspec.ValidationError:
        pass
    except _UNREADABLE:
        return None
    try:
        return _lenient_chunk(msgspec.json.decode(data))
    except _UNREADABLE:
        return None


def _lenient_chunk(given: Any) -> Chunk | None:
    if not isinstance(given, Mapping):
        return None
    groq = given.get("x_groq")
    return Chunk(
        _text(given.get("id")),
        _text(given.get("model")),
        [_choice(choice) for choice in _records(given.get("choices"))],
        _counts(given.get("usage")),
        Groq(_counts(groq.get("usage"))) if isinstance(groq, Mapping) else None,
        given.get("error"),
    )


def _choice(given: Mapping[str, Any]) -> Choice:
    index = given.get("index")
    return Choice(
        index if isinstance(index, int) else None,
        _piece(given.get("delta")),
        _piece(given.get("message")),
        _text(given.get("finish_reason")),
        _counts(given.get("usage")),
        given.get("error"),
    )


def _piece(given: Any) -> Piece | None:
    if not isinstance(given, Mapping):
        return None
    content = given.get("content")
    thought = _text(given.get("reasoning_content"))
    if isinstance(content, list):
        thought = thought or _parts(content, "thinking")
        content = _parts(content, "text")
    extra, audio = given.get("extra_content"), given.get("audio")
    return Piece(
        _text(content),
        thought,
        _text(given.get("reasoning")),
        _records(given.get("reasoning_details")),
        [_call(call) for call in _records(given.get("tool_calls"))],
        _text(given.get("refusal")),
        _function(given.get("function_call")),
        _records(given.get("images")),
        audio if isinstance(audio, dict) else None,
        extra if isinstance(extra, dict) else None,
    )


def _parts(parts: list[Any], kind: str) -> str:
    """The texts of a content's parts; a thinking part may hold parts of its own."""
    texts = []
    for part in parts:
        held = part.get(kind) if isinstance(part, Mapping) else part if kind == "text" else None
        texts.append(_parts(held, "text") if isinstance(held, list) else held)
    return "".join(text for text in texts if isinstance(text, str))


def _call(given: Mapping[str, Any]) -> CallPiece:
    index, extra = given.get("index"), given.get("extra_content")
    return CallPiece(
        index if isinstance(index, int) else None,
        _text(given.get("id")),
        _function(given.get("function")),
        extra if isinstance(extra, dict) else None,
    )


def _function(given: Any) -> FunctionPiece | None:
    if not isinstance(given, Mapping):
        return None
    return FunctionPiece(_text(given.get("name")), _text(given.get("arguments")))


def _counts(given: Any) -> Counts | None:
    if not isinstance(given, Mapping):
        return None
    counts = Counts()
    for name in Counts.__struct_fields__:
        value = given.get(name)
        if isinstance(value, dict if name.endswith("_details") else int):
            setattr(counts, name, value)
    return counts


def _records(given: Any) -> list[dict[str, Any]]:
    return [item for item in given if isinstance(item, dict)] if isinstance(given, list) else []


def _text(given: Any) -> str | None:
    """Anything as text: some servers send arguments as an object, or an answer as the object it describes."""
    return given if given is None or isinstance(given, str) else json_of(given)

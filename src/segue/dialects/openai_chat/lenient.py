"""Chunks read as strictly as they can be: typed where they are as documented, by good will where they are not."""

from __future__ import annotations

from functools import cache, partial
from types import NoneType
from typing import TYPE_CHECKING, Any, get_args, get_origin

import msgspec
from msgspec import Struct, structs

from segue.dialects.openai_chat.wire import Chunk, Piece, Portion
from segue.dialects.streams.garbled_lines import UNREADABLE, check_encoding
from segue.transcript.blocks.value_text import json_of

if TYPE_CHECKING:
    from collections.abc import Callable

_CHUNKS = msgspec.json.Decoder(Chunk)
_PORTIONS = msgspec.json.Decoder(Portion)


def decode_portion(data: bytes) -> Portion | None:
    """A chunk of a reply whose id and model are known; None if it is not as documented."""
    try:
        check_encoding(data)
        return _PORTIONS.decode(data)
    except UNREADABLE:
        return None


def decode_chunk(data: bytes) -> Chunk | None:
    """A chunk, as strictly as it can be read; None if it is no JSON object."""
    try:
        check_encoding(data)
        return _CHUNKS.decode(data)
    except msgspec.ValidationError:
        pass
    except UNREADABLE:
        return None
    try:
        found: Chunk | None = _read(Chunk, msgspec.json.decode(data))
    except UNREADABLE:
        return None
    return found


def _read(kind: type[Struct], given: Any) -> Any:
    """The fields of an object as far as they are what they should be; None if it is no object."""
    if not isinstance(given, dict):
        return None
    if kind is Piece and isinstance(given.get("content"), list):
        parts, thought = given["content"], _text(given.get("reasoning_content"))
        thought = thought or _parts(parts, "thinking")
        given = {**given, "content": _parts(parts, "text"), "reasoning_content": thought}
    return kind(**{name: read(given[name]) for name, read in _readers(kind) if given.get(name) is not None})


@cache
def _readers(kind: type[Struct]) -> list[tuple[str, Callable[[Any], Any]]]:
    return [(field.name, _reader(field.type)) for field in structs.fields(kind)]


def _reader(hint: Any) -> Callable[[Any], Any]:
    """What reads a field, by its type. Each is of one type, or null, or anything."""
    kind = next((held for held in get_args(hint) if held is not NoneType), Any)
    plain: Any = get_origin(kind) or kind
    if plain is Any:
        return lambda given: given
    if plain is str:
        return _text
    if plain is list:
        read = _reader(get_args(kind)[0] | None)
        return lambda given: [found for item in _listed(given) if (found := read(item)) is not None]
    if issubclass(plain, Struct):
        return partial(_read, plain)
    return lambda given: given if isinstance(given, plain) else None


def _listed(given: Any) -> list[Any]:
    return given if isinstance(given, list) else []


def _parts(parts: list[Any], kind: str) -> str:
    """The texts of a content's parts; a thinking part may hold parts of its own."""
    texts = []
    for part in parts:
        held = part.get(kind) if isinstance(part, dict) else part if kind == "text" else None
        texts.append(_parts(held, "text") if isinstance(held, list) else held)
    return "".join(text for text in texts if isinstance(text, str))


def _text(given: Any) -> str | None:
    """Anything as text: some servers send arguments as an object, or an answer as the object it describes."""
    return given if given is None or isinstance(given, str) else json_of(given)

"""Shapes of single values that many wires have: texts, ids, arguments, flags."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import msgspec

from segue.dialects.requests.shapes import UNFIT, Items, ValueShape
from segue.transcript.blocks.value_text import json_of

if TYPE_CHECKING:
    from collections.abc import Callable


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_object(value: Any) -> bool:
    return isinstance(value, dict)


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_anything(value: Any) -> bool:
    del value
    return True


def _number_as_text(value: Any) -> Any:
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else UNFIT


def _in_words(value: Any) -> Any:
    return UNFIT if value is None else json_of(value)


def _object_in_words(value: Any) -> Any:
    return json_of(value) if isinstance(value, dict) else UNFIT


def _object_in_text(value: Any) -> Any:
    """The object that a text holds; what is none is left to those who read it, and put into one when it is sent."""
    if isinstance(value, str):
        if not value.strip():
            return {}
        try:
            parsed = msgspec.json.decode(value)
        except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
            return value
        return parsed if isinstance(parsed, dict) else value
    return UNFIT if value is None else value


ANY: Final = ValueShape("anything", _is_anything)
TEXT: Final = ValueShape("a string", _is_text)
WORDS: Final = ValueShape("a string", _is_text, is_read=True)
CONTENT: Final = ValueShape("a string", _is_text, _object_in_words, is_read=True)
"""What somebody said."""
OUTPUT: Final = ValueShape("a string", _is_text, _in_words)
"""What a tool returned, which may be anything: it is written out."""
ID: Final = ValueShape("a string", lambda value: isinstance(value, str) and bool(value), _number_as_text)
OPTIONAL_ID: Final = ValueShape("a string", _is_text, _number_as_text)
"""Of a wire that pairs calls and results without ids, too."""
FLAG: Final = ValueShape("a boolean", _is_flag)
WHOLE: Final = ValueShape("a whole number", _is_whole)
OBJECT: Final = ValueShape("an object", _is_object)
SCHEMA: Final = ValueShape("an object", _is_object, is_read=True)
"""An object that means something."""
ARGUMENTS_TEXT: Final = ValueShape("the JSON text of an object", _is_text, _in_words)
ARGUMENTS: Final = ValueShape("an object", _is_object, _object_in_text)
LIST: Final = Items(ANY)
NEVER: Final = ValueShape("known there", lambda _: False)
"""Of a field that the wire knows elsewhere, and refuses here."""


def word(*words: str) -> ValueShape:
    """One of some words."""
    known = frozenset(words)
    return ValueShape(f"one of {', '.join(words)}", _is_text, knows=known.__contains__, is_form=True)


def matching(wanted: str, pattern: str, *, is_read: bool = False) -> ValueShape:
    """A text of a form."""
    return ValueShape(wanted, _matches(pattern), is_read=is_read)


def _matches(pattern: str) -> Callable[[Any], bool]:
    matches = re.compile(pattern, re.ASCII).fullmatch
    return lambda value: isinstance(value, str) and matches(value) is not None


def item_id(prefix: str = "") -> ValueShape:
    """The id of an item, which is of a family, or not there."""
    return ValueShape(
        f'an id that begins with "{prefix}"',
        _matches(r"[a-zA-Z0-9_-]{1,64}"),
        knows=lambda value: bool(value.startswith(prefix)),
        is_form=True,
    )


def only(word: str) -> ValueShape:
    """A field that has but one value, whatever came."""
    return ValueShape(f'"{word}"', lambda value: bool(value == word), lambda _: word)

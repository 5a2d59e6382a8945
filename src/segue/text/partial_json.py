"""The value of a JSON text that is still being written."""

from __future__ import annotations

import re
from typing import Any, Final, final

import msgspec

NOTHING: Final = object()
"""Nothing more can be read than before."""
_SHARE: Final = 32
"""A text is read again when it has grown by this part of itself: all readings together cost as much as 32 of the whole."""
_CLOSING: Final = {"{": "}", "[": "]"}
_FIRST_HALF: Final = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}")


@final
class PartialJson:
    """Takes pieces of a text. A number counts once it has an end; a text is read as far as it came."""

    def __init__(self) -> None:
        self._text = ""
        self._position = 0
        self._open: list[str] = []
        self._safe = 0
        """How much of the text is whole once everything that is open in it is closed."""
        self._in_text = False
        self._is_key = False
        self._awaits_key = False
        self._escaped = 0
        """Characters that an escape still lacks; 9 right after the backslash, when that is not known."""
        self._readable = 0
        """Where the text that is being written can be cut: before an escape, or half of a character, that is not whole yet."""
        self._is_half = False
        self._in_word = False
        """Within a number, true, false or null."""
        self._read_length = 0
        self._read = ""

    def feed(self, more: str) -> Any:
        """The value so far; NOTHING if it is the same as before, or this is no JSON."""
        if not self._position:
            if not self._begin(more):
                return NOTHING
        else:
            self._text += more
        self._scan()
        growth = len(self._text) - self._read_length
        if growth < max(1, len(self._text) // _SHARE):
            return NOTHING
        self._read_length = len(self._text)
        closed, before = self._closed(), self._read
        self._read = closed
        if closed == before:
            return NOTHING
        try:
            return msgspec.json.decode(closed)
        except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
            return NOTHING

    def _begin(self, more: str) -> bool:
        """Models that cannot be forced to answer in JSON often put it into a Markdown fence."""
        self._text = (self._text + more).lstrip()
        if self._text.startswith("`"):
            _, fenced, rest = self._text.partition("\n")
            if not fenced:
                return False
            self._text = rest.lstrip()
        return self._text[:1] in _CLOSING

    def _closed(self) -> str:
        if self._in_text and not self._is_key:
            text = self._text[: self._readable] + '"'
        else:
            text = self._text[: self._safe]
        return text + "".join(_CLOSING[bracket] for bracket in reversed(self._open))

    def _scan(self) -> None:
        for position in range(self._position, len(self._text)):
            character = self._text[position]
            if self._in_text:
                self._scan_text(character, position)
            elif character in "{[":
                self._open.append(character)
                self._awaits_key, self._safe = character == "{", position + 1
            elif character in "}],":
                if self._in_word:
                    self._safe = position
                self._in_word = False
                if character != ",":
                    self._open = self._open[:-1]
                    self._safe = position + 1
                self._awaits_key = character == "," and self._open[-1:] == ["{"]
            elif character == '"':
                self._in_text, self._is_key = True, self._awaits_key
                self._readable, self._is_half = position + 1, False
            elif character == ":":
                self._awaits_key = False
            elif not character.isspace() and self._open:
                self._in_word = True
        self._position = len(self._text)

    def _scan_text(self, character: str, position: int) -> None:
        if self._escaped:
            after_backslash = 4 if character == "u" else 0
            self._escaped = after_backslash if self._escaped == 9 else self._escaped - 1
            if not self._escaped:
                self._end_of_escape(position)
        elif character == "\\":
            self._escaped = 9
        elif character == '"':
            self._in_text = False
            if not self._is_key:
                self._safe = position + 1
        else:
            self._readable, self._is_half = position + 1, False

    def _end_of_escape(self, position: int) -> None:
        """A character beyond the first plane is written as two escapes, of which the first alone is none."""
        code = self._text[position - 5 : position + 1]
        self._is_half = not self._is_half and _FIRST_HALF.fullmatch(code) is not None
        if not self._is_half:
            self._readable = position + 1

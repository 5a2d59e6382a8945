"""What a model says may not steer the terminal: escape sequences and control characters are taken out.

Works on a stream: however the text is cut, the same comes out, and no escape character ever does.
"""

from __future__ import annotations

import re
from typing import Final, Literal, TypeAlias, final

_State: TypeAlias = Literal["text", "escape", "sequence", "string", "string_escape"]

BIDI: Final = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
"""Characters that show text in another order than it is stored in, and so can make it lie."""

_SUSPECT: Final = re.compile(f"[\x00-\x08\x0b-\x1f\x7f-\x9f{BIDI}\ud800-\udfff]")
_STRING_OPENERS: Final = frozenset("]PX^_")
"""After ESC: OSC, DCS, SOS, PM, APC. Their 8-bit forms follow."""
_C1_STRING_OPENERS: Final = frozenset("\x9d\x90\x98\x9e\x9f")


@final
class Sanitiser:
    """One stream of text. `feed` gives what may be shown."""

    def __init__(self) -> None:
        self._state: _State = "text"

    def feed(self, text: str) -> str:
        if self._state == "text" and _SUSPECT.search(text) is None:
            return text
        return "".join(kept for letter in text if (kept := self._take(letter)))

    def _take(self, letter: str) -> str:
        match self._state:
            case "text":
                return self._text(letter)
            case "escape":
                return self._escape(letter)
            case "sequence":
                return self._sequence(letter)
            case "string":
                return self._string(letter)
            case "string_escape":
                # ESC \ ends a string; any other ESC ends it too and begins something of its own.
                self._state = "text" if letter == "\\" else "escape"
                return "" if letter == "\\" else self._escape(letter)

    def _text(self, letter: str) -> str:
        if _SUSPECT.match(letter) is None:
            return letter
        if letter == "\x1b":
            self._state = "escape"
        elif letter == "\x9b":
            self._state = "sequence"
        elif letter in _C1_STRING_OPENERS:
            self._state = "string"
        elif "\ud800" <= letter <= "\udfff":
            return "\ufffd"  # half a character, which no stream can be written with
        return ""

    def _escape(self, letter: str) -> str:
        if letter == "[":
            self._state = "sequence"
        elif letter in _STRING_OPENERS:
            self._state = "string"
        elif " " <= letter <= "/":
            pass  # an intermediate: the final one is still to come
        elif "0" <= letter <= "~":
            self._state = "text"
        else:
            return self._again(letter)
        return ""

    def _sequence(self, letter: str) -> str:
        if " " <= letter <= "?":
            return ""
        if "@" <= letter <= "~":
            self._state = "text"
            return ""
        return self._again(letter)

    def _string(self, letter: str) -> str:
        if letter == "\x1b":
            self._state = "string_escape"
        elif letter in "\x07\x9c":
            self._state = "text"
        elif letter == "\n":
            # A terminal would wait on. We do not: what never ends may hide one line and no more.
            return self._again(letter)
        return ""

    def _again(self, letter: str) -> str:
        """The sequence is broken off: the letter is what it is without it."""
        self._state = "text"
        return self._text(letter)


def sanitised(text: str) -> str:
    """A whole text as it may be shown."""
    return Sanitiser().feed(text)

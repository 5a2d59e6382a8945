"""Removes escape sequences and control characters, so that no text from outside can control the terminal.

Works on a stream: however the text is cut, the result is the same and holds no escape character.
"""

from __future__ import annotations

import re
from typing import Final, Literal, TypeAlias, final

_State: TypeAlias = Literal["text", "escape", "sequence", "string", "string_escape"]

BIDI: Final = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
"""Characters that change the order in which text is shown, and so can mislead."""

_SUSPECT: Final = re.compile(f"[\x00-\x08\x0b-\x1f\x7f-\x9f{BIDI}\ud800-\udfff]")
_STRING_OPENERS: Final = frozenset("]PX^_")
"""After ESC: OSC, DCS, SOS, PM, APC. Their 8-bit forms follow."""
_C1_STRING_OPENERS: Final = frozenset("\x9d\x90\x98\x9e\x9f")


@final
class Sanitiser:
    """One stream of text. `feed` returns what may be shown."""

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
                # ESC \ ends a string; any other ESC ends it too and starts a new sequence.
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
            return "\ufffd"  # half a character, which cannot be encoded
        return ""

    def _escape(self, letter: str) -> str:
        if letter == "[":
            self._state = "sequence"
        elif letter in _STRING_OPENERS:
            self._state = "string"
        elif " " <= letter <= "/":
            pass  # an intermediate: the final character follows
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
            # A terminal would wait for the end. Here an endless string hides one line at most.
            return self._again(letter)
        return ""

    def _again(self, letter: str) -> str:
        """The sequence is incomplete: read the letter without it."""
        self._state = "text"
        return self._text(letter)


def sanitised(text: str) -> str:
    """A whole text that may be shown."""
    return Sanitiser().feed(text)


_HIDDEN: Final = re.compile(
    "[\x00-\x08\x0a-\x1f\x7f-\x9f\xad\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0d\ufeff\uffa0\ufff0-\ufffb\ud800-\udfff\U000e0000-\U000e0fff]"
    # Letters and emoji of other scripts are joined by these.
    "|(?<![^\x00-\x7f])[\u200c\u200d\ufe0e\ufe0f]"
)
"""Whatever a terminal does not show as a character of its own."""


def revealed(line: str) -> str:
    """A line of something that is about to be approved: characters that cannot be seen are written as escapes."""
    return _HIDDEN.sub(lambda found: _escape(ord(found[0])), line)


def _escape(code: int) -> str:
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"

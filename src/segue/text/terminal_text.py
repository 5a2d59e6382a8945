"""What may reach a terminal, or a file that people print on one: text without anything that controls or misleads.

`Sanitiser` works on a stream: however the text is cut, the result is the same. `styled` is for our own lines, whose
styles stay. Everything else that controls a terminal is a `ControlSequence`, made by us and never from text.
"""

from __future__ import annotations

import re
from typing import Final, Literal, TypeAlias, final

_State: TypeAlias = Literal["text", "escape", "sequence", "string", "string_escape"]

BIDI: Final = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
"""Characters that change the order in which text is shown, and so can mislead."""
INVISIBLE: Final = "\xad\u180e\u200b\u2060-\u2065\u206a-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f"
"""Characters without a width, as a class of a regular expression: they hide text, or make two names look alike."""
JOINERS: Final = "\u200c\u200d"
"""Letters and emoji of other scripts are joined by them; after ASCII they are invisible as well."""

_UNSAFE: Final = f"\x00-\x08\x0b-\x1f\x7f-\x9f{BIDI}{INVISIBLE}\ud800-\udfff"
_SUSPECT: Final = re.compile(f"[{_UNSAFE}{JOINERS}]")
_STRING_OPENERS: Final = frozenset("]PX^_")
"""After ESC: OSC, DCS, SOS, PM, APC. Their 8-bit forms follow."""
_C1_STRING_OPENERS: Final = frozenset("\x9d\x90\x98\x9e\x9f")


@final
class Sanitiser:
    """One stream of text. `feed` returns what may be shown."""

    _state: _State = "text"
    _last = ""
    """The last letter that was shown."""

    def feed(self, text: str) -> str:
        if self._state == "text" and _SUSPECT.search(text) is None:
            self._last = text[-1:] or self._last
            return text
        return "".join(kept for letter in text if (kept := self._take(letter)))

    def _take(self, letter: str) -> str:
        kept = self._read(letter)
        self._last = kept or self._last
        return kept

    def _read(self, letter: str) -> str:
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
        elif letter in JOINERS:
            return "" if self._last.isascii() else letter
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


_STYLE: Final = re.compile(
    r"\x1b\[(?:[0-4]|9|2[2-49]|3[0-79]|49|9[0-7])?(?:;(?:[0-4]|9|3[0-79]|49|9[0-7]))*m"
)
"""Bold, dim, italic, underlined and the colours of letters. Nothing that hides text: no background, no concealment."""


@final
class ControlSequence(str):
    """A sequence of ours that moves the cursor or erases. Joined with text it is text, and loses its power."""

    __slots__ = ()


def styled(text: str) -> str:
    """One of our own lines: its styles stay, everything else that controls a terminal goes."""
    if type(text) is ControlSequence or _SUSPECT.search(text) is None:
        return text
    if "\x1b" not in text:
        return sanitised(text)
    places, parts = 0, []
    for found in _STYLE.finditer(text):
        parts += [sanitised(text[places : found.start()]), found[0]]
        places = found.end()
    return "".join([*parts, sanitised(text[places:])])


_UNSAFE_IN_JSON: Final = re.compile(f"[\x7f-\x9f{BIDI}{INVISIBLE}{JOINERS}]")


def safe_json(text: str) -> str:
    """JSON that means the same, with every character that controls or misleads as an escape."""
    return _UNSAFE_IN_JSON.sub(_json_escape, text)


def safe_json_bytes(data: bytes) -> bytes:
    """The same for encoded JSON."""
    if data.isascii() and b"\x7f" not in data:
        return data
    return safe_json(data.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")


def _json_escape(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


_HIDDEN: Final = re.compile(
    f"[{_UNSAFE}\x0a\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2028\u2029\u3164\ufe00-\ufe0d\uffa0\ufff0-\ufff8"
    "\U000e0080-\U000e0fff]"
    # Letters and emoji of other scripts are joined by these.
    "|(?<![^\x00-\x7f])[\u200c\u200d\ufe0e\ufe0f]"
)
"""Whatever a terminal does not show as a character of its own."""


def revealed(line: str) -> str:
    """A line of something that is about to be approved: characters that cannot be seen are written as escapes."""
    return _HIDDEN.sub(lambda found: _escape(ord(found[0])), line)


def _escape(code: int) -> str:
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"

"""What a shell would make of a command line, as far as permission depends on it.

To allow, a command must be simple: one program and its arguments, nothing that starts, feeds or redirects another. To
deny, every piece that could be a command counts. Both err on the side of asking.
"""

from __future__ import annotations

import re
import shlex
from typing import Final

from segue.tools.option_injection import RUNNERS, starts_another

_BARE: Final = re.compile(r"[\w\-./:=,@%+~^\[\]?* \t#]+")
"""Outside quotes: nothing that ends a command, expands to one, or escapes what follows."""
_SINGLE: Final = re.compile(r"'[^'\x00-\x08\x0a-\x1f\x7f]*'")
_DOUBLE: Final = re.compile(r'"[^"$`\\!\x00-\x08\x0a-\x1f\x7f]*"')
_PIECES: Final = re.compile(r"[;&|<>(){}`\n\r\x00]|\$\(")
_ASSIGNMENT: Final = re.compile(r"\w+=\S*\s+")


def is_simple(command: str) -> bool:
    """Whether the command runs one program, whatever is in its quotes."""
    at = 0
    while at < len(command):
        found = _BARE.match(command, at) or _SINGLE.match(command, at) or _DOUBLE.match(command, at)
        if found is None:
            return False
        at = found.end()
    return bool(command.strip())


def is_injected(command: str) -> bool:
    """Whether a simple command makes a known program run something else: `git -c alias.x='!rm x' x`."""
    return starts_another(_words(command))


def pieces(command: str) -> list[str]:
    """Everything in the command that might be a command of its own, quoted or not, as written and without quotes."""
    found = [command.strip(), *(piece.strip() for piece in _PIECES.split(command))]
    # Quotes hide a command from its name, and whole commands stand in quotes: sh -c "rm -r x".
    found += [piece.strip() for part in re.split(r"[\"']", command) for piece in _PIECES.split(part)]
    found += [" ".join(words) for piece in found if (words := _words(piece))]
    found += [_ASSIGNMENT.sub("", piece) for piece in found]
    found += [piece.removeprefix(first).lstrip() for piece in found if (first := _wrapper(piece))]
    return [piece for piece in dict.fromkeys(found) if piece]


def _wrapper(piece: str) -> str:
    """The first word where it only runs the others."""
    first = piece.partition(" ")[0]
    return first if first in RUNNERS else ""


def _words(piece: str) -> list[str]:
    try:
        words = shlex.split(piece)
    except ValueError:
        return []
    if words and "/" in words[0]:
        words[0] = words[0].rpartition("/")[2]
    return words

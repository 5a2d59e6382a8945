"""What a shell would make of a command line, as far as permission depends on it.

To allow, a command must be simple: one program and its arguments, nothing that starts, feeds or redirects another. To
deny, every piece that could be a command counts. Both err on the side of asking.
"""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

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


_INJECTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "git": (
        *(
            "-c",
            "--config-env",
            "--exec-path",
            "--upload-pack",
            "--receive-pack",
            "-u",
            "-x",
            "--exec",
            "--extcmd",
        ),
        *(
            "-O",
            "--open-files-in-pager",
            "--template",
            "--config",
            "config",
            "filter-branch",
            "bisect",
            "submodule",
        ),
    ),
    "find": ("-exec", "-execdir", "-ok", "-okdir", "-delete", "-fprint", "-fprint0", "-fprintf", "-fls"),
    "tar": (
        "--to-command",
        "--checkpoint-action",
        "-I",
        "--use-compress-program",
        "--rmt-command",
        "--rsh-command",
        "-F",
    ),
    "rsync": ("-e", "--rsh", "--rsync-path"),
    "ssh": ("-o", "-F"),
    "scp": ("-o", "-F", "-S"),
    "sort": ("--compress-program", "-o", "--output"),
    "sed": ("-i", "--in-place", "-f", "--file"),
    "man": ("-P", "--pager", "-H", "--html"),
    "curl": ("-o", "-O", "--output", "-K", "--config", "-T", "--upload-file"),
    "wget": ("-O", "--output-document", "--use-askpass", "--post-file", "--config"),
    "zip": ("-T", "-TT", "--unzip-command"),
    "rg": ("--pre", "--hostname-bin"),
    "go": ("-toolexec", "-exec"),
    "make": ("-f", "--eval", "-C"),
    "npm": ("exec", "x"),
}
"""Options and words of known programs that make them run others, or write files."""


def starts_another(command: str) -> bool:
    """Whether a simple command makes a known program run something else: `git -c alias.x='!rm x' x`."""
    words = _words(command)
    injections = _INJECTIONS.get(words[0], ()) if words else ()
    return not words or any(_is_option(word, option) for word in words[1:] for option in injections)


def _is_option(word: str, option: str) -> bool:
    """Also with its value in the same word, and a long one cut short, as most programs take it."""
    if option.startswith("--"):
        name = word.partition("=")[0]
        return len(name) > 4 and option.startswith(name)
    if option.startswith("-") and len(option) == 2:
        return word.startswith(option)
    return word.partition("=")[0] == option


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
    return first if first in {"command", "env", "exec", "nice", "nohup", "sudo", "time", "xargs"} else ""


def _words(piece: str) -> list[str]:
    try:
        words = shlex.split(piece)
    except ValueError:
        return []
    if words and "/" in words[0]:
        words[0] = words[0].rpartition("/")[2]
    return words

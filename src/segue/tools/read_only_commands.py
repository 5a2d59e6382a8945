"""Commands that only look: programs that are known to read and print, joined by nothing but pipes and sequences.

In the sandbox such a command runs without a question, and there it can write nothing, whatever this list does not know of
it: so the list decides how often somebody is asked, not what can happen.
"""

from __future__ import annotations

import re
import shlex
from typing import Final

from segue.tools.option_injection import starts_another

_PROGRAMS: Final = frozenset(
    {
        *(
            "cat",
            "head",
            "tail",
            "wc",
            "nl",
            "tac",
            "rev",
            "fold",
            "fmt",
            "column",
            "paste",
            "cut",
            "tr",
            "sort",
        ),
        *(
            "uniq",
            "comm",
            "join",
            "expand",
            "unexpand",
            "od",
            "xxd",
            "hexdump",
            "strings",
            "base64",
            "md5sum",
        ),
        *("sha1sum", "sha256sum", "sha512sum", "cksum", "b2sum", "grep", "egrep", "fgrep", "rg", "ag", "ack"),
        *(
            "ls",
            "dir",
            "tree",
            "find",
            "fd",
            "fdfind",
            "stat",
            "file",
            "du",
            "df",
            "pwd",
            "readlink",
            "realpath",
        ),
        *(
            "basename",
            "dirname",
            "which",
            "whereis",
            "type",
            "command",
            "diff",
            "cmp",
            "sdiff",
            "echo",
            "printf",
        ),
        *(
            "true",
            "false",
            "test",
            "[",
            "date",
            "cal",
            "uname",
            "hostname",
            "whoami",
            "id",
            "groups",
            "nproc",
        ),
        *(
            "uptime",
            "free",
            "lscpu",
            "locale",
            "seq",
            "expr",
            "bc",
            "dc",
            "jq",
            "yq",
            "sed",
            "awk",
            "gawk",
            "cd",
        ),
        *(
            "ps",
            "pgrep",
            "env",
            "printenv",
            "getconf",
            "man",
            "info",
            "help",
            "less",
            "more",
            "cloc",
            "tokei",
            "git",
        ),
    }
)
_GIT: Final = frozenset(
    {
        *("status", "log", "show", "diff", "blame", "grep", "ls-files", "ls-tree", "rev-parse", "rev-list"),
        *(
            "describe",
            "shortlog",
            "cat-file",
            "name-rev",
            "merge-base",
            "count-objects",
            "whatchanged",
            "reflog",
        ),
        *(
            "for-each-ref",
            "show-ref",
            "show-branch",
            "diff-tree",
            "diff-files",
            "diff-index",
            "cherry",
            "help",
        ),
        *("branch", "tag", "remote", "stash", "check-ignore", "check-attr", "version", "range-diff"),
    }
)
_LISTING: Final = frozenset({"branch", "tag", "remote", "stash", "reflog"})
_LISTS: Final = frozenset(
    {
        "-a",
        "-r",
        "-v",
        "-vv",
        "-l",
        "-n",
        "--list",
        "--all",
        "--show-current",
        "--contains",
        "show",
        "list",
        "get-url",
    }
)
"""Subcommands of git that list with these words, or alone, and change something with others."""
_SAFE_REDIRECTION: Final = re.compile(r"(?:[12]|&)?>>?\s*/dev/null(?![^\s;|&])|2>&1|<\s*[\w./-]+")
_JOINTS: Final = re.compile(r"\|\||&&|[|;\n]")
_QUOTED: Final = re.compile(r"'[^']*'|\"(?:[^\"\\]|\\.)*\"")
_STARTS_ANOTHER: Final = re.compile(r"[`<>&(){}\\#]|\$\(")
"""Also what changes where a text in quotes begins: a backslash, a comment."""
_OTHER_QUOTES: Final = re.compile(r"\$['\"]")
_MOST: Final = 4_000


def only_reads(command: str) -> bool:
    """Whether a command line consists of programs that read and print."""
    command = command.strip()
    if len(command) > _MOST or _starts_another(command):
        return False
    # Joints inside quotes are text: they must not split a command.
    plain = _QUOTED.sub(lambda quoted: "q" * len(quoted[0]), command)
    pieces, start = [], 0
    for joint in _JOINTS.finditer(plain):
        pieces.append(command[start : joint.start()])
        start = joint.end()
    pieces.append(command[start:])
    words = [_words(piece) for piece in pieces if piece.strip()]
    return bool(words) and all(_reads(one) for one in words)


def _starts_another(command: str) -> bool:
    if _OTHER_QUOTES.search(command):
        return True
    outside = _SAFE_REDIRECTION.sub(" ", _QUOTED.sub(_shown, command))
    return _STARTS_ANOTHER.search(outside.replace("&&", "")) is not None


def _shown(quoted: re.Match[str]) -> str:
    """Of a quoted text, what a shell still runs: nothing in single quotes."""
    return " " if quoted[0][0] == "'" else "`" if re.search(r"`|\$\(", quoted[0]) else " "


def _words(piece: str) -> list[str]:
    try:
        return shlex.split(_SAFE_REDIRECTION.sub(" ", piece))
    except ValueError:
        return []


def _reads(words: list[str]) -> bool:
    if not words or words[0] not in _PROGRAMS or (words[0] != "command" and starts_another(words)):
        return False
    arguments = words[1:]
    if words[0] == "git":
        return _git_reads(arguments)
    return words[0] != "command" or arguments[:1] == ["-v"]


def _git_reads(arguments: list[str]) -> bool:
    while arguments and arguments[0] in ("--no-pager", "-P", "--no-optional-locks"):
        arguments = arguments[1:]
    if not arguments or arguments[0] not in _GIT:
        return False
    if len(arguments) == 1:
        return arguments[0] != "stash"
    if arguments[:2] == ["remote", "show"]:
        return False  # it asks the other machine
    return arguments[0] not in _LISTING or arguments[1] in _LISTS

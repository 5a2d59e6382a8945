"""What a conversation is called on the pages: the first words of its user, and the folder that its client works in."""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING, Final

from segue.conversation.blocks import Text
from segue.text.terminal_text import sanitised

if TYPE_CHECKING:
    from collections.abc import Iterator

    from segue.conversation.message import Conversation

_TITLE: Final = 80
_SHORTEST: Final = 16
"""Characters of a first sentence that is a title alone."""
_MOST_TITLE: Final = 200
"""Characters of a message that its title is made of."""
_DIRECTORY: Final = (
    " directory",
    7,
    re.compile(r"(?:[Ww]orking|[Cc]urrent) directory\s*(?:is)?:?\s*`?([^\s`<\n][^\n`<]{0,200})"),
)
"""A word, so many characters that stand before it, and the whole. To find a word costs a fiftieth of finding an expression."""
_CWD: Final = ("<cwd>", 0, re.compile(r"<cwd>([^<\n]{1,200})</cwd>"))
_MOST_PLACES: Final = 8
_MOST_EARLY: Final = 2000


def folder_of(conversation: Conversation) -> str:
    """Where the client works, if its system prompt or one of the first messages says so."""
    for text, marks in (
        (conversation.system, (_DIRECTORY,)),
        (_early_words(conversation), (_CWD, _DIRECTORY)),
    ):
        for word, before, whole in marks:
            for at in islice(_places(text, word), _MOST_PLACES):
                if (found := whole.match(text, max(at - before, 0))) is not None:
                    return sanitised(found[1].strip())[:200]
    return ""


def _places(text: str, word: str) -> Iterator[int]:
    at = text.find(word) if word[0] in text else -1  # one letter is found in a twentieth of the time
    while at >= 0:
        yield at
        at = text.find(word, at + 1)


def _early_words(conversation: Conversation) -> str:
    return "\n".join(
        block.text[:_MOST_EARLY]
        for message in islice(conversation.messages, 3)
        for block in message.blocks
        if type(block) is Text
    )


def title_of(conversation: Conversation) -> str:
    """The first words of its user. Programs put notes of their own, in angle brackets, before them."""
    for message in conversation.messages:
        if message.speaker != "user" or message.instruction:
            continue
        for block in message.blocks:
            words = " ".join(block.text[:_MOST_TITLE].split()) if type(block) is Text else ""
            if not words.isprintable():
                words = " ".join(sanitised(words).split())
            if words and not words.startswith("<"):
                ends = [words.find(end, _SHORTEST, _TITLE + 1) for end in (". ", "? ", "! ")]
                words = words[: min((end + 1 for end in ends if end >= 0), default=len(words))]
                return words if len(words) <= _TITLE else words[: _TITLE - 1].rstrip() + "…"
    return ""

"""What a conversation is called on the pages: the first words of its user, and the folder that its client works in."""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING, Final

from segue.conversation.blocks import Text
from segue.text.terminal_text import sanitised

if TYPE_CHECKING:
    from segue.conversation.message import Conversation

_TITLE: Final = 80
_FOLDERS: Final = re.compile(
    r"(?:[Ww]orking directory|[Cc]urrent directory|Primary working directory)\s*(?:is)?:?\s*`?([^\s`<\n][^\n`<]{0,200})"
    r"|<cwd>([^<\n]{1,200})</cwd>"
)
_FOLDER_WORDS: Final = ("orking directory", "urrent directory", "<cwd>")
"""One of them stands in what `_FOLDERS` finds. Looking for words costs a fiftieth of looking for the expression."""
_BEFORE_WORDS: Final = 16
_MOST_TITLE: Final = 400
"""Characters of a message that its title is made of."""
_SENTENCE: Final = re.compile(r".{16,79}?[.?!](?= )")


def folder_of(conversation: Conversation) -> str:
    """Where the client works, if its system prompt or one of the first messages says so."""
    for text in (conversation.system, _early_words(conversation)):
        for word in _FOLDER_WORDS:
            at = text.find(word)
            found = _FOLDERS.search(text, max(at - _BEFORE_WORDS, 0), at + 300) if at >= 0 else None
            if found is not None:
                return sanitised((found[1] or found[2] or "").strip())[:200]
    return ""


def _early_words(conversation: Conversation) -> str:
    return "\n".join(
        block.text[:4000]
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
            words = " ".join(sanitised(block.text[:_MOST_TITLE]).split()) if type(block) is Text else ""
            if words and not words.startswith("<"):
                first = _SENTENCE.match(words)
                words = first[0] if first is not None else words
                return words if len(words) <= _TITLE else words[: _TITLE - 1].rstrip() + "…"
    return ""

"""A request that was read, as far as the next one of its client may begin with the same bytes."""

from __future__ import annotations

from typing import Any, final

from msgspec import Struct

from segue.conversation.blocks import ToolCall
from segue.conversation.message import Conversation, Message


@final
class KnownRequest(Struct, frozen=True, eq=False):
    """A body up to the end of some message, and what was read of it."""

    pieces: tuple[bytes, ...]
    """Its bytes. What was added by each request is a piece: to join them all each time would cost more than all else."""
    size: int
    """Of all pieces."""
    begin: int
    """Where the messages begin in them."""
    head: dict[str, Any]
    """The fields before the messages."""
    leading: list[Any]
    """Messages of the system prompt, as they came."""
    last: Any
    """The message at the end, as it came: decoded with those that follow, it must give the same again."""
    overlap: tuple[Message, ...]
    """What it was decoded as."""
    ids: frozenset[str]
    """The ids of all messages, on wires where they have some."""
    counted: int
    """How often it holds what the provider counts in a request."""
    conversation: Conversation
    refers: bool = False
    """Whether its messages may refer to what they do not hold."""

    def begins(self, body: bytes) -> bool:
        """Whether a body begins with it."""
        at = 0
        for piece in self.pieces:
            if not body.startswith(piece, at):
                return False
            at += len(piece)
        return True


@final
class AddedMessages(Struct, frozen=True, gc=False):
    """Messages as they came behind what was known, and what was read of them."""

    given: list[Any]
    text: bytes
    """The JSON of an object that holds them."""
    messages: tuple[Message, ...]
    """As they were decoded, with the message before them, if there is one."""
    first: int
    """Among them, the first that is new."""
    conversation: Conversation
    """All of it, adopted."""
    fields: dict[str, Any]
    """All that was read of the body."""
    aligned: bool
    """Whether each of them was decoded as one message. It is if there are as many: no wire reads one as several and others
    together."""
    start: int = 0
    """Where they begin in the text, if others are known that stand before them."""
    shorter: int = 0
    """By so many bytes the text is shorter than the body before the messages."""

    def is_unmarked(self, start: int, end: int) -> bool:
        """Whether these of them surely have no hints for their provider."""
        if not self.aligned:
            return False
        for message in self.messages[self.first + start : self.first + end]:
            for block in message.blocks:
                extra = block.extra
                if extra is not None and (
                    extra.hints or (extra.container is not None and extra.container.hints)
                ):
                    return False
        return True

    def behind(self, at: int) -> tuple[tuple[Message, ...], int, int] | None:
        """What the message before `at` was decoded as; how many messages of the conversation follow it, and how many calls.
        Each of the messages was decoded as one; in adopting them, results that follow each other became one."""
        at += self.first
        last = self.messages[at - 1]
        if at > 1 and self.messages[at - 2].speaker == last.speaker != "tool":
            return None  # alone it would be decoded without the mark that a new message begins
        if self.messages[at].speaker != "model" or last.speaker == "model":
            return None
        count, calls, before = 0, 0, ""
        for message in self.messages[at:]:
            count += not message.speaker == before == "tool"
            before = message.speaker
            if before == "model":
                calls += list(map(type, message.blocks)).count(ToolCall)
        return (last,), count, calls


def ids_of(given: list[Any]) -> frozenset[str]:
    """The ids of messages as they came, as far as they have some."""
    names = [message["id"] for message in given if type(message) is dict and "id" in message]
    return frozenset([name for name in names if type(name) is str]) if names else _NO_IDS


_NO_IDS: frozenset[str] = frozenset()

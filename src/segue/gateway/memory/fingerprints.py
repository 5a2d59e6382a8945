"""What a conversation looks like to its client, as a digest: the place of a reply that has no call ids.

Only what every client returns counts: texts, calls, results (by their ids, if these are unique), media. Reasoning, seals,
instructions in the middle and the system prompt do not: clients drop them, move them, or put the time of day into them.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Final, final

import msgspec

from segue.conversation.blocks import Code, Media, Text, ToolCall, ToolResult
from segue.conversation.json_safe import json_safe

if TYPE_CHECKING:
    from collections.abc import Iterable

    from segue.conversation.blocks import Block
    from segue.conversation.message import Message

_DIGEST_BYTES: Final = 16
_UNIQUE: Final = 20
"""An id of so many characters beside its tool's name is random. Some servers count calls: `functions.weather:0`."""
_SLICE: Final = 1 << 16
"""Characters of a long piece that are added at once: whole, its copies would take ten times its bytes."""


@final
class Fingerprint:
    """Of the messages that were added so far."""

    __slots__ = ("_state",)

    def __init__(self) -> None:
        self._state = blake2b(digest_size=_DIGEST_BYTES)

    @property
    def digest(self) -> bytes:
        return self._state.digest()

    def fork(self) -> Fingerprint:
        """The same, to continue from independently."""
        twin = Fingerprint.__new__(Fingerprint)
        twin._state = self._state.copy()
        return twin

    def add(self, *messages: Message) -> None:
        # With its length before each piece, no two lists of pieces give the same text; nor do two lists of messages, since
        # these begin with a letter.
        update = self._state.update
        for message in messages:
            if message.instruction:
                continue
            text = ""
            speaker: str = message.speaker
            for block in message.blocks:
                # Most are texts, and this is done for each block of a history.
                piece = block.text.strip() if type(block) is Text else _visible(block)
                if len(piece) > _SLICE:
                    update(f"{speaker}{text} {len(piece)}:".encode("utf-8", "surrogatepass"))
                    for start in range(0, len(piece), _SLICE):
                        update(piece[start : start + _SLICE].encode("utf-8", "surrogatepass"))
                    text = speaker = ""
                elif piece:
                    text += f" {len(piece)}:{piece}"
            if text:
                update(f"{speaker}{text}".encode("utf-8", "surrogatepass"))


@final
class HistoryFingerprints:
    """Of the beginnings of one history, of any length.

    They are worked out when they are asked for, which may be long after the request was read: few replies are looked for by
    them. What was added once is not added again, neither here nor in the history that continues this one.
    """

    __slots__ = ("_added", "_begun", "_messages")

    def __init__(self, messages: tuple[Message, ...] = ()) -> None:
        self._messages = messages
        self._begun = Fingerprint()
        self._added = 0
        """So many messages are in what was begun: no more than a history that continues this one surely begins with."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, HistoryFingerprints) and self.whole == other.whole

    def __hash__(self) -> int:
        return hash(self.whole)

    @property
    def whole(self) -> bytes:
        """Of all messages."""
        return self.of(len(self._messages))

    def of(self, count: int) -> bytes:
        """Of so many messages from the start."""
        if count < self._added:
            return fingerprint_of(self._messages[:count])
        lasting = min(count, len(self._messages) - _NEAR_END)
        if lasting > self._added:
            self._begun.add(*self._messages[self._added : lasting])
            self._added = lasting
        if count == self._added:
            return self._begun.digest
        rest = self._begun.fork()
        rest.add(*self._messages[self._added : count])
        return rest.digest

    def continued(self, messages: tuple[Message, ...], common: int) -> HistoryFingerprints:
        """Those of a history that begins with so many messages of this one."""
        made = HistoryFingerprints(messages)
        if 0 < self._added <= common:
            made._begun, made._added = self._begun.fork(), self._added
        return made


_NEAR_END: Final = 3
"""The next request changes no more messages than that, but for those that it adds."""


def fingerprint_of(messages: Iterable[Message]) -> bytes:
    made = Fingerprint()
    made.add(*messages)
    return made.digest


def _visible(block: Block) -> str:
    """What a client surely returns of a block other than a text; empty if it may drop it."""
    # Much faster than a match.
    if type(block) is ToolCall:
        return _call(block)
    if type(block) is ToolResult:
        return _result(block)
    if type(block) is Media:
        return f"media {block.mime} {block.data or block.url}"
    return block.code.strip() if type(block) is Code else ""


def is_unique(call_id: str, tool: str) -> bool:
    """Whether an id was surely given to one call only, whoever made it."""
    return len(call_id) >= _UNIQUE and (not tool or len(call_id.replace(tool, "")) >= _UNIQUE)


def _call(call: ToolCall) -> str:
    """A unique id needs no arguments: some clients write them anew."""
    name = call.native_id or call.id
    if is_unique(name, call.name):
        return f"call {name} {call.name}"
    return f"call {name} {call.name} {arguments_text(call)}"


def arguments_text(call: ToolCall) -> str:
    """What a call asks for, the same however it is written."""
    return stable_text(call.raw if call.arguments is None else call.arguments)


def _result(result: ToolResult) -> str:
    """A unique id needs no other name: clients shorten old results."""
    name = result.native_id or result.call_id
    if is_unique(name, result.name):
        return f"result {name}"
    return f"result {name} {stable_text(result.error or result.output)}"


def stable_text(value: object) -> str:
    """Equal for equal values."""
    if isinstance(value, str):
        return value.strip()
    try:
        return msgspec.json.encode(value, order="deterministic").decode()
    except (TypeError, ValueError, RecursionError, OverflowError):
        return repr(json_safe(value))

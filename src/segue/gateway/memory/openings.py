"""What a request says before its messages: its client's name for the conversation, the system prompt, the tools."""

from __future__ import annotations

from functools import cached_property
from hashlib import blake2b
from typing import Final, final

from msgspec import Struct, structs

from segue.conversation.message import Conversation
from segue.conversation.tools import ToolSpec
from segue.dialects.dialect import Dialect
from segue.gateway.memory.fingerprints import stable_text

_DIGEST_BYTES: Final = 16


@final
class GivenName(Struct, frozen=True, dict=True):
    """What a client sends to tell its conversations apart; false if it sends nothing of the kind."""

    text: str = ""
    exact: bool = False
    """Whether it names one conversation; else a session, in which there may be several."""
    session: str = ""
    """The session that it is a part of, as its client names that; empty if it does not."""

    def __bool__(self) -> bool:
        return bool(self.text)

    @cached_property
    def digest(self) -> str:
        """Empty without a name."""
        return _digest("name", self.text, str(self.exact)).hex() if self.text else ""


@final
class Opening(Struct, frozen=True, dict=True):
    """What a request says before its messages."""

    name: GivenName
    dialect: Dialect
    asked: str
    """The model's name as the client wrote it."""
    conversation: Conversation
    tools: tuple[ToolSpec, ...]

    @cached_property
    def digest(self) -> bytes:
        """Of the wire, the model's name, the system prompt and the tools. With a name, of that and the system prompt alone:
        they are enough to tell what a program does in one session apart, and tools come and go."""
        system = _lasting_system(self.dialect.server.passing_system, self.conversation.system)
        if self.name:
            return _digest("named", self.name.digest, system)
        return _digest("opening", self.dialect.name, self.asked, system, stable_text(self.tools))


def without_passing_system(dialect: Dialect, conversation: Conversation) -> Conversation:
    """The conversation without what its client writes anew into each system prompt."""
    system = conversation.system
    kept = _lasting_system(dialect.server.passing_system, system)
    return conversation if kept is system else structs.replace(conversation, system=kept)


def _lasting_system(marks: tuple[str, ...], system: str) -> str:
    for mark in marks:
        if mark in system:
            break
    else:
        return system
    first, _, kept = system.partition("\n\n")
    # Mostly it is the first paragraph alone, and the others need not be taken apart.
    if not first.startswith(marks) or any(mark in kept for mark in marks):
        kept = "\n\n".join([part for part in system.split("\n\n") if not part.startswith(marks)])
    return kept


def _digest(*parts: str) -> bytes:
    made = blake2b(digest_size=_DIGEST_BYTES)
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        made.update(len(data).to_bytes(8, "big") + data)
    return made.digest()

"""Where the memory is kept: records of bytes under keys, and the conversations that were seen.

A store knows neither keys nor content: it gets digests and ciphertext. Several gateways may share one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, final

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@final
class MemoryRecord(Struct, frozen=True):
    """One encrypted value, found under each of its keys."""

    keys: tuple[bytes, ...]
    body: bytes
    first_keys: tuple[bytes, ...] = ()
    """Keys that lead to the first record that was written under them, and never to a later one."""


@final
class ConversationInfo(Struct, frozen=True, omit_defaults=True):
    """A conversation that ran through the gateway, without its content."""

    id: str
    caller: str = ""
    client: str = ""
    """The program, by its User-Agent: name and version."""
    door: str = ""
    """The dialect that the client uses."""
    asked: str = ""
    """The model's name that the client asks for."""
    route: str = ""
    """provider/model of the last reply."""
    switched: str = ""
    """The model that an operator chose; empty if the client's name decides."""
    requests: int = 0
    """That have ended."""
    created: float = 0.0
    updated: float = 0.0
    """Seconds since 1970, by the store's clock."""
    session: str = ""
    """The session that it is a part of, with other conversations of one program; empty if its client names none."""


class GatewayStore(Protocol):
    """What a store must do. It drops what is too old or too much by itself, the longest unused first."""

    async def write(self, records: Sequence[MemoryRecord], seen: ConversationInfo | None = None) -> None:
        """Keep the records; when this returns, another process finds them. A key that is known gets the new record,
        unless it is one of the `first_keys`. `seen`: noted along with them."""

    async def read(self, keys: Sequence[bytes]) -> Mapping[bytes, bytes]:
        """The bodies under these keys; keys that are not known are missing."""

    async def delete(self, keys: Sequence[bytes]) -> None:
        """Forget the records under these keys, under all of their keys."""

    async def note_request(self, seen: ConversationInfo) -> None:
        """A request of a conversation has come: from now on it is known, and the one used last. `note` counts the request."""

    async def note(self, seen: ConversationInfo) -> None:
        """One more request of a conversation has ended. `switched`, `requests` and times are the store's own. A conversation belongs to the
        caller that it was noted for first: with the same id, nothing is noted for another."""

    async def conversation(self, conversation_id: str) -> ConversationInfo | None:
        """None if it is not known."""

    async def conversations(self, limit: int = 50, caller: str | None = None) -> Sequence[ConversationInfo]:
        """Those used last come first. `caller`: only those of this one."""

    async def switch(self, conversation_id: str, model: str, caller: str | None = None) -> bool:
        """Choose the model from the next turn on; empty: the client's name decides again. False if it is not known, or not one of
        this caller; None for an operator, who may switch all."""

    async def switch_session(self, session: str, model: str, caller: str) -> None:
        """The same for all conversations of a session of this caller, and for those that begin in it later."""

    async def session_switch(self, session: str, caller: str) -> str:
        """The model that was chosen for a session; empty if none was."""

    async def check(self) -> None:
        """Raises JournalError if it cannot be read and written now."""

    async def close(self) -> None: ...

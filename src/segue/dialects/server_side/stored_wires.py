"""What wires whose servers keep replies have in common: replies are continued by their ids, fetched, deleted, made in the background.

Each such wire is a module with these functions.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from msgspec import Raw

    from segue.errors import SegueError

_MODULES: Final = {
    "openai_responses": "segue.dialects.server_side.stored_replies",
    "gemini_interactions": "segue.dialects.gemini_interactions.kept_interactions",
}


class ReplyEvents(Protocol):
    """The events of one reply that is made in the background, under the id and the numbers that its client knows."""

    reply: dict[str, Any]
    """The reply as it stands."""
    frames: list[bytes]
    """Each at the place of its number."""

    def feed(self, data: bytes) -> None: ...

    def fail(self, error: SegueError) -> None:
        """No effect if it has an end."""

    def cancel(self) -> None: ...


class StoredWire(Protocol):
    """One wire whose servers keep replies."""

    def keeps(self, body: Mapping[str, Any], /) -> bool:
        """Whether a reply is kept; it is, unless the client declines."""
        ...

    def insists(self, body: Mapping[str, Any], /) -> bool:
        """Whether the client says itself that the reply is to be kept."""
        ...

    def previous(self, body: Mapping[str, Any], /) -> str:
        """The id of the reply that a request continues; empty if there is none."""
        ...

    def repeated(
        self, body: Mapping[str, Any], continues: str = "", added_to: str = "", /
    ) -> Mapping[str, Any]:
        """What a reply shows of its request; with the ids of the reply that it continues and of the conversation that it is added
        to, where it does not name them itself."""
        ...

    def unserved(self, body: Mapping[str, Any], /) -> SegueError | None:
        """Why a request cannot be served; None if it can."""
        ...

    def input_items(self, body: Mapping[str, Any], /) -> list[Any]:
        """The messages of a request, each as it could stand in a list of them."""
        ...

    def reply_items(self, reply: bytes, /) -> list[Raw]:
        """What a reply adds to the messages."""
        ...

    def continued(self, body: Mapping[str, Any], before: Sequence[Any], /) -> dict[str, Any]:
        """A request whose input begins with these items, and that names no earlier reply any more."""
        ...

    def can_be_continued(self, reply: Mapping[str, Any] | None, /) -> bool: ...

    def is_running(self, reply: Mapping[str, Any], /) -> bool: ...

    def is_cancellable(self, reply: Mapping[str, Any], /) -> bool: ...

    def is_background(self, body: Mapping[str, Any], /) -> bool: ...

    def foreground(self, body: Mapping[str, Any], /) -> dict[str, Any]:
        """The same request for a stream that is waited for."""
        ...

    def not_found(self, reply_id: str, /) -> SegueError: ...

    def events_seen(self, query: Mapping[str, str], /) -> int: ...

    def asks_for_input(self, query: Mapping[str, str], /) -> bool: ...

    def last_frame(self, reply: Mapping[str, Any], /) -> bytes:
        """The end of the stream of a reply, with all of it: for a client that comes back when the other events are gone."""
        ...

    def reply_in_stream(self, frames: bytes, /) -> bytes | None:
        """The whole reply that a stream ends with; None if it does not hold all of it."""
        ...

    def encode_deleted(self, reply_id: str, /) -> bytes: ...

    def new_events(
        self, reply_id: str, model: str, created: int, repeated: Mapping[str, Any], /
    ) -> ReplyEvents:
        """`repeated`: of its request."""
        ...


@cache
def stored_wire(name: str) -> StoredWire:
    """The functions of a dialect whose servers keep replies (`ServerFacts.stores_replies`)."""
    module: StoredWire = import_module(_MODULES[name])
    return module

"""A conversation that we keep as an object of its own, as it was read."""

from __future__ import annotations

from typing import Any, final

from msgspec import Struct

from segue.gateway.stored_objects.reply_archive import ReplyOrigin


@final
class Revision(Struct, frozen=True, omit_defaults=True):
    """How a conversation stands after a change."""

    token: str
    head: str = ""
    """The id of its last node; empty if there is none yet."""
    metadata: dict[str, str] = {}
    removed: tuple[str, ...] = ()
    """The ids of items that were deleted."""


@final
class HeldConversation(Struct, frozen=True):
    """A conversation as it was read."""

    id: str
    created: int
    number: int
    revision: Revision
    items: tuple[dict[str, Any], ...]
    """All items, each with its id; the oldest first."""
    given: tuple[Any, ...]
    """The same as they came, for a model."""
    removed: tuple[int, ...] = ()
    """The places of those that were deleted, among all that there were."""
    origin: ReplyOrigin | None = None
    """Who made the reply that it ends with; None if it ends with something else, or something was deleted behind that."""

    def shown(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "object": "conversation",
            "created_at": self.created,
            "metadata": self.revision.metadata,
        }

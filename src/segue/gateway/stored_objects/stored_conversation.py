"""A conversation that we keep as an object of its own, as it was read: without its items, which the archive has."""

from __future__ import annotations

from typing import Any, final

from msgspec import Struct


@final
class Revision(Struct, frozen=True, omit_defaults=True):
    """How a conversation stands after a change."""

    token: str
    head: str = ""
    """The id of its last node; empty if there is none yet."""
    metadata: dict[str, str] = {}
    removed: tuple[str, ...] = ()
    """The ids of items that were deleted."""
    places: tuple[int, ...] = ()
    """Where these were among all items that there were; in records of earlier versions some are missing."""


@final
class HeldConversation(Struct, frozen=True):
    """A conversation as it was read."""

    id: str
    created: int
    number: int
    revision: Revision
    removed: frozenset[int] = frozenset()
    """The places of items that were deleted, among all that there were."""

    def shown(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "object": "conversation",
            "created_at": self.created,
            "metadata": self.revision.metadata,
        }

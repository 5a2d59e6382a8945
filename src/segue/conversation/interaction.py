"""One call and how it ended, and the book of all of them.

The ledger has one writer, the scheduler. A finished interaction never changes, and writing the same thing twice is
the same as writing it once, so a crash between two writes can be repeated without harm.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct

from segue.conversation.blocks import Reason, Status, ToolCall, ToolResult, status_of
from segue.errors import UsageError


class Interaction(Struct, frozen=True, gc=False, omit_defaults=True):
    """A call as it was made, and its end if it has one."""

    call: ToolCall
    result: ToolResult | None = None

    @property
    def status(self) -> Status:
        return "pending" if self.result is None else status_of(self.result)

    @property
    def finished(self) -> bool:
        return self.result is not None and status_of(self.result) != "pending"


class Ledger(Mapping[str, Interaction]):
    """All interactions of a session by canonical call id. Each is finished, or has no result at all."""

    __slots__ = ("_interactions", "_writes")

    def __init__(self, interactions: Iterable[Interaction] = ()) -> None:
        self._interactions: dict[str, Interaction] = {}
        self._writes: list[str] = []
        for interaction in interactions:
            if self.schedule(interaction.call).result is None and interaction.finished:
                self._write(interaction.call.id, interaction)

    def schedule(self, call: ToolCall) -> Interaction:
        """Open an interaction. An interaction that is known already does not change."""
        known = self._interactions.get(call.id)
        if known is not None:
            return known
        if not call.id:
            raise UsageError(
                f'The call of tool "{call.name}" has no id.',
                code="call_without_id",
                path="call.id",
                hint="Append its message to a Conversation first: that mints the id.",
            )
        return self._write(call.id, Interaction(call))

    def settle(self, result: ToolResult) -> Interaction:
        """Record how a call ended. A finished call keeps its first end."""
        known = self._interactions.get(result.call_id)
        if known is None:
            raise UsageError(
                f'No call with id "{result.call_id}" was scheduled.',
                code="unknown_call",
                path="result.call_id",
                hint="Schedule the call before settling it.",
            )
        if known.result is not None or status_of(result) == "pending":
            return known
        return self._write(result.call_id, Interaction(known.call, result))

    def cancel(self, call_id: str, reason: Reason = "interrupted") -> Interaction:
        """End a call that will have no real result."""
        known = self._interactions.get(call_id)
        return self.settle(ToolResult(call_id, known.call.name if known else "", reason=reason))

    def results(self, call_ids: Iterable[str]) -> list[ToolResult]:
        """How calls ended, without those that are not known or not finished."""
        known = self._interactions
        return [
            end for call_id in call_ids if call_id in known and (end := known[call_id].result) is not None
        ]

    def written_since(self, writes: int) -> list[str]:
        """The ids written after the first `writes` writes, oldest first."""
        return self._writes[writes:]

    @property
    def writes(self) -> int:
        return len(self._writes)

    def _write(self, call_id: str, interaction: Interaction) -> Interaction:
        self._interactions[call_id] = interaction
        self._writes.append(call_id)
        return interaction

    def __getitem__(self, call_id: str) -> Interaction:
        return self._interactions[call_id]

    def __contains__(self, call_id: object) -> bool:
        # Mapping's own way through an exception takes five times as long.
        return call_id in self._interactions

    def __iter__(self) -> Iterator[str]:
        return iter(self._interactions)

    def __len__(self) -> int:
        return len(self._interactions)

    def __repr__(self) -> str:
        return f"Ledger({len(self)} interactions)"

"""The policies of routers with several members: in which order they are tried, once per turn."""

from __future__ import annotations

from typing import TYPE_CHECKING

from segue.routing.balancer import Balancer, TurnRouting

if TYPE_CHECKING:
    from collections.abc import Sequence

    from segue.routing.members import Member


class RoundRobin(Balancer):
    """Each turn goes to the member after the one that the turn before it went to."""

    _next = 0

    def order(self, free: list[Member]) -> list[Member]:
        ordered = _from(self.members, self._next, free)
        self._next = self.members.index(ordered[0]) + 1
        return ordered


class Failover(Balancer):
    """The first member, until it fails; then the one that answered in its stead, until that fails."""

    _preferred = 0
    _owner = 0
    """The turn that last decided who is preferred; of turns that overlap, the later one decides."""

    def order(self, free: list[Member]) -> list[Member]:
        return _from(self.members, self._preferred, free)

    def answered(self, turn: TurnRouting) -> None:
        preferred = self.members[self._preferred]
        gone = {member for member, reason in turn.skips if reason.kind in _GONE}
        # A member that was passed over because of what this turn has stays preferred for those that have it not.
        if turn.member is preferred or preferred in turn.failures or preferred in gone:
            self._prefer(self.members.index(turn.member), turn)

    def exhausted(self, turn: TurnRouting) -> None:
        self._prefer(0, turn)

    def _prefer(self, index: int, turn: TurnRouting) -> None:
        if turn.ordinal >= self._owner:
            self._preferred, self._owner = index, turn.ordinal


_GONE = ("resting", "locked_out", "unusable", "left")


class Weighted(Balancer):
    """At random, in proportion to the weights. A member without weight is asked when all others fail."""

    def order(self, free: list[Member]) -> list[Member]:
        # Each draws a number; over many draws the highest is distributed as the weights are.
        drawn = {
            member: self.random() ** (1 / member.weight) if member.weight > 0 else -1.0 for member in free
        }
        return sorted(free, key=lambda member: -drawn[member])


class LeastLatency(Balancer):
    """The member with the shortest recent time to its first output. A member without a recent measurement gets one turn to be
    measured."""

    def order(self, free: list[Member]) -> list[Member]:
        now = self.now()
        return sorted(free, key=lambda member: _rank(member, now))


_EXPLORING = 60.0
"""Seconds in which no second turn is spent on finding out how fast a member is."""


def _rank(member: Member, now: float) -> tuple[int, float]:
    latency = member.latency(now)
    if latency is not None:
        return 1, latency
    asked = member.asked_at
    return (0, 0.0) if asked is None or now - asked >= _EXPLORING else (2, asked)


def _from(members: Sequence[Member], start: int, free: list[Member]) -> list[Member]:
    """The free members in their order, beginning at a place and going round."""
    start %= len(members)
    return [member for member in (*members[start:], *members[:start]) if member in free]

"""What all routers share: before a turn members are checked, and those that fail are left; the reasons are kept. And
the policies.

A policy only decides in which order free members are tried, once per turn. One lock guards the members, so that
sessions in several threads can share a router.
"""

from __future__ import annotations

from random import Random
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING, Final

from msgspec import structs

from segue.errors import (
    RouteBusyError,
    RouteError,
    RouteTooSmallError,
    SegueError,
    UsageError,
    is_transient,
    retry_after_of,
)
from segue.routing.members import SkipReason
from segue.routing.retry import RetrySettings, pause_before, recovery_for
from segue.routing.router import GiveUp, GoTo, Need, NextStep, Retry, Routing, Skipped

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from segue.conversation.usage import Usage
    from segue.routing.members import Member, SkipKind
    from segue.routing.retry import Recovery
    from segue.routing.route import Facts, Route
    from segue.routing.statistics import MemberStatistics


_SECOND_CHOICE: Final[tuple[SkipKind, ...]] = ("lacking", "limited", "locked_out")
"""Better a member that gets images and tools described in words, one whose limit must be waited for, or one that may have its
key by now, than none."""


class Balancer:
    """A router over several members; subclasses are its policies."""

    def __init__(
        self,
        name: str,
        members: Sequence[Member],
        facts: Facts,
        *,
        context: int | None = None,
        retry: RetrySettings | None = None,
        now: Callable[[], float] = monotonic,
        random: Callable[[], float] | None = None,
    ) -> None:
        self.name = name
        self.members = tuple(members)
        self.routes: tuple[Route, ...] = tuple(member.known for member in members if member.known is not None)
        """Every member that can be reached by name."""
        if not self.routes:
            raise _none_known(name, members)
        self.facts = facts
        self.retry = retry or RetrySettings(attempts=2)
        self.now = now
        self.random = random or Random().random  # noqa: S311 - spreads requests, guards nothing
        self.lock = Lock()
        self._context = context
        self._opened = 0

    @property
    def context_limit(self) -> int | None:
        """As it was set, else the smallest window that is known among the members that can be used."""
        if self._context is not None:
            return self._context
        return min((known for member in self.members if (known := self.window(member))), default=None)

    def window(self, member: Member) -> int | None:
        """Tokens that fit there, where that is known."""
        try:
            return member.facts(self.facts).context
        except SegueError:
            return None

    def bounded(self, member: Member) -> Route:
        """The route of a member, within the limit that was set for all of them."""
        route = member.route
        if self._context is None or route.context is not None:
            return route
        return structs.replace(route, context=min(self._context, self.window(member) or self._context))

    def open(self, need: Need, *, prefer: str = "", left: Collection[str] = ()) -> Routing:
        with self.lock:
            now = self.now()
            free: list[Member] = []
            skips: list[tuple[Member, SkipReason]] = []
            for member in self.members:
                reason = member.skip_reason(need, self.facts, now)
                if member.known is not None and member.known.name in left:
                    failed = RouteError("This turn has failed there already.", code="failed_earlier")
                    skips.append((member, SkipReason("left", failed)))
                elif reason is None:
                    free.append(member)
                else:
                    skips.append((member, reason))
            kinds = iter(() if free else _SECOND_CHOICE)
            while not free and (kind := next(kinds, None)) is not None:
                free = [member for member, reason in skips if reason.kind == kind]
                waits = {member: reason.until for member, reason in skips}
                skips = [held for held in skips if held[1].kind != kind]
                if kind == "limited" and free:
                    return TurnRouting(self, sorted(free, key=waits.__getitem__), skips)
            if not free:
                raise self.none_available(skips, now)
            first = [member for member in free if prefer and member.known and member.known.name == prefer]
            # The policy is not asked: a turn that continues is no new one to distribute.
            candidates = [*first, *(m for m in free if m not in first)] if first else self.order(free)
            return TurnRouting(self, candidates, skips)

    def next_ordinal(self) -> int:
        """The number of a turn that begins."""
        self._opened += 1
        return self._opened

    def statistics(self) -> tuple[MemberStatistics, ...]:
        with self.lock:
            now = self.now()
            return tuple(
                member.counters.snapshot(member.name, member.breaker.state(now), *self._usable(member))
                for member in self.members
            )

    def _usable(self, member: Member) -> tuple[str, float]:
        """Why it cannot be used at all, and for how many seconds its limit is used up."""
        try:
            return "", member.facts(self.facts).limited
        except SegueError as error:
            return str(error), 0.0

    def order(self, free: list[Member]) -> list[Member]:
        """In which order members that could take the turn are tried; called once per turn."""
        return free

    def answered(self, turn: TurnRouting) -> None:
        """A member gave an answer."""

    def exhausted(self, turn: TurnRouting) -> None:
        """All members failed."""

    def none_available(self, skips: Sequence[tuple[Member, SkipReason]], now: float) -> SegueError:
        """Why no member can be asked."""
        failures = tuple((member.name, reason.error) for member, reason in skips)
        message = f'No member of "{self.name}" can take this turn: {_listed(failures)}'
        limits = [reason.limit for _, reason in skips if reason.kind == "too_small"]
        if limits:
            return RouteTooSmallError(
                message, limit=max(limits), hint="Make the conversation shorter.", failures=failures
            )
        rests = [reason.until - now for _, reason in skips if reason.kind in ("resting", "limited")]
        return _aggregate(message, failures, rests)

    def all_failed(self, turn: TurnRouting, last: SegueError, now: float) -> SegueError:
        """No member answered: the reason of each, and whether and when another attempt may help."""
        failures = (
            *((member.name, error) for member, error in turn.failures.items()),
            *((member.name, reason.error) for member, reason in turn.skips),
        )
        too_small = all(error.remedy == "shrink" for _, error in failures)
        if too_small or len(failures) == 1:
            return last
        rests = [
            reason.until - now for _, reason in turn.skips if reason.kind in ("resting", "busy", "limited")
        ]
        rests += [
            max(retry_after_of(error) or 0.0, member.breaker.ready_at(now) - now)
            for member, error in turn.failures.items()
            if is_transient(error)
        ]
        return _aggregate(f'No member of "{self.name}" answered: {_listed(failures)}', failures, rests)


class TurnRouting:
    """The way of one turn through the members of a balancer."""

    def __init__(
        self, balancer: Balancer, candidates: list[Member], skips: list[tuple[Member, SkipReason]]
    ) -> None:
        self.ordinal = balancer.next_ordinal()
        self.member = candidates[0]
        self.route = balancer.bounded(self.member)
        self.skips = skips
        self.failures: dict[Member, SegueError] = {}
        self._balancer = balancer
        self._waiting = candidates[1:]
        self._attempts = 0
        self._waited = 0.0
        self._settled = False
        self._elsewhere: Recovery | None = None
        """What the next member must offer to continue this turn; None while no member should."""
        self.member.begin_turn(balancer.now())

    @property
    def skipped(self) -> tuple[Skipped, ...]:
        return tuple(member.skipped(reason) for member, reason in self.skips)

    def failed(self, error: SegueError, *, shown: bool, ran: bool) -> NextStep:
        with self._balancer.lock:
            now = self._balancer.now()
            member = self.member
            if isinstance(error, RouteBusyError):
                return self._pass_over(error, now)
            member.record_failure(error, now)
            self.failures[member] = error
            self._attempts += 1
            if shown:
                return GiveUp(error)
            stays = ran or self._settled
            recovery = recovery_for(error)
            if recovery == "retry" and (stays or not self._waiting or member.breaker.ready_at(now) <= now):
                retry, random = self._balancer.retry, self._balancer.random
                alone = stays or not self._waiting
                pause = pause_before(self._attempts, error, self._waited, retry, random, alone=alone)
                if pause is not None:
                    self._waited += pause
                    return Retry(pause)
            member.rest_after(error, now)
            if stays or recovery == "give_up":
                self._elsewhere = recovery if recovery != "give_up" else None
                return GiveUp(error)
            return self._next_member(error, now)

    def _pass_over(self, error: RouteBusyError, now: float) -> NextStep:
        """The member was not asked, since it has as many requests as it may have: nobody's failure."""
        self.member.breaker.give_back()
        self._attempts += 1
        if not self._waiting:
            retry, random = self._balancer.retry, self._balancer.random
            pause = pause_before(self._attempts, error, self._waited, retry, random)
            if pause is not None:
                self._waited += pause
                return Retry(pause)
        self.skips.append((self.member, SkipReason("busy", error, now + (error.retry_after or 0.0))))
        return self._next_member(error, now)

    def _next_member(self, error: SegueError, now: float) -> NextStep:
        member = self._take_waiting(recovery_for(error), now)
        if member is None:
            self._balancer.exhausted(self)
            return GiveUp(self._balancer.all_failed(self, error, now))
        self.member, self.route = member, self._balancer.bounded(member)
        self._attempts, self._waited = 0, 0.0
        member.begin_turn(now)
        return GoTo(self.route)

    def _take_waiting(self, recovery: Recovery, now: float) -> Member | None:
        need = Need() if recovery != "larger_member" else Need(tokens=self._outgrown())
        while self._waiting:
            member = self._waiting.pop(0)
            # Other sessions may have found it failing since this turn began.
            reason = member.skip_reason(need, self._balancer.facts, now)
            if reason is None or reason.kind == "locked_out":
                return member
            self.skips.append((member, reason))
        return None

    def continuation(self) -> TurnRouting | None:
        with self._balancer.lock:
            if self._elsewhere is None:
                return None
            member = self._take_waiting(self._elsewhere, self._balancer.now())
            if member is None:
                return None
            candidates = [member, *self._waiting]
            following = TurnRouting(self._balancer, candidates, self.skips)
            following.failures.update(self.failures)
            return following

    def _outgrown(self) -> int | None:
        """Tokens that the conversation has at least, after the present member found it too long."""
        window = self._balancer.window(self.member)
        return None if window is None else window + 1

    def answered(
        self,
        usage: Usage,
        first_token_seconds: float | None = None,
        *,
        seconds: float | None = None,
        cost: float | None = None,
    ) -> None:
        with self._balancer.lock:
            now = self._balancer.now()
            self.member.record_success(usage, first_token_seconds, seconds, cost, now)
            self._settled = True
            self._attempts, self._waited = 0, 0.0
            self._balancer.answered(self)

    def aborted(self) -> None:
        with self._balancer.lock:
            self.member.counters.abort()
            self.member.breaker.give_back()


def _listed(failures: Sequence[tuple[str, SegueError]]) -> str:
    return "; ".join(f"{name}: {error.message.rstrip('.')}" for name, error in failures) + "."


def _aggregate(
    message: str, failures: tuple[tuple[str, SegueError], ...], rests: Sequence[float]
) -> RouteError:
    """`rests`: seconds after which each member that may recover by itself can be asked again."""
    if not rests:
        return RouteError(
            message,
            failures=failures,
            hint="Asking again will not help: correct what the members report, or add another.",
        )
    wait = max(0.0, min(rests))
    when = f"in {wait:.0f} s" if wait >= 1 else "now"
    return RouteBusyError(message, failures=failures, hint=f"Try again {when}.", retry_after=wait)


def _none_known(name: str, members: Sequence[Member]) -> UsageError:
    reasons = [f"{member.name}: {member.unknown.message.rstrip('.')}" for member in members]
    return UsageError(
        f'No member of "{name}" can be found: {"; ".join(reasons) or "it has none"}.',
        code="no_members",
        hint="Name at least one member as provider/model.",
    )


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

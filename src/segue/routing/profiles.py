"""A router as people write it down: a policy and the names of its members."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, Literal, TypeAlias, final

from msgspec import Struct

from segue.errors import SegueError, UsageError
from segue.routing.balancer import Failover, LeastLatency, RoundRobin, Weighted
from segue.routing.breaker import BreakerSettings
from segue.routing.members import Member
from segue.routing.retry import RetrySettings
from segue.routing.route import parse_route
from segue.routing.router import SingleRouter

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from segue.routing.balancer import Balancer
    from segue.routing.route import Facts, Route
    from segue.routing.router import Router

PolicyName: TypeAlias = Literal["single", "round_robin", "failover", "weighted", "least_latency"]

_POLICIES: Mapping[PolicyName, type[Balancer]] = {
    "round_robin": RoundRobin,
    "failover": Failover,
    "weighted": Weighted,
    "least_latency": LeastLatency,
}


@final
class Profile(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A named router. Members are written `provider/model`."""

    name: str
    policy: PolicyName = "failover"
    members: tuple[str, ...]
    weights: dict[str, float] = {}
    """For the policy `weighted`; a member that is not named here weighs 1."""
    context: int | None = None
    """Tokens that fit, where it should not be the smallest window of the members."""
    retry: RetrySettings | None = None
    breaker: BreakerSettings = BreakerSettings()


def build_router(
    profile: Profile,
    facts: Facts,
    *,
    resolve: Callable[[str], Route] = parse_route,
    profiles: Collection[str] = (),
    now: Callable[[], float] = monotonic,
    random: Callable[[], float] | None = None,
) -> Router:
    """The router that a profile describes. `profiles`: names of routers, which cannot be members themselves.

    A member whose name leads nowhere is kept with its reason and passed over; only a router without any other fails.
    """
    for name in profile.members:
        if name in profiles or name == profile.name:
            raise UsageError(
                f'"{name}" is a router itself, so it cannot be a member of "{profile.name}".',
                code="nested_router",
                path="members",
                hint="Name its members here instead.",
            )
    if profile.policy == "single":
        return _single(profile, facts, resolve, random)
    unknown = sorted(set(profile.weights) - set(profile.members))
    wrong = [name for name, weight in profile.weights.items() if not 0 <= weight < float("inf")]
    if unknown or wrong:
        raise UsageError(
            f'The weights of "{profile.name}" are wrong for: {", ".join(unknown or wrong)}.',
            code="bad_weights",
            path="weights",
            hint="Give numbers from 0 on, for members of this router only.",
        )
    members = [_member(name, profile, resolve) for name in dict.fromkeys(profile.members)]
    return _POLICIES[profile.policy](
        profile.name,
        members,
        facts,
        context=profile.context,
        retry=profile.retry,
        now=now,
        random=random,
    )


def _single(
    profile: Profile,
    facts: Facts,
    resolve: Callable[[str], Route],
    random: Callable[[], float] | None,
) -> SingleRouter:
    if len(profile.members) != 1:
        raise UsageError(
            f'"{profile.name}" has {len(profile.members)} members, and its policy "single" takes one.',
            code="too_many_members",
            path="members",
            hint="Choose a policy for several members, for example failover.",
        )
    return SingleRouter(resolve(profile.members[0]), facts, retry=profile.retry, random=random)


def _member(name: str, profile: Profile, resolve: Callable[[str], Route]) -> Member:
    weight = profile.weights.get(name, 1.0)
    try:
        return Member(resolve(name), profile.breaker, name=name, weight=weight)
    except SegueError as error:
        return Member(None, profile.breaker, name=name, weight=weight, unknown=error)

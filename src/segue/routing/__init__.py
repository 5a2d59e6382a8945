"""Who answers a turn: routes, routers, their policies and members, retries and circuit breakers."""

from __future__ import annotations

from segue.namespace import public_names

_HOMES = {
    "segue.routing.balancer": "Balancer Failover LeastLatency RoundRobin Weighted",
    "segue.routing.breaker": "BreakerSettings",
    "segue.routing.members": "Member",
    "segue.routing.profiles": "Profile build_router",
    "segue.routing.retry": "RetrySettings",
    "segue.routing.route": "Facts MemberFacts Route facts_from parse_route",
    "segue.routing.router": "GiveUp GoTo Need NextStep Retry Router Routing SingleRouter Skipped",
    "segue.routing.statistics": "MemberStatistics",
}
__all__, __getattr__, __dir__ = public_names(__name__, _HOMES)
